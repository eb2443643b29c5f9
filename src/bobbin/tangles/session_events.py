"""What can happen to a session. Everything that it learns comes in through one of these, or is asked of the library."""

from typing import TypeAlias

from msgspec import Struct

from bobbin.tangles.errors import Rule
from bobbin.tangles.message import MessageId
from bobbin.tangles.modern_frames import ModernFrame
from bobbin.tangles.phases import Frame


class OpenRuns(Struct, frozen=True):
    """Begin a run on each of these tangles: at the start on the dialling side, or where a goal was set later."""

    tangles: tuple[MessageId, ...]
    anew: bool = False
    """Also where a run that this side has opened is still under way: the peer may have given it up.

    In the nine phases it begins once the peer has answered the opening before it, if that is still to come.
    """


class Received(Struct, frozen=True):
    """The peer's next frame."""

    frame: Frame | ModernFrame


class Undecodable(Struct, frozen=True):
    """What the peer sent is no frame. The stream goes on."""

    reason: str
    """A code."""
    detail: str


class Refused(Struct, frozen=True, gc=False):
    """A message that was not stored, and why."""

    message: MessageId
    rule: Rule | None
    """The rule that it breaks; None where it was never asked for."""
    detail: str = ""


class Committed(Struct, frozen=True, kw_only=True):
    """A ``Commit`` is done: what was valid is durable."""

    token: int
    added: tuple[MessageId, ...] = ()
    """What is new: a message that was not held, or data for one that was erased."""
    refused: tuple[Refused, ...] = ()


class Added(Struct, frozen=True):
    """Messages came into the store, by whoever's doing, those of a ``Commit`` of this session included."""

    messages: tuple[MessageId, ...]


Event: TypeAlias = OpenRuns | Received | Undecodable | Committed | Added
