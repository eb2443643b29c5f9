from collections.abc import Iterator

import pytest

from bobbin.reactive.messages import (
    Backend,
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
from bobbin.runtime.arena import Arena, ArenaReader
from bobbin.runtime.spilling import arena_feature, named_in, resolve, spill
from bobbin.wire.lazily.arena_header import HeaderMismatch

_LONG = bytes(range(100))
_LONGER = _LONG * 3
_STAMP = Stamp(1, 2, PeerId(3))

MESSAGES: tuple[Message, ...] = (
    Snapshot(
        4,
        (
            Node(NodeId(1), "bytes", NodeState.RESOLVED, _LONG, "a/b"),
            Node(NodeId(2), "bytes", NodeState.DIRTY, _LONGER),
            Node(NodeId(3), "bytes", NodeState.RESOLVED, b"short"),
            Node(NodeId(4), "bytes", NodeState.UNSET),
        ),
        (Edge(NodeId(2), NodeId(1)),),
        (NodeId(1), NodeId(3)),
    ),
    Delta(
        4,
        5,
        (
            NodeRemove(NodeId(9)),
            NodeAdd(NodeId(5), "bytes", _LONG, "c"),
            NodeAdd(NodeId(6), "bytes"),
            EdgeAdd(NodeId(5), NodeId(1)),
            EdgeRemove(NodeId(2), NodeId(1)),
            CellSet(NodeId(1), _LONGER),
            SlotValue(NodeId(2), _LONG),
            SlotValue(NodeId(3), b"short"),
            Invalidate(NodeId(6)),
            QueuePush(NodeId(7), _LONGER),
            QueuePop(NodeId(7)),
            QueueClose(NodeId(7)),
        ),
    ),
    CrdtSync((CrdtOperation(NodeId(1), None, _STAMP, _LONG),), ((PeerId(3), _STAMP),)),
    ResyncRequest(4),
    OutboxAck(5),
)


@pytest.fixture
def arena() -> Iterator[Arena]:
    with Arena(4_000) as made:
        yield made


def _values(message: Message) -> list[bytes | BlobRef | None]:
    match message:
        case Snapshot():
            return [node.value for node in message.nodes]
        case Delta():
            return [getattr(operation, "value", None) for operation in message.operations]
        case CrdtSync():
            return [operation.state for operation in message.operations]
        case _:
            return []


@pytest.mark.parametrize("message", MESSAGES, ids=lambda message: type(message).__name__)
def test_values_go_into_the_arena_and_come_back(arena: Arena, message: Message) -> None:
    """RX-064: what is in the arena is not in the message as well."""
    spilled = spill(message, arena, over_bytes=50)
    for before, after in zip(_values(message), _values(spilled), strict=True):
        assert isinstance(after, BlobRef) == (isinstance(before, bytes) and len(before) > 50)
        assert isinstance(after, BlobRef) or after == before
    with ArenaReader(arena.name) as reader:
        assert resolve(spilled, reader) == message
    assert resolve(message, arena) == message


def test_the_threshold_itself_stays_in_the_message(arena: Arena) -> None:
    message = Delta(0, 1, (CellSet(NodeId(1), _LONG),))
    assert spill(message, arena, over_bytes=100) == message
    assert spill(message, arena, over_bytes=99) != message


def test_a_message_never_writes_over_its_own_values() -> None:
    values = [bytes([number]) * 300 for number in range(10)]
    message = Delta(0, 1, tuple(CellSet(NodeId(number), value) for number, value in enumerate(values)))
    with Arena(1_000) as arena:
        arena.write(bytes(500))
        spilled = spill(message, arena, over_bytes=100)
        assert sum(isinstance(value, BlobRef) for value in _values(spilled)) == 2
        assert resolve(spilled, arena) == message


def test_what_is_too_long_for_the_arena_stays_in_the_message() -> None:
    message = Delta(0, 1, (CellSet(NodeId(1), bytes(200)), CellSet(NodeId(2), bytes(50))))
    with Arena(150) as arena:
        spilled = spill(message, arena, over_bytes=10)
        assert [isinstance(value, BlobRef) for value in _values(spilled)] == [False, True]
        assert resolve(spilled, arena) == message


def test_a_blob_that_is_gone_refuses_the_message(arena: Arena) -> None:
    message = Delta(0, 1, (CellSet(NodeId(1), _LONG),))
    spilled = spill(message, arena, over_bytes=10)
    arena.advance(1)
    with pytest.raises(HeaderMismatch):
        resolve(spilled, arena)


def test_blobs_of_other_backends_are_left_alone(arena: Arena) -> None:
    message = Delta(0, 1, (CellSet(NodeId(1), BlobRef(0, 4, 1, 0, 5, Backend.ARROW)),))
    assert spill(message, arena, over_bytes=0) == message
    assert resolve(message, arena) == message


def test_an_arena_is_named_in_a_handshake() -> None:
    with Arena(4096) as arena:
        assert named_in(["other", arena_feature(arena)]) == arena.name
    assert named_in(["bobbin-arena-", "bobbin-arena-../x", "bobbin-arena-" + "x" * 65]) is None
