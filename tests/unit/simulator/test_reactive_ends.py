"""Two ends over a calm channel: the mirror follows, writes get through, and a restart begins anew."""

from collections import Counter
from random import Random

from bobbin.reactive.change import Change
from bobbin.reactive.handshake import Agreed, Capabilities
from bobbin.reactive.link_events import Changed, Trigger, WriteCells
from bobbin.reactive.messages import CellSet, NodeId, PeerId
from bobbin.reactive.mirror import Mirror, MirrorConfig, MirrorPhase
from bobbin.reactive.permissions import OpKind, RemoteOp
from bobbin.reactive.publisher import Publisher, PublisherConfig
from bobbin.simulator.clock import Timeline
from bobbin.simulator.reactive_channel import CALM, Channel
from bobbin.simulator.reactive_ends import ObserverEnd, SourceEnd
from bobbin.simulator.reactive_model import Add, Described, Put, as_bytes
from bobbin.simulator.reactive_stage import Stage
from bobbin.simulator.reactive_witness import Witness
from bobbin.wire.lazily.forms import Form

A = NodeId(1)
PEER = PeerId(1)


class Owner:
    """A world with one graph of one cell, which is open to its one observer."""

    def __init__(self) -> None:
        self.timeline = Timeline()
        self.tally: Counter[str] = Counter()
        self.starts = 1
        self.stage = Stage(is_live=False)
        self.stage.act([Add(Described(id=A, incarnation=1, key="k/a"), 1)])
        self.stage.start()
        self.stage.grants.grant_all(PEER, OpKind.READ)
        self.lines: list[str] = []
        self.writes: list[tuple[CellSet, ...]] = []
        self.fired: list[NodeId] = []
        self.met: list[PeerId] = []
        self.observer = ObserverEnd(
            self,
            PEER,
            Form.CANONICAL_JSON,
            lambda: Mirror(MirrorConfig(capabilities=Capabilities(peer=PEER, session="s"), checking=True)),
        )

    def tell(self, line: str) -> None:
        self.lines.append(line)

    def write(self, end: SourceEnd, writes: tuple[CellSet, ...]) -> None:
        del end
        self.writes.append(writes)

    def fire(self, end: SourceEnd, node: NodeId) -> None:
        del end
        self.fired.append(node)

    def begin(self, end: SourceEnd) -> None:
        grants = self.stage.grants
        end.witness.begin(self.stage.model.shown, lambda id: grants.allows(end.peer, RemoteOp(OpKind.READ, id)))

    def meet(self, end: SourceEnd, agreed: Agreed) -> None:
        del end
        self.met.append(agreed.remote)

    def connect(self) -> SourceEnd:
        channel = Channel(self.timeline, CALM, Random(1))
        config = PublisherConfig(capabilities=Capabilities(peer=PeerId(0), session="s"), checking=True)
        permissions = self.stage.grants.permissions
        publisher = Publisher(config, peer=PEER, truth=self.stage.truth, permissions=permissions)
        witness = Witness("link", config.first_epoch, self.expect)
        source = SourceEnd(self, publisher, witness, channel, Form.CANONICAL_JSON)
        self.observer.connect(source)
        self.settle(milliseconds=100)
        return source

    def settle(self, milliseconds: int) -> None:
        until = self.timeline.now_ns + milliseconds * 1_000_000
        while self.timeline.step(until_ns=until):
            pass

    def put(self, source: SourceEnd, value: int) -> None:
        change = self.stage.act([Put(A, value)])
        assert isinstance(change, Change)
        source.witness.look(self.stage.model.shown, lambda _: True)
        source.give(Changed(change))
        self.settle(milliseconds=100)

    @staticmethod
    def expect(condition: bool, message: str) -> None:  # noqa: FBT001 (as the world has it)
        assert condition, message


def test_a_mirror_follows_its_graph() -> None:
    owner = Owner()
    source = owner.connect()
    assert source.is_live
    assert owner.met == [PEER]
    owner.put(source, 7)
    assert owner.observer.mirror.replica.nodes[A].value == as_bytes(7)
    assert owner.observer.updates == 2
    assert owner.lines


def test_writes_and_wishes_get_through_to_the_owner() -> None:
    owner = Owner()
    owner.stage.grants.grant_all(PEER, OpKind.WRITE)
    owner.stage.grants.grant(PEER, RemoteOp(OpKind.TRIGGER_EFFECT, A))
    owner.connect()
    owner.observer.give(WriteCells((CellSet(A, as_bytes(5)),)))
    owner.observer.give(Trigger(A))
    owner.settle(milliseconds=100)
    assert owner.writes == [(CellSet(A, as_bytes(5)),)]
    assert owner.fired == [A]


def test_a_link_that_breaks_is_over_at_both_ends_and_another_takes_over() -> None:
    owner = Owner()
    first = owner.connect()
    first.channel.break_off()
    owner.settle(milliseconds=100)
    assert first.is_over
    assert owner.observer.source is None
    assert owner.observer.mirror.phase is MirrorPhase.OFFLINE
    second = owner.connect()
    owner.put(second, 9)
    assert owner.observer.mirror.replica.nodes[A].value == as_bytes(9)


def test_a_restart_forgets_everything() -> None:
    owner = Owner()
    owner.connect()
    owner.observer.restart()
    owner.settle(milliseconds=10_000)
    assert dict(owner.observer.mirror.replica.nodes) == {}
    assert owner.observer.mirror.phase is MirrorPhase.OFFLINE, "nothing that was meant for the old one arrives"
