"""From start to fixed point and beyond: bounded and open exchanges, what starts another loop, operands that change."""

from collections.abc import Callable

import pytest

import bobbin.simulator.decided
from bobbin.errors import UsageError
from bobbin.interlace.config import Bounded, Open
from bobbin.interlace.effects import Effect, Ended, FixedPoint, Negotiated, SaveCursor, Send
from bobbin.interlace.events import Cancelled, Event, LinkClosed, OperandChanged, StoreChanged
from bobbin.interlace.limits import Service
from bobbin.interlace.messages import Advertise, Delivered, Hello, Request, Setup, Transfer, Unavailable
from bobbin.interlace.reasons import Reason
from bobbin.interlace.state import Phase
from bobbin.policy.decide import Decision, Situation, decide
from bobbin.policy.executables import LocalPolicy
from bobbin.policy.modules import compile_query
from tests.policy_worlds import EVERYTHING, SHOW_EVERYTHING
from tests.support.exchanges import (
    BY_GROUP,
    PULL,
    PUSH,
    Against,
    Changes,
    Meeting,
    SetClock,
    Watched,
    config,
    delivered,
    hashes,
    meet,
    record,
    records,
    selector,
)


def _when_left_says(meeting: Meeting, kind: type, do: Callable[[], None]) -> None:
    """Once, right after the left side has said something of this kind."""
    done: list[bool] = []

    def watch(event: Event, effects: tuple[Effect, ...]) -> None:
        del event
        if not done and any(isinstance(effect, Send) and isinstance(effect.message, kind) for effect in effects):
            done.append(True)
            do()

    meeting.left._observers = (*meeting.left._observers, watch)


# ---- one run --------------------------------------------------------------------------------------------------------


def test_the_steps_of_a_loop_come_in_their_order() -> None:
    """IL-213, IL-214, IL-215, IL-216, IL-217, IL-218, IL-219, IL-220, IL-223, IL-286: on both sides."""
    there = Watched()
    meeting = meet(records(2), there, signed=True)
    left, right = meeting.run()
    for side in ("left", "right"):
        said = [type(message) for name, message in meeting.said if name == side]
        assert said == [Setup, Hello, Advertise, Request, Transfer, Advertise, Request, Advertise]
    # Before each block the policy is evaluated; records are stored before the next evaluation, the cursor at the end.
    assert there.doings == [
        "evaluate", "evaluate", "evaluate", "persist", "evaluate", "evaluate", "save",
    ]  # fmt: skip
    assert left.fixed_point
    assert right.fixed_point
    assert meeting.left.closed
    assert meeting.right.closed


def test_results_are_what_the_transcript_says() -> None:
    """IL-223, IL-238, IL-033: all nine members, recomputed from what was said."""
    here, there = records(5), records(4, first=10)
    meeting = meet(here, there, signed=True, service=Service(request_records_max=2))
    left, right = meeting.run()
    for result, other, me, peer in ((left, right, "left", "right"), (right, left, "right", "left")):
        told = [response for part in meeting.transferred(peer) for response in part.responses]
        sent = [response for part in meeting.transferred(me) for response in part.responses]
        assert result.received == {one.record for one in told if isinstance(one, Delivered)}
        assert result.sent == {one.record for one in sent if isinstance(one, Delivered)} == other.received
        assert result.bytes_received == sum(len(one.raw) for one in told if isinstance(one, Delivered))
        assert result.bytes_sent == sum(len(one.raw) for one in sent if isinstance(one, Delivered))
        assert result.not_available == {one.record for one in told if isinstance(one, Unavailable)} == set()
        assert not result.rejected
        (hello, *_) = [message for message in meeting.messages(peer, Hello) if isinstance(message, Hello)]
        assert (result.plan, result.peer) == (hello.plan, hello.signer)
        saved = [effect for name, effect in meeting.effects if name == me and isinstance(effect, SaveCursor)]
        assert result.cursor_updated is bool(saved)
        assert result.link == saved[0].cursor.key
        assert result.iterations == len(meeting.requested(me))
    again = meet(meeting.here, meeting.there, signed=True).run()
    assert [result.cursor_updated for result in again] == [False, False]


def test_a_run_goes_on_until_nothing_is_left() -> None:
    """IL-002, IL-017, IL-219, IL-225, IL-228: however small the batches, and as long as either side has work."""
    here, there = records(7), records(2, first=20)
    meeting = meet(here, there, service=Service(request_records_max=1))
    left, right = meeting.run()
    assert set(meeting.here.records) == set(meeting.there.records) == hashes([*here, *there])
    assert left.iterations == right.iterations == 8
    assert (left.received, right.received) == (hashes(there), hashes(here))


