"""Whatever way advertisements go, with whatever was known before: what is learned is what a full listing gives."""

from random import Random

from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from bobbin.interlace.advertise import advertisement
from bobbin.interlace.learned import Learned
from bobbin.interlace.limits import Limits, Service
from bobbin.interlace.messages import Advertise, Advertisement
from bobbin.interlace.offers import Offers, Questions
from bobbin.interlace.result import Result
from bobbin.policy.claims import ClaimedField
from bobbin.policy.operands import Origin
from bobbin.profile import PARTITION_PREFIX_LENGTH
from bobbin.records.record import Plex
from tests.policy_worlds import EVERYTHING
from tests.properties.effort import scaled
from tests.support.exchanges import BY_GROUP, Meeting, Watched, meet, record

_POOL = [record(number, group="u" if number % 4 else "x") for number in range(240)]
_SOURCE = Origin("source:0")
_LISTING = Service(list_outright_max=1_000_000)
_SEEDS = st.integers(0, 2**32)


def _summaries(random: Random) -> Service:
    return Service(list_outright_max=1, list_partition_max=random.choice((1, 2, 8, 64)))


def _tight(random: Random) -> Limits:
    """Little room to list and to summarise, enough to get through."""
    return Limits(
        max_advertisement_records_listed=random.choice((8, 40, 1_000)),
        max_narrowing_depth=random.choice((6, 12)),
        max_loop_iterations=1_000,
    )


# ---- one direction, many iterations ---------------------------------------------------------------------------------


def _claim(one: Plex, value: str) -> Advertisement:
    return advertisement(one.hash, _SOURCE, [ClaimedField("App", "0", value)])


def _phase(offers: Offers, learned: Learned, limits: Limits, service: Service) -> int:
    """One advertise phase, the peer of ``offers`` having nothing itself; returns how many blocks it took."""
    block = offers.opening(limits, service)
    learned.open(block, limits)
    blocks = 1
    asked = Questions(lists=(), narrows=())
    calls = bool(block.partitions)
    while calls:
        answer = offers.answer(asked, limits)
        asked = learned.ask(limits, service)
        learned.hear(answer, limits)
        calls = bool(answer.partitions or asked.lists or asked.narrows)
        blocks += 1
    learned.end_phase()
    learned.check()
    offers.check()
    return blocks


@scaled(0.6)
@given(_SEEDS)
def test_summaries_lead_where_a_listing_leads(seed: int) -> None:
    """IL-106, IL-107, IL-181, IL-195, ILC-110: from any earlier state, over any changes, under tight limits."""
    random = Random(seed)
    length = random.choice((1, 1, 2, 3))
    limits, service = _tight(random), _summaries(random)
    known = [_claim(one, random.choice("xy")) for one in random.sample(_POOL, random.randint(0, 120))]
    offers, learned = Offers(length), Learned(length, known)
    offers.update([_claim(one, "x") for one in random.sample(_POOL, random.randint(0, 200))], ())
    for _ in range(random.randint(1, 4)):
        _phase(offers, learned, limits, random.choice((service, service, _LISTING)))
        listed = Learned(length)
        listed.open(Advertise(records=tuple(offers.current()[name] for name in sorted(offers.current()))), Limits())
        assert learned.advertisements() == listed.advertisements()
        gone = random.sample(sorted(offers.current()), random.randint(0, len(offers)))
        offers.update((), gone[: random.choice((0, 1, 5, 240))])
        offers.update([_claim(one, "x") for one in random.sample(_POOL, random.choice((0, 1, 5, 60)))], ())
        offers.begin_round()
        learned.begin_round()


@scaled(0.4)
@given(_SEEDS)
def test_changes_told_add_up_to_the_claims(seed: int) -> None:
    """IL-030, IL-046, IL-196: whoever follows the changes has the same claims."""
    random = Random(seed)
    offers, learned = Offers(2), Learned(2)
    followed: dict[str, tuple[ClaimedField, ...]] = {}
    for _ in range(4):
        offers.update(
            [_claim(one, "x") for one in random.sample(_POOL, 20)],
            random.sample(sorted(offers.current()), min(len(offers), 10)),
        )
        _phase(offers, learned, Limits(), _summaries(random))
        changes = learned.changes()
        followed.update(changes.claimed)
        for name in changes.withdrawn:
            followed.pop(name, None)
        assert followed == {one.record: one.fields for one in offers.current().values()}


# ---- whole exchanges ------------------------------------------------------------------------------------------------


def _claims(meeting: Meeting) -> list[tuple[Advertisement, ...]]:
    claims = []
    for side in (meeting.left, meeting.right):
        assert side.machine.epoch is not None
        claims.append(side.machine.epoch.learned.advertisements())
    return claims


def _stores(random: Random) -> tuple[list[Plex], list[Plex]]:
    return random.sample(_POOL, random.randint(0, 60)), random.sample(_POOL, random.randint(0, 60))


@scaled(0.25)
@given(_SEEDS)
def test_exchanges_by_partitions_and_by_listing_are_equal(seed: int) -> None:
    """IL-181, IL-195, IL-289, IL-291: the same claims, stores and results; each side may go its own way."""
    random = Random(seed)
    here, there = _stores(random)
    rules = random.choice((EVERYTHING, BY_GROUP))
    parameters = random.choice(({}, {PARTITION_PREFIX_LENGTH: "1"}))
    limits = _tight(random)
    listing = meet(here, there, rules, service=_LISTING, parameters=parameters)
    summaries = meet(here, there, rules, service=_summaries(random), parameters=parameters, limits=limits)
    assert _whichever_way(listing.run()) == _whichever_way(summaries.run())
    assert _claims(listing) == _claims(summaries)
    assert set(listing.here.records) == set(summaries.here.records)


def _whichever_way(results: tuple[Result, Result]) -> list[Result]:
    return [structs.replace(result, strategies=()) for result in results]


def _without_news(results: tuple[Result, Result]) -> list[Result]:
    return [structs.replace(result, cursor_updated=False) for result in results]


@scaled(0.2)
@given(_SEEDS)
def test_an_exchange_with_a_cursor_is_one_without(seed: int) -> None:
    """IL-034, IL-174, IL-181, IL-182, IL-227: after any changes on either side."""
    random = Random(seed)
    rules, service = random.choice((EVERYTHING, BY_GROUP)), _summaries(random)
    here, there = map(Watched, _stores(random))
    meet(here, there, rules, signed=True, service=service).run()
    for holdings in (here, there):
        for name in random.sample(sorted(holdings.records), min(len(holdings.records), random.choice((0, 3, 200)))):
            holdings.remove(name)
        holdings.refused = set()
        for one in random.sample(_POOL, random.choice((0, 2, 30))):
            holdings.put(one)
    fresh = meet(here.records.values(), there.records.values(), rules, signed=True, service=service)
    going_on = meet(here, there, rules, signed=True, service=service)
    assert _without_news(fresh.run()) == _without_news(going_on.run())
    assert _claims(fresh) == _claims(going_on)
    assert [set(fresh.here.records), set(fresh.there.records)] == [set(here.records), set(there.records)]
