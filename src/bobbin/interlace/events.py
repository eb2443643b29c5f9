"""What can happen to a machine. Everything that it learns comes in through one of these, or is asked of a port."""

from enum import StrEnum
from typing import TypeAlias

from msgspec import Struct

from bobbin.interlace.messages import Message
from bobbin.interlace.reasons import Reason
from bobbin.policy.modules import Selector


class Now(Struct, frozen=True, kw_only=True):
    """The time of a step: the wall clock as TAI nanoseconds, which may jump, and a clock that only goes forward."""

    tai_ns: int
    monotonic_ns: int


class Started(Struct, frozen=True):
    """The link is up, and whatever proof the peer gave has been checked by the binding."""


class Received(Struct, frozen=True):
    """The peer's next message."""

    message: Message


class Undecodable(Struct, frozen=True):
    """What the peer sent is no message."""

    reason: Reason
    detail: str


class Unsendable(Struct, frozen=True, kw_only=True):
    """What was to be sent does not go through: it would exceed a limit of the link."""

    reason: Reason
    detail: str
    limit: str | None = None


class Fate(StrEnum):
    """What became of received bytes."""

    STORED = "stored"
    DUPLICATE = "duplicate"
    """Valid, and somebody else stored it in the meantime."""
    REFUSED = "refused"
    """Valid, and removed on purpose in the meantime."""
    REJECTED = "rejected"
    """Not the record that was asked for, or no valid record at all."""


class Settled(Struct, frozen=True, kw_only=True, gc=False):
    """What became of one response."""

    record: str
    """The hash text that was requested."""
    fate: Fate
    reason: str = ""
    """Why it was rejected: a reason code."""


class Persisted(Struct, frozen=True):
    """A ``Persist`` effect is done: what was valid is durable. One answer per arrival, in order."""

    settled: tuple[Settled, ...]


class PersistFailed(Struct, frozen=True):
    """A ``Persist`` effect failed. Nothing of it is stored, and nothing more can be."""

    detail: str
    may_pass: bool = False
    """Whether it may pass by itself, as where another process holds the store or no majority of its nodes answers."""


class Flushed(Struct, frozen=True):
    """The binding has room again after a part of a transfer."""


class StoreChanged(Struct, frozen=True):
    """Records came into the store, or left it, by whoever's doing."""


class Fired(Struct, frozen=True):
    """A timer that was set by ``WakeAt``. A late one, whose token is no longer current, is dropped."""

    token: int


class OperandChanged(Struct, frozen=True):
    """This side has a new selector. Only an open exchange takes it."""

    selector: Selector


class Cancelled(Struct, frozen=True):
    """This side wants to end."""


class LinkClosed(Struct, frozen=True):
    """The peer closed the link, or it broke."""


Event: TypeAlias = (
    Started
    | Received
    | Undecodable
    | Unsendable
    | Persisted
    | PersistFailed
    | Flushed
    | StoreChanged
    | Fired
    | OperandChanged
    | Cancelled
    | LinkClosed
)
