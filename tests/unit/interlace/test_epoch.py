"""What holds as long as a plan does: evaluation, time, and what is remembered of a link."""

from collections.abc import Collection, Iterable, Sequence
from typing import Unpack

import pytest

from bobbin.interlace.config import Bounded, Config, Open
from bobbin.interlace.cursor import Cursor
from bobbin.interlace.epoch import Epoch
from bobbin.interlace.events import Now
from bobbin.interlace.limits import Limits, Service
from bobbin.interlace.messages import Advertise
from bobbin.interlace.negotiation import Negotiation
from bobbin.interlace.ports import Evaluated, Memory
from bobbin.interlace.reconciliation import Probe, Ranged
from bobbin.interlace.schema import Schema
from bobbin.interlace.setup import Party
from bobbin.policy.claims import ClaimedField
from bobbin.policy.executables import LocalPolicy
from bobbin.records import tai
from bobbin.records.record import Record
from bobbin.simulator.holdings import MemoryHoldings
from tests.policy_worlds import ALICE, BOB, EVERYTHING
from tests.support.exchanges import START_NS, Changes, Watched, config, hashes, meet, record, records

_ALICE = Changes(own=Party(verifier=ALICE), peer=Party(verifier=BOB))
_BOB = Changes(own=Party(verifier=BOB), peer=Party(verifier=ALICE), initiator=False)


def _alice(rules: str = EVERYTHING, **changes: Unpack[Changes]) -> Config:
    merged: Changes = {**_ALICE, **changes}
    return config(rules, **merged)


def _bob(rules: str = EVERYTHING, **changes: Unpack[Changes]) -> Config:
    merged: Changes = {**_BOB, **changes}
    return config(rules, **merged)


def _epoch(holdings: MemoryHoldings, made: Config | None = None, *, share: int | None = None) -> Epoch:
    """Alice's, agreed with a Bob of the same wishes."""
    own = made or _alice()
    alice = Negotiation(own, own.selector, holdings)
    bob = Negotiation(_bob(share=share), own.selector, Watched())
    alice.hear_setup(bob.setup())
    bob.hear_setup(alice.setup())
    alice.hello(START_NS)
    agreement = alice.hear_hello(bob.hello(START_NS))
    assert agreement is not None
    return Epoch(agreement, own, holdings)


def _now(seconds: float) -> Now:
    return Now(tai_ns=START_NS + round(seconds * 10**9), monotonic_ns=0)


def test_an_evaluation_is_followed() -> None:
    """IL-031, IL-173, IL-197: what may be sent is offered, what may not is not."""
    holdings = Watched(records(3))
    epoch = _epoch(holdings)
    epoch.evaluate()
    assert set(epoch.offers.current()) == hashes(records(3))
    holdings.remove(record(1).hash)
    holdings.put(record(9))
    epoch.evaluate()
    assert set(epoch.offers.current()) == hashes([record(0), record(2), record(9)])
    epoch.check()


def test_what_is_gone_before_it_is_described_is_not_offered() -> None:
    """IL-173, IL-175: between the evaluation and the description a record may leave."""
    holdings = Watched(records(2))
    epoch = _epoch(holdings)
    described = holdings.describe
    holdings.describe = lambda records, schema: [None, *described(records, schema)[1:]]  # type: ignore[method-assign]
    epoch.evaluate()
    assert set(epoch.offers.current()) == {max(hashes(records(2)))}


class _Fleeting(Watched):
    """Holdings from which records are away whenever they are described, though each snapshot has them."""

    def __init__(self, some: Iterable[Record], away: Iterable[str], *, times: int = 1) -> None:
        super().__init__(some)
        self.away = frozenset(away)
        self.times = times
        self.asked: list[frozenset[str]] = []

    def describe(self, records: Collection[str], schema: Schema) -> list[tuple[ClaimedField, ...] | None]:
        self.asked.append(frozenset(records))
        described = super().describe(records, schema)
        if len(self.asked) > self.times:
            return described
        return [None if name in self.away else fields for name, fields in zip(records, described, strict=True)]


@pytest.mark.parametrize("times", [1, 3])
def test_what_was_away_when_it_was_described_is_offered_when_it_is_back(times: int) -> None:
    """IL-173, IL-197: no evaluation tells of a record that is in every snapshot."""
    away = record(1).hash
    holdings = _Fleeting(records(3), [away], times=times)
    epoch = _epoch(holdings)
    for _ in range(times):
        epoch.evaluate()
        assert set(epoch.offers.current()) == hashes([record(0), record(2)])
        epoch.check()
    epoch.evaluate()
    assert set(epoch.offers.current()) == hashes(records(3))
    epoch.evaluate()
    assert holdings.asked == [hashes(records(3)), *[frozenset({away})] * times], "once it is described, no more"
    epoch.check()


