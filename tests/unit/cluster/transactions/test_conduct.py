"""Time, lost writes and new leaders (CL-139, 144, 146, 162, 173, 175, 296 to 302, 323 to 325, 328, 373)."""

from collections.abc import Callable
from random import Random

import pytest

from bobbin.cluster.settings import DistributedTxConfig
from bobbin.cluster.transactions.coordinator import Coordinator
from bobbin.cluster.transactions.delivery import Delivery
from bobbin.cluster.transactions.effects import Mistake
from bobbin.cluster.transactions.messages import (
    No,
    PrepareVote,
    TxAbortMsg,
    TxCommitMsg,
    TxDecisionMsg,
    TxPrepareMsg,
)
from bobbin.cluster.transactions.names import ShardId, tx_id
from bobbin.cluster.transactions.ongoing import Ongoing
from bobbin.cluster.transactions.phases import Ended, TxPhase
from bobbin.cluster.transactions.recovery import TxRecord, TxRecoveryState
from bobbin.cluster.transactions.tx_log import (
    AbortIntent,
    AllLocksReleased,
    LockRelease,
    PhaseChange,
    TxBegin,
    TxComplete,
    TxWalEntry,
    Voted,
)
from tests.unit.cluster.transactions.driven import HOME, ONE, TWO, Driven, X, Y, part, parts, yes
from tests.unit.cluster.transactions.explorer import explore, wander

BEGIN = TxBegin(X, parts(X), 5_000, 77)
VOTES = (Voted(X, ONE, yes(ONE)), Voted(X, TWO, yes(TWO)))
PREPARED = PhaseChange(X, TxPhase.PREPARING, TxPhase.PREPARED)
DECIDED = PhaseChange(X, TxPhase.PREPARED, TxPhase.COMMITTING)
INTENT = AbortIntent(X, "held", (ONE, TWO))


def _state(*entries: TxWalEntry) -> TxRecoveryState:
    state = TxRecoveryState()
    assert state.apply(entries) is None
    return state


# ---- timeouts -------------------------------------------------------------------------------------------------------


def test_votes_that_do_not_come_in_time_abort() -> None:
    driven = Driven().begun()
    driven.vote(ONE)
    driven.tick(4_999)
    assert driven.phase() is TxPhase.PREPARING
    assert driven.coordinator.due_ms == driven.now_ms + 1
    driven.said.clear()
    driven.tick(1)
    assert driven.phase() is TxPhase.ABORTING
    assert [message.shard for message in driven.told(TxAbortMsg)] == [ONE, TWO]
    assert driven.ends[0].ended is Ended.BUSY
    assert (driven.stats.timed_out, driven.stats.aborted, driven.stats.committed) == (1, 1, 0)


@pytest.mark.parametrize(("asked_ms", "given_ms"), [(200, 200), (60_000, 700)])
def test_a_client_may_want_less_time_and_not_more(asked_ms: int, given_ms: int) -> None:
    driven = Driven(config=DistributedTxConfig(prepare_timeout_ms=700))
    driven.begin(timeout_ms=asked_ms)
    driven.settle()
    assert [message.timeout_ms for message in driven.told(TxPrepareMsg)] == [given_ms, given_ms]
    driven.tick(given_ms - 1)
    assert driven.phase() is TxPhase.PREPARING
    driven.tick(1)
    assert driven.phase() is TxPhase.ABORTING


def test_the_handlers_have_their_own_times() -> None:
    config = DistributedTxConfig()
    assert (config.query_timeout_ms, config.prepare_handler_timeout_ms) == (5_000, 3_000)
    assert (config.decision_handler_timeout_ms, config.sweep_interval_ms) == (2_000, 30_000)
    assert (config.prepare_timeout_ms, config.commit_timeout_ms) == (5_000, 10_000)
    assert config.optimistic_locking is True


def test_a_prepare_without_an_answer_is_sent_again_to_those_who_have_not_voted() -> None:
    driven = Driven().begun()
    driven.vote(ONE)
    driven.tick(2_999)
    assert driven.said == []
    driven.tick(1)
    again = driven.told(TxPrepareMsg)
    assert [(message.shard, message.part) for message in again] == [(TWO, part(X, TWO))]
    assert driven.stats.prepare_retries == 1
    driven.vote(TWO)
    driven.settle()
    assert driven.phase() is TxPhase.COMMITTING


