"""What a session wants done. A step returns its effects in the order commit, send, notify.

A driver performs them in this order. ``Commit`` is answered by ``Committed`` once what was valid is durable. A run is
said to be finished only after that. What goes out in the same step was computed before the commit and does not depend
on it, so it need not wait.
"""

from enum import StrEnum
from typing import Final, TypeAlias

from msgspec import Struct

from bobbin.tangles.message import Message, MessageId
from bobbin.tangles.modern_frames import ModernFrame
from bobbin.tangles.phases import Frame
from bobbin.tangles.session_events import Refused

UNNEEDED: Final = "nothing that was taken needs it"
"""Why an account message is refused that is right in itself."""


class Commit(Struct, frozen=True, kw_only=True):
    """Validate these messages, one after the other, and store what is valid, in one transaction.

    One that is not valid does not stop those after it.
    """

    token: int
    """Comes back in ``Committed``."""
    tangle: MessageId
    messages: tuple[Message, ...]
    """Account messages first, then by depth."""
    newest: int | None = None
    """Where given: afterwards keep only the newest so many of the tangle, and what leads to them.

    The modern mode leaves that to the upkeep of the store, which goes by depth, as what is wanted does: letting go
    here by number would have the next run bring it again.
    """
    modern: bool = False
    """By the rules of the modern mode: what only a pzp peer would take is refused."""
    vouched: frozenset[MessageId] = frozenset()
    """Accounts that nothing needs but messages of this commit: where none of those is taken, nothing of them is."""


class Send(Struct, frozen=True):
    """Send a frame of the nine phases, or one of the modern mode to a peer that understands it."""

    frame: Frame | ModernFrame


class Role(StrEnum):
    """Which side of a run this is."""

    OPENER = "opener"
    ANSWERER = "answerer"


class Opened(Struct, frozen=True, kw_only=True):
    """A run on a tangle has begun."""

    tangle: MessageId
    role: Role


class Finished(Struct, frozen=True, kw_only=True):
    """A run is over, and what came in it is stored."""

    tangle: MessageId
    role: Role
    sent: int
    """How many messages went out."""
    added: tuple[MessageId, ...]
    """What came and was new."""
    refused: tuple[Refused, ...]
    received: int = 0
    """How many messages came, new or not: as many as the other side has sent."""
    missing: int = 0
    """How many messages the other side is known to have that were wanted and did not come. Modern mode only."""
    agreed: bool | None = None
    """Whether both sides have shown to hold the same.

    None where they differ and need not be the same, as one of them does not want everything, or where nothing is held;
    and in the nine phases, which cannot show it.
    """
    turns: int = 0
    """How often either side has spoken. Modern mode only."""


class Ignored(Struct, frozen=True, kw_only=True):
    """Something of the peer was dropped, and nothing changed by it."""

    tangle: MessageId | None
    reason: str
    """A code."""
    detail: str


class Announced(Struct, frozen=True, kw_only=True):
    """A message that came to be after a run went out, or came in, alone."""

    tangle: MessageId
    outwards: bool
    count: int


Notice: TypeAlias = Opened | Finished | Ignored | Announced


class Notify(Struct, frozen=True):
    """Tell whoever watches this session. Never the peer."""

    notice: Notice


Effect: TypeAlias = Commit | Send | Notify
