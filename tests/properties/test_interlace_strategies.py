"""Whatever strategy two sides reconcile by: each learns what a full listing gives, and the stores end the same.

That holds for sides that lie, too: what counts is what they say, and each way has to bring over just that.
"""

from collections import Counter
from collections.abc import Callable
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from bobbin.interlace.choice import Strategy
from bobbin.interlace.limits import Limits, Service
from bobbin.interlace.messages import Hello
from bobbin.interlace.result import Result
from bobbin.policy.claims import ClaimedField
from bobbin.profile import PARTITION_PREFIX_LENGTH, PARTITION_PREFIX_LENGTH_MAX
from bobbin.records.record import Plex
from bobbin.simulator.holdings import MemoryHoldings
from tests.policy_worlds import EVERYTHING
from tests.properties.effort import scaled
from tests.properties.interlace_worlds import Lies, holdings_of, random_world
from tests.support.exchanges import BY_GROUP, Changes, Meeting, meet, record

_POOL = [record(number, group="u" if number % 4 else "x") for number in range(240)]
_LISTING = Service(list_outright_max=1_000_000)
_SEEDS = st.integers(0, 2**32)
_BY_TIME = (
    "SelectAdvertised(P,S) :- Advertised(P,S), AdvertisedField(P,S,'TAI',_,_).\n"
    "SelectHave(P) :- Have(P), not Field(P,'Group',_,'x').\n"
)
"""Reads times, so that advertisements tell them and sketches may."""
_BY_ALL = (
    "SelectAdvertised(P,S) :- Advertised(P,S), AdvertisedField(P,S,_,_,V), Ne(V,'b').\nSelectHave(P) :- Have(P).\n"
)
_RULES = (
    (EVERYTHING, EVERYTHING),
    (BY_GROUP, BY_GROUP),
    (BY_GROUP, EVERYTHING),
    (_BY_TIME, _BY_TIME),
    (_BY_TIME, BY_GROUP),
    (_BY_ALL, _BY_ALL),
)


def _claims(meeting: Meeting) -> list[list[tuple[str, tuple[ClaimedField, ...]]]]:
    claims = []
    for side in (meeting.left, meeting.right):
        assert side.machine.epoch is not None
        learned = side.machine.epoch.learned
        learned.check()
        claims.append([(one.record, one.fields) for one in learned.advertisements()])
    return claims


def _bare(results: tuple[Result, Result]) -> list[Result]:
    """Without what only says how it went."""
    return [structs.replace(one, strategies=(), fallbacks=(), cursor_updated=False) for one in results]


def _draw(random: Random) -> Changes:
    """A strategy, and bounds from those that leave no room to those that never matter."""
    return {
        "strategy": random.choice((*Strategy, Strategy.AUTO, Strategy.SKETCH, Strategy.SKETCH, Strategy.RANGES)),
        "share": random.randint(1, 2**64 - 1),
        "service": Service(
            list_outright_max=random.choice((1, 8, 256)),
            list_partition_max=random.choice((1, 8, 64)),
            sketch_symbols_max=random.choice((1, 40, *4 * [262_144])),
            sketch_ids_max=random.choice((1, 40, *4 * [262_144])),
            sketch_turns_max=random.choice((1, 6)),
        ),
    }


def _draw_lies(random: Random) -> Lies | None:
    """Half of all sides are honest."""
    if random.random() < 0.5:
        return None
    invented = random.sample(_POOL, random.choice((0, 0, 1, 5, 30)))
    return Lies(seed=random.getrandbits(32), invented=tuple(invented))


def _draw_prefix(random: Random) -> dict[str, str]:
    """How long the prefixes of partitions are at first. From 12 on they are longer than the names of records."""
    length = random.choice((None, None, 1, 1, 3, 11, 12, 43, random.randint(1, PARTITION_PREFIX_LENGTH_MAX)))
    return {} if length is None else {PARTITION_PREFIX_LENGTH: str(length)}


def _tally(meeting: Meeting, results: tuple[Result, Result]) -> Counter[str]:
    """How often each way was gone, and how many claims are held that are not so."""
    told = Counter(way for one in results for way in one.strategies)
    told["fallback"] = sum(len(one.fallbacks) for one in results)
    for side, peer in ((meeting.left, meeting.there), (meeting.right, meeting.here)):
        assert side.machine.epoch is not None
        claims = list(side.machine.epoch.learned.advertisements())
        names = [one.record for one in claims]
        true = MemoryHoldings.describe(peer, names, side.machine.epoch.terms.schema)
        told["lie"] += sum(one.fields != fields for one, fields in zip(claims, true, strict=True))
    return told


def _stores(random: Random) -> tuple[list[Plex], list[Plex]]:
    """Two that have nothing in common, or nearly everything, or anything in between; differences may be recent."""
    size = random.choice((0, 20, 60, 120, 240))
    common = _POOL[:size] if random.random() < 0.5 else random.sample(_POOL, size)
    sides = []
    for _ in range(2):
        lost = min(random.choice((0, 0, 1, 5, size)), size)
        kept = common[: len(common) - lost] if random.random() < 0.5 else random.sample(common, len(common) - lost)
        sides.append([*kept, *random.sample(_POOL, random.choice((0, 0, 1, 5, 60)))])
    return sides[0], sides[1]


