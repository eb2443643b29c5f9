"""Which form a frame is in, told from the frame itself.

==============  ==============================================
form            how it is known
==============  ==============================================
seed JSON       an object with a field ``type``
canonical JSON  an object whose one key begins with a capital
MessagePack     a map, by its first byte
==============  ==============================================
"""

from enum import IntEnum, StrEnum, unique
from typing import Final, assert_never

import msgspec
from msgspec import Raw

from bobbin.reactive.messages import CrdtSync, Delta, Message, OutboxAck, ResyncRequest, Snapshot
from bobbin.wire.lazily.faults import FRAME_BYTES_MAX, UNREADABLE, Fault, FrameFault, check_size, malformed

_MAPS: Final = frozenset({*range(0x80, 0x90), 0xDE, 0xDF})
"""First bytes of a map in MessagePack. No JSON begins with one of them."""
_fields: Final = msgspec.json.Decoder(dict[str, Raw])


@unique
class Form(StrEnum):
    """How a message is written."""

    SEED_JSON = "seed-json"
    CANONICAL_JSON = "canonical-json"
    MESSAGE_PACK = "message-pack"


@unique
class MessageKind(IntEnum):
    """The numbers of messages at the boundary to other languages. What is no message is ``UNKNOWN``."""

    UNKNOWN = 0
    SNAPSHOT = 1
    DELTA = 2
    CRDT_SYNC = 3
    RESYNC_REQUEST = 4
    OUTBOX_ACK = 5


def detect(raw: bytes, *, frame_bytes_max: int = FRAME_BYTES_MAX) -> Form:
    """The form of a frame, or ``FrameFault``. Whether it is a message is for the form's decoder to say."""
    check_size(raw, frame_bytes_max)
    if raw and raw[0] in _MAPS:
        return Form.MESSAGE_PACK
    try:
        names = _fields.decode(raw)
    except UNREADABLE as error:
        raise malformed(error) from error
    if "type" in names:
        return Form.SEED_JSON
    if len(names) == 1 and next(iter(names))[:1].isupper():
        return Form.CANONICAL_JSON
    raise FrameFault(Fault.WRONG_FORM, "an object that is a message in none of the forms")


def kind_of(message: Message) -> MessageKind:
    """The number of a message."""
    match message:
        case Snapshot():
            return MessageKind.SNAPSHOT
        case Delta():
            return MessageKind.DELTA
        case CrdtSync():
            return MessageKind.CRDT_SYNC
        case ResyncRequest():
            return MessageKind.RESYNC_REQUEST
        case OutboxAck():
            return MessageKind.OUTBOX_ACK
        case _:
            assert_never(message)
