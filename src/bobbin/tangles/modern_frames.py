"""What two sides of the modern mode say to each other, and how it looks as bytes.

============  ====================================================================================================
``Ask``       the opener: what it has and wishes, and what the tangle adds up to below some depths
``Answer``    the answerer: up to where both agree, and for each span of depths above that a way to find what differs
``Turn``      either side, in turns: what it found out, what it wants, and at the end what it has now
``Parcel``    messages, after the ``Answer`` or ``Turn`` that says how many parcels follow, or later ones alone
``Stop``      either side, at any time: it has given a run up
============  ====================================================================================================

A frame is a MessagePack array whose first item is its number. Nothing here is ever sent to a peer that has not said
that it understands it: a pzp peer sees the nine phases and nothing else. Every count is bounded before it is used.
"""

from enum import IntEnum
from typing import Annotated, Final, TypeAlias

import msgspec
from msgspec import Meta, Struct

from bobbin.errors import PeerError
from bobbin.reconcile.short_ids import DIGEST_BYTES
from bobbin.tangles import base58
from bobbin.tangles.message import MessageId
from bobbin.tangles.ranges import WantAll, WantFrom, WantNewest, Wish

HASH_BYTES: Final = 16
NONCE_BYTES: Final = 8
SHORT_BYTES: Final = 8
DEPTH_MAX: Final = 2**53 - 1
REASON_CHARACTERS_MAX: Final = 60

Depth: TypeAlias = Annotated[int, Meta(ge=-DEPTH_MAX, le=DEPTH_MAX)]
Count: TypeAlias = Annotated[int, Meta(ge=0, le=DEPTH_MAX)]
Hash: TypeAlias = Annotated[bytes, Meta(min_length=HASH_BYTES, max_length=HASH_BYTES)]
Nonce: TypeAlias = Annotated[bytes, Meta(min_length=NONCE_BYTES, max_length=NONCE_BYTES)]
Id: TypeAlias = Annotated[bytes, Meta(min_length=DIGEST_BYTES, max_length=DIGEST_BYTES)]
"""A message id as its 32 bytes."""


class MalformedModernFrame(PeerError):
    """Something that came is no frame of the modern mode. Nothing was made of it."""

    def __init__(self, message: str) -> None:
        super().__init__("malformed-frame", message)


class Mark(Struct, frozen=True, array_like=True, gc=False):
    """What everything below a depth adds up to, and how much stands from there on."""

    depth: Depth
    above: Count
    """How many messages stand at this depth or deeper."""
    below: Hash


class WireWish(Struct, frozen=True, array_like=True, gc=False):
    """What a goal asks for: 0 nothing, 1 all, 2 the newest ``value`` levels, 3 what stands from ``value`` on."""

    kind: Annotated[int, Meta(ge=0, le=3)]
    value: Count = 0


class Form(IntEnum):
    """What a ``Part`` is."""

    SYMBOLS = 0
    """The next symbols of the sender's span. ``first`` is the number of the first of them."""
    LISTED = 1
    """Short ids of all that the sender has in the span."""
    LIST = 2
    """The receiver is to list what it has in the span."""
    MORE = 3
    """More symbols are wanted. ``first`` is how many ids the sender has, ``body`` a rough picture of them."""


class Part(Struct, frozen=True, array_like=True):
    """One step towards what differs in one span."""

    span: Annotated[int, Meta(ge=0, le=15)]
    """The number of the span, counted from the lowest."""
    form: Form
    first: Count = 0
    body: bytes = b""


class Ask(Struct, frozen=True, array_like=True, tag=1, kw_only=True):
    """The first frame of a run."""

    tangle: Id
    run: Count
    nonce: Nonce
    wish: WireWish
    low: Depth
    high: Depth
    """The range that the opener has."""
    top: Depth
    """The greatest depth at which the opener has, or will not have again, anything; -1 without anything."""
    marks: Annotated[tuple[Mark, ...], Meta(max_length=32)]
    accounts: bool = False
    """The opener lacks account messages that its own messages need: all that belong to the tangle are to be sent."""