def test_only_what_is_preparing_is_aborted_by_age() -> None:
    driven = Driven().begun(Y)
    driven.vote(ONE, tx=Y)
    driven.vote(TWO, tx=Y)
    driven.lose()
    driven.committing(X)
    assert (driven.phase(X), driven.phase(Y)) == (TxPhase.COMMITTING, TxPhase.PREPARED)
    for _ in range(10):
        driven.tick(30_000)
        assert driven.told(TxAbortMsg) == []
    assert (driven.phase(X), driven.phase(Y)) == (TxPhase.COMMITTING, TxPhase.PREPARED)
    assert (driven.stats.aborted, driven.stats.timed_out) == (0, 0)
    driven.settle()
    assert driven.phase(Y) is TxPhase.COMMITTING


def test_the_periodic_look_finds_what_a_timer_has_missed() -> None:
    driven = Driven().begun()
    driven.coordinator._conduct.timers.set(X, None)
    assert driven.coordinator.due_ms == driven.now_ms + 30_000
    driven.tick(29_999)
    assert driven.phase() is TxPhase.PREPARING
    driven.tick(1)
    assert driven.phase() is TxPhase.ABORTING
    assert (driven.stats.sweeps, driven.stats.timed_out) == (1, 1)


def test_a_beginning_that_does_not_become_durable_in_time_is_over_for_its_client() -> None:
    driven = Driven()
    driven.begin()
    driven.tick(5_000)
    assert [end.ended for end in driven.ends] == [Ended.BUSY]
    assert driven.said == []
    driven.query()
    assert [message.commits for message in driven.told(TxDecisionMsg)] == [None]
    assert driven.settle()[-1] == AllLocksReleased(X)
    assert driven.said == []
    assert driven.state.outcome(X) is False
    assert driven.is_balanced()


# ---- commits are told until everybody has acknowledged --------------------------------------------------------------


def test_a_commit_is_told_with_growing_distance_for_ever_and_never_forgotten() -> None:
    driven = Driven().committing()
    driven.ack(ONE)
    started, moments = driven.now_ms, []
    for _ in range(12):
        assert driven.coordinator.due_ms is not None
        driven.tick(driven.coordinator.due_ms - driven.now_ms)
        for message in driven.told(TxCommitMsg):
            assert message.shard == TWO
            moments.append(driven.now_ms - started)
        driven.settle()
    assert moments == [2_000, 6_000, 14_000, 30_000, 60_000, 90_000, 120_000, 150_000, 180_000, 210_000, 240_000]
    assert driven.phase() is TxPhase.COMMITTING
    assert driven.durable_phase() is TxPhase.COMMITTING
    assert driven.stats.commit_retries == len(moments)
    driven.ack(TWO)
    driven.settle()
    assert driven.state.open == {}
    assert driven.stats.committed == 1


def test_after_the_commit_timeout_nobody_waits_and_acknowledgements_are_kept() -> None:
    driven = Driven().committing()
    driven.ack(ONE)
    driven.tick(9_999)
    assert not driven.coordinator.pending()[0].is_overdue
    assert (driven.writes, driven.alarms) == ([], [])
    driven.tick(1)
    assert driven.coordinator.pending()[0].is_overdue
    assert driven.settle() == [LockRelease(X, ONE)]
    assert [alarm.code for alarm in driven.alarms] == ["commit-overdue"]
    assert driven.stats.commits_overdue == 1
    assert (driven.phase(), driven.durable_phase()) == (TxPhase.COMMITTING, TxPhase.COMMITTING)
    successor = driven.successor()
    assert [message.shard for message in successor.told(TxCommitMsg)] == [TWO]


def test_a_completion_is_written_only_after_everybody_has_acknowledged() -> None:
    driven = Driven().committing()
    driven.tick(100_000)
    driven.ack(ONE)
    kinds = [type(entry) for entry in driven.settle()]
    assert TxComplete not in kinds
    driven.ack(TWO)
    assert [type(entry) for entry in driven.settle()] == [LockRelease, TxComplete, AllLocksReleased]


# ---- aborts ---------------------------------------------------------------------------------------------------------


