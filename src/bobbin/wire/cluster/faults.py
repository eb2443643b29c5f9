"""Why a message of a cluster was refused: one code for each rule, with the field and the reason.

Nothing of a refused message is kept. Codes go into counters and logs; the reason is for people, and is cut, for it may
quote what a stranger sent.
"""

from enum import StrEnum, unique
from typing import Final

from msgspec import MsgspecError

from bobbin.errors import PeerError

REASON_CHARACTERS_MAX: Final = 200

UNREADABLE: Final = (MsgspecError, UnicodeDecodeError, RecursionError)
"""Everything that the decoders raise for bytes they do not accept."""


@unique
class Refusal(StrEnum):
    """Which rule was broken, in the order in which they are looked at."""

    OVERSIZED = "oversized"
    """Longer than a frame, an envelope or a payload of its type may be; known before it is read."""
    TRUNCATED = "truncated"
    MALFORMED = "malformed"
    """Not of the layout of a frame or an envelope."""
    VERSION = "version"
    WRONG_CLUSTER = "wrong-cluster"
    WRONG_DESTINATION = "wrong-destination"
    """For another node, or for an earlier life of this one."""
    UNSIGNED = "unsigned"
    STRANGER = "stranger"
    """No key of this sender is registered."""
    INVALID_KEY = "invalid-key"
    WRONG_SENDER = "wrong-sender"
    """The sender is not the holder of the key, of the link, or is this node itself."""
    INVALID_SIGNATURE = "invalid-signature"
    FUTURE = "future"
    STALE = "stale"
    OLD_BOOT = "old-boot"
    """Of a life of the sender that ended before one that has been heard of."""
    REPLAYED = "replayed"
    BELOW_WINDOW = "below-window"
    """So far behind the newest that nobody can say whether it came before."""
    TOO_MANY_SENDERS = "too-many-senders"
    NODE_ID = "node-id"
    UNKNOWN_TYPE = "unknown-type"
    UNREADABLE = "unreadable"
    """The payload is not a message of its type."""
    SENDER_FIELD = "sender-field"
    """The message names another sender than the one that is proven."""
    TERM = "term"
    EMBEDDING = "embedding"
    NUMBER = "number"
    """An index, a counter or a time out of range."""
    ENTRIES = "entries"
    CONFIGURATION = "configuration"
    SNAPSHOT = "snapshot"
    STATES = "states"
    KEY = "key"
    COMMAND = "command"
    SHARD = "shard"
    TIMEOUT = "timeout"
    QUERY = "query"


class MessageRefused(PeerError):
    """A message was refused. Nothing of it was kept, and nothing has changed."""

    def __init__(self, refusal: Refusal, reason: str, *, field: str = "") -> None:
        reason = reason[:REASON_CHARACTERS_MAX]
        super().__init__(refusal.value, f"{field}: {reason}" if field else reason)
        self.refusal: Final = refusal
        self.field: Final = field
        """Which part of the message, ``entries[3].payload``; empty where it is the whole."""
        self.reason: Final = reason


def unreadable(error: Exception) -> MessageRefused:
    """The refusal for something of ``UNREADABLE``."""
    return MessageRefused(Refusal.UNREADABLE, str(error) or type(error).__name__)