class Answer(Struct, frozen=True, array_like=True, tag=2, kw_only=True):
    """The answer to an ``Ask``."""

    tangle: Id
    run: Count
    nonce: Nonce
    low: Depth
    high: Depth
    """The range that the answerer has."""
    wish: WireWish
    floor: Depth
    """Below this depth both have the same. The spans above it follow from this, the ranges and the wishes."""
    root: Hash
    """What all that the answerer has adds up to."""
    parts: Annotated[tuple[Part, ...], Meta(max_length=16)] = ()
    ghosts: bytes = b""
    """Short ids of what the answerer will not have again."""
    parcels: Count = 0
    """How many parcels follow."""
    accounts: bool = False
    """The same as in an ``Ask``, of the answerer."""


class Turn(Struct, frozen=True, array_like=True, tag=3, kw_only=True):
    """What one side says when it is its turn."""

    tangle: Id
    run: Count
    parts: Annotated[tuple[Part, ...], Meta(max_length=16)] = ()
    wants: bytes = b""
    """Short ids of what the sender lacks and wants."""
    ghosts: bytes = b""
    """Short ids of what the sender will not have again."""
    parcels: Count = 0
    root: Hash = bytes(HASH_BYTES)
    """What all that the sender has now adds up to. Only where it is done."""
    done: bool = False
    """The sender has nothing more to ask."""


class Parcel(Struct, frozen=True, array_like=True, tag=4, kw_only=True):
    """Some messages: account messages first, then each after its predecessors."""

    tangle: Id
    run: Count
    """0 for messages that came to be after a run."""
    messages: tuple[bytes, ...]


class Stop(Struct, frozen=True, array_like=True, tag=5, kw_only=True):
    """The sender has given a run up. What came in it stays."""

    tangle: Id
    run: Count
    reason: Annotated[str, Meta(max_length=REASON_CHARACTERS_MAX)]
    """A code."""


ModernFrame: TypeAlias = Ask | Answer | Turn | Parcel | Stop

_DECODER: Final = msgspec.msgpack.Decoder(ModernFrame)
_ENCODER: Final = msgspec.msgpack.Encoder()


class ModernLimits(Struct, frozen=True, kw_only=True):
    """What one frame of a peer may hold."""

    frame_bytes_max: int = 16 * 1024 * 1024
    ids_max: int = 1_000_000
    """Short ids in one list."""
    messages_max: int = 100_000


def encode(frame: ModernFrame) -> bytes:
    """A frame as bytes."""
    return _ENCODER.encode(frame)


def decode(raw: bytes, limits: ModernLimits) -> ModernFrame:
    """The frame that some bytes spell. Raises ``MalformedModernFrame``."""
    if len(raw) > limits.frame_bytes_max:
        raise MalformedModernFrame(f"a frame has at most {limits.frame_bytes_max} bytes, not {len(raw)}")
    try:
        frame: ModernFrame = _DECODER.decode(raw)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise MalformedModernFrame(f"not a frame: {error}") from error
    except RecursionError:
        raise MalformedModernFrame("not a frame: nested too deeply") from None
    _check(frame, limits)
    return frame


def _check(frame: ModernFrame, limits: ModernLimits) -> None:
    lists: list[bytes] = []
    match frame:
        case Answer(parts=parts, ghosts=ghosts):
            lists = [ghosts, *(part.body for part in parts if part.form is Form.LISTED)]
        case Turn(parts=parts, ghosts=ghosts, wants=wants):
            lists = [ghosts, wants, *(part.body for part in parts if part.form is Form.LISTED)]
        case Parcel(messages=messages):
            if len(messages) > limits.messages_max:
                raise MalformedModernFrame(f"a parcel has at most {limits.messages_max} messages")
        case Ask() | Stop():
            pass
    for ids in lists:
        if len(ids) % SHORT_BYTES or len(ids) > SHORT_BYTES * limits.ids_max:
            raise MalformedModernFrame(f"a list has at most {limits.ids_max} whole short ids")


def id_bytes(id: MessageId) -> bytes:
    """An id as its 32 bytes."""
    return base58.decode(id, DIGEST_BYTES)


def id_text(raw: bytes) -> MessageId:
    """An id as text."""
    return base58.encode(raw)


def wire_wish(wish: Wish) -> WireWish:
    """A wish as it is sent."""
    match wish:
        case None:
            return WireWish(0)
        case WantAll():
            return WireWish(1)
        case WantNewest(count):
            return WireWish(2, count)
        case WantFrom(depth):
            return WireWish(3, 0 if depth is None else depth)


def wish_of(wire: WireWish) -> Wish:
    """The wish that was sent."""
    wishes: tuple[Wish, ...] = (None, WantAll(), WantNewest(wire.value), WantFrom(wire.value))
    return wishes[wire.kind]