def test_what_may_not_be_sent_any_more_is_not_described_again() -> None:
    """IL-173."""
    holdings = _Fleeting(records(2), [record(1).hash])
    epoch = _epoch(holdings)
    epoch.evaluate()
    holdings.remove(record(1).hash)
    epoch.evaluate()
    epoch.evaluate()
    assert holdings.asked == [hashes(records(2))]
    holdings.put(record(1))
    epoch.evaluate()
    assert set(epoch.offers.current()) == hashes(records(2))


@pytest.mark.parametrize("direct", [False, True])
def test_an_exchange_brings_what_was_away_for_a_moment(*, direct: bool) -> None:
    """IL-170, IL-173: its fixed point is one of both stores."""
    meeting = meet(_Fleeting(records(3), [record(1).hash]), records(1, first=7), direct=direct)
    assert all(result.fixed_point for result in meeting.run())
    assert meeting.there.records.keys() == meeting.here.records.keys() == hashes([*records(3), record(7)])


def test_only_what_was_announced_is_loaded() -> None:
    """IL-039, ILC-120."""
    holdings = Watched(records(1))
    epoch = _epoch(holdings)
    epoch.evaluate()
    assert epoch.load_sendable(record(0).hash) is None
    epoch.offers.opening(Limits(), Service())
    assert epoch.load_sendable(record(0).hash) == record(0).raw
    assert epoch.load_sendable(record(5).hash) is None
    holdings.records.clear()
    assert epoch.load_sendable(record(0).hash) is None


@pytest.mark.parametrize(("lifecycle", "ticking"), [(Bounded(), False), (Bounded(ticks=1), True), (Open(), True)])
def test_time_moves_where_it_is_to_move(lifecycle: Bounded | Open, *, ticking: bool) -> None:
    """IL-171, IL-172, IL-115."""
    epoch = _epoch(Watched(), _alice(lifecycle=lifecycle))
    assert epoch.is_ticking is ticking
    assert epoch.tick(_now(25)) == (tai.render(START_NS + 20 * 10**9) if ticking else None)
    assert epoch.hear_tick(None) is None
    assert epoch.hear_tick(tai.render(START_NS + 10 * 10**9)) is None
    assert epoch.ticks.passed == (1 if ticking else 0)
    assert (epoch.hear_tick("nonsense") is not None) is ticking


def test_an_exchange_may_close_when_the_time_that_was_waited_for_is_evaluated() -> None:
    """IL-172, IL-170."""
    epoch = _epoch(Watched(), _alice(lifecycle=Bounded(ticks=1)))
    epoch.evaluate()
    states = [(epoch.may_close, epoch.is_outdated)]
    epoch.tick(_now(10))
    epoch.hear_tick(tai.render(START_NS + 10 * 10**9))
    states.append((epoch.may_close, epoch.is_outdated))
    epoch.evaluate()
    states.append((epoch.may_close, epoch.is_outdated))
    assert states == [(False, False), (False, True), (True, False)]
    assert not _epoch(Watched(), _alice(lifecycle=Open())).may_close


def test_runtime_facts_are_of_this_moment() -> None:
    """IL-029, IL-169."""
    epoch = _epoch(Watched(), _alice(lifecycle=Open(), transport="stdio", encrypted=True))
    facts = epoch.runtime_facts()
    assert (facts.here, facts.peer, facts.transport, facts.transport_encrypted) == (ALICE, BOB, "stdio", True)
    assert facts.start_tai == facts.tick_tai
    epoch.tick(_now(10))
    epoch.hear_tick(tai.render(START_NS + 10 * 10**9))
    assert epoch.runtime_facts().tick_tai == tai.render(START_NS + 10 * 10**9)


def test_a_cursor_is_there_when_there_is_something_new_and_whole() -> None:
    """IL-034, IL-182: not in the middle of a phase, not twice."""
    epoch = _epoch(Watched())
    assert epoch.cursor() is None
    other = _epoch(Watched(records(2)))
    other.evaluate()
    epoch.learned.open(other.offers.opening(Limits(), Service()), Limits())
    assert epoch.cursor() is None
    epoch.claims_are_whole = True
    cursor = epoch.cursor()
    assert cursor is not None
    assert (cursor.key, cursor.plan, cursor.source) == (epoch.key, epoch.terms.plan, BOB)
    assert {one.record for one in cursor.advertisements} == hashes(records(2))
    assert epoch.cursor() is None


def test_a_link_without_key_remembers_nothing() -> None:
    """IL-148."""
    own = config(cursor_key=None)
    alice = Negotiation(own, own.selector, Watched())
    bob = Negotiation(config(initiator=False), own.selector, Watched())
    alice.hear_setup(bob.setup())
    bob.hear_setup(alice.setup())
    alice.hello(START_NS)
    agreement = alice.hear_hello(bob.hello(START_NS))
    assert agreement is not None
    epoch = Epoch(agreement, own, Watched())
    epoch.learned.open(Advertise(), Limits())
    epoch.learned.unsaved = True
    epoch.claims_are_whole = True
    assert epoch.key is None
    assert epoch.cursor() is None


