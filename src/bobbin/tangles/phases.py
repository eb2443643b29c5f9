"""The nine phases: what two sides say to each other about one tangle, and how it looks as JSON.

=====================  =====  =====================================================================================
frame                  phase  what it says
=====================  =====  =====================================================================================
``Have``               1      the depths that the opener has
``HaveAndWant``        2      the depths that the answerer has, and which it wants
``WantAndFilter``      3      the depths that the opener wants, and a filter of what it holds there
``IdsAndFilter``       4 – 7  ids of what the other side seems to lack, and the next filter of what is held or promised
``MessagesAndFilter``  8      what the opener lacks, and the answerer's last filter
``Messages``           9      what the answerer lacks; also each message that comes to be later, alone
=====================  =====  =====================================================================================

Keys are written in the order in which a pzp peer writes them. What is read may have them in any order and may have
others besides; anything else that is wrong is a ``MalformedFrame``, and nothing is made of the frame. Whether a
message in a frame is one, is for its receiver to find out: here each is just its own JSON text.
"""

from typing import Final, TypeAlias, assert_never

import msgspec
from msgspec import Raw, Struct

from bobbin.errors import PeerError
from bobbin.tangles.bloom import Bloom, FilterLimits, WireFilter
from bobbin.tangles.message import MessageId, is_message_id
from bobbin.tangles.ranges import Range

LAST_PHASE: Final = 9
_DEPTH_MAX: Final = 2**53 - 1
LISTING_PHASES: Final = (4, 5, 6, 7)


class MalformedFrame(PeerError):
    """Something that came is no phase. Nothing was made of it."""

    def __init__(self, message: str) -> None:
        super().__init__("malformed-phase", message)


class FrameLimits(Struct, frozen=True, kw_only=True):
    """What one frame of a peer may hold."""

    filter: FilterLimits = FilterLimits()
    ids_max: int = 200_000
    messages_max: int = 200_000


class Have(Struct, frozen=True):
    """Phase 1."""

    id: MessageId
    have: Range

    @property
    def phase(self) -> int:
        return 1


class HaveAndWant(Struct, frozen=True):
    """Phase 2."""

    id: MessageId
    have: Range
    want: Range

    @property
    def phase(self) -> int:
        return 2


class WantAndFilter(Struct, frozen=True):
    """Phase 3."""

    id: MessageId
    bloom: Bloom
    want: Range

    @property
    def phase(self) -> int:
        return 3


class IdsAndFilter(Struct, frozen=True):
    """Phases 4 to 7."""

    id: MessageId
    phase: int
    bloom: Bloom
    ids: tuple[MessageId, ...]


class MessagesAndFilter(Struct, frozen=True):
    """Phase 8."""

    id: MessageId
    messages: tuple[bytes, ...]
    """Each as JSON."""
    bloom: Bloom

    @property
    def phase(self) -> int:
        return 8


class Messages(Struct, frozen=True):
    """Phase 9."""

    id: MessageId
    messages: tuple[bytes, ...]
    """Each as JSON."""

    @property
    def phase(self) -> int:
        return LAST_PHASE


Frame: TypeAlias = Have | HaveAndWant | WantAndFilter | IdsAndFilter | MessagesAndFilter | Messages


def encode(frame: Frame) -> bytes:
    """The JSON text of a frame."""
    match frame:
        case Have(have=have):
            payload = _range(have)
        case HaveAndWant(have=have, want=want):
            payload = b'{"haveRange":%b,"wantRange":%b}' % (_range(have), _range(want))
        case WantAndFilter(bloom=bloom, want=want):
            payload = b'{"bloom":%b,"wantRange":%b}' % (bloom.encode(), _range(want))
        case IdsAndFilter(bloom=bloom, ids=ids):
            payload = b'{"bloom":%b,"msgIDs":%b}' % (bloom.encode(), msgspec.json.encode(ids))
        case MessagesAndFilter(messages=messages, bloom=bloom):
            payload = b'{"msgs":[%b],"bloom":%b}' % (b",".join(messages), bloom.encode())
        case Messages(messages=messages):
            payload = b"[%b]" % b",".join(messages)
        case _:
            assert_never(frame)
    return b'{"id":%b,"phase":%d,"payload":%b}' % (msgspec.json.encode(frame.id), frame.phase, payload)