def _lead_where_a_listing_leads(seed: int) -> Counter[str]:
    random = Random(seed)
    here, there = _stores(random)
    rules = random.choice(_RULES)
    lies = _draw_lies(random), _draw_lies(random)
    parameters = _draw_prefix(random)
    drawn, of_right = _draw(random), _draw(random)
    sides = [(holdings_of(here, lies[0]), holdings_of(there, lies[1])) for _ in range(2)]
    listing = meet(*sides[0], *rules, service=_LISTING, parameters=parameters)
    drawn["parameters"] = parameters
    other = meet(*sides[1], *rules, codec=random.random() < 0.3, right=of_right, **drawn)
    expected, results = listing.run(), other.run()
    assert _bare(expected) == _bare(results)
    assert _claims(listing) == _claims(other)
    for one, another in ((listing.here, other.here), (listing.there, other.there)):
        assert set(one.records) == set(another.records)
    return _tally(other, results)


@scaled(0.2)
@given(_SEEDS)
def test_every_strategy_leads_where_a_listing_leads(seed: int) -> None:
    """IL-106, IL-181, IL-195, IL-289, IL-291: the same claims, stores and results, through bytes too."""
    _lead_where_a_listing_leads(seed)


@pytest.mark.slow
@scaled(0.7)
@given(_SEEDS)
def test_every_strategy_leads_there_from_many_more_beginnings(seed: int) -> None:
    """IL-106, IL-181, IL-195, IL-289, IL-291: the same, searched longer."""
    _lead_where_a_listing_leads(seed)


@pytest.mark.slow
@scaled(1)
@given(_SEEDS)
def test_random_policies_end_the_same(seed: int) -> None:
    """IL-181, IL-289: under rules with negation and claims that decide what is offered, over many iterations."""
    _end_the_same_under_random_policies(seed)


def _end_the_same_under_random_policies(seed: int) -> Counter[str]:
    random = Random(seed)
    world = random_world(random)
    lies = tuple(
        None if random.random() < 0.5 else Lies(seed=random.getrandbits(32), invented=tuple(random.sample(some, few)))
        for some in (world.there, world.here)
        for few in [random.randint(0, len(some))]
    )
    strategies = random.choice((Strategy.SKETCH, Strategy.RANGES, Strategy.AUTO)), random.choice(tuple(Strategy))
    shares = random.randint(1, 99), random.randint(1, 99)
    plain = world.meeting(lies=(lies[0], lies[1]))
    other = world.meeting(lies=(lies[0], lies[1]), shares=shares, strategies=strategies)
    expected, results = plain.run(), other.run()
    assert _bare(expected) == _bare(results)
    assert _claims(plain) == _claims(other)
    return _tally(other, results)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("drawn", "ways"),
    [
        (_lead_where_a_listing_leads, ("sketch", "ranges", "partitions", "listing", "fallback", "lie")),
        (_end_the_same_under_random_policies, ("sketch", "ranges", "changes", "lie")),
    ],
)
def test_what_is_drawn_goes_every_way(drawn: Callable[[int], Counter[str]], ways: tuple[str, ...]) -> None:
    """A property that never meets a sketch, or a lie, would say nothing of them."""
    tally: Counter[str] = Counter()
    for seed in range(60):
        tally += drawn(seed)
    assert all(tally[way] >= 6 for way in ways), tally


@pytest.mark.slow
@scaled(0.25)
@given(_SEEDS)
def test_an_exchange_that_goes_on_from_a_cursor_ends_the_same(seed: int) -> None:
    """IL-034, IL-174, IL-182, IL-227: after any changes on either side, with another strategy each time."""
    random = Random(seed)
    rules = random.choice((EVERYTHING, BY_GROUP, _BY_TIME, _BY_ALL))
    lies = _draw_lies(random), _draw_lies(random)
    here, there = map(holdings_of, _stores(random), lies)
    parameters = _draw_prefix(random)
    meet(here, there, rules, signed=True, **_draw(random) | {"parameters": parameters}).run()
    for holdings in (here, there):
        for name in random.sample(sorted(holdings.records), min(len(holdings.records), random.choice((0, 3, 200)))):
            holdings.remove(name)
        holdings.refused = set()
        for one in random.sample(_POOL, random.choice((0, 2, 30))):
            holdings.put(one)
    anew = holdings_of(here.records.values(), lies[0]), holdings_of(there.records.values(), lies[1])
    fresh = meet(*anew, rules, signed=True, service=_LISTING, parameters=parameters)
    drawn = _draw(random) | {"parameters": parameters}
    going_on = meet(here, there, rules, signed=True, right=_draw(random), **drawn)
    assert _bare(fresh.run()) == _bare(going_on.run())
    assert _claims(fresh) == _claims(going_on)


@scaled(0.1)
@given(_SEEDS)
def test_a_peer_without_the_capability_sees_what_it_always_saw(seed: int) -> None:
    """IL-106, IL-107: but for one limit in the hello, which it does not know, every message is the same."""
    random = Random(seed)
    here, there = _stores(random)
    service = Service(list_outright_max=random.choice((1, 256)))
    limits = Limits(max_loop_iterations=64)
    before = meet(here, there, BY_GROUP, service=service, limits=limits)
    now = meet(here, there, BY_GROUP, service=service, limits=limits, share=7, right={"share": None})
    assert before.run() == now.run()
    said = [
        (side, structs.replace(message, reconcile=None) if isinstance(message, Hello) else message)
        for side, message in now.said
    ]
    assert said == before.said
