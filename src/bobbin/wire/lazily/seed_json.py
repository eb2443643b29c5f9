"""The JSON of the seed: ``type`` and ``op`` name what a message is, and bytes are base64 texts.

Each message has one text: no white space, fields in the order of ``seed_shapes``. Any text of the same message is read
alike. In base64 the padding is written and asked for; bits that the last symbol has too many are ignored.
"""

from typing import Final

import msgspec

from bobbin.errors import UsageError
from bobbin.reactive.messages import U64_MAX, Message
from bobbin.wire.lazily import json_text, numbers
from bobbin.wire.lazily.faults import FRAME_BYTES_MAX, UNREADABLE, OversizedFrame, check_size, malformed
from bobbin.wire.lazily.seed_model import Reader, shape_of
from bobbin.wire.lazily.seed_shapes import SeedMessage, SeedPayload

_decoder: Final = msgspec.json.Decoder[SeedMessage](SeedMessage)
_payload_decoder: Final = msgspec.json.Decoder(SeedPayload)
_encoder: Final = msgspec.json.Encoder()


def encode(message: Message, *, frame_bytes_max: int = FRAME_BYTES_MAX, id_max: int = U64_MAX) -> bytes:
    """The text of a message. Raises ``UsageError`` where this form, or the peer, cannot take it."""
    numbers.check_sent(message, id_max)
    try:
        raw = _encoder.encode(shape_of(message))
    except UnicodeEncodeError as error:
        raise UsageError(f"a tag or a key is no text: {error}") from error
    if len(raw) > frame_bytes_max:
        raise OversizedFrame(len(raw), frame_bytes_max)
    return raw


def decode(raw: bytes, *, frame_bytes_max: int = FRAME_BYTES_MAX) -> Message:
    """The message of a text, or ``FrameFault``."""
    check_size(raw, frame_bytes_max)
    try:
        shape = _decoder.decode(raw)
    except UNREADABLE as error:
        raise malformed(error) from error
    reader = Reader()
    message = reader.message(shape)
    json_text.check(raw, message, reader.fields)
    return message


def encode_payload(tag: str, value: bytes) -> bytes:
    """``IpcPayload``: a value by itself, with its tag."""
    return _encoder.encode(SeedPayload(tag, value))


def decode_payload(raw: bytes, *, frame_bytes_max: int = FRAME_BYTES_MAX) -> tuple[str, bytes]:
    """The tag and the bytes of an ``IpcPayload``, or ``FrameFault``."""
    check_size(raw, frame_bytes_max)
    try:
        payload = _payload_decoder.decode(raw)
    except UNREADABLE as error:
        raise malformed(error) from error
    json_text.check_fields(raw)
    return payload.type_tag, payload.bytes