def test_an_abort_is_told_again_five_times_to_those_who_are_silent_and_then_forgotten() -> None:
    driven = Driven().begun()
    driven.vote(ONE)
    driven.abort()
    entries = driven.settle()
    assert entries == [
        PhaseChange(X, TxPhase.PREPARING, TxPhase.ABORTING),
        AbortIntent(X, "its owner took it back", (ONE, TWO)),
    ]
    assert [message.shard for message in driven.told(TxAbortMsg)] == [ONE, TWO]
    driven.ack(ONE)
    started, moments = driven.now_ms, []
    for _ in range(6):
        assert driven.coordinator.due_ms is not None
        driven.tick(driven.coordinator.due_ms - driven.now_ms)
        moments += [(driven.now_ms - started, message.shard) for message in driven.told(TxAbortMsg)]
        entries = driven.settle()
    assert moments == [(1_000, TWO), (2_000, TWO), (4_000, TWO), (8_000, TWO), (16_000, TWO)]
    assert driven.now_ms - started == 30_000
    assert entries == [LockRelease(X, ONE), TxComplete(X, commits=False), AllLocksReleased(X)]
    assert (driven.stats.abort_retries, driven.stats.abort_failures, driven.stats.aborted) == (5, 1, 1)
    driven.query(TWO)
    assert [message.commits for message in driven.told(TxDecisionMsg)] == [False]
    assert driven.ack(TWO) == [Mistake.UNKNOWN_TRANSACTION]


def test_an_abort_is_said_without_waiting_for_its_entry() -> None:
    driven = Driven().begun()
    driven.vote(ONE, No("held"))
    assert len(driven.writes) == 1
    assert [message.shard for message in driven.told(TxAbortMsg)] == [TWO]
    # Whoever comes next finds nothing of it, and aborts as well.
    successor = driven.successor()
    assert [message.shard for message in successor.told(TxAbortMsg)] == [ONE, TWO]


def test_when_the_only_participant_refuses_nobody_is_told() -> None:
    driven = Driven().begun(X, ONE)
    driven.vote(ONE, No("held"))
    assert [type(entry) for entry in driven.settle()] == [Voted, PhaseChange, AbortIntent, TxComplete, AllLocksReleased]
    assert driven.said == []
    assert driven.coordinator.pending() == ()


# ---- lost writes ----------------------------------------------------------------------------------------------------


def test_a_lost_decision_is_written_again_later_and_later() -> None:
    driven = Driven().begun()
    driven.vote(ONE)
    driven.vote(TWO)
    wanted = driven.writes[0].entries
    waits = []
    for _ in range(7):
        driven.lose()
        assert driven.writes == []
        assert driven.coordinator.due_ms is not None
        waits.append(driven.coordinator.due_ms - driven.now_ms)
        driven.tick(waits[-1])
        assert [write.entries for write in driven.writes] == [wanted]
    assert waits == [100, 200, 400, 800, *([1_600] * 3)]
    driven.settle()
    assert driven.phase() is TxPhase.COMMITTING
    assert driven.stats.writes_lost == 7


def test_a_decision_that_is_lost_when_its_time_is_over_is_an_abort() -> None:
    """The log may never take it: then all keys of all its participants were locked for ever."""
    driven = Driven().begun()
    driven.vote(ONE)
    driven.vote(TWO)
    driven.tick(4_999)
    driven.lose()
    assert driven.phase() is TxPhase.PREPARED
    driven.tick(100)
    driven.lose()
    assert driven.phase() is TxPhase.ABORTING
    assert [message.shard for message in driven.told(TxAbortMsg)] == [ONE, TWO]
    assert [(end.ended, "the log is full" in end.reason) for end in driven.ends] == [(Ended.BUSY, True)]
    driven.ack(ONE)
    driven.ack(TWO)
    driven.tick(200)
    driven.settle()
    assert driven.state.outcome(X) is False
    assert driven.is_balanced()


def test_a_durable_preparation_is_never_ended_by_a_lost_decision() -> None:
    """Whoever leads next would commit it."""
    driven = Driven(_state(BEGIN, *VOTES, PREPARED))
    driven.lose()
    driven.tick(100)
    driven.settle()
    assert driven.phase() is TxPhase.COMMITTING


def test_a_lost_beginning_is_over_and_may_come_again() -> None:
    driven = Driven()
    driven.begin()
    driven.lose()
    assert [end.ended for end in driven.ends] == [Ended.BUSY]
    assert driven.coordinator.pending() == ()
    assert driven.coordinator.due_ms is None
    assert driven.is_balanced()
    driven.begun()
    assert driven.phase() is TxPhase.PREPARING