def test_what_is_recalled_fits_plan_source_and_schema() -> None:
    """IL-147, IL-174, IL-234."""
    first = _epoch(Watched())
    other = _epoch(Watched(records(2)))
    other.evaluate()
    first.learned.open(other.offers.opening(Limits(), Service()), Limits())
    first.claims_are_whole = True
    saved = first.cursor()
    assert saved is not None
    for cursor, count in (
        (saved, 2),
        (_changed(saved, plan="E.x"), 0),
        (_changed(saved, source="source:0"), 0),
        (_changed(saved, schema=Schema(all=True)), 0),
    ):
        holdings = Watched()
        holdings.cursors[saved.key] = cursor
        assert len(_epoch(holdings).learned) == count


def _changed(
    cursor: Cursor, *, plan: str | None = None, source: str | None = None, schema: Schema | None = None
) -> Cursor:
    return Cursor(
        key=cursor.key,
        plan=plan or cursor.plan,
        source=source or cursor.source,
        schema=schema or cursor.schema,
        advertisements=cursor.advertisements,
    )


class _Remembering(Watched):
    """Holdings that keep what a link knew, as a long-lived process does."""

    def __init__(self, memory: Memory) -> None:
        super().__init__()
        self._memory = memory

    def begin(self, policy: LocalPolicy, schema: Schema, key: str | None) -> Memory | None:
        super().begin(policy, schema, key)
        return self._memory


def test_a_memory_of_this_process_is_gone_on_from() -> None:
    """IL-021, IL-034: with everything to be announced anew."""
    first = _epoch(Watched(records(2)))
    first.evaluate()
    first.offers.opening(Limits(), Service())
    again = _epoch(_Remembering(first.memory()))
    assert again.offers is first.offers
    assert len(again.offers.opening(Limits(), Service()).records) == 2


def test_an_index_is_read_only_where_none_is_in_memory() -> None:
    """It is as large as what is offered."""
    asked: list[Schema] = []

    class Asked(_Remembering):
        def kept_index(self, schema: Schema) -> None:
            asked.append(schema)

    with_sketches = _alice(share=5)
    first = _epoch(Asked(_epoch(Watched()).memory()), with_sketches, share=9)
    assert len(asked) == 1
    again = _epoch(Asked(first.memory()), with_sketches, share=9)
    assert again.offers.standing_index is not None
    assert len(asked) == 1


def test_a_new_exchange_asks_again_for_what_the_last_one_did_not_get() -> None:
    """IL-237: what was not available then may be now, whoever kept the memory of the link."""
    first = _epoch(Watched())
    other = _epoch(Watched(records(1)))
    other.evaluate()
    first.learned.open(other.offers.opening(Limits(), Service()), Limits())
    first.evaluate()
    (missing,) = first.choose(10)
    first.wants.pass_over(missing, first.learned)
    assert first.choose(10) == ()
    again = _epoch(_Remembering(first.memory()))
    assert again.choose(10) == (missing,)


def test_a_memory_knows_what_could_not_be_described() -> None:
    """IL-034, IL-173: the next exchange on the link goes on from there."""
    first = _epoch(_Fleeting(records(2), [record(1).hash]))
    first.evaluate()
    memory = first.memory()
    assert memory.undescribed == {record(1).hash}
    holdings = _Remembering(memory)
    again = _epoch(holdings)
    holdings.put(record(1))
    holdings.evaluate = lambda question: Evaluated()  # type: ignore[method-assign]  # noqa: ARG005
    again.evaluate()
    assert record(1).hash in again.offers
    assert again.memory().undescribed == frozenset()


def test_what_is_served_next_is_told_to_the_store() -> None:
    class Expecting(Watched):
        def expect(self, records: Sequence[str]) -> None:
            told.extend(records)

    told: list[str] = []
    _epoch(Expecting(records(1))).expect([record(0).hash])
    assert told == [record(0).hash]


@pytest.mark.parametrize(
    ("schema", "tells_moments"),
    [
        (Schema(), False),
        (Schema(names=frozenset({"Group", "Name"})), False),
        (Schema(names=frozenset({"TAI"})), True),
        (Schema(all=True), True),
    ],
    ids=["no fields", "other fields", "TAI", "all fields"],
)
def test_a_sketch_tells_times_only_where_advertisements_do(schema: Schema, *, tells_moments: bool) -> None:
    """IL-112: the schema is what both have agreed to tell of their records."""
    meeting = meet(records(200), records(200, first=3), schema=schema, share=5, right={"share": 9})
    meeting.run()
    assert meeting.left.machine.epoch is not None
    assert meeting.left.machine.epoch.terms.schema == schema
    parts = [block.part for side in ("left", "right") for block in meeting.advertised(side)]
    (probe,) = [part for part in parts if isinstance(part, Probe)]
    assert bool(probe.cuts) is tells_moments
    assert any(isinstance(part, Ranged) for part in parts) is False, "what differs is at both ends"
    younger = meet(records(400), records(480), schema=schema, share=5, right={"share": 9})
    assert younger.run()[0].strategies[0] == ("ranges" if tells_moments else "sketch")
