"""Large values go round a frame: into an arena on the way out, and back from it on the way in.

Only the bytes of values take that way. The message itself, with every id, edge and epoch, goes over the link, and each
side keeps its own graph by it; an arena is no place to learn the state of a graph from.

One message never loses its own values: what would overwrite a blob of the same message stays in the frame. A receiver
that is so late that a blob is gone gets ``HeaderMismatch``, and does what it does after any gap: it asks for a
snapshot.

Which arena it is, the side that writes it says in its handshake, by a feature (``arena_feature``), where the other has
said that it takes values so (``Feature.SHARED_BLOB``). Each link has an arena of its own.
"""

import re
from collections.abc import Callable, Iterable
from typing import Final, TypeAlias, assert_never

import msgspec

from bobbin.reactive.messages import (
    Backend,
    BlobRef,
    CellSet,
    CrdtSync,
    Delta,
    Message,
    NodeAdd,
    Operation,
    OutboxAck,
    QueuePush,
    ResyncRequest,
    SlotValue,
    Snapshot,
    Value,
)
from bobbin.runtime.arena import Arena, ArenaReader
from bobbin.wire.lazily.arena_header import HEADER_BYTES

OVER_BYTES: Final = 4096
"""What is longer is worth a blob. A descriptor takes about 100 bytes of a frame."""

ARENA: Final = "bobbin-arena-"
"""How the feature begins that names an arena."""
_NAMED: Final = re.compile(re.escape(ARENA) + r"([A-Za-z0-9_-]{1,64})", re.ASCII)

_Change: TypeAlias = Callable[[Value], Value]


def arena_feature(arena: Arena) -> str:
    """By which the other side finds an arena."""
    return ARENA + arena.name


def named_in(features: Iterable[str]) -> str | None:
    """The arena that the other side has named, if it has."""
    return next((found[1] for feature in features if (found := _NAMED.fullmatch(feature)) is not None), None)


def spill(message: Message, arena: Arena, *, over_bytes: int = OVER_BYTES) -> Message:
    """The message with every value longer than ``over_bytes`` in the arena, as far as there is room for it."""
    return _with_values(message, _Spilling(arena, over_bytes).take)


def resolve(message: Message, arena: ArenaReader | Arena) -> Message:
    """The message with its values in place of descriptors. Blobs that are elsewhere than in shared memory stay such.

    A descriptor that does not fit what is in the arena raises what ``ArenaReader.read`` raises, for the whole message.
    """

    def bytes_of(value: Value) -> Value:
        if isinstance(value, BlobRef) and value.backend is Backend.SHM:
            return arena.read(value)
        return value

    return _with_values(message, bytes_of)


class _Spilling:
    """The blobs of one message."""

    def __init__(self, arena: Arena, over_bytes: int) -> None:
        self._arena: Final = arena
        self._over_bytes: Final = over_bytes
        self._first: int | None = None
        """The generation of the first blob of this message."""

    def take(self, value: Value) -> Value:
        if isinstance(value, BlobRef) or len(value) <= self._over_bytes:
            return value
        if len(value) + HEADER_BYTES > self._arena.capacity:
            return value
        if self._first is not None and self._arena.lost_by(len(value)) >= self._first:
            return value
        blob = self._arena.write(value)
        if self._first is None:
            self._first = blob.generation
        return blob


def _with_values(message: Message, change: _Change) -> Message:
    """The message with another value in each place that has one."""
    match message:
        case Snapshot():
            nodes = tuple(
                node
                if node.value is None or (value := change(node.value)) is node.value
                else msgspec.structs.replace(node, value=value)
                for node in message.nodes
            )
            return msgspec.structs.replace(message, nodes=nodes)
        case Delta():
            operations = tuple(_with_value(operation, change) for operation in message.operations)
            return msgspec.structs.replace(message, operations=operations)
        case CrdtSync():
            states = tuple(
                msgspec.structs.replace(operation, state=change(operation.state)) for operation in message.operations
            )
            return msgspec.structs.replace(message, operations=states)
        case ResyncRequest() | OutboxAck():
            return message
        case _:
            assert_never(message)


def _with_value(operation: Operation, change: _Change) -> Operation:
    match operation:
        case CellSet() | SlotValue() | QueuePush():
            return msgspec.structs.replace(operation, value=change(operation.value))
        case NodeAdd() if operation.value is not None:
            return msgspec.structs.replace(operation, value=change(operation.value))
        case _:
            return operation