def test_an_end_is_told_once_and_last() -> None:
    """IL-223, IL-224."""
    meeting = meet(records(2), [])
    meeting.run()
    for side in (meeting.left, meeting.right):
        assert [type(notice) for notice in side.notices[-2:]] == [FixedPoint, Ended]
        assert sum(isinstance(notice, Ended) for notice in side.notices) == 1


def test_a_bounded_exchange_does_not_close_while_the_peer_has_news() -> None:
    """IL-228, ILC-125, ILC-130: nobody requests anything, and then one side has something to tell after all."""
    against = Against(config())
    against.to_request()
    (confirming,) = against.say(Request())
    assert isinstance(confirming, Advertise)
    assert confirming.says_nothing
    (request,) = against.say(Advertise(records=(against.claim(record(1)),)))
    assert request == Request(records=(record(1).hash,))
    against.say(Request())
    against.say(delivered(record(1)))
    against.say(Advertise())
    against.say(Request())
    assert not against.closed
    against.say(Advertise())
    assert against.result is not None
    assert against.result.fixed_point
    assert against.result.received == {record(1).hash}
    # One in which nobody wanted anything, the one that the news began, and one more like the first.
    assert against.result.iterations == 3


def test_own_news_at_the_end_is_told() -> None:
    """IL-228, IL-221, IL-197: the last evaluation changed the send set, so the peer hears of it before the end."""
    rules = "SelectAdvertised(P,S) :- Advertised(P,S).\nSelectHave(P) :- Have(P), Advertised(_,_).\n"
    here = Watched(records(1), query=compile_query(SHOW_EVERYTHING))
    against = Against(config(rules), here, rules=EVERYTHING)
    assert against.to_loop().says_nothing
    against.holdings.put(record(5))
    assert against.claiming([against.claim(record(5))]) == Request()
    (block,) = against.say(Request())
    assert isinstance(block, Advertise)
    assert {claim.record for claim in block.records} == {record(0).hash, record(5).hash}
    (request,) = against.say(Advertise())
    assert request == Request()
    assert against.result is None


# ---- what is visible when -------------------------------------------------------------------------------------------


def test_a_record_stored_between_loops_takes_part() -> None:
    """IL-028, IL-176, IL-177, IL-178, IL-221, IL-046: by whoever; no id of the store is pinned."""
    holdings = Watched(records(2))
    meeting = meet(holdings, [])
    _when_left_says(meeting, Transfer, lambda: holdings.put(record(9)))
    _, right = meeting.run()
    assert right.received == hashes([*records(2), record(9)])


def test_a_bounded_exchange_does_not_wait_for_what_comes_later() -> None:
    """IL-226, IL-227: stored after the last evaluation, it is seen by the next exchange, cursor or not."""
    holdings, there = Watched(), Watched()
    meeting = meet(holdings, there, cursor_key="k")
    _when_left_says(meeting, Request, lambda: holdings.put(record(9)))
    left, right = meeting.run()
    assert left.fixed_point
    assert not right.received
    assert meet(holdings, there, cursor_key="k").run()[1].received == {record(9).hash}


def test_an_evaluation_sees_one_snapshot(monkeypatch: pytest.MonkeyPatch) -> None:
    """IL-175: a record that comes while it runs is in the next one, whole, and in no part of this one."""
    holdings = Watched(records(1))
    seen: list[Decision] = []

    def interrupted(policy: LocalPolicy, situation: Situation) -> Decision:
        holdings.records[record(9).hash] = record(9)
        seen.append(decide(policy, situation))
        return seen[-1]

    against = Against(config(), holdings)
    against.to_hello()
    monkeypatch.setattr(bobbin.simulator.decided, "decide", interrupted)
    against.say(against.hello())
    assert seen[0].may_send == {record(0).hash}
    (block,) = [message for message in against.said if isinstance(message, Advertise)]
    assert [claim.record for claim in block.records] == [record(0).hash]
    against.say(Advertise())
    assert seen[1].may_send == hashes([record(0), record(9)])


# ---- open exchanges -------------------------------------------------------------------------------------------------


def _open(here: Watched, there: Watched, **changes: Changes) -> Meeting:
    meeting = meet(here, there, lifecycle=Open(), **changes)  # type: ignore[arg-type]
    meeting.start()
    assert [side.machine.phase for side in (meeting.left, meeting.right)] == [Phase.IDLE, Phase.IDLE]
    return meeting


