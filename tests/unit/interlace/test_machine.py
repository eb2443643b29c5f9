"""The machine by itself: its events, the order of its effects, its timers and its end.

What it does with a peer is tested by topic in tests/conformance_interlace.
"""

import pytest
from msgspec import structs

from bobbin.errors import UsageError
from bobbin.interlace.choice import Strategy
from bobbin.interlace.config import Open
from bobbin.interlace.effects import (
    Arrived,
    Close,
    Effect,
    Ended,
    FixedPoint,
    Looped,
    Notify,
    Persist,
    Remember,
    SaveCursor,
    Send,
    WakeAt,
)
from bobbin.interlace.events import (
    Cancelled,
    Event,
    Fate,
    Fired,
    Flushed,
    LinkClosed,
    Now,
    OperandChanged,
    Persisted,
    Received,
    Settled,
    Started,
    StoreChanged,
    Undecodable,
)
from bobbin.interlace.learned import Learned
from bobbin.interlace.limits import Limits, Service
from bobbin.interlace.machine import InterlaceMachine
from bobbin.interlace.messages import Advertise, Request, Transfer
from bobbin.interlace.reasons import Abort, Reason
from bobbin.interlace.reconciliation import Ranged, Sketched
from bobbin.interlace.sketching import SketchFinding
from bobbin.interlace.state import Awaits, Phase
from bobbin.interlace.ways import Unusable
from bobbin.profile import PARTITION_PREFIX_LENGTH
from tests.support.exchanges import (
    Against,
    Changes,
    Meeting,
    Watched,
    config,
    delivered,
    hashes,
    meet,
    record,
    records,
    selector,
)

_NOW = Now(tai_ns=10**18, monotonic_ns=5)
_ORDER = (Persist, SaveCursor, Remember, Send, Notify, WakeAt, Close)


def _machine() -> InterlaceMachine:
    return InterlaceMachine(config(), Watched())


def test_a_new_machine_waits_for_its_link() -> None:
    machine = _machine()
    assert machine.phase is Phase.READY
    assert machine.awaits is Awaits.NOTHING
    assert machine.epoch is None
    machine.check()


def test_nothing_is_read_before_the_start() -> None:
    """IL-044."""
    effects = _machine().step(Received(Advertise()), now=_NOW)
    assert [type(effect) for effect in effects] == [Notify, Close]


def test_starting_twice_changes_nothing() -> None:
    machine = _machine()
    machine.step(Started(), now=_NOW)
    with pytest.raises(UsageError):
        machine.step(Started(), now=_NOW)
    assert machine.phase is Phase.SETUP


def test_storing_that_nobody_asked_for_is_a_mistake_of_the_caller() -> None:
    machine = _machine()
    machine.step(Started(), now=_NOW)
    with pytest.raises(UsageError):
        machine.step(Persisted((Settled(record="P.x.H3", fate=Fate.STORED),)), now=_NOW)
    assert machine.phase is Phase.SETUP


@pytest.mark.parametrize("codec", [False, True])
def test_effects_come_in_their_order(*, codec: bool) -> None:
    """IL-043, IL-293: store, save, send, tell, wake, close."""
    meeting = meet(records(3), records(3, first=10), signed=True, codec=codec, service=Service(chunk_records_max=1))
    steps: list[tuple[Effect, ...]] = []
    meeting.left._observers = (*meeting.left._observers, lambda _, effects: steps.append(effects))
    meeting.run()
    assert {type(effect) for effects in steps for effect in effects} == set(_ORDER)
    for effects in steps:
        places = [_ORDER.index(type(effect)) for effect in effects]
        assert places == sorted(places)


def test_what_follows_a_fixed_point_is_remembered() -> None:
    """IL-034: for the next exchange of this process, under the name of the link."""
    meeting = meet(records(1), [], signed=True)
    left, _ = meeting.run()
    (kept,) = [effect for name, effect in meeting.effects if name == "left" and isinstance(effect, Remember)]
    assert kept.key == left.link
    assert set(kept.memory.offers.current()) == hashes(records(1))


