"""One peer's view: what it may read, epochs of its own, and no sign of anything else."""

from collections.abc import Iterable, Iterator, Mapping

from bobbin.reactive.messages import (
    SAFE_INTEGER_MAX,
    CellSet,
    Delta,
    EdgeAdd,
    EdgeRemove,
    Invalidate,
    Node,
    NodeAdd,
    NodeId,
    NodeRemove,
    NodeState,
    Operation,
    SlotValue,
    Snapshot,
)
from bobbin.reactive.permissions import OpKind, PeerPermissions
from bobbin.reactive.projection import Projection
from bobbin.reactive.replica import Replica
from bobbin.wire.lazily.conversions import to_canonical
from tests.support.reactive_links import PEER, node, read, snapshot

A, B, C, D = map(NodeId, range(1, 5))
LARGE = NodeId(SAFE_INTEGER_MAX + 1)


class View:
    """A projection with what it looks at."""

    def __init__(self, graph: Snapshot, *reads: int, id_max: int = 2**64 - 1) -> None:
        self.truth = Replica()
        assert self.truth.replace(graph) is None
        self.permissions = PeerPermissions()
        self.permissions.grant(PEER, *read(*reads))
        self.projection = Projection(self.truth, self.permissions, PEER, first_epoch=5, id_max=id_max)

    def change(self, *operations: Operation) -> Delta | None:
        assert self.truth.misfit(operations) is None
        self.truth.apply(operations)
        delta = self.projection.project(operations)
        self.projection.check()
        return delta


GRAPH = snapshot(0, [node(A, b"a"), node(B, b"b"), node(C, b"c")], [(C, A), (C, B)], [A, B])


def test_a_snapshot_is_what_the_peer_may_see() -> None:
    view = View(GRAPH, C, B)
    assert view.projection.snapshot() == snapshot(5, [node(B, b"b"), node(C, b"c")], [(C, B)], [B])
    assert view.projection.epoch == 5


def test_a_snapshot_of_something_stale_is_an_epoch_of_its_own() -> None:
    """In a form without a word for it the snapshot goes as of the epoch before, and a delta behind it says the rest.

    Whoever is at that epoch already, and misses the snapshot, has the same graph: the delta does no harm.
    """
    view = View(snapshot(0, [node(A, b"a"), node(C, b"c", NodeState.DIRTY)], [(C, A)], [A]), A, C)
    first = view.projection.snapshot()
    view.change(CellSet(A, b"x"))
    told = view.projection.snapshot()
    assert (first.epoch, told.epoch, view.projection.epoch) == (6, 8, 8)
    mirror = Replica()
    assert mirror.replace(first) is None
    mirror.apply((CellSet(A, b"x"),))
    before, rest = to_canonical(told)
    assert isinstance(before, Snapshot)
    assert isinstance(rest, Delta)
    assert (before.epoch, rest.base_epoch, rest.epoch) == (7, 7, 8)
    mirror.apply(rest.operations)
    assert mirror.snapshot(8) == told
    hidden = View(snapshot(0, [node(A, b"a"), node(C, b"c", NodeState.DIRTY)], [(C, A)], [A]), A)
    assert hidden.projection.snapshot().epoch == 5


def test_a_delta_has_the_operations_that_can_be_seen_in_their_order() -> None:
    view = View(GRAPH, A, C)
    delta = view.change(
        EdgeRemove(C, B), EdgeRemove(C, A), CellSet(A, b"A"), CellSet(B, b"B"), SlotValue(C, b"C"), Invalidate(C)
    )
    assert delta == Delta(5, 6, (EdgeRemove(C, A), CellSet(A, b"A"), SlotValue(C, b"C"), Invalidate(C)))


def test_who_sees_nothing_of_a_flush_is_told_nothing_and_counts_nothing() -> None:
    view = View(GRAPH, A)
    assert view.change(CellSet(B, b"B"), SlotValue(C, b"C")) is None
    assert view.change(NodeAdd(D, "t", b"d"), EdgeAdd(D, A)) is None
    assert view.change(NodeRemove(C)) is None
    assert view.projection.epoch == 5


def test_a_node_that_comes_is_seen_by_whoever_was_granted_it_before() -> None:
    view = View(GRAPH, A, D)
    assert view.change(NodeAdd(D, "t", b"d"), EdgeAdd(D, A), EdgeAdd(D, B)) == Delta(
        5, 6, (NodeAdd(D, "t", b"d"), EdgeAdd(D, A))
    )


def test_an_id_that_was_freed_and_taken_again_is_removed_and_added() -> None:
    view = View(GRAPH, A)
    assert view.change(NodeRemove(A), NodeAdd(A, "t", b"n")) == Delta(5, 6, (NodeRemove(A), NodeAdd(A, "t", b"n")))


def test_the_next_owner_of_an_id_is_not_seen_without_a_grant_of_its_own() -> None:
    view = View(GRAPH, A)
    view.permissions.forget_node(A)
    assert view.change(NodeRemove(A), NodeAdd(A, "t", b"n")) == Delta(5, 6, (NodeRemove(A),))
    assert view.change(CellSet(A, b"m")) is None