def test_an_open_exchange_stays_at_its_fixed_point() -> None:
    """IL-230: it says so, closes nothing, and has moved everything."""
    meeting = _open(Watched(records(3)), Watched())
    assert meeting.left.result is None
    assert not meeting.left.closed
    (told,) = [notice for notice in meeting.right.notices if isinstance(notice, FixedPoint)]
    assert told.result.received == hashes(records(3))
    assert told.result.fixed_point


@pytest.mark.parametrize("side", ["left", "right"])
def test_a_store_that_changes_wakes_an_open_exchange(side: str) -> None:
    """IL-035, IL-231, IL-232, IL-221: on either side; only what is new is evaluated as new, and nothing is skipped."""
    here, there = Watched(records(3)), Watched()
    meeting = _open(here, there)
    holdings, other = (here, there) if side == "left" else (there, here)
    for number in range(10, 13):
        holdings.put(record(number))
        before = len(holdings.answers)
        meeting.give(side, StoreChanged())
        assert record(number).hash in other.records
        added = [name for answer in holdings.answers[before:] for name in answer.send_added]
        assert added == [record(number).hash]
    assert len([notice for notice in meeting.left.notices if isinstance(notice, FixedPoint)]) == 4


def test_a_change_that_concerns_nobody_starts_nothing() -> None:
    """IL-232: a wake-up without consequence is not told to the peer."""
    here = Watched(records(1))
    meeting = meet(here, Watched(), BY_GROUP, lifecycle=Open())
    meeting.start()
    said = len(meeting.said)
    here.put(record(50, group="x"))
    meeting.give("left", StoreChanged())
    assert len(meeting.said) == said


def test_a_removal_wakes_and_withdraws() -> None:
    """IL-232, IL-195, IL-240: the effective send set has changed, the peer's claims follow."""
    here = Watched(records(3))
    meeting = _open(here, Watched())
    here.remove(record(1).hash)
    meeting.give("left", StoreChanged())
    assert meeting.right.machine.epoch is not None
    assert record(1).hash not in meeting.right.machine.epoch.learned
    assert record(1).hash in meeting.there.records


def test_what_becomes_requestable_wakes() -> None:
    """IL-232, IL-221: a refusal that is lifted changes no send set, and still starts a round."""
    there = Watched()
    there.refused.add(record(1).hash)
    meeting = _open(Watched(records(2)), there)
    assert record(1).hash not in there.records
    there.refused.clear()
    meeting.give("right", StoreChanged())
    assert record(1).hash in there.records


def test_a_change_during_a_round_is_not_lost() -> None:
    """IL-231, IL-232: noticed at the fixed point that follows."""
    here = Watched()
    meeting = meet(here, [], lifecycle=Open())

    def change() -> None:
        here.put(record(9))
        meeting.left.give(StoreChanged())

    _when_left_says(meeting, Request, change)
    meeting.start()
    assert record(9).hash in meeting.there.records


def test_a_news_of_the_peer_wakes() -> None:
    """IL-232, IL-036: the peer's block begins a round on this side too."""
    against = Against(config(lifecycle=Open()))
    against.to_request()
    against.say(Request())
    against.say(Advertise())
    assert against.stands_in(Phase.IDLE)
    block, request = against.say(Advertise(records=(against.claim(record(1)),)))
    assert isinstance(block, Advertise)
    assert request == Request(records=(record(1).hash,))


def test_time_that_moves_with_the_last_blocks_is_evaluated() -> None:
    """IL-046, IL-170, IL-221, IL-232: before the exchange rests, or closes."""
    rules = "SelectAdvertised(P,S) :- Advertised(P,S).\nSelectHave(P) :- Have(P), StartTAI(S), TickTAI(T), Lt(S,T).\n"
    for lifecycle in (Open(), Bounded(ticks=1)):
        clock = SetClock()
        meeting = meet(records(1), [], rules, lifecycle=lifecycle, clock=clock)
        _when_left_says(meeting, Request, lambda clock=clock: clock.move(10))  # type: ignore[misc]
        meeting.start()
        assert set(meeting.there.records) == hashes(records(1))
        assert (meeting.left.result is None) is isinstance(lifecycle, Open)


def test_a_bounded_exchange_may_wait_for_ticks() -> None:
    """IL-172: as a condition for closing and nothing else; the blocks are the ordinary ones."""
    clock = SetClock()
    rules = "SelectAdvertised(P,S) :- Advertised(P,S).\nSelectHave(P) :- Have(P), StartTAI(S), TickTAI(T), Lt(S,T).\n"
    meeting = meet(records(1), [], rules, lifecycle=Bounded(ticks=2), clock=clock)
    meeting.start()
    for passed in range(2):
        assert meeting.left.result is None, passed
        clock.move(10)
        meeting.fire("left")
    assert meeting.left.result is not None
    assert meeting.left.result.fixed_point
    assert meeting.there.records
    assert {type(message) for _, message in meeting.said} == {Setup, Hello, Advertise, Request, Transfer}