def test_a_lost_end_is_written_again() -> None:
    driven = Driven().committing()
    driven.ack(ONE)
    driven.ack(TWO)
    driven.lose()
    assert driven.phase() is TxPhase.COMMITTING
    driven.tick(100)
    driven.settle()
    assert driven.coordinator.pending() == ()
    assert driven.state.outcome(X) is True


# ---- new leaders ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("votes", [(), VOTES[:1], VOTES])
def test_what_is_found_preparing_is_aborted(votes: tuple[Voted, ...]) -> None:
    driven = Driven(_state(BEGIN, *votes), now_ms=50)
    assert driven.phase() is TxPhase.ABORTING
    assert [message.shard for message in driven.told(TxAbortMsg)] == [ONE, TWO]
    driven.settle()
    assert driven.durable_phase() is TxPhase.ABORTING
    for shard in (ONE, TWO):
        assert driven.vote(shard) in ([Mistake.WRONG_PHASE], [Mistake.DUPLICATE_VOTE])
    driven.ack(ONE)
    driven.ack(TWO)
    driven.settle()
    assert driven.state.outcome(X) is False


def test_what_is_found_prepared_is_committed_by_a_durable_decision() -> None:
    driven = Driven(_state(BEGIN, *VOTES, PREPARED))
    assert driven.said == []
    assert [write.entries for write in driven.writes] == [(DECIDED,)]
    driven.make_durable()
    assert [message.shard for message in driven.told(TxCommitMsg)] == [ONE, TWO]
    assert driven.is_balanced()


@pytest.mark.parametrize(
    "votes",
    [VOTES[:1], (VOTES[0], Voted(X, TWO, yes(TWO, key=b"key-1"))), (VOTES[0], Voted(X, TWO, No("held")))],
)
def test_what_is_found_prepared_wrongly_is_aborted_once_that_is_durable(votes: tuple[Voted, ...]) -> None:
    # No entries lead here: the state refuses them. Whatever else does must not commit.
    state = _state(BEGIN, *votes)
    assert state.apply((PREPARED,)) is not None
    state._open[X] = type(state.open[X])(BEGIN, TxPhase.PREPARED, votes)
    driven = Driven(state)
    assert driven.said == []
    assert driven.phase() is TxPhase.ABORTING
    driven.query()
    assert [message.commits for message in driven.told(TxDecisionMsg)] == [None]
    driven.make_durable()
    assert driven.durable_phase() is TxPhase.ABORTING
    assert ONE in [message.shard for message in driven.told(TxAbortMsg)]
    assert driven.stats.committed == 0


def test_what_is_found_committing_is_told_to_those_who_have_not_acknowledged() -> None:
    driven = Driven(_state(BEGIN, *VOTES, PREPARED, DECIDED, LockRelease(X, ONE)))
    assert [message.shard for message in driven.told(TxCommitMsg)] == [TWO]
    driven.tick(3_600_000)
    assert driven.phase() is TxPhase.COMMITTING
    assert driven.told(TxAbortMsg) == []
    assert driven.abort() == [Mistake.WRONG_PHASE]
    driven.ack(TWO)
    assert driven.settle()[-2:] == [TxComplete(X, commits=True), AllLocksReleased(X)]
    assert driven.state.outcome(X) is True


@pytest.mark.parametrize("entries", [(INTENT,), (PhaseChange(X, TxPhase.PREPARING, TxPhase.ABORTING), INTENT)])
def test_what_is_found_aborting_is_told_again(entries: tuple[TxWalEntry, ...]) -> None:
    driven = Driven(_state(BEGIN, *entries, LockRelease(X, TWO)))
    aborts = driven.told(TxAbortMsg)
    assert [(message.shard, message.reason) for message in aborts] == [(ONE, "held")]
    driven.ack(ONE)
    driven.settle()
    assert driven.coordinator.pending() == ()
    assert driven.state.outcome(X) is False


