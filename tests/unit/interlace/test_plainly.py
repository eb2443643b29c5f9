"""The way that every peer understands: listings and partitions, block by block."""

import pytest

from bobbin.interlace.choice import Strategy
from bobbin.interlace.learned import Learned
from bobbin.interlace.limits import Limits, Service
from bobbin.interlace.messages import Advertise
from bobbin.interlace.offers import Offers
from bobbin.interlace.plainly import Plainly
from bobbin.interlace.reasons import Abort, Reason
from bobbin.interlace.reconciliation import Plain, Standing
from tests.unit.interlace.dialogues import SOURCES, claim


def sides(ours: range, theirs: range, strategy: Strategy = Strategy.AUTO) -> list[tuple[Plainly, Offers, Learned]]:
    made = []
    for number, some in enumerate((ours, theirs)):
        offers, learned = Offers(2, SOURCES[number]), Learned(2, (), SOURCES[1 - number])
        offers.update(map(claim, some), ())
        made.append((Plainly(offers, learned, Limits(), Service(), strategy=strategy), offers, learned))
    return made


@pytest.mark.parametrize(
    ("strategy", "lists"),
    [(Strategy.AUTO, True), (Strategy.LISTING, True), (Strategy.PARTITIONS, False)],
)
def test_a_strategy_decides_between_listing_and_partitions(strategy: Strategy, *, lists: bool) -> None:
    (one, _, _), _ = sides(range(40), range(0), strategy)
    block = one.opening()
    assert bool(block.records) == lists
    assert bool(block.partitions) != lists


@pytest.mark.parametrize("strategy", [Strategy.LISTING, Strategy.PARTITIONS])
def test_both_know_at_the_end(strategy: Strategy) -> None:
    (one, our_offers, learned), (other, their_offers, _) = sides(range(60), range(30, 90), strategy)
    ours, theirs = one.opening(), other.opening()
    one.hear_opening(theirs)
    other.hear_opening(ours)
    while not one.is_over:
        assert not other.is_over
        ours, theirs = one.next_block(), other.next_block()
        one.hear(theirs)
        other.hear(ours)
    one.end_phase()
    other.end_phase()
    assert {claimed.record for claimed in learned.advertisements()} == set(their_offers.current())
    assert our_offers.current().keys() != their_offers.current().keys()
    assert one.account() == (strategy.value, None)
    one.check()
    ours, theirs = one.opening(), other.opening()
    one.hear_opening(theirs)
    assert one.account() == (None, None), "nothing new was told"


def test_parts_have_no_place_here() -> None:
    (one, _, _), _ = sides(range(4), range(4))
    one.opening()
    with pytest.raises(Abort) as abort:
        one.hear_opening(Advertise(part=Standing(count=0, root=bytes(32), held=bytes(16))))
    assert abort.value.reason is Reason.OUT_OF_PHASE
    with pytest.raises(Abort):
        one.hear(Advertise(part=Plain()))
