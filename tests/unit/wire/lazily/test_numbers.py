"""Every number of every message is looked at."""

import pytest
from hypothesis import given
from msgspec import to_builtins

from bobbin.errors import UsageError
from bobbin.reactive.messages import (
    U64_MAX,
    BlobRef,
    CellSet,
    CrdtOperation,
    CrdtSync,
    Delta,
    Edge,
    EdgeAdd,
    EdgeRemove,
    Invalidate,
    Message,
    Node,
    NodeAdd,
    NodeId,
    NodeRemove,
    NodeState,
    OutboxAck,
    PeerId,
    QueueClose,
    QueuePop,
    QueuePush,
    ResyncRequest,
    SlotValue,
    Snapshot,
    Stamp,
)
from bobbin.wire.lazily.faults import Fault, FrameFault
from bobbin.wire.lazily.numbers import check_received, check_sent, ids_of, value_of
from tests.support.lazily_messages import ANY, CANONICAL


def _every_number(bad: int) -> list[Message]:
    """Each message with each of its numbers, in turn, replaced by one that is wrong."""
    node, peer, value = NodeId(bad), PeerId(bad), bytes(1)
    good, one = NodeId(1), PeerId(1)
    blobs = [
        BlobRef(bad, 1, 1, 1, 1),
        BlobRef(1, bad, 1, 1, 1),
        BlobRef(1, 1, bad, 1, 1),
        BlobRef(1, 1, 1, bad, 1),
        BlobRef(1, 1, 1, 1, bad),
    ]
    operations = [
        *[kind(node, value) for kind in (CellSet, SlotValue, QueuePush)],
        *[kind(node) for kind in (Invalidate, NodeRemove, QueuePop, QueueClose)],
        *[kind(node, good) for kind in (EdgeAdd, EdgeRemove)],
        *[kind(good, node) for kind in (EdgeAdd, EdgeRemove)],
        *[kind(good, blob) for kind in (CellSet, SlotValue, QueuePush) for blob in blobs],
        NodeAdd(node, "a"),
        *[NodeAdd(good, "a", blob) for blob in blobs],
    ]
    stamps = [Stamp(bad, 1, one), Stamp(1, bad, one), Stamp(1, 1, peer)]
    return [
        Snapshot(bad, (), (), ()),
        Snapshot(1, (Node(node, "a", NodeState.UNSET),), (), ()),
        *[Snapshot(1, (Node(good, "a", NodeState.RESOLVED, blob),), (), ()) for blob in blobs],
        Snapshot(1, (), (Edge(node, good),), ()),
        Snapshot(1, (), (Edge(good, node),), ()),
        Snapshot(1, (), (), (node,)),
        Delta(bad, 1, ()),
        Delta(1, bad, ()),
        *[Delta(1, 1, (operation,)) for operation in operations],
        *[CrdtSync((CrdtOperation(good, None, stamp, value),)) for stamp in stamps],
        *[CrdtSync((CrdtOperation(good, None, Stamp(1, 1, one), blob),)) for blob in blobs],
        CrdtSync((CrdtOperation(node, None, Stamp(1, 1, one), value),)),
        *[CrdtSync((), ((one, stamp),)) for stamp in stamps],
        CrdtSync((), ((peer, Stamp(1, 1, one)),)),
        ResyncRequest(bad),
        OutboxAck(bad),
    ]


@pytest.mark.parametrize("bad", [-1, U64_MAX + 1, -(2**64)])
def test_a_number_that_is_no_u64_is_found_wherever_it_stands(bad: int) -> None:
    """RX-117."""
    for message in _every_number(bad):
        with pytest.raises(FrameFault) as caught:
            check_received(message)
        assert caught.value.fault is Fault.OUT_OF_RANGE


@pytest.mark.parametrize("good", [0, 1, U64_MAX])
def test_every_u64_passes(good: int) -> None:
    for message in _every_number(good):
        check_received(message)
        check_sent(message, U64_MAX)


@given(ANY | CANONICAL)
def test_ids_that_a_peer_cannot_hold_are_not_sent(message: Message) -> None:
    """RX-003: and no other number stops a message."""
    ids = list(ids_of(message))
    highest = max(ids, default=0)
    check_sent(message, highest)
    if highest:
        with pytest.raises(UsageError, match=str(highest)):
            check_sent(message, highest - 1)


def test_ids_are_those_of_nodes_and_peers() -> None:
    numbers = iter(range(100))
    nodes = [NodeId(next(numbers)) for _ in range(4)]
    snapshot = Snapshot(99, (Node(nodes[0], "a", NodeState.UNSET),), (Edge(nodes[1], nodes[2]),), (nodes[3],))
    assert list(ids_of(snapshot)) == nodes
    stamp = Stamp(99, 99, PeerId(2))
    sync = CrdtSync((CrdtOperation(NodeId(1), None, stamp, b""),), ((PeerId(3), stamp),))
    assert list(ids_of(sync)) == [1, 2, 3, 2]
    assert list(ids_of(ResyncRequest(1))) == []
    assert list(ids_of(OutboxAck(1))) == []


@given(CANONICAL)
def test_the_value_of_an_operation_is_what_it_carries(message: Message) -> None:
    if isinstance(message, Delta):
        for operation in message.operations:
            assert to_builtins(value_of(operation)) == to_builtins(operation).get("value")
