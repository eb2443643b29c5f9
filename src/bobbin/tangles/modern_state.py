"""Where a run of the modern mode stands.

=============  ====================================================================================
``ASKED``      the opener has asked and waits for the answer
``PARCELS``    an answer or a turn has come; the parcels that it announced have not, or are being stored
``WAITING``    it is the peer's turn
=============  ====================================================================================

A frame that does not fit is dropped and changes nothing. An ``Ask`` always begins the peer's run anew.
"""

from enum import StrEnum
from typing import TYPE_CHECKING, Final

from msgspec import Struct, field

from bobbin.tangles.message import MessageId
from bobbin.tangles.modern_accounts import EarlyAccounts
from bobbin.tangles.modern_frames import Answer, Mark, Part, Turn
from bobbin.tangles.modern_spans import Picture, Span
from bobbin.tangles.ranges import EMPTY, Range, Wish
from bobbin.tangles.session_effects import Role

if TYPE_CHECKING:
    from bobbin.reconcile import Decoder, Encoder
    from bobbin.tangles.session_events import Refused


class Step(StrEnum):
    """What a run waits for."""

    ASKED = "asked"
    PARCELS = "parcels"
    WAITING = "waiting"


class Reply(Struct):
    """What one side is about to say."""

    parts: list[Part] = field(default_factory=list)
    wants: list[int] = field(default_factory=list)
    lacking: dict[MessageId, None] = field(default_factory=dict)
    """What goes out."""
    names_ghosts: bool = False

    @property
    def is_empty(self) -> bool:
        return not (self.parts or self.wants or self.lacking)


class ModernRun:
    """One run on one tangle, as one side sees it."""

    def __init__(self, role: Role, number: int, nonce: bytes, *, attempt: int = 0) -> None:
        self.role: Final = role
        self.number: Final = number
        self.nonce: Final = nonce
        self.attempt: Final = attempt
        self.owes_accounts = False
        """The peer should have account messages that it does not have: all of the tangle go along, once."""
        self.step = Step.ASKED
        self.key = b""
        """Of both nonces; empty before both are known."""
        self.own_have: Range = EMPTY
        self.remote_have: Range = EMPTY
        self.own_wish: Wish = None
        self.remote_wish: Wish = None
        self.own_want: Range = EMPTY
        self.remote_want: Range = EMPTY
        self.marks: tuple[Mark, ...] = ()
        """The opener's."""
        self.floor = 0
        self.spans: tuple[Span, ...] = ()
        self.pictures: dict[int, Picture] = {}
        """The own items of spans, as they were when the span was first looked at."""
        self.encoders: dict[int, Encoder] = {}
        self.decoders: dict[int, Decoder] = {}
        self.more: dict[int, int] = {}
        """How often more symbols were asked for, by span."""
        self.resolved: set[int] = set()
        """The spans of which this side has learnt both sets."""
        self.lacking: set[MessageId] = set()
        """What the peer is known to lack, or to have lacked before this side sent it."""
        self.shared_accounts: set[MessageId] = set()
        """Account messages that one side has sent to the other in this run."""
        self.early: Final = EarlyAccounts()
        """Account messages that have come, and that nothing is known to need yet."""
        self.held_back: dict[MessageId, None] = {}
        """What will go out when no span is open any more."""
        self.remote_ghosts: set[int] = set()
        self.wanted: set[int] = set()
        """Short ids of all that this side lacked and wanted."""
        self.frame: Answer | Turn | None = None
        """What is to be acted on when all its parcels are stored."""
        self.parcels_left = 0
        self.uncommitted: set[int] = set()
        self.said_done = False
        self.turns = 0
        self.sent = 0
        self.received = 0
        self.added: list[MessageId] = []
        self.refused: list[Refused] = []

    def wants_own(self, span: Span) -> bool:
        """Whether this side wants what stands in a span."""
        return span.opener_wants if self.role is Role.OPENER else span.answerer_wants

    def wants_remote(self, span: Span) -> bool:
        """Whether the peer wants what stands in a span."""
        return span.answerer_wants if self.role is Role.OPENER else span.opener_wants

    def is_told(self, number: int) -> bool:
        """Whether this side knows what the peer lacks of a span: it has found out, or the peer asks for all that."""
        return number in self.resolved or self.wants_remote(self.spans[number])

    def check(self) -> None:
        """Assert what always holds."""
        assert (self.frame is not None) == (self.step is Step.PARCELS)
        assert self.step is Step.PARCELS or not (self.parcels_left or self.uncommitted)
        assert self.step is not Step.ASKED or self.role is Role.OPENER
        assert all(0 <= number < len(self.spans) for number in self.pictures)
        assert self.resolved <= self.pictures.keys()
        assert all(low.high < high.low for low, high in zip(self.spans, self.spans[1:], strict=False))
