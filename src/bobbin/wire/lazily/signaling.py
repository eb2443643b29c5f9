"""The frames of signaling: JSON objects whose ``type`` is one of a closed set, in each direction.

A client's frame has ``to`` and never ``from``; a frame of the room has ``from`` and never ``to``. A field too many, a
field twice, and a roster that names the newcomer or is not ascending are refused. What is relayed is one JSON value
that passes as it was written, to the byte.
"""

import json
from typing import Final, TypeAlias, assert_never

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType, field

from bobbin.errors import UsageError
from bobbin.reactive.messages import U64_MAX, PeerId
from bobbin.reactive.signaling_frames import (
    CAPABILITIES_MAX,
    CAPABILITY_BYTES_MAX,
    FRAME_BYTES_MAX,
    Answer,
    ClientFrame,
    Code,
    ForwardedAnswer,
    ForwardedIce,
    ForwardedOffer,
    ForwardedRelay,
    Ice,
    Join,
    Leave,
    Offer,
    PeerJoined,
    PeerLeft,
    Refusal,
    Relay,
    ServerFrame,
    Welcome,
)
from bobbin.wire.lazily.faults import UNREADABLE, Fault, FrameFault, OversizedFrame, check_size, malformed


class _Join(Struct, forbid_unknown_fields=True, tag_field="type", tag="join"):
    peer: PeerId
    capabilities: tuple[str, ...] | UnsetType | None = UNSET


class _Offer(Struct, forbid_unknown_fields=True, tag_field="type", tag="offer"):
    to: PeerId
    sdp: str


class _Answer(Struct, forbid_unknown_fields=True, tag_field="type", tag="answer"):
    to: PeerId
    sdp: str


class _Ice(Struct, forbid_unknown_fields=True, tag_field="type", tag="ice"):
    to: PeerId
    candidate: str


class _Relay(Struct, forbid_unknown_fields=True, tag_field="type", tag="relay"):
    to: PeerId
    payload: Raw


class _Leave(Struct, forbid_unknown_fields=True, tag_field="type", tag="leave"):
    pass


class _Welcome(Struct, forbid_unknown_fields=True, tag_field="type", tag="welcome"):
    peer: PeerId
    peers: tuple[PeerId, ...]


class _PeerJoined(Struct, forbid_unknown_fields=True, tag_field="type", tag="peer-joined"):
    peer: PeerId


class _PeerLeft(Struct, forbid_unknown_fields=True, tag_field="type", tag="peer-left"):
    peer: PeerId


class _ForwardedOffer(Struct, forbid_unknown_fields=True, tag_field="type", tag="offer"):
    sender: PeerId = field(name="from")
    sdp: str


class _ForwardedAnswer(Struct, forbid_unknown_fields=True, tag_field="type", tag="answer"):
    sender: PeerId = field(name="from")
    sdp: str


class _ForwardedIce(Struct, forbid_unknown_fields=True, tag_field="type", tag="ice"):
    sender: PeerId = field(name="from")
    candidate: str


class _ForwardedRelay(Struct, forbid_unknown_fields=True, tag_field="type", tag="relay"):
    sender: PeerId = field(name="from")
    payload: Raw


class _Error(Struct, forbid_unknown_fields=True, tag_field="type", tag="error"):
    code: Code
    message: str


_FromClient: TypeAlias = _Join | _Offer | _Answer | _Ice | _Relay | _Leave
_FromServer: TypeAlias = (
    _Welcome | _PeerJoined | _PeerLeft | _ForwardedOffer | _ForwardedAnswer | _ForwardedIce | _ForwardedRelay | _Error
)

_client: Final = msgspec.json.Decoder[_FromClient](_FromClient)
_server: Final = msgspec.json.Decoder[_FromServer](_FromServer)
_value: Final = msgspec.json.Decoder(Raw)


# ---- client to server -----------------------------------------------------------------------------------------------


def encode_client(frame: ClientFrame, *, frame_bytes_max: int = FRAME_BYTES_MAX) -> bytes:
    """The text of a client's frame."""
    return _encode(_client_shape(frame), frame_bytes_max)


def _client_shape(frame: ClientFrame) -> _FromClient:
    match frame:
        case Join():
            return _Join(frame.peer, UNSET if frame.capabilities is None else frame.capabilities)
        case Offer():
            return _Offer(frame.to, frame.sdp)
        case Answer():
            return _Answer(frame.to, frame.sdp)
        case Ice():
            return _Ice(frame.to, frame.candidate)
        case Relay():
            return _Relay(frame.to, _one_value(frame.payload))
        case Leave():
            return _Leave()
        case _:
            assert_never(frame)