def test_after_anything_else_nothing_is_remembered() -> None:
    """IL-274."""
    against = Against(config(cursor_key="k"))
    against.to_request()
    against.give(LinkClosed())
    assert not [effect for effect in against.effects if isinstance(effect, Remember)]


_AFTER_THE_END: tuple[Event, ...] = (
    Received(Request()),
    Undecodable(Reason.MALFORMED_BLOCK, "x"),
    Flushed(),
    StoreChanged(),
    Fired(1),
    Cancelled(),
    LinkClosed(),
)


@pytest.mark.parametrize("event", _AFTER_THE_END, ids=lambda event: type(event).__name__)
def test_an_end_is_final(event: Event) -> None:
    """IL-256."""
    against = Against(config())
    against.to_loop()
    against.give(Cancelled())
    before = len(against.effects)
    against.give(event)
    assert len(against.effects) == before
    assert against.machine.awaits is Awaits.NOTHING
    assert [type(notice) for notice in against.notices][-1] is Ended


def test_a_late_timer_is_dropped() -> None:
    """IL-282."""
    against = Against(config())
    against.to_loop()
    assert against.timer is not None
    assert against.give(Fired(against.timer.token - 1)) == []
    assert against.stands_in(Phase.ADVERTISE)


def test_room_on_the_link_is_of_interest_only_while_something_is_left_to_send() -> None:
    """IL-201."""
    against = Against(config(), Watched(records(1)))
    against.to_loop()
    assert against.give(Flushed()) == []
    against.say(Advertise())
    against.say(Request(records=(record(0).hash,)))
    assert isinstance(against.said[-1], Transfer)
    assert against.said[-1].last
    assert against.give(Flushed()) == []


def test_a_change_of_the_store_outside_of_a_fixed_point_waits() -> None:
    """IL-046."""
    against = Against(config())
    against.to_loop()
    evaluations = against.holdings.evaluations
    assert against.give(StoreChanged()) == []
    assert against.holdings.evaluations == evaluations


def test_what_is_awaited_in_each_phase() -> None:
    against = Against(config(lifecycle=Open()))
    seen = [against.machine.awaits]
    against.give(Started())
    seen.append(against.machine.awaits)
    against.say(against.setup())
    seen.append(against.machine.awaits)
    against.say(against.hello())
    seen.append(against.machine.awaits)
    against.claiming([against.claim(record(1))])
    seen.append(against.machine.awaits)
    against.say(Request())
    seen.append(against.machine.awaits)
    against.say(delivered(record(1)))
    against.say(Advertise())
    against.say(Request())
    against.say(Advertise())
    seen.append(against.machine.awaits)
    against.give(OperandChanged(selector("SelectHave(P) :- Have(P).\n")))
    seen.append(against.machine.awaits)
    assert seen == [
        Awaits.NOTHING,
        Awaits.SETUP,
        Awaits.HELLO,
        Awaits.ADVERTISE,
        Awaits.REQUEST,
        Awaits.TRANSFER,
        Awaits.ADVERTISE,
        Awaits.ADVERTISE,
    ]


def test_arrivals_are_told_when_they_are_stored() -> None:
    """IL-033: those that are valid, once."""
    against = Against(config())
    against.to_transfer(records(3))
    against.say(delivered(record(0), last=False))
    against.say(structs.replace(delivered(record(1), record(2))))
    told = [notice.records for notice in against.notices if isinstance(notice, Arrived)]
    assert [set(names) for names in told] == [{record(0).hash}, hashes(records(2, first=1))]


def test_invariants_are_looked_at_after_every_step(monkeypatch: pytest.MonkeyPatch) -> None:
    looked: list[Phase] = []

    def check(machine: InterlaceMachine) -> None:
        looked.append(machine.phase)

    monkeypatch.setattr(InterlaceMachine, "check", check)
    machine = InterlaceMachine(structs.replace(config(), checking=False), Watched())
    machine.step(Started(), now=_NOW)
    assert looked == []
    machine = _machine()
    machine.step(Started(), now=_NOW)
    assert looked == [Phase.SETUP]


