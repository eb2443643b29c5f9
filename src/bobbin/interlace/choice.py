"""Which way two sides find out what differs between their advertisements: one function, of counts and an estimate.

Every way has a price in bytes, reckoned for both directions together. The cheapest that fits within the limits is
taken. What is wished for comes before what is cheap. Whoever can choose compresses its blocks (``wire.compressed``), so
all prices are of compressed ones.

==============  =======================================================================================================
``ranges``      the short ids of the youngest stretch in which the sides differ; cheap where changes are recent
``sketch``      symbols in proportion to the difference, however large the sets are
``partitions``  a summary of each partition, and listings of those that differ (Lace-050)
``listing``     everything; cheapest where the sets have little in common (Lace-050)
==============  =======================================================================================================

The first decision needs nothing but the two counts (``begins_plainly``): no estimate can make the difference smaller
than that of the counts. The second one (``choose``) is made by whoever answers, with the estimate before it. Both
sides follow what it says, so only one of them has to compute it.
"""

from enum import StrEnum
from math import exp, isqrt
from typing import Final

from msgspec import Struct

from bobbin.errors import UsageError
from bobbin.reconcile.symbols import SYMBOL_BYTES


class Strategy(StrEnum):
    """How advertisements are reconciled, as a side wishes it."""

    AUTO = "auto"
    SKETCH = "sketch"
    RANGES = "ranges"
    PARTITIONS = "partitions"
    LISTING = "listing"

    @property
    def is_negotiated(self) -> bool:
        """Whether it needs a peer that knows more than the protocol page asks for."""
        return self in (Strategy.AUTO, Strategy.SKETCH, Strategy.RANGES)


def parse_strategy(text: str) -> Strategy:
    """The strategy of a name."""
    try:
        return Strategy(text)
    except ValueError as error:
        raise UsageError(f"{text[:80]!r} is no strategy; there are {', '.join(Strategy)}") from error


ROUND_BYTES: Final = 4_096
"""What one more turn of both sides is worth."""
RECORD_BYTES: Final = 56
"""About what one advertisement record takes in a listing: 32 bytes of its name, and its fields."""
SUMMARY_BYTES: Final = 40
"""Nearly all of it is the root."""
PROBE_BYTES: Final = 700
ID_BYTES: Final = 8
_PARTITIONS: Final = 4_096
"""Of the standard length of prefixes."""
_CHILDREN: Final = 64
_LISTED_AT_ONCE: Final = 64
"""A partition of so many records is listed, a larger one is narrowed first."""


class Situation(Struct, frozen=True, kw_only=True):
    """What is known when the way is chosen."""

    own: int
    """How many claims this side has."""
    peer: int
    difference: int
    """About how many claims only one side has."""
    recent: int | None = None
    """How many ids would have to be told so that everything older is known to be equal; None if nothing is."""
    symbols_max: int
    """How many symbols may be told."""
    ids_max: int
    """How many ids may be told."""
    records_max: int
    """How many advertisement records one block has room for."""


def agreed(initiator: Strategy, responder: Strategy) -> Strategy:
    """The wish that counts: that of whoever opened the link, if it has one."""
    return responder if initiator is Strategy.AUTO else initiator


def begins_plainly(one: int, other: int, wish: Strategy) -> bool:
    """Whether listing or partitions are cheapest whatever an estimate would say. The same for both sides."""
    if wish is not Strategy.AUTO:
        return not wish.is_negotiated
    least = abs(one - other)
    # A probe, an answer and the word that it was understood: three turns more than a listing.
    return price_of_listing(one, other) <= price_of_sketch(least) + PROBE_BYTES + 3 * ROUND_BYTES


def choose(situation: Situation, wish: Strategy) -> Strategy:
    """The way to go: ``ranges``, ``sketch``, ``partitions`` or ``listing``."""
    possible = {way: price for way, price in prices(situation).items() if price is not None}
    if wish in possible:
        return wish
    return min(possible, key=lambda way: possible[way])


def plain_way(chosen: Strategy, count: int, records_max: int, *, is_held: bool) -> Strategy:
    """How a side of ``count`` records tells plainly what it offers, where ``chosen`` was chosen for both.

    A listing must fit into one block. It is of no use to a peer that holds most of it already, which summaries show.
    """
    if chosen is Strategy.LISTING and (is_held or count > records_max):
        return Strategy.AUTO
    return chosen if chosen in (Strategy.LISTING, Strategy.PARTITIONS) else Strategy.AUTO


def prices(situation: Situation) -> dict[Strategy, int | None]:
    """What each way costs in bytes; None for one that is not possible here. Listing always is."""
    own, peer, difference = situation.own, situation.peer, situation.difference
    fits = difference <= situation.records_max and difference <= situation.ids_max
    symbols, recent = symbols_for(difference), situation.recent
    return {
        Strategy.RANGES: (
            price_of_ranges(recent, difference) if recent is not None and fits and recent <= situation.ids_max else None
        ),
        Strategy.SKETCH: price_of_sketch(difference) if fits and symbols <= situation.symbols_max else None,
        Strategy.PARTITIONS: price_of_partitions(own, peer, difference),
        Strategy.LISTING: price_of_listing(own, peer) if max(own, peer) <= situation.records_max else None,
    }


def symbols_for(difference: int) -> int:
    """How many symbols to tell for an estimated difference.

    A difference needs 1.4 to 1.8 symbols for each of its claims, and the estimate is off by an eighth.
    """
    return 6 + (175 * difference) // 100 + 3 * isqrt(difference)


def price_of_sketch(difference: int) -> int:
    """The symbols, the ids that one side lacks, and the records of either."""
    return _text(SYMBOL_BYTES * symbols_for(difference)) + _found(difference)


def price_of_ranges(recent: int, difference: int) -> int:
    """The ids of a stretch, those that one side lacks, and the records of either."""
    return _text(ID_BYTES * recent) + _found(difference)


def price_of_partitions(own: int, peer: int, difference: int) -> int:
    """A summary of every partition, and a listing of those that differ, in both directions."""
    return sum(_price_of_side(count, difference) for count in (own, peer))


def price_of_listing(own: int, peer: int) -> int:
    """Every record of both sides."""
    return RECORD_BYTES * (own + peer)


def _price_of_side(count: int, difference: int) -> int:
    if not count:
        return 0
    partitions = min(_PARTITIONS, count)
    differing = partitions * (1 - exp(-difference / partitions))
    size = count / partitions
    listed = size
    narrowed = 0.0
    while listed > _LISTED_AT_ONCE:
        narrowed += _CHILDREN
        listed /= _CHILDREN
    each = narrowed * SUMMARY_BYTES + max(1.0, listed) * RECORD_BYTES
    return int(partitions * SUMMARY_BYTES + min(differing * each, count * RECORD_BYTES))


def _found(difference: int) -> int:
    return _text(ID_BYTES * difference) // 2 + RECORD_BYTES * difference


def _text(size: int) -> int:
    """Bytes as B64A: deflate takes back nearly all of the third that it adds."""
    return size + size // 32
