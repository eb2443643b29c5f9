"""The binary form that published peers speak: the shapes of their JSON in MessagePack.

Objects are maps with the names of the JSON form as keys, and bytes are arrays of numbers: ``bin`` is refused, as
published peers do. The shortest encoding of each number is written, and any is read.
"""

from typing import Final

import msgspec

from bobbin.errors import UsageError
from bobbin.reactive.messages import U64_MAX, Message
from bobbin.wire.lazily import numbers
from bobbin.wire.lazily.canonical_model import Reader, shape_of
from bobbin.wire.lazily.canonical_shapes import AnyMessage
from bobbin.wire.lazily.faults import FRAME_BYTES_MAX, UNREADABLE, OversizedFrame, check_size, malformed

_decoder: Final = msgspec.msgpack.Decoder(AnyMessage)
_encoder: Final = msgspec.msgpack.Encoder()


def encode(message: Message, *, frame_bytes_max: int = FRAME_BYTES_MAX, id_max: int = U64_MAX) -> bytes:
    """The bytes of a message. Raises ``UsageError`` where this form, or the peer, cannot take it."""
    numbers.check_sent(message, id_max)
    try:
        raw = _encoder.encode(shape_of(message))
    except UnicodeEncodeError as error:
        raise UsageError(f"a tag or a key is no text: {error}") from error
    if len(raw) > frame_bytes_max:
        raise OversizedFrame(len(raw), frame_bytes_max)
    return raw


def decode(raw: bytes, *, frame_bytes_max: int = FRAME_BYTES_MAX) -> Message:
    """The message of a frame, or ``FrameFault``."""
    check_size(raw, frame_bytes_max)
    try:
        shape = _decoder.decode(raw)
    except UNREADABLE as error:
        raise malformed(error) from error
    message = Reader(base64=False).message(shape)
    numbers.check_received(message)
    return message