def test_what_is_found_complete_has_its_locks_released_before_it_is_forgotten() -> None:
    driven = Driven(_state(BEGIN, INTENT, LockRelease(X, TWO), TxComplete(X, commits=False)))
    assert [message.shard for message in driven.told(TxAbortMsg)] == [ONE]
    assert driven.writes == []
    driven.ack(ONE)
    assert driven.settle() == [LockRelease(X, ONE), AllLocksReleased(X)]
    released = (LockRelease(X, ONE), LockRelease(X, TWO), TxComplete(X, commits=True))
    driven = Driven(_state(BEGIN, *VOTES, PREPARED, DECIDED, *released))
    assert driven.said == []
    assert driven.settle() == [AllLocksReleased(X)]
    assert driven.state.outcome(X) is True


def test_time_begins_anew_with_each_leader_and_no_time_of_day_decides() -> None:
    old = TxBegin(X, parts(X), 5_000, -(10**15))
    driven = Driven(_state(old, *VOTES, PREPARED), now_ms=10**12)
    driven.tick(10**9)
    driven.make_durable()
    assert driven.phase() is TxPhase.COMMITTING
    driven = Driven(_state(old, *VOTES, PREPARED, DECIDED), now_ms=10**12)
    assert not driven.coordinator.pending()[0].is_overdue
    assert driven.coordinator.due_ms == 10**12 + 2_000


def test_a_timed_out_one_without_a_decision_is_aborted_with_a_reason() -> None:
    driven = Driven(_state(TxBegin(X, parts(X), 1, 0), *VOTES), now_ms=10**9)
    driven.settle()
    intent = driven.state.open[X].intent
    assert intent is not None
    assert "coordinator was lost" in intent.reason


def test_a_recovered_one_can_be_told_and_shown_in_full() -> None:
    driven = Driven().begun()
    driven.vote(ONE)
    driven.vote(TWO)
    successor = driven.successor(written=1)
    record = successor.state.open[X]
    assert record.begin.parts == parts(X)
    assert [voted.vote for voted in record.votes] == [yes(ONE), yes(TWO)]
    assert successor.coordinator.pending()[0].at_ms == 1_700_000_000_000
    assert [(message.tx, message.coordinator) for message in successor.told(TxCommitMsg)] == [(X, HOME), (X, HOME)]
    successor.begin(X, request=5)
    assert [(end.request, end.ended) for end in successor.ends] == [(5, Ended.COMMITTED)]


def test_a_question_to_a_new_leader_is_answered_by_what_is_durable() -> None:
    driven = Driven(_state(BEGIN, *VOTES, PREPARED))
    driven.query()
    assert [message.commits for message in driven.told(TxDecisionMsg)] == [None]
    driven.make_durable()
    driven.said.clear()
    driven.query()
    assert [message.commits for message in driven.told(TxDecisionMsg)] == [True]


def test_a_message_before_the_first_tick_finds_what_was_recovered() -> None:
    state = _state(BEGIN, *VOTES, PREPARED, DECIDED)
    driven = Driven(TxRecoveryState())
    driven.state = state
    fresh = type(driven.coordinator)(
        HOME, DistributedTxConfig(), driven.stats, state, delta_of=driven.coordinator._conduct._delta_of
    )
    assert fresh.due_ms == 0
    driven.coordinator = fresh
    assert driven.ack(ONE) == []
    assert driven.coordinator.pending()[0].waiting == (TWO,)


# ---- limits ---------------------------------------------------------------------------------------------------------


def test_so_many_may_be_open_and_finished_ones_do_not_count() -> None:
    driven = Driven()
    ids = [tx_id(number, b"one more") for number in range(101)]
    driven.committing(tx_id(999, b"finished"))
    driven.ack(ONE, tx=tx_id(999, b"finished"))
    driven.ack(TWO, tx=tx_id(999, b"finished"))
    driven.settle()
    driven.ends.clear()
    for number, tx in enumerate(ids[:100]):
        assert [alarm.code for alarm in driven.alarms] == ["transactions-crowded"] * (number >= 80)
        driven.begin(tx)
    assert driven.ends == []
    driven.begin(ids[100], request=7)
    assert [(end.request, end.ended) for end in driven.ends] == [(7, Ended.BUSY)]
    assert driven.stats.started == 101
    driven.settle()
    driven.vote(ONE, No("held"), tx=ids[0])
    driven.ack(TWO, tx=ids[0])
    driven.settle()
    driven.ends.clear()
    driven.begin(ids[100], request=8)
    assert driven.ends == []
    assert [alarm.code for alarm in driven.alarms] == ["transactions-crowded"]
    assert DistributedTxConfig().max_concurrent == 100