def decode_client(raw: bytes, *, frame_bytes_max: int = FRAME_BYTES_MAX) -> ClientFrame:
    """A client's frame, or ``FrameFault``."""
    check_size(raw, frame_bytes_max)
    try:
        said = _client.decode(raw)
    except UNREADABLE as error:
        raise malformed(error) from error
    _check_fields(raw)
    match said:
        case _Join():
            capabilities = None if said.capabilities is UNSET else said.capabilities
            _check_capabilities(capabilities or ())
            return Join(peer=_id(said.peer), capabilities=capabilities)
        case _Offer():
            return Offer(to=_id(said.to), sdp=said.sdp)
        case _Answer():
            return Answer(to=_id(said.to), sdp=said.sdp)
        case _Ice():
            return Ice(to=_id(said.to), candidate=said.candidate)
        case _Relay():
            return Relay(to=_id(said.to), payload=bytes(said.payload))
        case _Leave():
            return Leave()
        case _:
            assert_never(said)


# ---- server to client -----------------------------------------------------------------------------------------------


def encode_server(frame: ServerFrame, *, frame_bytes_max: int = FRAME_BYTES_MAX) -> bytes:
    """The text of a frame of the room."""
    return _encode(_server_shape(frame), frame_bytes_max)


def _server_shape(frame: ServerFrame) -> _FromServer:
    match frame:
        case Welcome():
            return _Welcome(frame.peer, frame.peers)
        case PeerJoined():
            return _PeerJoined(frame.peer)
        case PeerLeft():
            return _PeerLeft(frame.peer)
        case ForwardedOffer():
            return _ForwardedOffer(frame.sender, frame.sdp)
        case ForwardedAnswer():
            return _ForwardedAnswer(frame.sender, frame.sdp)
        case ForwardedIce():
            return _ForwardedIce(frame.sender, frame.candidate)
        case ForwardedRelay():
            return _ForwardedRelay(frame.sender, _one_value(frame.payload))
        case Refusal():
            return _Error(frame.code, frame.message)
        case _:
            assert_never(frame)


def decode_server(raw: bytes, *, frame_bytes_max: int = FRAME_BYTES_MAX) -> ServerFrame:
    """A frame of the room, or ``FrameFault``."""
    check_size(raw, frame_bytes_max)
    try:
        said = _server.decode(raw)
    except UNREADABLE as error:
        raise malformed(error) from error
    _check_fields(raw)
    match said:
        case _Welcome():
            peers = tuple([_id(peer) for peer in said.peers])
            if said.peer in peers or list(peers) != sorted(set(peers)):
                raise FrameFault(Fault.MALFORMED, "a roster is ascending and does not name the newcomer")
            return Welcome(peer=_id(said.peer), peers=peers)
        case _PeerJoined():
            return PeerJoined(peer=_id(said.peer))
        case _PeerLeft():
            return PeerLeft(peer=_id(said.peer))
        case _ForwardedOffer():
            return ForwardedOffer(sender=_id(said.sender), sdp=said.sdp)
        case _ForwardedAnswer():
            return ForwardedAnswer(sender=_id(said.sender), sdp=said.sdp)
        case _ForwardedIce():
            return ForwardedIce(sender=_id(said.sender), candidate=said.candidate)
        case _ForwardedRelay():
            return ForwardedRelay(sender=_id(said.sender), payload=bytes(said.payload))
        case _Error():
            return Refusal(code=said.code, message=said.message)
        case _:
            assert_never(said)


# ---- both -----------------------------------------------------------------------------------------------------------


def _encode(shape: _FromClient | _FromServer, frame_bytes_max: int) -> bytes:
    try:
        raw = msgspec.json.encode(shape)
    except UnicodeEncodeError as error:
        raise UsageError(f"not a text: {error}") from error
    if len(raw) > frame_bytes_max:
        raise OversizedFrame(len(raw), frame_bytes_max)
    return raw


def _one_value(payload: bytes) -> Raw:
    """What is relayed, once it is known to be one JSON value: it goes into the frame as it is."""
    try:
        payload.decode()
        return _value.decode(payload)
    except UNREADABLE as error:
        raise UsageError(f"what is relayed is one JSON value: {error}") from error


def _id(number: int) -> PeerId:
    if not 0 <= number <= U64_MAX:
        raise FrameFault(Fault.OUT_OF_RANGE, f"ids lie between 0 and 2^64 - 1, not at {number}")
    return PeerId(number)


def _check_capabilities(capabilities: tuple[str, ...]) -> None:
    if len(capabilities) > CAPABILITIES_MAX:
        raise FrameFault(Fault.OVERSIZED, f"a client has at most {CAPABILITIES_MAX} capabilities")
    if any(len(capability.encode()) > CAPABILITY_BYTES_MAX for capability in capabilities):
        raise FrameFault(Fault.OVERSIZED, f"the name of a capability has at most {CAPABILITY_BYTES_MAX} bytes")


def _check_fields(raw: bytes) -> None:
    """Refuse a frame with a field twice, which the decoder does not notice. What is relayed may have any fields."""
    names: list[str] = []

    def note(pairs: list[tuple[str, object]]) -> None:
        # The frame itself comes last, after all that is inside it.
        names[:] = [name for name, _ in pairs]

    try:
        json.loads(raw.decode(), object_pairs_hook=note, parse_int=str, parse_float=str)
    except (ValueError, RecursionError) as error:
        raise malformed(error) from error
    if len(set(names)) != len(names):
        raise FrameFault(Fault.MALFORMED, "a frame has a field twice")