def test_idle_machines_wake_for_the_next_tick() -> None:
    """IL-036, IL-161, IL-232: at its time, by the clock of this side."""
    against = Against(config(lifecycle=Open()))
    against.to_request()
    against.say(Request())
    against.clock.move(4)
    against.say(Advertise())
    assert against.timer is not None
    assert against.timer.monotonic_ns == 10 * 10**9
    # The wall clock was set back: the timer fires, and it is not time yet.
    against.clock.tai_ns -= 10**9
    against.clock.monotonic_ns = 10 * 10**9
    assert against.fire() == []
    assert against.timer.monotonic_ns == 10 * 10**9 + 7 * 10**9


# ---- operands that change -------------------------------------------------------------------------------------------


def _plans(meeting: Meeting) -> list[str]:
    return [notice.plan for notice in meeting.left.notices if isinstance(notice, Negotiated)]


@pytest.mark.parametrize("sides", [("left",), ("right",), ("left", "right"), ("right", "left")], ids="+".join)
def test_a_new_operand_is_set_up_by_both(sides: tuple[str, ...]) -> None:
    """IL-026, IL-045, IL-083, IL-233, IL-234, ILC-131: announced by a setup, agreed on by hellos, in force then."""
    here = [*records(2), *records(2, first=10, group="x")]
    meeting = meet(here, [], BY_GROUP, lifecycle=Open())
    meeting.start()
    assert set(meeting.there.records) == hashes(records(2))
    for name in sides:
        (meeting.left if name == "left" else meeting.right).give(OperandChanged(selector(EVERYTHING)))
    meeting.pair.settle()
    plans = _plans(meeting)
    assert len(plans) > 1
    assert plans[-1] != plans[0]
    for side in (meeting.left, meeting.right):
        assert side.machine.epoch is not None
        assert side.machine.epoch.terms.plan == plans[-1]
        assert side.machine.phase is Phase.IDLE
        told = [operand.module for operand in side.machine.epoch.agreement.plan.operands]
        assert told.count(selector(EVERYTHING).identifier) == len(sides)
    expected = hashes(here) if len(sides) == 2 else hashes(records(2))
    assert set(meeting.there.records) == expected


def test_a_new_operand_that_selects_less_removes_nothing() -> None:
    """IL-235, IL-018."""
    meeting = meet(records(3), [], lifecycle=Open())
    meeting.start()
    meeting.give("right", OperandChanged(selector("SelectHave(P) :- Have(P), Eq(P,'x').\n")))
    assert set(meeting.there.records) == hashes(records(3))
    assert meeting.left.machine.epoch is not None
    assert len(meeting.left.machine.epoch.offers) == 0


def test_a_new_operand_during_a_round_waits_for_the_next_block() -> None:
    """IL-045, IL-233: the running transfer comes to its end, then both set up again."""
    here = [*records(2), *records(2, first=10, group="x")]
    meeting = meet(here, [], BY_GROUP, EVERYTHING, lifecycle=Open())
    _when_left_says(meeting, Request, lambda: meeting.left.give(OperandChanged(selector(EVERYTHING))))
    meeting.start()
    assert set(meeting.there.records) == hashes(here)
    assert len(_plans(meeting)) == 2


def test_a_second_change_before_the_first_is_agreed() -> None:
    """IL-233: the last one holds."""
    meeting = meet(records(2), [], PULL, EVERYTHING, lifecycle=Open())
    meeting.start()
    assert not meeting.there.records
    meeting.left.give(OperandChanged(selector(PUSH)))
    meeting.left.give(OperandChanged(selector(EVERYTHING)))
    meeting.pair.settle()
    assert set(meeting.there.records) == hashes(records(2))


def test_an_operand_change_starts_time_anew() -> None:
    """ILC-131, IL-168: a new start, from new hellos; within a negotiation time never goes back."""
    clock = SetClock()
    meeting = meet(records(1), [], lifecycle=Open(), clock=clock)
    meeting.start()
    clock.move(25)
    meeting.give("left", OperandChanged(selector(BY_GROUP)))
    starts = [notice.start_tai for notice in meeting.left.notices if isinstance(notice, Negotiated)]
    assert len(starts) == 2
    assert starts[0] < starts[1]
    assert meeting.left.machine.epoch is not None
    assert meeting.left.machine.epoch.ticks.tick == starts[1]


