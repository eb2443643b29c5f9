"""Who sees and does what over a link: the rows of the conformance list about permissions."""

from bobbin.reactive.handshake import Codec
from bobbin.reactive.link_effects import Denied, Refused
from bobbin.reactive.link_events import Received, WriteCells
from bobbin.reactive.messages import (
    CellSet,
    Delta,
    EdgeAdd,
    Invalidate,
    NodeAdd,
    NodeId,
    NodeRemove,
    PeerId,
    SlotValue,
    Snapshot,
)
from bobbin.reactive.mirror import Mirror, MirrorConfig
from bobbin.reactive.permissions import OpKind, PeerPermissions, RemoteOp
from bobbin.reactive.publisher import PublisherConfig
from bobbin.wire.lazily.conversation import Conversation
from bobbin.wire.lazily.forms import Form
from tests.support.reactive_links import PEER, SOURCE, Pair, capabilities, node, read, shown, snapshot

A, B, C, D = map(NodeId, range(1, 5))
GRAPH = snapshot(0, [node(A, b"a"), node(B, b"b"), node(C, b"c")], [(C, A), (C, B)], [A, B])


def values(mirror: Mirror) -> dict[int, bytes | None]:
    return shown(mirror.replica)[0]


def test_what_is_hidden_is_in_no_frame_whatever_its_form() -> None:
    """RX-060, RX-109: filtered before anything is encoded, on every channel."""
    secret = b"a secret value"
    graph = snapshot(0, [node(A, b"a"), node(B, secret, key="hidden/key"), node(C, b"c")], [(C, A), (C, B)], [A, B])
    for form in Form:
        codec = Codec.MESSAGE_PACK if form is Form.MESSAGE_PACK else Codec.JSON
        pair = Pair(
            graph,
            reads=[A, C],
            publisher=PublisherConfig(capabilities=capabilities(SOURCE, codec=codec.value)),
            mirror=MirrorConfig(capabilities=capabilities(codec=codec.value)),
        ).open()
        assert pair.mirror.agreed is not None
        pair.change(CellSet(B, secret + b"!"), SlotValue(C, b"cc"))
        pair.change(NodeRemove(B), NodeAdd(D, "bytes", secret, "hidden/other"))
        talk = Conversation(pair.mirror.agreed, form=form)
        sent = [raw for message in pair.sent for raw in talk.write(message)]
        assert len(sent) == 2
        for raw in sent:
            message = Conversation(pair.mirror.agreed, form=form).read(raw)
            assert message is not None
            told = repr(message)
            assert "hidden" not in told
            assert "secret" not in told
            assert all(f"id={hidden}," not in told and f"={hidden})" not in told for hidden in (int(B), int(D)))


def test_a_hidden_node_is_not_even_opaque() -> None:
    """RX-109, RX-151: nodes, edges and roots."""
    pair = Pair(GRAPH, reads=[C, A]).open()
    assert pair.sent == [snapshot(1, [node(A, b"a"), node(C, b"c")], [(C, A)], [A])]


def test_deltas_have_no_edge_and_no_operation_for_what_is_hidden() -> None:
    """RX-109, RX-151."""
    pair = Pair(GRAPH, reads=[A, C]).open()
    pair.change(
        NodeAdd(D, "bytes", b"d"), EdgeAdd(D, A), EdgeAdd(D, C), CellSet(A, b"A"), CellSet(B, b"B"), SlotValue(C, b"C")
    )
    assert isinstance(pair.sent[-1], Delta)
    assert pair.sent[-1].operations == (CellSet(A, b"A"), SlotValue(C, b"C"))


def test_the_kinds_are_granted_apart() -> None:
    """RX-106: each kind alone allows itself, and nothing else."""
    for granted in OpKind:
        permissions = PeerPermissions()
        permissions.grant(PEER, RemoteOp(granted, A))
        assert [kind for kind in OpKind if permissions.allows(PEER, RemoteOp(kind, A))] == [granted]
    pair = Pair(GRAPH).open()
    pair.at_source(Received(Delta(1, 2, (CellSet(A, b"x"),))))
    pair.at_source(Received(Delta(1, 2, (CellSet(B, b"x"),))))
    assert pair.writes == []
    assert [notice.notice for notice in pair.notices] == [
        Denied(RemoteOp(OpKind.WRITE, id), "there is no grant") for id in (A, B)
    ]


def test_nobody_may_do_anything_until_it_is_granted() -> None:
    """RX-107."""
    permissions = PeerPermissions()
    permissions.grant(PEER, *read(A), RemoteOp(OpKind.WRITE, A))
    stranger = PeerId(99)
    assert not any(permissions.allows(stranger, RemoteOp(kind, A)) for kind in OpKind)
    assert permissions.filter_readable(stranger, [A, B]) == []
    pair = Pair(GRAPH, reads=[]).open()
    assert pair.sent == [Snapshot(1, (), (), ())]


