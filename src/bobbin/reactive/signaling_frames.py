"""What clients of a signaling room and the room say to each other, free of any codec.

``wire.lazily.signaling`` gives these their form. A frame that exists is well formed: ids are u64, lists and texts are
within the bounds below. A client names whom it speaks to and never who speaks; the room names who speaks. So the two
directions are different types, and no frame has room for both ends.
"""

from enum import StrEnum, unique
from typing import Final, TypeAlias

from msgspec import Struct

from bobbin.reactive.messages import PeerId

CAPABILITIES_MAX: Final = 64
CAPABILITY_BYTES_MAX: Final = 256
FRAME_BYTES_MAX: Final = 256 * 1024
"""Of one frame in its JSON form. A description of a session with many ways is about 10 kB."""
FORWARDED_BYTES_MORE: Final = 64
"""By how much a frame may grow when its ``to`` becomes a ``from``."""


@unique
class Code(StrEnum):
    """Every reason that a room gives. The set is closed: a peer that sees another has no peer of this protocol."""

    BAD_MESSAGE = "bad_message"
    NOT_JOINED = "not_joined"
    ALREADY_JOINED = "already_joined"
    DUPLICATE_PEER = "duplicate_peer"
    UNKNOWN_TARGET = "unknown_target"
    PERMISSION_DENIED = "permission_denied"


# ---- client to server -----------------------------------------------------------------------------------------------


class Join(Struct, frozen=True, kw_only=True, gc=False):
    """Register this connection under an id."""

    peer: PeerId
    capabilities: tuple[str, ...] | None = None


class Offer(Struct, frozen=True, kw_only=True, gc=False):
    """The description of a session that the sender proposes, passed on to the last character."""

    to: PeerId
    sdp: str


class Answer(Struct, frozen=True, kw_only=True, gc=False):
    """The description that answers an offer."""

    to: PeerId
    sdp: str


class Ice(Struct, frozen=True, kw_only=True, gc=False):
    """One way by which the sender may be reached."""

    to: PeerId
    candidate: str


class Relay(Struct, frozen=True, kw_only=True, gc=False):
    """Anything, as JSON, for another client."""

    to: PeerId
    payload: bytes
    """The text of one JSON value as it came, in UTF-8. Nobody on the way reads it."""


class Leave(Struct, frozen=True, gc=False):
    """End the registration."""


DirectedFrame: TypeAlias = Offer | Answer | Ice | Relay
ClientFrame: TypeAlias = Join | DirectedFrame | Leave


# ---- server to client -----------------------------------------------------------------------------------------------


class Welcome(Struct, frozen=True, kw_only=True):
    """The answer to ``Join``."""

    peer: PeerId
    peers: tuple[PeerId, ...]
    """Who else is there, ascending, each once, without ``peer``."""


class PeerJoined(Struct, frozen=True, kw_only=True, gc=False):
    """Somebody came."""

    peer: PeerId


class PeerLeft(Struct, frozen=True, kw_only=True, gc=False):
    """Somebody left, or its connection was lost."""

    peer: PeerId


class ForwardedOffer(Struct, frozen=True, kw_only=True, gc=False):
    """See ``Offer``. ``sender`` is written ``from``, and is what the room knows of the connection."""

    sender: PeerId
    sdp: str


class ForwardedAnswer(Struct, frozen=True, kw_only=True, gc=False):
    """See ``Answer``."""

    sender: PeerId
    sdp: str


class ForwardedIce(Struct, frozen=True, kw_only=True, gc=False):
    """See ``Ice``."""

    sender: PeerId
    candidate: str


class ForwardedRelay(Struct, frozen=True, kw_only=True, gc=False):
    """See ``Relay``."""

    sender: PeerId
    payload: bytes


class Refusal(Struct, frozen=True, kw_only=True, gc=False):
    """``error`` on the wire: why a frame had no effect. Only its sender hears of it."""

    code: Code
    message: str
    """For people. Programs go by the code."""


ForwardedFrame: TypeAlias = ForwardedOffer | ForwardedAnswer | ForwardedIce | ForwardedRelay
ServerFrame: TypeAlias = Welcome | PeerJoined | PeerLeft | ForwardedFrame | Refusal
