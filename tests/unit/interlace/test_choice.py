"""The choice of a way: cheapest within the limits, unless somebody wishes otherwise."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bobbin.errors import UsageError
from bobbin.interlace import choice
from bobbin.interlace.choice import (
    Situation,
    Strategy,
    agreed,
    begins_plainly,
    choose,
    parse_strategy,
    plain_way,
    prices,
)

MILLION = 1_000_000
COUNTS = st.integers(0, 4 * MILLION)


def situation(own: int, peer: int, difference: int, recent: int | None = None, **bounds: int) -> Situation:
    """One with room for everything, but for the bounds that are given."""
    room = {"symbols_max": 262_144, "ids_max": 262_144, "records_max": 262_144, **bounds}
    return Situation(own=own, peer=peer, difference=difference, recent=recent, **room)


@pytest.mark.parametrize(
    ("case", "way"),
    [
        (situation(MILLION, MILLION, 1_000), Strategy.SKETCH),
        (situation(MILLION, MILLION, 10), Strategy.SKETCH),
        (situation(MILLION, MILLION, 1_000, recent=1_100), Strategy.RANGES),
        (situation(MILLION, MILLION, 10, recent=200), Strategy.SKETCH),
        (situation(MILLION, MILLION, 10, recent=12), Strategy.RANGES),
        (situation(MILLION, MILLION, MILLION), Strategy.PARTITIONS),
        (situation(200_000, 200_000, 200_000), Strategy.LISTING),
        (situation(100, 100, 200), Strategy.LISTING),
        (situation(300_000, 1_000, 299_000), Strategy.PARTITIONS),
    ],
)
def test_the_cheapest_way_is_taken(case: Situation, way: Strategy) -> None:
    assert choose(case, Strategy.AUTO) is way


def test_every_way_is_reckoned_as_it_goes_out_compressed() -> None:
    """A listing of a thousand and a thousand records takes 112 to 126 kB, a sketch of 1,600 differences 131 kB."""
    case = situation(1_000, 1_000, 2_000)
    assert choose(case, Strategy.AUTO) is Strategy.LISTING
    price = prices(situation(1_000, 1_000, 1_600))
    assert choose(situation(1_000, 1_000, 1_600), Strategy.AUTO) is Strategy.LISTING
    assert 100_000 < (price[Strategy.LISTING] or 0) < 130_000
    assert 115_000 < (price[Strategy.SKETCH] or 0) < 135_000
    assert choose(situation(1_000, 1_000, 1_200), Strategy.AUTO) is Strategy.SKETCH


def test_how_a_side_tells_plainly() -> None:
    listing, partitions, auto = Strategy.LISTING, Strategy.PARTITIONS, Strategy.AUTO
    assert plain_way(listing, 500, 500, is_held=False) is listing
    assert plain_way(listing, 501, 500, is_held=False) is auto, "there is no room"
    assert plain_way(listing, 500, 500, is_held=True) is auto, "the peer holds most of it"
    assert plain_way(partitions, 5, 500, is_held=False) is partitions
    assert plain_way(Strategy.SKETCH, 5, 500, is_held=False) is auto


def test_a_wish_comes_before_the_price() -> None:
    case = situation(MILLION, MILLION, 1_000, recent=50_000)
    assert choose(case, Strategy.AUTO) is Strategy.SKETCH
    assert choose(case, Strategy.RANGES) is Strategy.RANGES
    assert choose(situation(MILLION, MILLION, 1_000), Strategy.RANGES) is Strategy.SKETCH, "there is no stretch"


@pytest.mark.parametrize("bound", ["symbols_max", "ids_max", "records_max"])
def test_what_does_not_fit_is_not_taken(bound: str) -> None:
    case = situation(MILLION, MILLION, 1_000, recent=1_100, **{bound: 900})
    left = {way for way, price in prices(case).items() if price is not None}
    assert Strategy.SKETCH not in left
    assert (Strategy.RANGES in left) == (bound == "symbols_max")
    assert Strategy.PARTITIONS in left


@given(COUNTS, COUNTS, COUNTS, st.none() | COUNTS, st.sampled_from(Strategy), st.integers(1, 10**6))
def test_there_is_always_a_way(
    own: int, peer: int, difference: int, recent: int | None, wish: Strategy, room: int
) -> None:
    case = situation(own, peer, difference, recent, symbols_max=room, ids_max=room, records_max=room)
    way = choose(case, wish)
    price = prices(case)[way]
    assert price is not None
    assert way is wish or all(price <= other for other in prices(case).values() if other is not None)


@given(COUNTS, COUNTS, st.sampled_from(Strategy))
def test_both_sides_begin_alike(own: int, peer: int, wish: Strategy) -> None:
    assert begins_plainly(own, peer, wish) == begins_plainly(peer, own, wish)


def test_counts_alone_tell_where_a_probe_is_of_no_use() -> None:
    assert begins_plainly(0, MILLION, Strategy.AUTO)
    assert begins_plainly(5, 7, Strategy.AUTO), "listing twelve costs less than asking"
    assert not begins_plainly(MILLION, MILLION, Strategy.AUTO)
    assert not begins_plainly(MILLION, 990_000, Strategy.AUTO)
    assert not begins_plainly(0, MILLION, Strategy.SKETCH)
    assert begins_plainly(MILLION, MILLION, Strategy.PARTITIONS)


def test_the_wish_of_the_initiator_counts() -> None:
    assert agreed(Strategy.SKETCH, Strategy.RANGES) is Strategy.SKETCH
    assert agreed(Strategy.AUTO, Strategy.RANGES) is Strategy.RANGES
    assert agreed(Strategy.AUTO, Strategy.AUTO) is Strategy.AUTO


def test_symbols_grow_with_the_difference_and_are_never_too_few() -> None:
    counts = [choice.symbols_for(difference) for difference in range(3_000)]
    assert counts == sorted(counts)
    assert all(count >= 1.6 * difference for difference, count in enumerate(counts))
    assert choice.symbols_for(1_000) < 1_900


def test_names_of_strategies() -> None:
    assert [parse_strategy(one) for one in Strategy] == list(Strategy)
    assert [one for one in Strategy if one.is_negotiated] == [Strategy.AUTO, Strategy.SKETCH, Strategy.RANGES]
    with pytest.raises(UsageError, match="sketch, ranges"):
        parse_strategy("bloom")
