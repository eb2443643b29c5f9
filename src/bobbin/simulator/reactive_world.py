"""A world of one graph and those who watch it: frames get lost, permissions change, and either side begins again.

One world is one seed. A graph changes in batches, its nodes come and go, ids are taken again. Observers with different
permissions mirror it over channels that keep no promise (``reactive_channel``), some of them slowly, some in each form
of the wire; they write back and trigger effects, also where they may not. One of them may be hostile. Then the troubles
end. All the time the world is held to its promises:

* every frame that goes out shows what its peer may see at that epoch, and nothing else (``reactive_witness``);
* every state that a mirror takes is the graph as that peer may see it at that epoch, whatever was lost on the way;
* epochs count what can be seen: no frame, and no number, says that something happened out of sight;
* nothing is written and no effect runs without a grant for it, and where writes are acknowledged none is done twice,
  over however many links, and starts of the source, it comes;
* what is written to a node is done to that node or to none, also when another start has given its id to another;
* what waits for a slow observer is bounded;
* when the troubles have ended, every mirror shows the graph as it is, and no acknowledged write is still on its way.
"""

from collections import Counter
from hashlib import sha256
from itertools import count
from random import Random
from typing import Final, NoReturn

from msgspec import Struct, structs

from bobbin.reactive.change import Change
from bobbin.reactive.handshake import Agreed, Capabilities, Codec, Feature
from bobbin.reactive.link_events import Changed, PermissionsChanged, Trigger, WriteCells
from bobbin.reactive.messages import SAFE_INTEGER_MAX, U64_MAX, CellSet, NodeId, PeerId
from bobbin.reactive.mirror import RUN, Mirror, MirrorConfig, MirrorPhase
from bobbin.reactive.outbox import ACKED_WRITES, TakenWrites
from bobbin.reactive.permissions import OpKind, RemoteOp
from bobbin.reactive.publisher import Publisher, PublisherConfig
from bobbin.simulator.circumstances import MILLISECOND_NS
from bobbin.simulator.clock import SECOND_NS, Action, Timeline
from bobbin.simulator.reactive_channel import CALM, LATE_MAX_NS, Channel, draw_turmoil
from bobbin.simulator.reactive_ends import ObserverEnd, SourceEnd
from bobbin.simulator.reactive_hostile import HostileObserver
from bobbin.simulator.reactive_model import Act, Play, Put, Remove, as_bytes
from bobbin.simulator.reactive_stage import Stage
from bobbin.simulator.reactive_witness import Witness
from bobbin.simulator.world import Broken
from bobbin.wire.lazily.forms import Form

STEPS_MAX: Final = 20_000
SESSION: Final = "world"
SOURCE: Final = PeerId(0)
RETRY_MS: Final = 400


class Shape(Struct, frozen=True, kw_only=True):
    """What one world is like."""

    observers: int
    batches: int
    troubles: int
    window_ns: int
    is_lazy: bool
    """Some slots are not computed before anybody asks, and are stale until then."""
    is_live: bool
    """The graph is a live one, and what is published comes from it; otherwise from the model itself."""
    is_hostile: bool
    reuses: bool
    remembered: int
    """Of so many peers the source remembers which writes it has."""


def draw_shape(random: Random) -> Shape:
    """Draw what a world is like."""
    is_live = random.random() < 0.5
    return Shape(
        observers=random.choice((1, 2, 2, 3)),
        batches=random.choice((5, 15, 30, 60)),
        troubles=random.choice((0, 6, 20, 40)),
        window_ns=random.choice((1, 4, 10)) * SECOND_NS,
        is_lazy=not is_live and random.random() < 0.4,
        is_live=is_live,
        is_hostile=random.random() < 0.35,
        reuses=random.random() < 0.7,
        remembered=random.choice((1, 1_024)),
    )


