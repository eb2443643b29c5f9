"""A graph as values: operations apply whole or not at all, snapshots replace, roots follow from what is said."""

import pytest

from bobbin.reactive.messages import (
    CellSet,
    EdgeAdd,
    EdgeRemove,
    Invalidate,
    NodeAdd,
    NodeId,
    NodeRemove,
    NodeState,
    Operation,
    QueueClose,
    QueuePop,
    QueuePush,
    SlotValue,
    Snapshot,
)
from bobbin.reactive.replica import Replica
from tests.support.reactive_links import node, shown, snapshot

A, B, C, D = map(NodeId, range(1, 5))


def replica() -> Replica:
    made = Replica()
    assert made.replace(snapshot(0, [node(A, b"a"), node(B, b"b"), node(C, b"c")], [(C, A), (C, B)], [A, B])) is None
    return made


def test_values_states_and_roots_follow_the_operations() -> None:
    graph = replica()
    graph.apply([CellSet(A, b"A"), SlotValue(C, b"C"), Invalidate(C)])
    assert shown(graph) == ({A: b"A", B: b"b", C: b"C"}, {(C, A), (C, B)}, {A, B})
    assert [graph.nodes[id].state for id in (A, C)] == [NodeState.RESOLVED, NodeState.DIRTY]
    graph.apply([SlotValue(C, b"CC")])
    assert graph.nodes[C].state is NodeState.RESOLVED
    graph.check()


def test_a_node_that_goes_takes_exactly_its_edges_along() -> None:
    graph = replica()
    graph.apply([NodeAdd(D, "t"), EdgeAdd(D, B), EdgeAdd(D, C), NodeRemove(C)])
    assert shown(graph) == ({A: b"a", B: b"b", D: None}, {(D, B)}, {A, B})
    graph.apply([EdgeRemove(D, B)])
    assert shown(graph)[1] == set()
    graph.check()


def test_one_edge_goes_and_the_others_of_its_node_stay() -> None:
    graph = replica()
    graph.apply([EdgeRemove(C, A)])
    assert shown(graph)[1] == {(C, B)}
    assert list(graph.dependencies(C)) == [B]
    assert list(graph.dependents(A)) == []
    graph.apply([EdgeRemove(C, A), EdgeAdd(C, B)])
    assert list(graph.dependents(B)) == [C]
    graph.check()


def test_an_id_that_is_taken_again_starts_anew() -> None:
    graph = replica()
    graph.apply([NodeRemove(A), NodeAdd(A, "other", b"new", "a/key")])
    assert graph.nodes[A].tag == "other"
    assert shown(graph)[1] == {(C, B)}
    assert graph.find("a/key") == graph.nodes[A]


@pytest.mark.parametrize(
    ("operations", "is_root"),
    [
        ([NodeAdd(D, "t", b"d")], True),
        ([NodeAdd(D, "t")], False),
        ([NodeAdd(D, "t"), CellSet(D, b"d")], True),
        ([NodeAdd(D, "t"), SlotValue(D, b"d")], False),
        ([NodeAdd(D, "t", b"d"), SlotValue(D, b"d")], False),
        ([NodeAdd(D, "t", b"d"), Invalidate(D)], False),
        ([NodeAdd(D, "t", b"d"), EdgeAdd(D, A)], False),
        ([NodeAdd(D, "t", b"d"), EdgeAdd(C, D)], True),
    ],
)
def test_what_is_written_is_a_root_and_what_is_computed_is_none(operations: list[Operation], is_root: bool) -> None:  # noqa: FBT001 (a parameter of a test)
    graph = replica()
    graph.apply(operations)
    assert graph.is_root(D) is (D in graph.roots) is is_root


@pytest.mark.parametrize(
    "operations",
    [
        [CellSet(D, b"x")],
        [SlotValue(D, b"x")],
        [Invalidate(D)],
        [NodeRemove(D)],
        [NodeRemove(A), CellSet(A, b"x")],
        [NodeRemove(A), EdgeAdd(C, A)],
        [NodeAdd(A, "t")],
        [NodeAdd(D, "t"), NodeAdd(D, "t")],
        [EdgeAdd(A, D)],
        [EdgeAdd(D, A)],
        [EdgeRemove(A, D)],
        [QueuePush(D, b"x")],
    ],
)
def test_what_does_not_fit_is_said_and_nothing_is_done(operations: list[Operation]) -> None:
    graph = replica()
    before = shown(graph)
    assert graph.misfit([CellSet(A, b"first"), *operations]) is not None
    assert shown(graph) == before


def test_what_fits_is_what_was_there_or_came_before() -> None:
    operations: list[Operation] = [
        NodeRemove(A),
        NodeAdd(A, "t"),
        NodeAdd(D, "t"),
        EdgeAdd(D, A),
        CellSet(D, b"x"),
        NodeRemove(D),
        QueuePush(B, b"x"),
        QueuePop(B),
        QueueClose(B),
    ]
    graph = replica()
    assert graph.misfit(operations) is None
    graph.apply(operations)
    assert shown(graph)[0] == {A: None, B: b"b", C: b"c"}
    graph.check()


@pytest.mark.parametrize(
    "wrong",
    [
        snapshot(1, [node(A), node(A)]),
        snapshot(1, [node(A)], [(A, B)]),
        snapshot(1, [node(A)], [(B, A)]),
        snapshot(1, [node(A)], [], [B]),
        snapshot(1, [node(A, None, NodeState.RESOLVED)]),
        snapshot(1, [node(A, b"x", NodeState.UNSET)]),
    ],
)
def test_a_snapshot_that_contradicts_itself_is_refused(wrong: Snapshot) -> None:
    graph = replica()
    before = shown(graph)
    assert graph.replace(wrong) is not None
    assert shown(graph) == before
    graph.check()


def test_a_snapshot_is_what_was_put_in() -> None:
    nodes = [node(C, b"c", NodeState.DIRTY), node(A, b"a", key="k/a"), node(B, None), node(D, None, NodeState.DIRTY)]
    given = snapshot(5, nodes, [(C, A)], [A])
    graph = Replica()
    assert graph.replace(given) is None
    assert graph.snapshot(5) == given
    assert graph.find("k/a") == nodes[1]
    assert graph.find("k/b") is None
    graph.apply([NodeRemove(A)])
    assert graph.find("k/a") is None


def test_a_key_is_found_also_when_it_has_moved() -> None:
    graph = Replica()
    graph.apply([NodeAdd(A, "t", b"1", "k"), NodeAdd(B, "t", b"2", "k")])
    assert graph.find("k") == graph.nodes[B]
    graph.apply([NodeRemove(B)])
    assert graph.find("k") == graph.nodes[A]


def test_nodes_that_were_read_stay_what_they_were() -> None:
    graph = replica()
    before = graph.nodes[A]
    graph.apply([CellSet(A, b"new")])
    assert before.value == b"a"
    with pytest.raises(TypeError):
        graph.nodes[A] = before  # type: ignore[index]
