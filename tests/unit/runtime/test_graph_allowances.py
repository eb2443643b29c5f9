"""Allowances by keys, and the grants that come of them."""

from bobbin.reactive.messages import NodeId, PeerId
from bobbin.reactive.permissions import OpKind, PeerPermissions, RemoteOp
from bobbin.runtime.graph_allowances import Allowance, Allowances

PEER = PeerId(7)
NODES = [(NodeId(1), "a/x"), (NodeId(2), "a/y/z"), (NodeId(3), "b"), (NodeId(4), None)]


def _reads(permissions: PeerPermissions) -> set[int]:
    return {id for id, _ in NODES if permissions.allows(PEER, RemoteOp(OpKind.READ, id))}


def _allowance(pattern: str, kind: OpKind = OpKind.READ) -> Allowance:
    return Allowance(PEER, kind, pattern)


def test_what_matches() -> None:
    assert _allowance("a/*").matches("a/y/z"), "slashes included"
    assert not _allowance("a/*").matches("b")
    assert not _allowance("A").matches("a")
    assert _allowance("room[12]/*").matches("room[12]/x")
    assert not _allowance("room[12]/*").matches("room1/x"), "a bracket is itself"
    assert _allowance("notes?").matches("notes?")
    assert not _allowance("notes?").matches("notesX"), "so is a question mark"
    assert _allowance("[!a]*").matches("[!a]b")
    assert _allowance("*").matches(None)
    assert not _allowance("**").matches(None), "a node without a key has no part of any path"


def test_nodes_that_come_are_granted_and_nothing_else_is() -> None:
    permissions = PeerPermissions()
    allowances = Allowances(permissions, [_allowance("a/*"), _allowance("b", OpKind.WRITE)])
    for id, key in NODES:
        allowances.welcome(id, key)
    assert _reads(permissions) == {1, 2}
    assert permissions.allows(PEER, RemoteOp(OpKind.WRITE, NodeId(3)))
    assert not permissions.allows(PEER, RemoteOp(OpKind.WRITE, NodeId(1)))
    assert not permissions.allows(PeerId(8), RemoteOp(OpKind.READ, NodeId(1)))


def test_what_somebody_will_read_is_wanted_before_it_is_there() -> None:
    allowances = Allowances(PeerPermissions(), [_allowance("a/*"), _allowance("b", OpKind.WRITE)])
    assert allowances.is_wanted(NodeId(1), "a/x")
    assert not allowances.is_wanted(NodeId(3), "b"), "to write is not to read"
    assert not allowances.is_wanted(NodeId(4), None)


def test_what_is_taken_back_stays_where_another_allows_it() -> None:
    permissions = PeerPermissions()
    allowances = Allowances(permissions)
    assert allowances.add(_allowance("a/*"), NODES) == [1, 2]
    assert allowances.add(_allowance("a/x"), NODES) == [1]
    allowances.remove(_allowance("a/*"), NODES)
    assert _reads(permissions) == {1}
    allowances.remove(_allowance("a/*"), NODES)
    assert list(allowances) == [_allowance("a/x")]
    allowances.remove(_allowance("a/x"), NODES)
    assert _reads(permissions) == set()
    permissions.check()
