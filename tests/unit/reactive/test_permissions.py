"""Who may do what: nobody, until it is granted; one kind, one node, or all of them."""

import pytest

from bobbin.errors import UsageError
from bobbin.reactive.messages import NodeId, PeerId
from bobbin.reactive.permissions import JOURNAL_MAX, OpKind, PeerPermissions, RemoteOp

A, B, C = map(NodeId, (1, 2, 3))
ME, YOU = PeerId(1), PeerId(2)


def op(node: NodeId, kind: OpKind = OpKind.READ) -> RemoteOp:
    return RemoteOp(kind, node)


def test_a_grant_is_for_one_peer_one_kind_and_one_node() -> None:
    permissions = PeerPermissions()
    permissions.grant(ME, op(A))
    assert permissions.allows(ME, op(A))
    assert not permissions.allows(YOU, op(A))
    assert not permissions.allows(ME, op(B))
    assert not permissions.allows(ME, op(A, OpKind.WRITE))
    assert not permissions.allows(ME, op(A, OpKind.TRIGGER_EFFECT))
    permissions.check()


def test_a_grant_for_all_is_for_those_that_come_later_too() -> None:
    permissions = PeerPermissions()
    permissions.grant_all(ME, OpKind.READ)
    assert permissions.allows(ME, op(NodeId(2**63)))
    assert permissions.filter_readable(ME, [C, A]) == [C, A]
    assert permissions.readable(ME, [C, A]) == {A, C}
    assert not permissions.allows(ME, op(A, OpKind.WRITE))
    permissions.revoke_all(ME, OpKind.READ)
    assert not permissions.allows(ME, op(A))


def test_a_single_node_cannot_be_taken_out_of_all() -> None:
    permissions = PeerPermissions()
    permissions.grant(ME, op(A, OpKind.WRITE))
    permissions.grant_all(ME, OpKind.READ)
    with pytest.raises(UsageError, match="every node"):
        permissions.revoke(ME, op(A, OpKind.WRITE), op(A))
    assert permissions.allows(ME, op(A, OpKind.WRITE)), "nothing was changed"


def test_what_is_revoked_is_gone_and_what_never_was_does_not_matter() -> None:
    permissions = PeerPermissions()
    permissions.grant(ME, op(A), op(A), op(B))
    permissions.revoke(ME, op(A), op(C))
    assert permissions.filter_readable(ME, [A, B, C]) == [B]
    assert permissions.readable(ME, [A, B, C]) == {B}
    permissions.check()
    permissions.revoke_all(ME, OpKind.READ)
    assert permissions.readable(ME, [A, B, C]) == set()
    permissions.check()


def test_whether_anybody_may_read_a_node() -> None:
    permissions = PeerPermissions()
    permissions.grant(ME, op(A), op(B, OpKind.WRITE))
    permissions.grant(YOU, op(A))
    assert [permissions.is_readable(id) for id in (A, B, C)] == [True, False, False]
    permissions.revoke(ME, op(A))
    assert permissions.is_readable(A)
    permissions.forget_peer(YOU)
    assert not permissions.is_readable(A)
    permissions.grant_all(YOU, OpKind.WRITE)
    assert not permissions.is_readable(A)
    permissions.grant_all(YOU, OpKind.READ)
    assert permissions.is_readable(C)
    permissions.check()


def test_a_node_that_is_gone_leaves_no_grant() -> None:
    permissions = PeerPermissions()
    permissions.grant(ME, *(op(A, kind) for kind in OpKind), op(B))
    permissions.grant(YOU, op(A))
    permissions.forget_node(A)
    assert not any(permissions.allows(peer, op(A, kind)) for peer in (ME, YOU) for kind in OpKind)
    assert permissions.allows(ME, op(B))
    permissions.check()


def test_the_revision_changes_with_what_a_peer_may_read_and_with_nothing_else() -> None:
    permissions = PeerPermissions()
    seen = {permissions.revision(ME)}

    def changes() -> bool:
        revision = permissions.revision(ME)
        is_new = revision not in seen
        seen.add(revision)
        return is_new

    permissions.grant(ME, op(A))
    assert changes()
    permissions.grant(ME, op(A), op(A, OpKind.WRITE))
    permissions.grant(YOU, op(B))
    permissions.revoke(ME, op(A, OpKind.WRITE), op(C))
    permissions.forget_node(B)
    assert not changes()
    permissions.forget_node(A)
    assert changes()
    permissions.grant_all(ME, OpKind.WRITE)
    assert not changes()
    permissions.grant_all(ME, OpKind.READ)
    assert changes()
    permissions.revoke_all(ME, OpKind.READ)
    assert changes()


def test_what_has_changed_is_known_node_by_node_for_a_while() -> None:
    permissions = PeerPermissions()
    start = permissions.revision(ME)
    assert permissions.changed_since(ME, start) == set()
    permissions.grant(ME, op(A), op(B))
    middle = permissions.revision(ME)
    permissions.revoke(ME, op(B))
    permissions.forget_node(A)
    assert permissions.changed_since(ME, start) == {A, B}
    assert permissions.changed_since(ME, middle) == {A, B}
    assert permissions.changed_since(ME, permissions.revision(ME)) == set()
    for number in range(JOURNAL_MAX - 1):
        permissions.grant(ME, op(NodeId(100 + number)))
    assert permissions.changed_since(ME, start) is None, "too long ago to know"
    since = permissions.changed_since(ME, middle + 1)
    assert since is not None
    assert len(since) == JOURNAL_MAX
    permissions.grant_all(ME, OpKind.READ)
    assert permissions.changed_since(ME, middle + 1) is None
    assert permissions.changed_since(ME, permissions.revision(ME)) == set()
