"""What a peer is told depends on what it may read and on nothing else; and a mirror is only ever what once was."""

from random import Random

from hypothesis import given
from hypothesis import strategies as st

from bobbin.reactive.change import Change
from bobbin.reactive.link_effects import Send
from bobbin.reactive.link_events import Opened, Received
from bobbin.reactive.messages import Delta, Message, NodeId, PeerId, ResyncRequest, Snapshot
from bobbin.reactive.mirror import EpochRule, Mirror, MirrorConfig, MirrorPhase
from bobbin.reactive.permissions import OpKind, PeerPermissions, RemoteOp
from bobbin.reactive.projection import Projection
from bobbin.reactive.publisher import take_change
from bobbin.reactive.replica import Replica
from bobbin.simulator.reactive_model import Add, GraphModel, Play, Remove
from bobbin.simulator.reactive_witness import Sight, fold, projected, sight_of
from tests.properties.effort import scaled

PEER = PeerId(7)


class _Source:
    """A graph at random, with all that is known of it and one view of it."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.play = Play(self.random, is_lazy=self.random.random() < 0.5, reuses=self.random.random() < 0.5)
        self.model = GraphModel()
        self.model.play(self.play.begin())
        self.truth = Replica()
        assert self.truth.replace(self.model.snapshot()) is None
        self.permissions = PeerPermissions()
        self.granted: set[NodeId] = set()
        self.grant_some()
        self.view = Projection(self.truth, self.permissions, PEER, first_epoch=1)

    def grant_some(self) -> None:
        """Other permissions."""
        nodes = list(self.model.described)
        for id in self.random.sample(nodes, min(len(nodes), self.random.randint(1, 4))):
            if self.random.random() < 0.6:
                self.permissions.grant(PEER, RemoteOp(OpKind.READ, id))
                self.granted.add(id)
            else:
                self.permissions.revoke(PEER, RemoteOp(OpKind.READ, id))
                self.granted.discard(id)

    def change(self) -> Change | None:
        """Some things happen at once."""
        acts = self.play.batch()
        change = self.model.play(acts)
        if change is not None:
            take_change(self.truth, self.permissions, change)
        self.granted -= {act.id for act in acts if isinstance(act, Remove)}
        return change

    def grant_new(self, change: Change) -> None:
        """Whoever makes a node says at once who may read it."""
        for node in change.added:
            if self.random.random() < 0.5:
                self.permissions.grant(PEER, RemoteOp(OpKind.READ, node.id))
                self.granted.add(node.id)

    @property
    def sight(self) -> Sight:
        return projected(self.model.shown, self.granted.__contains__)


def _sight(replica: Replica) -> Sight:
    return sight_of(replica.nodes.values(), replica.edges, replica.roots)


@given(seed=st.integers(0, 2**32))
@scaled(1.0)
def test_deltas_lead_from_view_to_view_and_snapshots_agree(seed: int) -> None:
    source = _Source(seed)
    first = source.view.snapshot()
    seen = sight_of(first.nodes, first.edges, first.roots)
    for _ in range(15):
        change = source.change()
        if source.random.random() < 0.4:
            source.grant_some()
        delta = source.view.project(() if change is None else change.operations)
        expected = source.sight
        if delta is not None:
            wrong, seen = fold(seen, delta.operations)
            assert wrong is None
        assert seen == expected
        now = source.view.snapshot()
        assert now.epoch == source.view.epoch
        assert sight_of(now.nodes, now.edges, now.roots) == expected


@given(seed=st.integers(0, 2**32))
@scaled(1.0)
def test_what_is_hidden_leaves_no_trace(seed: int) -> None:
    """The view of a graph is told as if there were nothing else: as the whole of a graph that has only this."""
    source = _Source(seed)
    alone = Replica()
    assert alone.replace(source.view.snapshot()) is None
    everything = PeerPermissions()
    everything.grant_all(PEER, OpKind.READ)
    whole = Projection(alone, everything, PEER, first_epoch=1)
    for _ in range(15):
        change = source.change()
        delta = source.view.project(() if change is None else change.operations)
        told = None
        if delta is not None:
            assert alone.misfit(delta.operations) is None
            alone.apply(delta.operations)
            told = whole.project(delta.operations)
        assert delta == told
        assert sorted(source.view.snapshot().nodes, key=repr) == sorted(whole.snapshot().nodes, key=repr)
        assert set(source.view.snapshot().edges) == set(whole.snapshot().edges)
        assert set(source.view.snapshot().roots) == set(whole.snapshot().roots)


@given(seed=st.integers(0, 2**32), rule=st.sampled_from(EpochRule))
@scaled(1.0)
def test_a_mirror_is_always_some_view_that_was_whatever_arrives(seed: int, rule: EpochRule) -> None:
    """Frames arrive in any order, some never, some often; and in the end, when all does arrive, the last view."""
    source = _Source(seed)
    random = source.random
    mirror = Mirror(MirrorConfig(rule=rule, checking=True))
    mirror.step(Opened())
    frames: list[Message] = [source.view.snapshot()]
    history = {source.view.epoch: source.sight}
    for _ in range(20):
        change = source.change()
        if change is not None and random.random() < 0.5:
            source.grant_new(change)
        delta = source.view.project(() if change is None else change.operations)
        if delta is not None:
            history[delta.epoch] = source.sight
            frames.append(delta)
        for _ in range(random.randrange(3)):
            # The same wide choice also has old snapshots and old deltas in it.
            effects = mirror.step(Received(random.choice(frames[-6:] if random.random() < 0.8 else frames)))
            if mirror.epoch is not None:
                assert _sight(mirror.replica) == history[mirror.epoch]
            if any(isinstance(effect, Send) for effect in effects) and random.random() < 0.7:
                frames.append(source.view.snapshot())
                # It may be an epoch of its own.
                history[source.view.epoch] = source.sight
    mirror.step(Received(source.view.snapshot()))
    assert mirror.phase is MirrorPhase.LIVE
    assert _sight(mirror.replica) == source.sight


@given(seed=st.integers(0, 2**32))
@scaled(0.5)
def test_a_burst_after_a_gap_is_one_request(seed: int) -> None:
    source = _Source(seed)
    mirror = Mirror(MirrorConfig(checking=True))
    mirror.step(Opened())
    mirror.step(Received(source.view.snapshot()))
    last = mirror.epoch
    deltas: list[Delta] = []
    while len(deltas) < 5:
        change = source.change()
        if change is not None:
            source.grant_new(change)
        delta = source.view.project(() if change is None else change.operations)
        if delta is not None:
            deltas.append(delta)
    asked = [effect for delta in deltas[1:] for effect in mirror.step(Received(delta)) if isinstance(effect, Send)]
    assert asked == [Send(ResyncRequest(last or 0))]
    assert mirror.epoch == last
    snapshot = source.view.snapshot()
    assert isinstance(snapshot, Snapshot)
    mirror.step(Received(snapshot))
    assert _sight(mirror.replica) == source.sight


def test_the_graphs_at_random_have_nodes_that_come_and_go() -> None:
    kinds = {type(act) for seed in range(20) for act in _Source(seed).play.batch()}
    assert {Add, Remove} <= kinds
