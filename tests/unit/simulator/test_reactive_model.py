"""The model of a graph: what it computes, what it says has changed, and what is drawn to happen to it."""

from random import Random

import pytest

from bobbin.reactive.change import Change
from bobbin.reactive.messages import (
    CellSet,
    EdgeAdd,
    EdgeRemove,
    Invalidate,
    NodeAdd,
    NodeId,
    NodeRemove,
    NodeState,
    SlotValue,
)
from bobbin.reactive.replica import Replica
from bobbin.simulator.reactive_model import Add, Described, GraphModel, Play, Put, Remove, Resolve, as_bytes

A, B, C, D = map(NodeId, range(4))


def cell(id: NodeId, value: int = 0) -> Add:
    return Add(Described(id=id, incarnation=int(id), key=None), value)


def slot(id: NodeId, *reads: NodeId, is_lazy: bool = False, incarnation: int = 0) -> Add:
    return Add(Described(id=id, incarnation=incarnation or int(id), key=None, reads=reads, is_lazy=is_lazy))


def operations(change: Change | None) -> tuple[object, ...]:
    assert change is not None
    return change.operations


def test_the_first_that_is_read_says_which_others_are() -> None:
    model = GraphModel()
    model.play([cell(A, 1), cell(B, 3), cell(C, 4), slot(D, A, B, C)])
    assert model.compute(model.described[D]) == (4, (A, B))
    assert operations(model.play([Put(A, 2)])) == (
        EdgeRemove(D, B),
        EdgeAdd(D, C),
        CellSet(A, as_bytes(2)),
        SlotValue(D, as_bytes(1)),
    )


def test_what_comes_to_the_same_is_no_change() -> None:
    model = GraphModel()
    model.play([cell(A, 2), slot(B, A)])
    assert model.play([Put(A, 9), Put(A, 2)]) is None
    assert operations(model.play([Put(A, 7)])) == (CellSet(A, as_bytes(7)),), "the slot has the same result"


def test_a_lazy_slot_is_unset_then_fresh_then_stale() -> None:
    model = GraphModel()
    model.play([cell(A, 1), slot(B, A, is_lazy=True)])
    assert model.shown[B].state is NodeState.UNSET
    assert operations(model.play([Resolve(B)])) == (EdgeAdd(B, A), SlotValue(B, as_bytes(1)))
    assert operations(model.play([Put(A, 2)])) == (CellSet(A, as_bytes(2)), Invalidate(B))
    assert model.shown[B].value == as_bytes(1)
    assert operations(model.play([Put(A, 3)])) == (CellSet(A, as_bytes(3)),), "it is stale already"
    assert operations(model.play([Put(A, 1)])) == (CellSet(A, as_bytes(1)),)
    assert operations(model.play([Resolve(B)])) == (SlotValue(B, as_bytes(1)),), "no longer stale"


def test_an_id_that_is_taken_again_is_removed_and_added() -> None:
    model = GraphModel()
    model.play([cell(A, 1), slot(B, A)])
    again = slot(B, A, incarnation=9)
    assert operations(model.play([Remove(B), again])) == (
        NodeRemove(B),
        NodeAdd(B, "i64", as_bytes(1)),
        EdgeAdd(B, A),
    )


@pytest.mark.parametrize("seed", range(20))
def test_what_is_drawn_makes_sense_and_changes_lead_from_state_to_state(seed: int) -> None:
    random = Random(seed)
    play = Play(random, is_lazy=seed % 2 == 0, reuses=seed % 3 != 0)
    model, replica = GraphModel(), Replica()
    for acts in (play.begin(), *(play.batch() for _ in range(30))):
        change = model.play(acts)
        if change is not None:
            assert replica.misfit(change.operations) is None
            replica.apply(change.operations)
        snapshot = model.snapshot()
        assert set(replica.nodes.values()) == set(snapshot.nodes)
        assert replica.edges == set(snapshot.edges)
        assert replica.roots == set(snapshot.roots)
    assert play.add_cell(id_max=2**53 - 1).described.id <= 2**53 - 1


def test_nodes_with_other_ids_are_the_same_nodes() -> None:
    model = GraphModel()
    model.play([cell(A, 1), cell(B, 3), slot(C, A, B), slot(D, A, is_lazy=True)])
    model.play([Resolve(D)])
    model.renumber({A: B, B: A, C: NodeId(9), D: C})
    assert model.cells == {B: 1, A: 3}
    assert model.described[NodeId(9)].reads == (B, A)
    assert model.shown[NodeId(9)].dependencies == (B, A)
    assert [one.described.incarnation for one in model.shown.values()] == [0, 1, 2, 3]
    assert operations(model.play([Put(B, 2)])) == (
        EdgeRemove(NodeId(9), A),
        CellSet(B, as_bytes(2)),
        SlotValue(NodeId(9), as_bytes(2)),
        Invalidate(C),
    ), "what was known of a lazy one is known still"


def test_ids_are_dealt_anew_among_those_there_are_and_some_others() -> None:
    play = Play(Random(3), is_lazy=False, reuses=True)
    model = GraphModel()
    model.play(play.begin())
    before = dict(model.described)
    ids = play.renumber()
    assert ids.keys() == before.keys()
    assert len(set(ids.values())) == len(ids)
    assert any(id != other for id, other in ids.items())
    model.renumber(ids)
    assert {ids[id]: one.incarnation for id, one in before.items()} == {
        id: one.incarnation for id, one in model.described.items()
    }
    for _ in range(30):
        model.play(play.batch())
    assert play._alive == model.described
