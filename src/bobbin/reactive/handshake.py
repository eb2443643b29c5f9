"""The handshake: what two ends of a link can do, and what follows from it for both.

Each side says its capabilities before anything else. Both compute the same agreement from the two, or none: a link
without an agreement carries no message. What fails names its field, by the name it has on the wire, since that is what
both sides can see.

A side says only which features it has. Which of them it cannot do without is its own configuration, and never sent.
"""

from enum import StrEnum, unique
from typing import Final

from msgspec import Struct

from bobbin.errors import PeerError
from bobbin.reactive.messages import PeerId

PROTOCOL_ID: Final = "lazily-ipc"
MAJOR_VERSION: Final = 1
FRAME_BYTES_MAX: Final = 1024 * 1024
"""What a side takes in one frame unless it is told otherwise."""


@unique
class Codec(StrEnum):
    """What a frame is made of. Two forms share ``json``: the first frame tells which."""

    JSON = "json"
    MESSAGE_PACK = "msgpack"


@unique
class Feature(StrEnum):
    """The features in use. A peer may name others; they are kept and mean nothing here."""

    SHARED_BLOB = "shared-blob"
    """Values may be blobs in memory that both sides see."""
    SIGNALING_RELAY = "signaling-relay"
    COMMAND_PLANE = "command-plane-v1"
    JSON_BASE64 = "json-base64"
    """Bytes may be base64 texts in the form of published peers, and are then written so."""
    PROTOBUF_BOUNDARY = "protobuf-graph-boundary-v1"
    MULTI_EPOCH = "bobbin-multi-epoch"
    """The published rule of epochs: one delta may span several. Without it the seed's strict rule holds."""


class Capabilities(Struct, frozen=True, kw_only=True):
    """What one side says. It exists as soon as it has this shape; ``agree`` judges it."""

    peer: PeerId
    """``peer_id``: as claimed. Whoever knows the connection compares it with what is proven."""
    session: str
    """``session_id``: which graph this is about."""
    codec: str = Codec.JSON.value
    frame_bytes_max: int = FRAME_BYTES_MAX
    """``max_frame_size``: of the frames that this side takes."""
    fragmentation: bool = False
    """``fragmentation_supported``."""
    ordered_reliable: bool = True
    features: tuple[str, ...] = ()
    protocol_id: str = PROTOCOL_ID
    major_version: int = MAJOR_VERSION
    """``protocol_major_version``."""


class Agreed(Struct, frozen=True, kw_only=True):
    """What holds on a link. Both sides compute the same, with the two peers exchanged."""

    local: PeerId
    remote: PeerId
    session: str
    codec: Codec
    frame_bytes_max: int
    """The smaller of the two; at least 1."""
    fragmentation: bool
    ordered_reliable: bool
    features: frozenset[str]
    """What both have."""

    @property
    def multi_epoch(self) -> bool:
        """Whether the published rule of epochs holds."""
        return Feature.MULTI_EPOCH in self.features

    @property
    def base64(self) -> bool:
        """Whether bytes may be base64 texts in the form of published peers."""
        return Feature.JSON_BASE64 in self.features

    @property
    def shared_blob(self) -> bool:
        """Whether a value may be a blob elsewhere."""
        return Feature.SHARED_BLOB in self.features


class HandshakeRefused(PeerError):
    """The two sides do not fit. Nothing is sent or applied on this link."""

    def __init__(self, field: str, detail: str) -> None:
        super().__init__("handshake", f"{field}: {detail}")
        self.field = field
        """As it is named on the wire."""


def agree(local: Capabilities, remote: Capabilities, required: frozenset[str] = frozenset()) -> Agreed:
    """What holds between two sides, or ``HandshakeRefused``. ``required``: features that this side must have."""
    for side in (local, remote):
        _check(side)
    _check_equal("codec", local.codec, remote.codec)
    _check_equal("ordered_reliable", local.ordered_reliable, remote.ordered_reliable)
    _check_equal("session_id", local.session, remote.session)
    features = frozenset(local.features) & frozenset(remote.features)
    missing = sorted(required - features)
    if missing:
        raise HandshakeRefused("features", f"these are needed, and one of the two lacks them: {', '.join(missing)}")
    return Agreed(
        local=local.peer,
        remote=remote.peer,
        session=local.session,
        codec=Codec(local.codec),
        frame_bytes_max=min(local.frame_bytes_max, remote.frame_bytes_max),
        fragmentation=local.fragmentation and remote.fragmentation,
        ordered_reliable=local.ordered_reliable,
        features=features,
    )


def _check(side: Capabilities) -> None:
    """What must hold of each side alone. Two sides that are wrong in the same way do not fit either."""
    if side.protocol_id != PROTOCOL_ID:
        raise HandshakeRefused("protocol_id", f"{PROTOCOL_ID!r} is spoken here, not {side.protocol_id[:80]!r}")
    if side.major_version != MAJOR_VERSION:
        detail = f"version {MAJOR_VERSION} is spoken here, not {side.major_version}"
        raise HandshakeRefused("protocol_major_version", detail)
    if side.codec not in set(Codec):
        raise HandshakeRefused("codec", f"{' and '.join(Codec)} are spoken here, not {side.codec[:80]!r}")
    if side.frame_bytes_max < 1:
        raise HandshakeRefused("max_frame_size", "a frame of no bytes says nothing")
    if not side.session:
        raise HandshakeRefused("session_id", "it names no session")


def _check_equal(field: str, local: str | bool, remote: str | bool) -> None:  # noqa: FBT001 -- the field's value
    if local != remote:
        raise HandshakeRefused(field, f"{str(local)[:80]!r} here and {str(remote)[:80]!r} there")
