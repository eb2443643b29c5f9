"""Reconciling in the way of Lace-050 alone: listings, summaries of partitions, and questions about them.

This is what every peer understands. It is also what is left where a sketch was of no use (``dialogue``).
"""

from typing import Final, Protocol

from msgspec import structs

from bobbin.interlace.choice import Strategy
from bobbin.interlace.learned import Learned
from bobbin.interlace.limits import Limits, Service
from bobbin.interlace.messages import Advertise
from bobbin.interlace.offers import Offers, Questions
from bobbin.interlace.reasons import Abort, Reason

DIRECT: Final = "direct"
"""How a side found out what a peer in the same process offers: it read the peer's own advertisements."""


class Reconciling(Protocol):
    """How the advertise phases of one epoch go: block by block, both sides in step."""

    def opening(self) -> Advertise:
        """The first block of a phase, without tick."""
        ...

    def hear_opening(self, block: Advertise) -> None:
        """The peer's first block. Ours is out."""
        ...

    def hear(self, block: Advertise) -> None:
        """The peer's next block. Ours of the same number is out."""
        ...

    @property
    def is_over(self) -> bool:
        """Whether the blocks that were said and heard last end the phase. Both sides find the same."""
        ...

    def next_block(self) -> Advertise:
        """The next block, without tick."""
        ...

    def end_phase(self) -> None:
        """The phase is over: what is held now was proven, or the exchange ends."""
        ...

    def account(self) -> tuple[str | None, str | None]:
        """How the last phase went: the strategy, and why it was given up for the plain way."""
        ...

    def check(self) -> None:
        """Assert what always holds."""
        ...


class Plainly:
    """Listings and partitions."""

    def __init__(
        self,
        offers: Offers,
        learned: Learned,
        limits: Limits,
        service: Service,
        *,
        direct: bool = False,
        strategy: Strategy = Strategy.AUTO,
    ) -> None:
        self._offers: Final = offers
        self._learned: Final = learned
        self._limits: Final = limits
        self._service: Final = service
        self._direct: Final = direct
        self._strategy: Final = strategy
        self._said = Advertise()
        self._heard = Advertise()
        self._way: str | None = None

    def opening(self) -> Advertise:
        """What is offered, or what has changed of it."""
        block = self._offers.opening(self._limits, self._service, direct=self._direct, strategy=self._strategy)
        self._said = block
        self._way = None
        return block

    def hear_opening(self, block: Advertise) -> None:
        """What the peer offers, or what has changed of it."""
        self._take(block)
        self._learned.open(block, self._limits, self._offers.under)

    def hear(self, block: Advertise) -> None:
        """Answers, and questions."""
        self._take(block)
        self._learned.hear(block, self._limits)

    @property
    def is_over(self) -> bool:
        """Whether neither side has summarised or asked anything."""
        return not (_calls_for_more(self._said) or _calls_for_more(self._heard))

    def next_block(self) -> Advertise:
        """Answer the peer's questions, and ask ours."""
        heard = self._heard
        answer = self._offers.answer(Questions(lists=heard.lists, narrows=heard.narrows), self._limits)
        questions = self._learned.ask(self._limits, self._service)
        self._said = structs.replace(answer, lists=questions.lists, narrows=questions.narrows)
        return self._said

    def end_phase(self) -> None:
        """Whatever was announced must now be what is held."""
        self._learned.end_phase()

    def account(self) -> tuple[str | None, str | None]:
        """How the peer told what it offers; nothing where it had nothing new to tell."""
        return self._way, None

    def check(self) -> None:
        """Nothing is kept here but the last blocks."""

    def _take(self, block: Advertise) -> None:
        if block.part is not None:
            raise Abort(Reason.OUT_OF_PHASE, f"{type(block.part).__name__} came where no sketches were agreed on")
        self._heard = block
        if block.direct is not None:
            self._way = DIRECT
        elif block.partitions:
            self._way = Strategy.PARTITIONS.value
        elif block.records and self._way is None:
            self._way = Strategy.LISTING.value


def _calls_for_more(block: Advertise) -> bool:
    """Whether a block must be followed by another: summaries may raise questions, and questions want answers."""
    return bool(block.partitions or block.lists or block.narrows)