def _range(depths: Range) -> bytes:
    return b"[%d,%d]" % depths


class _Envelope(Struct, frozen=True):
    id: str
    phase: int
    payload: Raw


class _Ranges(Struct, frozen=True, rename={"have": "haveRange", "want": "wantRange"}):
    have: tuple[int, int]
    want: tuple[int, int]


class _Opening(Struct, frozen=True, rename={"want": "wantRange"}):
    bloom: WireFilter
    want: tuple[int, int]


class _Listing(Struct, frozen=True, rename={"ids": "msgIDs"}):
    bloom: WireFilter
    ids: list[str]


class _Delivery(Struct, frozen=True, rename={"messages": "msgs"}):
    messages: list[Raw]
    bloom: WireFilter


_ENVELOPES: Final = msgspec.json.Decoder(_Envelope)
_HAVES: Final = msgspec.json.Decoder(tuple[int, int])
_RANGES: Final = msgspec.json.Decoder(_Ranges)
_OPENINGS: Final = msgspec.json.Decoder(_Opening)
_LISTINGS: Final = msgspec.json.Decoder(_Listing)
_DELIVERIES: Final = msgspec.json.Decoder(_Delivery)
_MESSAGES: Final = msgspec.json.Decoder(list[Raw])


def decode(raw: bytes, limits: FrameLimits) -> Frame:
    """The frame that a JSON text spells. Raises ``MalformedFrame`` or ``MalformedFilter``."""
    try:
        envelope = _ENVELOPES.decode(raw)
        if not 1 <= envelope.phase <= LAST_PHASE:
            raise MalformedFrame(f"there is no phase {envelope.phase}")
        if not is_message_id(envelope.id):
            raise MalformedFrame("the id of a tangle is the base58 text of 32 bytes")
        return _read(envelope, limits)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise MalformedFrame(f"not a phase: {error}") from error
    except RecursionError:
        raise MalformedFrame("not a phase: nested too deeply") from None


def _read(envelope: _Envelope, limits: FrameLimits) -> Frame:
    id, phase, payload = envelope.id, envelope.phase, bytes(envelope.payload)
    if phase == 1:
        return Have(id, _depths(_HAVES.decode(payload)))
    if phase == 2:
        ranges = _RANGES.decode(payload)
        return HaveAndWant(id, _depths(ranges.have), _depths(ranges.want))
    if phase == 3:
        opening = _OPENINGS.decode(payload)
        return WantAndFilter(id, Bloom.read(opening.bloom, limits.filter), _depths(opening.want))
    if phase in LISTING_PHASES:
        listing = _LISTINGS.decode(payload)
        if len(listing.ids) > limits.ids_max:
            raise MalformedFrame(f"a frame lists at most {limits.ids_max} ids, not {len(listing.ids)}")
        if not all(is_message_id(message) for message in listing.ids):
            raise MalformedFrame("the id of a message is the base58 text of 32 bytes")
        return IdsAndFilter(id, phase, Bloom.read(listing.bloom, limits.filter), tuple(listing.ids))
    if phase == 8:
        delivery = _DELIVERIES.decode(payload)
        messages = _texts(delivery.messages, limits)
        return MessagesAndFilter(id, messages, Bloom.read(delivery.bloom, limits.filter))
    return Messages(id, _texts(_MESSAGES.decode(payload), limits))


def _depths(pair: tuple[int, int]) -> Range:
    if not all(-_DEPTH_MAX <= depth <= _DEPTH_MAX for depth in pair):
        raise MalformedFrame("a depth is a whole number that a double can hold")
    return Range(*pair)


def _texts(messages: list[Raw], limits: FrameLimits) -> tuple[bytes, ...]:
    if len(messages) > limits.messages_max:
        raise MalformedFrame(f"a frame has at most {limits.messages_max} messages, not {len(messages)}")
    return tuple(bytes(message) for message in messages)
