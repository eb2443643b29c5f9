"""A witness says what is wrong: with frames that go out, with epochs, and with what a mirror shows."""

import pytest

from bobbin.reactive.messages import CellSet, Delta, Node, NodeAdd, NodeId, NodeRemove, Snapshot
from bobbin.simulator.reactive_model import TAG, Add, Described, GraphModel, Put, Remove, Resolve, as_bytes
from bobbin.simulator.reactive_witness import Sight, Witness, fold, projected, sight_of

A, B, C = map(NodeId, range(3))


def expect(condition: bool, message: str) -> None:  # noqa: FBT001 (as the world has it)
    assert condition, message


def model() -> GraphModel:
    made = GraphModel()
    made.play([Add(Described(id=A, incarnation=1, key="k/a"), 1), Add(Described(id=B, incarnation=2, key=None), 2)])
    made.play([Add(Described(id=C, incarnation=3, key=None, reads=(A, B)))])
    return made


def only_a(id: NodeId) -> bool:
    return id == A


def told(sight: Sight, epoch: int) -> Snapshot:
    assert not sight.edges
    nodes = tuple(Node(id, tag, state, value, key) for id, (tag, state, value, key) in sight.nodes.items())
    return Snapshot(epoch, nodes, (), tuple(sight.roots))


def begun() -> tuple[GraphModel, Witness]:
    graph, witness = model(), Witness("link", 5, expect)
    witness.begin(graph.shown, only_a)
    witness.hear_snapshot(told(witness.history[5], 5))
    return graph, witness


def test_what_may_be_seen_is_nodes_edges_between_them_and_roots() -> None:
    graph = model()
    assert projected(graph.shown, lambda _: True).edges == {(C, A), (C, B)}
    assert projected(graph.shown, lambda id: id != A).edges == {(C, B)}
    assert projected(graph.shown, lambda id: id != A).roots == {B}


def test_an_epoch_passes_only_when_something_can_be_seen() -> None:
    graph, witness = begun()
    graph.play([Put(B, 9)])
    witness.look(graph.shown, only_a)
    assert witness.epoch == 5
    graph.play([Put(A, 9)])
    witness.look(graph.shown, only_a)
    assert witness.epoch == 6
    graph.play([Remove(C), Remove(A)])
    graph.play([Add(Described(id=A, incarnation=9, key="k/a"), 9)])
    witness.look(graph.shown, only_a)
    assert witness.epoch == 7, "another node that looks the same is another node"


def test_frames_that_are_right_are_taken() -> None:
    graph, witness = begun()
    graph.play([Put(A, 9)])
    witness.look(graph.shown, only_a)
    witness.hear_delta(Delta(5, 6, (CellSet(A, as_bytes(9)),)))
    witness.judge(witness.history[6], 6, has_keys=True)
    witness.judge(witness.history[5].without_keys(), 5, has_keys=False)
    assert witness.frames == 2


@pytest.mark.parametrize(
    "delta",
    [
        Delta(5, 6, ()),
        Delta(4, 5, (CellSet(A, as_bytes(9)),)),
        Delta(5, 7, (CellSet(A, as_bytes(9)),)),
        Delta(5, 6, (CellSet(A, as_bytes(8)),)),
        Delta(5, 6, (CellSet(A, as_bytes(9)), NodeAdd(B, TAG, as_bytes(2)))),
        Delta(5, 6, (CellSet(A, as_bytes(9)), NodeAdd(B, TAG, as_bytes(2)), NodeRemove(B))),
        Delta(6, 7, (CellSet(A, as_bytes(9)),)),
    ],
)
def test_a_delta_that_is_wrong_is_found_out(delta: Delta) -> None:
    graph, witness = begun()
    graph.play([Put(A, 9)])
    witness.look(graph.shown, only_a)
    with pytest.raises(AssertionError, match="link: "):
        witness.hear_delta(delta)


def test_a_delta_before_the_snapshot_is_found_out() -> None:
    graph, witness = model(), Witness("link", 5, expect)
    witness.begin(graph.shown, only_a)
    with pytest.raises(AssertionError, match="before any snapshot"):
        witness.hear_delta(Delta(5, 6, (CellSet(A, as_bytes(9)),)))


def test_a_snapshot_or_a_mirror_that_is_wrong_is_found_out() -> None:
    graph, witness = begun()
    right = witness.history[5]
    with pytest.raises(AssertionError, match="epoch 4"):
        witness.hear_snapshot(told(right, 4))
    with pytest.raises(AssertionError, match="a snapshot is wrong"):
        witness.hear_snapshot(Snapshot(5, (), (), ()))
    with pytest.raises(AssertionError, match="never was"):
        witness.judge(right, 9, has_keys=True)
    with pytest.raises(AssertionError, match="the mirror is wrong"):
        witness.judge(projected(graph.shown, lambda _: True), 5, has_keys=True)


def test_folding_says_what_does_not_fit() -> None:
    sight = sight_of([], [], [])
    wrong, after = fold(sight, [NodeAdd(A, TAG, b"x")])
    assert wrong is None
    assert after.roots == {A}
    wrong, same = fold(after, [NodeAdd(A, TAG, b"x")])
    assert wrong is not None
    assert same == after
    assert fold(after, [NodeRemove(B)])[0] is not None


def test_a_snapshot_of_something_stale_is_an_epoch_and_may_be_taken_in_two_halves() -> None:
    graph = model()
    lazy = Described(id=NodeId(7), incarnation=7, key=None, reads=(A,), is_lazy=True)
    graph.play([Add(lazy), Resolve(lazy.id)])
    graph.play([Put(A, 3)])
    witness = Witness("link", 5, expect)
    witness.begin(graph.shown, lambda id: id == lazy.id)
    sight = witness.history[5]
    with pytest.raises(AssertionError, match="epoch 5 goes out at 6"):
        witness.hear_snapshot(told(sight, 5))
    witness = Witness("link", 5, expect)
    witness.begin(graph.shown, lambda id: id == lazy.id)
    witness.hear_snapshot(told(sight, 6))
    witness.judge(sight, 6, has_keys=True)
    witness.judge(sight, 5, has_keys=True)
    witness.judge(sight.before_staleness(), 5, has_keys=True)
    with pytest.raises(AssertionError, match="wrong"):
        witness.judge(sight.before_staleness(), 6, has_keys=True)