def test_a_new_plan_starts_a_new_epoch_for_cursors() -> None:
    """IL-234, IL-147: each link name has its own; nothing of the old claims is taken over."""
    meeting = meet(records(2), [], signed=True, lifecycle=Open())
    meeting.start()
    old = meeting.right.machine.epoch
    meeting.give("left", OperandChanged(selector(BY_GROUP)))
    new = meeting.right.machine.epoch
    assert old is not None
    assert new is not None
    assert old is not new
    assert old.learned is not new.learned
    assert set(meeting.there.cursors) == {old.key, new.key}
    assert {key: cursor.plan for key, cursor in meeting.there.cursors.items()} == {
        old.key: old.terms.plan,
        new.key: new.terms.plan,
    }


def test_a_bounded_exchange_keeps_its_operands() -> None:
    """ILC-131: ours cannot be changed, and the peer's new one aborts."""
    against = Against(config())
    against.to_loop()
    with pytest.raises(UsageError):
        against.give(OperandChanged(selector(PUSH)))
    assert against.stands_in(Phase.ADVERTISE)
    against.say(against.setup())
    assert against.result is not None
    assert against.result.reason is Reason.OUT_OF_PHASE


def test_a_block_that_was_on_its_way_is_dropped_and_a_second_one_is_not() -> None:
    """IL-233: the peer may have spoken before it heard of the new operand, but not again after."""
    against = Against(config(lifecycle=Open()), Watched(records(1)))
    against.to_request()
    against.say(Request())
    against.say(Advertise())
    (setup,) = against.give(OperandChanged(selector(PUSH)))
    assert isinstance(setup, Setup)
    assert setup.operand.module == selector(PUSH).identifier
    assert against.say(Advertise(records=(against.claim(record(5)),))) == []
    assert not against.closed
    against.say(Advertise())
    assert against.result is not None
    assert against.result.reason is Reason.OUT_OF_PHASE


def test_in_the_middle_of_an_advertise_phase_a_setup_has_no_place() -> None:
    """IL-233, IL-256: an operand changes instead of a first block, not instead of an answer."""
    against = Against(config(lifecycle=Open(), service=Service(list_outright_max=1)), Watched(records(3)))
    against.to_loop()
    against.say(Advertise())
    against.say(against.setup())
    assert against.result is not None
    assert against.result.reason is Reason.OUT_OF_PHASE


# ---- closing --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("closer", ["left", "right"])
def test_either_side_may_close(closer: str) -> None:
    """IL-236, IL-224: the one that closes says so, the other one has its fixed point."""
    meeting = _open(Watched(records(2)), Watched())
    meeting.give(closer, Cancelled())
    one, other = (meeting.left, meeting.right) if closer == "left" else (meeting.right, meeting.left)
    assert one.result is not None
    assert other.result is not None
    assert one.result.reason is Reason.CANCELLED
    assert other.result.fixed_point
    assert other.result.reason is None


@pytest.mark.parametrize("phase", [Phase.SETUP, Phase.HELLO, Phase.ADVERTISE, Phase.REQUEST, Phase.TRANSFER])
@pytest.mark.parametrize("event", [Cancelled(), LinkClosed()], ids=["cancelled", "link lost"])
def test_an_end_before_the_fixed_point_is_named(phase: Phase, event: Event) -> None:
    """IL-224, IL-256, IL-017."""
    meeting = meet(records(2), [])
    meeting.pair.start()
    while meeting.right.machine.phase is not phase:
        meeting.right.turn(meeting.pair._to_right, meeting.pair._to_left, peer_closed=False, now=meeting.clock())
        if meeting.right.machine.phase is not phase:
            meeting.left.turn(meeting.pair._to_left, meeting.pair._to_right, peer_closed=False, now=meeting.clock())
    meeting.give("right", event)
    result = meeting.right.result
    assert result is not None
    assert not result.fixed_point
    assert result.reason is (Reason.CANCELLED if isinstance(event, Cancelled) else Reason.LINK_LOST)
    assert (result.plan is None) is (phase in (Phase.SETUP, Phase.HELLO))


def test_reconnecting_starts_a_new_exchange() -> None:
    """IL-237: from setup, and without the requests that were open."""
    here, there = Watched(records(4)), Watched()
    first = meet(here, there, cursor_key="k", service=Service(serve_records_max=1))
    _when_left_says(first, Transfer, lambda: first.left.give(Cancelled()))
    left, right = first.run()
    assert left.reason is Reason.CANCELLED
    assert not right.fixed_point
    again = meet(here, there, cursor_key="k")
    assert again.run()[1].fixed_point
    assert [type(message) for name, message in again.said if name == "right"][:2] == [Setup, Hello]
    assert set(there.records) == hashes(records(4))