def test_a_new_selector_before_the_link_is_up_is_announced_right_after() -> None:
    """IL-233."""
    meeting = meet(records(2), [], "SelectHave(P) :- Have(P), Eq(P,'x').\n", lifecycle=Open())
    for side in (meeting.left, meeting.right):
        side.give(OperandChanged(selector("SelectAdvertised(P,S) :- Advertised(P,S).\nSelectHave(P) :- Have(P).\n")))
    meeting.start()
    assert set(meeting.there.records) == hashes(records(2))


def test_a_fixed_point_is_told_with_its_result() -> None:
    """IL-238."""
    meeting = meet(records(2), [])
    left, _ = meeting.run()
    (told,) = [notice for notice in meeting.left.notices if isinstance(notice, FixedPoint)]
    assert told.result == left


def test_no_two_timers_have_one_token() -> None:
    """A timer that goes off late is known by its token, however many phases and rounds later that is."""
    meeting = meet(records(2), records(2, first=7), lifecycle=Open())
    meeting.start()
    meeting.here.put(record(20))
    meeting.give("left", StoreChanged())
    for side in ("left", "right"):
        tokens = [effect.token for name, effect in meeting.effects if name == side and isinstance(effect, WakeAt)]
        assert len(tokens) > 10
        assert tokens == sorted(set(tokens))


def test_sides_in_one_process_list_nothing() -> None:
    """IL-284: where each may read the other directly, an opening block has neither records nor summaries."""
    meeting = meet(records(3), [], direct=True)
    meeting.run()
    first, *_ = meeting.advertised("left")
    assert first.direct is not None
    assert (first.records, first.partitions) == ((), ())
    listing, *_ = _advertised(meet(records(3), []))
    assert listing.direct is None
    assert len(listing.records) == 3


def _advertised(meeting: Meeting) -> list[Advertise]:
    meeting.run()
    return meeting.advertised("left")


def test_a_loop_is_told_with_what_it_moved() -> None:
    """IL-223: both directions, as each side has them."""
    meeting = meet(records(3), records(2, first=7))
    meeting.run()
    looped = [notice for notice in meeting.left.notices if isinstance(notice, Looped)]
    assert looped == [Looped(iteration=1, advertised=3, claimed=2, received=2, sent=3, deferred=0)]


@pytest.mark.parametrize("ends_well", [True, False])
def test_why_sketches_were_given_up_is_told_however_the_exchange_ends(
    monkeypatch: pytest.MonkeyPatch, *, ends_well: bool
) -> None:
    def refuse(self: SketchFinding, part: Sketched | Ranged) -> None:
        del self, part
        raise Unusable("planted")

    def break_off(self: Learned) -> None:
        del self
        raise Abort(Reason.ROOT_MISMATCH, "planted as well")

    monkeypatch.setattr(SketchFinding, "hear", refuse)
    if not ends_well:
        monkeypatch.setattr(Learned, "end_phase", break_off)
    exchange = meet(records(60), records(60, first=5), share=5, strategy=Strategy.SKETCH, right=Changes(share=9))
    left, right = exchange.run()
    assert left.fixed_point == right.fixed_point == ends_well
    assert left.fallbacks == ("planted",)
    assert right.fallbacks == ("the peer could not use it: planted",)


@pytest.mark.parametrize("length", ["1", "11", "12", "43"])
def test_a_peer_may_ask_for_partitions_that_begin_with_anything(length: str) -> None:
    """The plan takes the parameter from either side. Records are named by eleven symbols, whatever it says."""
    few = Service(request_records_max=2)
    limits = Limits(max_loop_iterations=64)
    right = Changes(share=9, service=few, parameters={PARTITION_PREFIX_LENGTH: length})
    exchange = meet(
        records(60),
        records(60, first=5),
        share=5,
        strategy=Strategy.SKETCH,
        service=few,
        limits=limits,
        right=right,
    )
    for result in exchange.run():
        assert result.fixed_point
        assert "changes" in result.strategies
        assert not result.fallbacks
        assert len(result.received) == 5
