"""What a machine wants done. A step returns its effects in the order persist, send, notify, wake, close.

A driver performs them in this order. ``Persist`` is answered by a ``Persisted`` event once what was valid is durable;
until then the machine says nothing that depends on it. ``SaveCursor`` must be durable no earlier than the records that
were received before it: a cursor may be old, never ahead.
"""

from typing import TypeAlias

from msgspec import Struct

from bobbin.interlace.cursor import Cursor
from bobbin.interlace.messages import Delivered, Message
from bobbin.interlace.ports import Memory
from bobbin.interlace.result import Result


class Persist(Struct, frozen=True):
    """Validate these bytes, each as the record whose hash text it came under, and store what is valid."""

    arrivals: tuple[Delivered, ...]


class SaveCursor(Struct, frozen=True):
    """Remember what the peer advertises, for the next exchange on this link."""

    cursor: Cursor


class Remember(Struct, frozen=True, kw_only=True):
    """Keep what this link knows, in this process, for the next exchange under the same key, policy and schema."""

    key: str
    memory: Memory


class Send(Struct, frozen=True):
    """Send a message. After a part of a transfer that is not the last, answer with ``Flushed`` when there is room."""

    message: Message


class Negotiated(Struct, frozen=True, kw_only=True):
    """A plan is agreed; a new epoch begins."""

    plan: str
    link: str | None
    """The verifier-bound name of the link; None when a side has proven nothing."""
    start_tai: str


class Looped(Struct, frozen=True, kw_only=True):
    """A loop iteration is over."""

    iteration: int
    advertised: int
    claimed: int
    received: int
    sent: int
    deferred: int


class Arrived(Struct, frozen=True):
    """Records that were requested are validated and stored."""

    records: tuple[str, ...]


class TickIgnored(Struct, frozen=True):
    """The peer's ``TickReady`` was not valid; nothing changed."""

    tick: str
    why: str


class FixedPoint(Struct, frozen=True):
    """Neither side can have anything more from the other. A bounded exchange is over, an open one waits."""

    result: Result


class Ended(Struct, frozen=True):
    """The exchange is over. Comes exactly once, last."""

    result: Result


Notice: TypeAlias = Negotiated | Looped | Arrived | TickIgnored | FixedPoint | Ended


class Notify(Struct, frozen=True):
    """Tell whoever watches this exchange. Never the peer."""

    notice: Notice


class WakeAt(Struct, frozen=True, kw_only=True):
    """Send ``Fired(token)`` when the forward clock reaches this. A later one replaces it."""

    monotonic_ns: int
    token: int


class Close(Struct, frozen=True):
    """Close the link."""


Effect: TypeAlias = Persist | SaveCursor | Remember | Send | Notify | WakeAt | Close
