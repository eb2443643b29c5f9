"""The payloads of messages between nodes: MessagePack, a map of the fields by name, and a number for each type.

A number is never used again for something else. A type is one row of ``KINDS``: what else depends on the type (who its
sender is, what its fields may be) is one row of ``validation.RULES``.

What ``decode`` gives has the types that it should have; whether the values make sense is for ``validation`` to say.
What always holds: a payload that is longer than its type allows is refused before it is read, so that nobody makes a
node build objects for sixteen megabytes of what should be a vote; anything that is not the message raises
``MessageRefused`` and nothing else.
"""

from collections.abc import Callable
from typing import Annotated, Final, TypeAlias

import msgspec
from msgspec import Meta, Struct

from bobbin.cluster.membership.messages import (
    Alive,
    BidirectionalAck,
    BidirectionalProbe,
    GossipMessage,
    Ping,
    PingAck,
    PingReq,
    Pong,
    Suspect,
    Sync,
)
from bobbin.cluster.names import NodeId
from bobbin.cluster.raft.entries import Entry
from bobbin.cluster.raft.messages import (
    AppendAnswer,
    AppendEntries,
    PreVote,
    PreVoteAnswer,
    RaftMessage,
    RequestVote,
    SnapshotChunk,
    SnapshotOffer,
    SnapshotRequest,
    TimeoutNow,
    VoteAnswer,
)
from bobbin.errors import UsageError
from bobbin.wire.cluster.faults import UNREADABLE, MessageRefused, Refusal, unreadable

MB: Final = 1_048_576
SHORT_BYTES_MAX: Final = 4_096
"""Of a message with a handful of fields: ids have at most 256 bytes."""
EMBEDDED_BYTES_MAX: Final = 2 * MB
"""Of a message with an embedding, which has at most 65,536 positions of 5 bytes and values of 9."""
LONG_BYTES_MAX: Final = 15 * MB
"""Leaves room for the envelope in a frame."""
ENTRIES_MAX: Final = 65_536
"""That are read at all; the bound that is configured is lower."""


class Hello(Struct, frozen=True, kw_only=True):
    """The first message of each side on a link: its envelope tells the other side in which life the sender is."""

    node: NodeId


Message: TypeAlias = Hello | RaftMessage | GossipMessage


class Kind(Struct, frozen=True):
    """One type of message."""

    number: int
    message: type[Message]
    payload_bytes_max: int = SHORT_BYTES_MAX


KINDS: Final = (
    Kind(1, Hello),
    Kind(16, PreVote, EMBEDDED_BYTES_MAX),
    Kind(17, PreVoteAnswer),
    Kind(18, RequestVote, EMBEDDED_BYTES_MAX),
    Kind(19, VoteAnswer),
    Kind(20, TimeoutNow),
    Kind(21, AppendEntries, LONG_BYTES_MAX),
    Kind(22, AppendAnswer),
    Kind(23, SnapshotOffer, 4 * MB),
    Kind(24, SnapshotRequest),
    Kind(25, SnapshotChunk, LONG_BYTES_MAX),
    Kind(32, Sync, MB),
    Kind(33, Suspect),
    Kind(34, Alive),
    Kind(35, Ping),
    Kind(36, Pong),
    Kind(37, PingReq),
    Kind(38, PingAck),
    Kind(39, BidirectionalProbe),
    Kind(40, BidirectionalAck),
)
"""48 to 63 are kept for transactions."""


class _Append(AppendEntries, frozen=True, kw_only=True):
    """An AppendEntries whose entries are counted before any of them is built."""

    entries: Annotated[tuple[Entry, ...], Meta(max_length=ENTRIES_MAX)]


_append_decoder: Final = msgspec.msgpack.Decoder(_Append)


def _decode_append(payload: bytes) -> AppendEntries:
    read = _append_decoder.decode(payload)
    return AppendEntries(
        term=read.term,
        leader=read.leader,
        previous_index=read.previous_index,
        previous_term=read.previous_term,
        entries=read.entries,
        commit=read.commit,
        round=read.round,
    )


def _decoder(message: type[Message]) -> Callable[[bytes], Message]:
    return _decode_append if message is AppendEntries else msgspec.msgpack.Decoder(message).decode


_encoder: Final = msgspec.msgpack.Encoder()
_by_type: Final = {kind.message: kind for kind in KINDS}
_by_number: Final = {kind.number: (kind.payload_bytes_max, _decoder(kind.message)) for kind in KINDS}


def number_of(message: Message) -> int:
    """The number of a message's type."""
    return _by_type[type(message)].number


def encode(message: Message) -> tuple[int, bytes]:
    """The number of the type, and the payload. Raises ``UsageError`` for what nobody would take."""
    kind = _by_type[type(message)]
    try:
        payload = _encoder.encode(message)
    except (OverflowError, UnicodeEncodeError) as error:
        raise UsageError(f"numbers lie below 2^64, and ids are UTF-8: {error}") from error
    if len(payload) > kind.payload_bytes_max:
        raise UsageError(
            f"a {kind.message.__name__} has at most {kind.payload_bytes_max} bytes, and this one has {len(payload)}"
        )
    return kind.number, payload


def decode(number: int, payload: bytes) -> Message:
    """The message of a payload, or ``MessageRefused``."""
    known = _by_number.get(number)
    if known is None:
        raise MessageRefused(Refusal.UNKNOWN_TYPE, f"no message has the type {number}", field="type")
    payload_bytes_max, read = known
    if len(payload) > payload_bytes_max:
        raise MessageRefused(
            Refusal.OVERSIZED,
            f"a payload of type {number} has at most {payload_bytes_max} bytes, not {len(payload)}",
            field="payload",
        )
    try:
        return read(payload)
    except UNREADABLE as error:
        raise unreadable(error) from error