def test_readable_nodes_keep_their_order() -> None:
    """RX-108, RX-151: of this peer, not of another."""
    permissions = PeerPermissions()
    permissions.grant(PEER, *read(A, B, D))
    permissions.grant(PeerId(8), *read(C))
    assert permissions.filter_readable(PEER, [D, C, A, B]) == [D, A, B]
    assert permissions.filter_readable(PeerId(8), [D, C, A, B]) == [C]


def test_a_peer_writes_cells_that_it_may_write_and_nothing_else() -> None:
    """RX-152."""
    pair = Pair(GRAPH).open()
    pair.permissions.grant(PEER, *(RemoteOp(OpKind.WRITE, id) for id in (A, C, D)))
    before = shown(pair.truth)
    operations = (
        CellSet(B, b"no grant"),
        NodeRemove(A),
        CellSet(A, b"yes"),
        NodeAdd(D, "bytes", b"x"),
        SlotValue(C, b"x"),
        Invalidate(C),
        EdgeAdd(A, C),
        CellSet(C, b"no cell"),
        CellSet(D, b"not there"),
    )
    pair.at_source(Received(Delta(1, 2, operations)))
    assert [write.writes for write in pair.writes] == [(CellSet(A, b"yes"),)]
    pair.at_source(Received(snapshot(9, [node(A, b"mine")])))
    assert [notice.notice.code for notice in pair.notices if isinstance(notice.notice, Refused)][-1] == (
        "snapshot-from-observer"
    )
    assert shown(pair.truth) == before
    assert len(pair.writes) == 1


def test_a_write_goes_to_the_graph_and_comes_back_as_a_delta() -> None:
    """RX-152: the mirror shows it when the graph has it."""
    pair = Pair(GRAPH).open()
    pair.permissions.grant(PEER, RemoteOp(OpKind.WRITE, A))
    pair.at_mirror(WriteCells((CellSet(A, b"mine"),)))
    assert values(pair.mirror)[A] == b"a"
    pair.settle()
    pair.change(*pair.writes[0].writes)
    pair.settle()
    assert values(pair.mirror)[A] == b"mine"


def test_a_peer_learns_nothing_of_what_it_may_not_read() -> None:
    """RX-161: the same flushes, with and without what is hidden, are the same frames."""
    told = []
    for hidden in (True, False):
        pair = Pair(GRAPH, reads=[A]).open()
        for number in range(4):
            pair.change(CellSet(A, bytes([number])))
            if hidden:
                pair.change(CellSet(B, bytes([number])), SlotValue(C, bytes([number])))
                pair.change(NodeAdd(NodeId(10 + number), "bytes", b"x"), EdgeAdd(NodeId(10 + number), A))
        told.append(pair.sent)
    assert told[0] == told[1]


def test_a_grant_adds_and_a_revocation_removes_without_a_gap() -> None:
    """RX-162: the node comes with its edges before anything else is said of it."""
    pair = Pair(GRAPH, reads=[C]).open()
    pair.grant(A)
    pair.settle()
    assert isinstance(pair.sent[-1], Delta)
    assert pair.sent[-1].operations == (NodeAdd(A, "bytes", b"a"), EdgeAdd(C, A))
    pair.change(CellSet(A, b"aa"))
    pair.settle()
    assert pair.seen == ({A: b"aa", C: b"c"}, {(C, A)}, {A})
    pair.revoke(C)
    pair.settle()
    assert pair.sent[-1] == Delta(3, 4, (NodeRemove(C),))
    pair.change(SlotValue(C, b"unseen"))
    pair.settle()
    assert pair.seen == ({A: b"aa"}, set(), {A})
    assert [type(message) for message in pair.sent] == [Snapshot, Delta, Delta, Delta]
    assert pair.mirror.epoch == 4


def test_a_grant_and_a_flush_that_were_not_told_apart_are_one_delta() -> None:
    """RX-162: who is granted a node hears nothing of it before it is added."""
    pair = Pair(GRAPH, reads=[C]).open()
    pair.permissions.grant(PEER, *read(A))
    pair.change(CellSet(A, b"aa"), SlotValue(C, b"cc"))
    pair.settle()
    assert isinstance(pair.sent[-1], Delta)
    assert pair.sent[-1].operations == (SlotValue(C, b"cc"), NodeAdd(A, "bytes", b"aa"), EdgeAdd(C, A))
    assert pair.seen == ({A: b"aa", C: b"cc"}, {(C, A)}, {A})
