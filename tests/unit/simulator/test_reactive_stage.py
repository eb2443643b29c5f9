"""The side of the source: permissions in two books, and what is known of a graph."""

import pytest

from bobbin.reactive.messages import NodeId, PeerId
from bobbin.reactive.permissions import OpKind, RemoteOp
from bobbin.simulator.reactive_model import Add, Described, Put, Remove
from bobbin.simulator.reactive_stage import Grants, Stage

A, B = NodeId(1), NodeId(2)
ME = PeerId(1)
CELL = Add(Described(id=A, incarnation=1, key=None), 1)
SLOT = Add(Described(id=B, incarnation=2, key=None, reads=(A,)))


def test_the_two_books_say_the_same() -> None:
    grants = Grants()

    def agree() -> bool:
        ops = [RemoteOp(kind, id) for kind in OpKind for id in (A, B)]
        return all(grants.allows(ME, op) == grants.permissions.allows(ME, op) for op in ops)

    grants.grant(ME, RemoteOp(OpKind.READ, A), RemoteOp(OpKind.WRITE, B))
    assert agree()
    grants.revoke(ME, RemoteOp(OpKind.WRITE, B))
    assert agree()
    assert (grants.is_seen(A), grants.is_seen(B)) == (True, False)
    grants.grant_all(ME, OpKind.READ)
    assert agree()
    assert grants.is_seen(B)
    assert grants.has_all(ME, OpKind.READ)
    grants.revoke_all(ME, OpKind.READ)
    assert agree()
    assert not grants.is_seen(A)


@pytest.mark.parametrize("is_live", [False, True])
def test_a_stage_knows_the_graph_from_its_start_on(is_live: bool) -> None:  # noqa: FBT001 (a parameter of a test)
    stage = Stage(is_live=is_live)
    stage.act([CELL])
    stage.start()
    stage.grants.grant(ME, RemoteOp(OpKind.READ, A), RemoteOp(OpKind.READ, B))
    assert stage.act([SLOT]) is not None
    assert stage.act([Put(A, 1)]) is None
    assert stage.act([Put(A, 2)]) is not None
    assert stage.act([Remove(B), Remove(A)]) is not None
    assert not stage.grants.permissions.is_readable(A)
    assert dict(stage.truth.nodes) == {}


def test_what_was_lazy_is_computed_when_it_can_be_seen() -> None:
    stage = Stage(is_live=True)
    stage.act([CELL, SLOT])
    stage.start()
    assert stage.truth.nodes[B].value is None
    stage.grants.grant(ME, RemoteOp(OpKind.READ, B))
    assert stage.resolve_granted() is not None
    assert stage.truth.nodes[B].value is not None


def test_another_start_may_give_nodes_other_ids_and_nobody_may_more_for_it() -> None:
    stage = Stage(is_live=True)
    stage.act([CELL, SLOT])
    stage.start()
    stage.grants.grant(ME, RemoteOp(OpKind.READ, A))
    stage.grants.grant_all(ME, OpKind.WRITE)
    stage.resolve_granted()
    former = stage.grants.permissions
    stage.renumber({A: B, B: A})
    stage.start()
    assert stage.grants.permissions is not former
    for book in (stage.grants, stage.grants.permissions):
        allowed = [book.allows(ME, RemoteOp(OpKind.READ, id)) for id in (A, B)]
        assert allowed == [False, True]
        assert book.allows(ME, RemoteOp(OpKind.WRITE, A))
    assert stage.truth.roots == {B}