class ReactiveWorld:
    """One seeded world."""

    def __init__(self, seed: int, *, is_traced: bool = False) -> None:
        self.seed: Final = seed
        self.tally: Final[Counter[str]] = Counter()
        self.trace: Final[list[str]] = []
        self.timeline: Final = Timeline()
        self._is_traced: Final = is_traced
        self._random: Final = Random(f"reactive {seed}")  # noqa: S311 (a seed is the point)
        self.shape: Final = draw_shape(self._random)
        self._play: Final = Play(self._random, is_lazy=self.shape.is_lazy, reuses=self.shape.reuses)
        self.stage = Stage(is_live=self.shape.is_live)
        self._observers: Final = [self._observer(PeerId(number)) for number in range(1, self.shape.observers + 1)]
        self._hostile: HostileObserver | None = None
        self._ends: list[SourceEnd] = []
        """Every link that is not over."""
        self._is_troubled = True
        self.starts = 0
        self._written = 0
        self._done: Final[Counter[tuple[PeerId, int]]] = Counter()
        """How often a write was done, by writer and value: none is written twice."""
        self._meant: Final[dict[tuple[PeerId, int], tuple[int, str | None]]] = {}
        """By writer and value: the start in which the writer saw the node, and its key."""
        self._freed: Final[set[NodeId]] = set()
        """Ids that have been given back since the last start, and may be another node's by now."""
        self._taken = TakenWrites("0")
        """What the source remembers of writes, until it starts again."""
        self._steps = 0

    def run(self) -> Counter[str]:
        """Live through the world; raises ``Broken`` at the first broken promise."""
        try:
            self._dawn()
            self._trouble()
            self._calm_down()
        except AssertionError as error:
            if isinstance(error, Broken):
                raise
            self._fail(f"an invariant does not hold: {error}")
        self._count()
        return self.tally

    @property
    def digest(self) -> str:
        """Of the whole trace."""
        return sha256("\n".join(self.trace).encode()).hexdigest()

    # ---- dawn -----------------------------------------------------------------------------------------------------

    def _dawn(self) -> None:
        self.stage.act(self._play.begin())
        self._start()
        peers = [observer.peer for observer in self._observers]
        if self.shape.is_hostile:
            peers.append(hostile := PeerId(len(peers) + 1))
            self._hostile = HostileObserver(hostile, self._random, session=SESSION)
        for peer in peers:
            self._draw_grants(peer)
        for observer in self._observers:
            self._connect(observer)

    def _observer(self, peer: PeerId) -> ObserverEnd:
        random = self._random
        form = random.choice(list(Form))
        features = [feature for feature in (Feature.MULTI_EPOCH, ACKED_WRITES) if random.random() < 0.5]
        config = MirrorConfig(
            capabilities=_capabilities(peer, form, features),
            source=SOURCE if random.random() < 0.5 else None,
            retry_ms=RETRY_MS,
            checking=True,
        )
        lives = count()
        return ObserverEnd(
            self, peer, form, lambda: Mirror(structs.replace(config, outbox=f"{peer:08x}{next(lives):08x}"))
        )

    def _draw_grants(self, peer: PeerId) -> None:
        random = self._random
        if random.random() < 0.2:
            self.stage.grants.grant_all(peer, OpKind.READ)
        share = random.choice((0.0, 0.3, 0.7, 1.0))
        for id in self.stage.model.described:
            for kind in OpKind:
                if random.random() < (share if kind is OpKind.READ else share / 2):
                    self.stage.grants.grant(peer, RemoteOp(kind, id))
        self.stage.resolve_granted()

    # ---- links ----------------------------------------------------------------------------------------------------

    def _start(self) -> None:
        """A source process begins, with epochs that no earlier one has reached."""
        self.starts += 1
        self._freed.clear()
        self._taken = TakenWrites(f"{self.starts:x}", peers_max=self.shape.remembered)
        self.stage.start()

    def _open(self, peer: PeerId, form: Form, features: list[str]) -> SourceEnd:
        random = self._random
        first_epoch = self.starts * 1_000_000 + random.randrange(3)
        is_slow = random.random() < 0.4
        config = PublisherConfig(
            capabilities=_capabilities(SOURCE, form, [*features, f"{RUN}{self.starts}"]),
            first_epoch=first_epoch,
            id_max=self._id_max(peer),
            in_flight_max=1 if is_slow else 4,
            outbox_frames_max=random.randrange(4) if is_slow else 64,
            outbox_bytes_max=random.choice((200, 4_000)) if is_slow else 100_000,
            checking=True,
        )
        turmoil = draw_turmoil(random) if self._is_troubled else CALM
        channel = Channel(self.timeline, turmoil, random)
        publisher = Publisher(
            config,
            peer=peer,
            truth=self.stage.truth,
            permissions=self.stage.grants.permissions,
            taken=self._taken,
        )
        witness = Witness(f"the link of peer {peer}", first_epoch, self._expect)
        end = SourceEnd(self, publisher, witness, channel, form)
        self._ends.append(end)
        self.tally["links"] += 1
        return end

    def _id_max(self, peer: PeerId) -> int:
        """The first observer is written in JavaScript."""
        return SAFE_INTEGER_MAX if peer == 1 else U64_MAX

    def _connect(self, observer: ObserverEnd) -> None:
        capabilities = observer.mirror.config.capabilities
        assert capabilities is not None
        observer.connect(self._open(observer.peer, observer.form, list(capabilities.features)))

    def _reconnect(self) -> None:
        self._ends = [end for end in self._ends if not end.is_over]
        for observer in self._observers:
            if observer.source is None:
                self._connect(observer)

    # ---- what the ends ask for ------------------------------------------------------------------------------------

    def begin(self, end: SourceEnd) -> None:
        end.witness.begin(self.stage.model.shown, lambda id: self._may_see(end.peer, id))

    def meet(self, end: SourceEnd, agreed: Agreed) -> None:
        claimed = agreed.remote
        self._expect(claimed == end.peer, f"peer {end.peer} goes by the name of {claimed}")
        if self._is_troubled and self._random.random() < 0.1:
            # The source knows the observer from now on, which has not heard of it.
            self.tally["answers lost"] += 1
            end.channel.break_off()

    def write(self, end: SourceEnd, writes: tuple[CellSet, ...]) -> None:
        acts: list[Act] = []
        features = end.publisher.agreed.features if end.publisher.agreed is not None else frozenset()
        for write in writes:
            allowed = self.stage.grants.allows(end.peer, RemoteOp(OpKind.WRITE, write.id))
            self._expect(allowed, f"peer {end.peer} has written {write.id}, which it may not")
            self._expect(write.id in self.stage.model.cells, f"{write.id} was written, and is no cell")
            assert isinstance(write.value, bytes)
            value = int.from_bytes(write.value, "little", signed=True)
            self._done[end.peer, value] += 1
            self._expect(
                self._done[end.peer, value] == 1 or ACKED_WRITES not in features or end.peer > self.shape.observers,
                f"an acknowledged write of peer {end.peer} was done twice",
            )
            self._expect_meant(end.peer, write.id, value)
            acts.append(Put(write.id, value))
        self.tally["writes done"] += len(acts)
        self._lose_acknowledgement(end)
        self._act(acts)

    def _expect_meant(self, peer: PeerId, id: NodeId, value: int) -> None:
        meant = self._meant.get((peer, value))
        if meant is None or id in self._freed:
            # Nobody honest has seen it, or the id went to another node while the write was on its way.
            return
        start, key = meant
        self._expect(
            start == self.starts if key is None else self.stage.model.described[id].key == key,
            f"a write of peer {peer} to {key or 'a node without a key'} was done to {self.stage.model.described[id]}",
        )
        self.tally["writes done after a restart"] += start != self.starts

    def _lose_acknowledgement(self, end: SourceEnd) -> None:
        """A write is done, and whoever wrote it does not hear of it on this link, or from this source."""
        draw = self._random.random() if self._is_troubled else 1.0
        if draw < 0.3:
            self.tally["acknowledgements lost"] += 1
            end.channel.break_off()
        if draw < 0.15:
            self.timeline.after(MILLISECOND_NS, self._restart_source)

    def fire(self, end: SourceEnd, node: NodeId) -> None:
        allowed = self.stage.grants.allows(end.peer, RemoteOp(OpKind.TRIGGER_EFFECT, node))
        self._expect(allowed, f"peer {end.peer} has triggered {node}, which it may not")
        self.tally["effects triggered"] += 1

    # ---- what happens ---------------------------------------------------------------------------------------------

    def _act(self, acts: list[Act]) -> None:
        self.tell(f"acts {acts}")
        self._freed.update(act.id for act in acts if isinstance(act, Remove))
        self._publish(self.stage.act(acts))
        self.tally["batches"] += 1

    def _publish(self, change: Change | None) -> None:
        self._look()
        if change is not None:
            for end in list(self._ends):
                end.give(Changed(change))

    def _look(self) -> None:
        for end in self._ends:
            if end.is_live:
                end.witness.look(self.stage.model.shown, lambda id, end=end: self._may_see(end.peer, id))  # type: ignore[misc]

    def _may_see(self, peer: PeerId, id: NodeId) -> bool:
        return id <= self._id_max(peer) and self.stage.grants.allows(peer, RemoteOp(OpKind.READ, id))

    def _regrant(self) -> None:
        random = self._random
        peer = PeerId(random.randint(1, self.shape.observers + self.shape.is_hostile))
        grants, nodes = self.stage.grants, list(self.stage.model.described)
        kind = random.choice((OpKind.READ, OpKind.READ, *OpKind))
        draw = random.random()
        if draw < 0.1:
            grants.grant_all(peer, kind)
        elif draw < 0.3 or grants.has_all(peer, kind):
            grants.revoke_all(peer, kind)
        else:
            alter = grants.grant if random.random() < 0.6 else grants.revoke
            alter(peer, *(RemoteOp(kind, id) for id in random.sample(nodes, min(len(nodes), random.randint(1, 4)))))
        self.tell(f"other permissions of peer {peer}")
        self.tally["permissions changed"] += 1
        change = self.stage.resolve_granted()
        if change is None and random.random() < 0.3:
            # Nobody is told before the graph changes, too: one delta has both.
            change = self.stage.act(self._play.batch())
        self._publish(change)
        for end in list(self._ends):
            end.give(PermissionsChanged())

    def _write_back(self) -> None:
        """Somebody writes, also what it may not."""
        random = self._random
        observer = random.choice(self._observers)
        allowed = [
            id for id in self.stage.model.cells if self.stage.grants.allows(observer.peer, RemoteOp(OpKind.WRITE, id))
        ]
        # What it sees has a key, maybe, by which it is found again after a restart.
        seen = [id for id in allowed if id in observer.mirror.replica.nodes]
        nodes = seen or allowed if allowed and random.random() < 0.7 else list(self.stage.model.described)
        writes: list[CellSet] = []
        for id in random.sample(nodes, min(len(nodes), random.randint(1, 3))):
            self._written += 1
            writes.append(CellSet(id, as_bytes(100 + self._written)))
            node = observer.mirror.replica.nodes.get(id)
            if node is not None:
                self._meant[observer.peer, 100 + self._written] = observer.seen_start, node.key
        if writes:
            self.tally["writes"] += len(writes)
            observer.give(WriteCells(tuple(writes)))

    def _pull_trigger(self) -> None:
        observer = self._random.choice(self._observers)
        nodes = list(self.stage.model.described)
        if nodes and observer.mirror.phase is MirrorPhase.LIVE:
            observer.give(Trigger(self._random.choice(nodes)))
            self.tally["triggers"] += 1

    def _restart_source(self) -> None:
        """The process of the graph is gone, and another begins with the same graph, its ids perhaps dealt anew."""
        self.tell("the source restarts")
        self.tally["source restarts"] += 1
        for end in self._ends:
            end.is_over = True
            end.channel.break_off()
        self._ends.clear()
        if self._random.random() < 0.5:
            self.tally["restarts with other ids"] += 1
            self.stage.renumber(self._play.renumber())
        self._start()
        if self._is_troubled and self._random.random() < 0.5:
            # Who writes now does not know yet of another source.
            self._write_back()

    def _be_hostile(self) -> None:
        if self._hostile is None:
            return
        if not self._hostile.is_linked:
            form = self._random.choice(list(Form))
            self._hostile.connect(self._open(self._hostile.peer, form, [ACKED_WRITES]), form)
        vice = self._hostile.act(list(self.stage.model.described))
        self.tally[f"vice: {vice}"] += 1

    # ---- the course of a world ------------------------------------------------------------------------------------

    def _trouble(self) -> None:
        """What is drawn happens at drawn moments."""
        random, shape = self._random, self.shape
        for _ in range(shape.batches):
            self.timeline.after(random.randrange(shape.window_ns), lambda: self._act(self._play.batch()))
        for _ in range(shape.batches // 2 + 2):
            self.timeline.after(random.randrange(shape.window_ns), self._regrant)
        for _ in range(shape.troubles):
            self.timeline.after(random.randrange(shape.window_ns), self._draw_trouble())
        for moment in range(0, shape.window_ns, SECOND_NS // 4):
            self.timeline.after(moment, self._reconnect)
        while self.timeline.step(until_ns=shape.window_ns):
            self._count_step()

    def _draw_trouble(self) -> Action:
        kind = self._random.choices(
            ("write", "trigger", "break", "mirror restart", "source restart", "hostile"), weights=(8, 2, 3, 2, 1, 8)
        )[0]
        observer = self._random.choice(self._observers)
        match kind:
            case "write":
                return self._write_back
            case "trigger":
                return self._pull_trigger
            case "break":
                return lambda: observer.source.channel.break_off() if observer.source else None
            case "mirror restart":
                self.tally["mirror restarts"] += 1
                return observer.restart
            case "source restart":
                return self._restart_source
            case _:
                return self._be_hostile

    def _calm_down(self) -> None:
        """Nothing is lost any more. What changes from now on shows whatever was."""
        self._is_troubled = False
        self.tell("the troubles end")
        if self._hostile is not None:
            self._hostile.leave()
        for end in self._ends:
            end.channel.turmoil = CALM
        # What was on its way, also in a second copy, comes first, and what is awaited comes or is asked for again.
        for _ in range(LATE_MAX_NS // SECOND_NS + 2):
            self._reconnect()
            self._settle(SECOND_NS)
        self._nudge()
        for _ in range(4):
            self._reconnect()
            self._settle(RETRY_MS * MILLISECOND_NS)
        self._settle()
        self._expect_alike()

    def _nudge(self) -> None:
        """Something that everybody sees: who has missed a frame without knowing will know."""
        new = self._play.add_cell(id_max=SAFE_INTEGER_MAX)
        change = self.stage.act([new])
        self._publish(change)
        for observer in self._observers:
            self.stage.grants.grant(observer.peer, RemoteOp(OpKind.READ, new.described.id))
        self._publish(self.stage.resolve_granted())
        for end in list(self._ends):
            end.give(PermissionsChanged())
        self._act([Put(new.described.id, 77)])

    def _expect_alike(self) -> None:
        for observer in self._observers:
            mirror, source = observer.mirror, observer.source
            self._expect(source is not None, f"peer {observer.peer} has no link in the end")
            assert source is not None
            is_live = mirror.phase is MirrorPhase.LIVE
            self._expect(is_live, f"the mirror of peer {observer.peer} is {mirror.phase} in the end")
            current = mirror.epoch == source.witness.epoch
            self._expect(current, f"peer {observer.peer} is at {mirror.epoch}, and not at {source.witness.epoch}")
            self._expect(not mirror.unacknowledged, f"writes of peer {observer.peer} are on their way for ever")
            self._expect(not source.publisher.is_behind, f"peer {observer.peer} is still owed a snapshot")
            self.tally["mirrors alike"] += 1

    def _settle(self, for_ns: int | None = None) -> None:
        """Let time pass: so much of it, or until nothing is left to happen."""
        until = None
        if for_ns is not None:
            until = self.timeline.now_ns + for_ns
            self.timeline.after(for_ns, lambda: None)
        while self.timeline.step(until_ns=until):
            self._count_step()

    # ---- small parts ----------------------------------------------------------------------------------------------

    def tell(self, line: str) -> None:
        if self._is_traced:
            self.trace.append(f"{self.timeline.now_ns / SECOND_NS:12.6f} {line}")

    def _count(self) -> None:
        self.tally["worlds"] += 1
        for name in ("is_lazy", "is_live", "is_hostile", "reuses"):
            self.tally[f"worlds: {name.removeprefix('is_')}"] += getattr(self.shape, name)
        self.tally["mirror updates"] += sum(observer.updates for observer in self._observers)

    def _count_step(self) -> None:
        self._steps += 1
        self._expect(self._steps <= STEPS_MAX, f"after {STEPS_MAX} steps there is no end")

    def _expect(self, condition: bool, message: str) -> None:  # noqa: FBT001 (reads like an assertion)
        if not condition:
            self._fail(message)

    def _fail(self, message: str) -> NoReturn:
        self.tell(f"BROKEN: {message}")
        raise Broken(f"seed {self.seed}: {message}")


def _capabilities(peer: PeerId, form: Form, features: list[str]) -> Capabilities:
    codec = Codec.MESSAGE_PACK if form is Form.MESSAGE_PACK else Codec.JSON
    return Capabilities(peer=peer, session=SESSION, codec=codec, features=tuple(features))
