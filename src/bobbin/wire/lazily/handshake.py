"""The handshake on the wire: one JSON object of exactly nine fields, whatever codec the link has afterwards."""

from typing import Final

import msgspec
from msgspec import Struct

from bobbin.errors import UsageError
from bobbin.reactive.handshake import Capabilities
from bobbin.reactive.messages import U64_MAX, PeerId
from bobbin.wire.lazily import json_text
from bobbin.wire.lazily.faults import UNREADABLE, Fault, FrameFault, OversizedFrame, check_size, malformed

HANDSHAKE_BYTES_MAX: Final = 16 * 1024
"""Whoever has not shaken hands is not to be waited for at length."""


class _Handshake(Struct, forbid_unknown_fields=True):
    protocol_id: str
    protocol_major_version: int
    codec: str
    max_frame_size: int
    fragmentation_supported: bool
    ordered_reliable: bool
    peer_id: int
    session_id: str
    features: tuple[str, ...]


_decoder: Final = msgspec.json.Decoder(_Handshake)


def encode(capabilities: Capabilities) -> bytes:
    """The text of what this side says."""
    try:
        raw = msgspec.json.encode(
            _Handshake(
                capabilities.protocol_id,
                capabilities.major_version,
                str(capabilities.codec),
                capabilities.frame_bytes_max,
                capabilities.fragmentation,
                capabilities.ordered_reliable,
                capabilities.peer,
                capabilities.session,
                tuple([str(feature) for feature in capabilities.features]),
            )
        )
    except UnicodeEncodeError as error:
        raise UsageError(f"the name of the session or a feature is no text: {error}") from error
    if len(raw) > HANDSHAKE_BYTES_MAX:
        raise OversizedFrame(len(raw), HANDSHAKE_BYTES_MAX)
    return raw


def decode(raw: bytes) -> Capabilities:
    """What the other side says, or ``FrameFault``. Whether it fits is for ``agree`` to say."""
    check_size(raw, HANDSHAKE_BYTES_MAX)
    try:
        said = _decoder.decode(raw)
    except UNREADABLE as error:
        raise malformed(error) from error
    json_text.check_fields(raw)
    for number in (said.protocol_major_version, said.max_frame_size, said.peer_id):
        if not 0 <= number <= U64_MAX:
            raise FrameFault(Fault.OUT_OF_RANGE, f"versions, sizes and ids lie between 0 and 2^64 - 1, not at {number}")
    return Capabilities(
        peer=PeerId(said.peer_id),
        session=said.session_id,
        codec=said.codec,
        frame_bytes_max=said.max_frame_size,
        fragmentation=said.fragmentation_supported,
        ordered_reliable=said.ordered_reliable,
        features=said.features,
        protocol_id=said.protocol_id,
        major_version=said.protocol_major_version,
    )