def test_a_grant_brings_node_edges_and_stale_marks() -> None:
    graph = snapshot(0, [node(A, b"a"), node(B, b"b"), node(C, b"c", NodeState.DIRTY)], [(C, A), (C, B)], [A, B])
    view = View(graph, B)
    assert view.projection.refresh() is None
    view.permissions.grant(PEER, *read(A, C))
    assert view.projection.refresh() == Delta(
        5,
        6,
        (NodeAdd(A, "bytes", b"a"), NodeAdd(C, "bytes", b"c"), EdgeAdd(C, A), EdgeAdd(C, B), Invalidate(C)),
    )
    assert view.projection.refresh() is None


def test_a_grant_of_what_is_read_brings_the_edges_of_its_readers() -> None:
    view = View(GRAPH, C)
    view.permissions.grant(PEER, *read(B))
    assert view.projection.refresh() == Delta(5, 6, (NodeAdd(B, "bytes", b"b"), EdgeAdd(C, B)))


def test_a_revocation_removes() -> None:
    view = View(GRAPH, A, B, C)
    view.permissions.revoke(PEER, *read(C, A))
    assert view.projection.refresh() == Delta(5, 6, (NodeRemove(A), NodeRemove(C)))
    assert view.projection.snapshot() == snapshot(6, [node(B, b"b")], [], [B])


def test_what_was_revoked_is_not_told_even_if_nobody_has_said_that_it_was() -> None:
    view = View(GRAPH, A, B)
    view.permissions.revoke(PEER, *read(A))
    assert view.change(CellSet(A, b"secret"), CellSet(B, b"B")) == Delta(5, 6, (NodeRemove(A), CellSet(B, b"B")))


def test_a_snapshot_goes_by_the_permissions_of_now_and_counts_what_they_have_changed() -> None:
    view = View(GRAPH, A, B)
    view.permissions.revoke(PEER, *read(A))
    assert view.projection.snapshot() == snapshot(6, [node(B, b"b")], [], [B])


def test_what_is_computed_from_what_is_hidden_does_not_pass_for_a_root() -> None:
    view = View(GRAPH)
    view.permissions.grant(PEER, *read(C))
    assert view.projection.refresh() == Delta(5, 6, (NodeAdd(C, "bytes"), SlotValue(C, b"c")))
    view.permissions.grant(PEER, *read(D))
    assert view.change(NodeAdd(D, "t", b"d", "k"), EdgeAdd(D, B)) == Delta(
        6, 7, (NodeAdd(D, "t", None, "k"), SlotValue(D, b"d"))
    )


def test_ids_that_the_peer_could_not_hold_are_not_shown() -> None:
    graph = snapshot(0, [node(A, b"a"), node(LARGE, b"x")], [(LARGE, A)], [A])
    view = View(graph, A, LARGE, LARGE + 1, id_max=SAFE_INTEGER_MAX)
    assert view.projection.snapshot() == snapshot(5, [node(A, b"a")], [], [A])
    assert view.change(CellSet(LARGE, b"y")) is None
    assert view.change(NodeAdd(NodeId(LARGE + 1), "t", b"y")) is None


def test_a_grant_for_all_shows_all() -> None:
    view = View(GRAPH)
    view.permissions.grant_all(PEER, OpKind.READ)
    delta = view.projection.refresh()
    assert delta is not None
    assert {type(operation) for operation in delta.operations} == {NodeAdd, EdgeAdd}
    assert view.projection.snapshot().nodes == GRAPH.nodes


class _Watched(Replica):
    """Can be told that nobody is to go through all of it any more."""

    is_watched = False

    @property
    def nodes(self) -> Mapping[NodeId, Node]:
        return _Single(super().nodes) if self.is_watched else super().nodes

    def dependencies(self, id: NodeId) -> Iterable[NodeId]:
        assert id in (A, C)
        return super().dependencies(id)


class _Single(dict[NodeId, Node]):
    """Nodes, to be asked for one by one."""

    def __iter__(self) -> Iterator[NodeId]:
        raise AssertionError("somebody goes through all nodes")

    items = keys = values = __iter__  # type: ignore[assignment]


def test_a_snapshot_does_not_go_through_what_is_hidden() -> None:
    """Its time would tell how much there is."""
    hidden = [NodeId(id) for id in range(10, 200)]
    truth, permissions = _Watched(), PeerPermissions()
    nodes = [node(A, b"a"), node(B, b"b"), node(C, b"c"), *(node(id, b"h") for id in hidden)]
    edges = [(C, A), (C, B), *((id, A) for id in hidden)]
    assert truth.replace(snapshot(0, nodes, edges, [A, B])) is None
    permissions.grant(PEER, *read(A, C))
    projection = Projection(truth, permissions, PEER, first_epoch=5)
    truth.is_watched = True
    assert projection.snapshot() == snapshot(5, [node(A, b"a"), node(C, b"c")], [(C, A)], [A])
