"""The JSON that published peers speak: one-key objects, bytes as arrays of numbers.

Each message has one text: no white space, fields in the order of ``canonical_shapes``, nothing written that is not
there. Any text of the same message is read alike. Where ``json-base64`` was agreed on, bytes are written as base64 and
read in both ways.
"""

from typing import Final

import msgspec

from bobbin.errors import UsageError
from bobbin.reactive.messages import U64_MAX, Message
from bobbin.wire.lazily import json_text, numbers
from bobbin.wire.lazily.canonical_model import Reader, shape_of
from bobbin.wire.lazily.canonical_shapes import AnyMessage
from bobbin.wire.lazily.faults import FRAME_BYTES_MAX, UNREADABLE, OversizedFrame, check_size, malformed

_decoder: Final = msgspec.json.Decoder(AnyMessage)
_encoder: Final = msgspec.json.Encoder()


def encode(
    message: Message, *, frame_bytes_max: int = FRAME_BYTES_MAX, id_max: int = U64_MAX, base64: bool = False
) -> bytes:
    """The text of a message. Raises ``UsageError`` where this form, or the peer, cannot take it."""
    numbers.check_sent(message, id_max)
    try:
        raw = _encoder.encode(shape_of(message, base64=base64))
    except UnicodeEncodeError as error:
        raise UsageError(f"a tag or a key is no text: {error}") from error
    if len(raw) > frame_bytes_max:
        raise OversizedFrame(len(raw), frame_bytes_max)
    return raw


def decode(raw: bytes, *, frame_bytes_max: int = FRAME_BYTES_MAX, base64: bool = False) -> Message:
    """The message of a text, or ``FrameFault``. ``base64``: whether ``json-base64`` was agreed on."""
    check_size(raw, frame_bytes_max)
    try:
        shape = _decoder.decode(raw)
    except UNREADABLE as error:
        raise malformed(error) from error
    reader = Reader(base64=base64)
    message = reader.message(shape)
    json_text.check(raw, message, reader.fields)
    return message