def test_commits_that_nobody_waits_for_any_more_do_not_keep_others_out() -> None:
    config = DistributedTxConfig(max_concurrent=1)
    driven = Driven(config=config)
    for number in range(10):
        driven.committing(tx_id(number, b"silence!"))
        driven.tick(10_000)
    assert [one.is_overdue for one in driven.coordinator.pending()] == [True] * 10
    driven.ends.clear()
    driven.begin(X)
    assert [(end.request, end.ended) for end in driven.ends] == [(1, Ended.BUSY)]
    driven.ends.clear()
    for shard in (ONE, TWO):
        driven.ack(shard, tx=tx_id(0, b"silence!"))
    driven.settle()
    driven.begin(X)
    assert driven.ends == []


# ---- every order of events ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("budgets", "decisions"),
    [
        ({}, {True}),
        ({"refuse": 1}, {True, False}),
        ({"tick": 2}, {True, False, None}),
        ({"abort": 1}, {True, False}),
        ({"lose": 1, "again": 1}, {True, None}),
        ({"ask": 1}, {True}),
    ],
)
def test_every_order_of_events_has_one_outcome(budgets: dict[str, int], decisions: set[bool | None]) -> None:
    states, met = explore(**budgets)
    assert states > 40
    assert met == decisions


@pytest.mark.slow
@pytest.mark.parametrize(
    "budgets",
    [
        {"crash": 2},
        {"crash": 1, "refuse": 1},
        {"crash": 1, "lose": 1},
        {"crash": 1, "again": 1},
        {"crash": 1, "tick": 1},
    ],
)
def test_every_order_of_events_has_one_outcome_whoever_is_lost_when(budgets: dict[str, int]) -> None:
    states, met = explore(**budgets)
    assert states > 2_000
    assert met == {True, False, None}


def test_long_ways_by_chance_have_one_outcome() -> None:
    random = Random(7)
    mild = [wander(random, 80, crash=1, tick=2, again=2, lose=1, ask=4) for _ in range(150)]
    rough = [wander(random, 80, crash=3, tick=4, abort=1, again=2, lose=2, ask=4, refuse=1) for _ in range(150)]
    assert mild.count(True) > 5
    assert rough.count(False) > 50


def _undecided_counts_as_abort(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Ongoing, "may_say", True)


def _abort_while_the_decision_is_written(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Ongoing, "is_deciding", False)


def _ended_ids_are_forgotten_at_once(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(TxRecoveryState, "_remember", lambda _, tx, *, commits: None)  # noqa: ARG005


def _complete_before_anybody_has_acknowledged(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Delivery, "is_over", True)
    patch.setattr(TxRecord, "owed", ())


def _commit_is_given_up_like_an_abort(patch: pytest.MonkeyPatch) -> None:
    def repeat(self: Delivery, now_ms: int) -> tuple[ShardId, ...]:
        self.is_given_up = now_ms >= self.due_ms
        return ()

    patch.setattr(Delivery, "repeat", repeat)


def _one_yes_stands_for_all(patch: pytest.MonkeyPatch) -> None:
    count = Coordinator._count_vote

    def count_for_all(self: Coordinator, one: Ongoing, vote: PrepareVote) -> None:
        one.votes |= {shard: yes(shard) for shard in one.unvoted}
        count(self, one, vote)

    patch.setattr(Coordinator, "_count_vote", count_for_all)


@pytest.mark.parametrize(
    ("plant", "budgets", "found"),
    [
        (_undecided_counts_as_abort, {"ask": 1}, "T5"),
        (_abort_while_the_decision_is_written, {"abort": 1}, "T5"),
        (_ended_ids_are_forgotten_at_once, {"abort": 1, "again": 1}, "T5"),
        (_complete_before_anybody_has_acknowledged, {}, "L15"),
        (_commit_is_given_up_like_an_abort, {"tick": 2}, "not acknowledged by all"),
        (_one_yes_stands_for_all, {}, "T1"),
    ],
)
def test_planted_faults_are_found(
    plant: Callable[[pytest.MonkeyPatch], None],
    budgets: dict[str, int],
    found: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    plant(monkeypatch)
    with pytest.raises(AssertionError, match=found):
        explore(**budgets)
