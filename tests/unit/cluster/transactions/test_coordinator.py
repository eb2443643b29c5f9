"""The coordinator's events, one by one (CL-136 to 147, 159 to 162, 175, 323 to 328)."""

import pytest

from bobbin.cluster.settings import DistributedTxConfig
from bobbin.cluster.transactions.coordinator import DENIALS_MAX, REQUESTS_MAX
from bobbin.cluster.transactions.effects import Mistake, Send
from bobbin.cluster.transactions.messages import (
    Conflict,
    No,
    TxAbortMsg,
    TxCommitMsg,
    TxDecisionMsg,
    TxPrepareMsg,
)
from bobbin.cluster.transactions.names import ShardId, TxId, tx_id
from bobbin.cluster.transactions.phases import Ended, TxPhase
from bobbin.cluster.transactions.recovery import TxRecoveryState
from bobbin.cluster.transactions.tx_log import (
    AbortIntent,
    AllLocksReleased,
    LockRelease,
    PhaseChange,
    TxBegin,
    TxComplete,
    Voted,
)
from bobbin.errors import UsageError
from tests.unit.cluster.transactions.driven import (
    HOME,
    LEFT,
    ONE,
    THREE,
    TWO,
    UP,
    Driven,
    X,
    Y,
    delta_of,
    part,
    parts,
    yes,
)


def _ended(driven: Driven) -> list[tuple[int, Ended]]:
    found = [(end.request, end.ended) for end in driven.ends]
    driven.ends.clear()
    return found


# ---- begin ----------------------------------------------------------------------------------------------------------


def test_a_beginning_is_durable_before_the_first_prepare() -> None:
    driven = Driven()
    driven.begin(X, ONE, TWO, THREE)
    assert driven.said == []
    assert [write.entries for write in driven.writes] == [
        (TxBegin(X, parts(X, ONE, TWO, THREE), 5_000, 1_700_000_000_000),)
    ]
    driven.make_durable()
    assert driven.said == [
        Send(shard, TxPrepareMsg(X, HOME, shard, part(X, shard), delta_of(part(X, shard)), 5_000, (ONE, TWO, THREE)))
        for shard in (ONE, TWO, THREE)
    ]
    assert driven.phase() is TxPhase.PREPARING


@pytest.mark.parametrize(("shards", "timeout_ms"), [((TWO, ONE), 5_000), ((ONE, TWO), 0)])
def test_what_makes_no_sense_is_refused_and_nothing_is_begun(shards: tuple[ShardId, ...], timeout_ms: int) -> None:
    driven = Driven()
    driven.begin(X, *shards, timeout_ms=timeout_ms)
    assert _ended(driven) == [(1, Ended.REFUSED)]
    assert driven.writes == []
    assert driven.coordinator.pending() == ()
    assert (driven.stats.started, driven.stats.refused) == (0, 1)


def test_a_part_of_another_transaction_is_refused() -> None:
    driven = Driven()
    mixed = ((ONE, part(X, ONE)), (TWO, part(Y, TWO)))
    driven.keep(driven.coordinator.begin(X, mixed, 5_000, 1, now_ms=driven.now_ms, at_ms=0))
    assert _ended(driven) == [(1, Ended.REFUSED)]


def test_a_beginning_again_waits_for_the_first_one_and_does_nothing() -> None:
    driven = Driven().begun()
    driven.begin(X, request=2)
    assert (driven.writes, driven.said, driven.ends) == ([], [], [])
    driven.vote(ONE)
    driven.vote(TWO)
    driven.settle()
    assert _ended(driven) == [(1, Ended.COMMITTED), (2, Ended.COMMITTED)]
    driven.begin(X, request=3)
    assert _ended(driven) == [(3, Ended.COMMITTED)]
    driven.ack(ONE)
    driven.ack(TWO)
    driven.settle()
    assert driven.state.open == {}
    driven.begin(X, request=4)
    assert _ended(driven) == [(4, Ended.COMMITTED)]
    assert driven.writes == []


def test_another_transaction_of_the_same_id_is_refused() -> None:
    driven = Driven().begun()
    driven.begin(X, ONE, THREE, request=2)
    assert _ended(driven) == [(2, Ended.REFUSED)]
    assert driven.coordinator.pending()[0].shards == (ONE, TWO)


def test_so_many_may_wait_for_one_transaction() -> None:
    driven = Driven().begun()
    for request in range(2, REQUESTS_MAX + 1):
        driven.begin(X, request=request)
    assert driven.ends == []
    driven.begin(X, request=REQUESTS_MAX + 1)
    assert _ended(driven) == [(REQUESTS_MAX + 1, Ended.BUSY)]


def test_an_aborted_id_is_never_begun_again() -> None:
    driven = Driven().begun()
    driven.vote(ONE, No("held"))
    assert _ended(driven) == [(1, Ended.BUSY)]
    driven.begin(X, request=2)
    assert _ended(driven) == [(2, Ended.ABORTED)]
    driven.ack(TWO)
    driven.settle()
    assert driven.coordinator.pending() == ()
    driven.begin(X, request=3)
    assert _ended(driven) == [(3, Ended.ABORTED)]
    assert driven.writes == []


def test_an_id_that_is_too_old_to_be_remembered_is_neither_begun_nor_called_undone() -> None:
    driven = Driven(TxRecoveryState(outcomes_max=1))
    for tx in (X, Y):
        driven.committing(tx)
        driven.ack(ONE, tx=tx)
        driven.ack(TWO, tx=tx)
        driven.settle()
    driven.ends.clear()
    driven.begin(X, request=5)
    driven.abort(tx=X, request=6)
    assert _ended(driven) == [(5, Ended.FORGOTTEN), (6, Ended.FORGOTTEN)]
    assert driven.writes == []
    assert driven.state.horizon == 6


# ---- votes ----------------------------------------------------------------------------------------------------------


def test_all_votes_and_the_decision_are_durable_before_anybody_hears_of_it() -> None:
    driven = Driven().begun()
    driven.vote(ONE)
    assert driven.writes == []
    assert driven.phase() is TxPhase.PREPARING
    driven.vote(TWO)
    assert driven.phase() is TxPhase.PREPARED
    assert (driven.said, driven.ends, driven.stats.committed) == ([], [], 0)
    assert driven.writes[0].entries == (
        Voted(X, ONE, yes(ONE)),
        Voted(X, TWO, yes(TWO)),
        PhaseChange(X, TxPhase.PREPARING, TxPhase.PREPARED),
        PhaseChange(X, TxPhase.PREPARED, TxPhase.COMMITTING),
    )
    driven.make_durable()
    assert driven.phase() is TxPhase.COMMITTING
    assert driven.said == [Send(shard, TxCommitMsg(X, HOME, shard)) for shard in (ONE, TWO)]
    assert _ended(driven) == [(1, Ended.COMMITTED)]


def test_a_majority_of_votes_is_not_all_of_them() -> None:
    driven = Driven().begun(X, ONE, TWO, THREE)
    driven.vote(ONE)
    driven.vote(TWO)
    assert driven.writes == []
    assert driven.phase() is TxPhase.PREPARING
    assert driven.coordinator.pending()[0].waiting == (THREE,)


@pytest.mark.parametrize(
    ("vote", "ended"),
    [
        (No("a key is held"), Ended.BUSY),
        (No("no such key", is_final=True), Ended.REFUSED),
        (Conflict(0.9, Y, "a version has moved"), Ended.CONFLICT),
    ],
)
def test_the_first_vote_against_it_aborts_and_a_late_yes_does_not_bring_it_back(
    vote: No | Conflict, ended: Ended
) -> None:
    driven = Driven().begun(X, ONE, TWO, THREE)
    driven.vote(ONE)
    driven.vote(TWO, vote)
    assert driven.phase() is TxPhase.ABORTING
    assert _ended(driven) == [(1, ended)]
    # Whoever has voted against it has kept nothing of it.
    assert [message.shard for message in driven.told(TxAbortMsg)] == [ONE, THREE]
    assert driven.settle() == [
        Voted(X, TWO, vote),
        PhaseChange(X, TxPhase.PREPARING, TxPhase.ABORTING),
        AbortIntent(X, vote.reason, (ONE, THREE)),
    ]
    assert driven.vote(THREE) == [Mistake.WRONG_PHASE]
    assert driven.phase() is TxPhase.ABORTING
    assert driven.stats.committed == 0
    assert driven.stats.conflicts == (ended is Ended.CONFLICT)


def test_a_conflict_says_with_whom() -> None:
    driven = Driven().begun()
    driven.vote(ONE, Conflict(0.75, Y, "moved"))
    end = driven.ends[0]
    assert (end.similarity, end.other, end.reason) == (0.75, Y, "moved")


def test_wrong_votes_are_typed_and_change_nothing() -> None:
    driven = Driven().begun()
    before = driven.state.snapshot()
    assert driven.vote(ONE, tx=Y) == [Mistake.UNKNOWN_TRANSACTION]
    assert driven.vote(THREE) == [Mistake.FOREIGN_SHARD]
    assert driven.vote(ONE) == []
    assert driven.vote(ONE, No("I have thought about it")) == [Mistake.DUPLICATE_VOTE]
    assert driven.phase() is TxPhase.PREPARING
    driven.vote(TWO)
    assert driven.writes[0].entries[0] == Voted(X, ONE, yes(ONE))
    assert driven.vote(TWO) == [Mistake.DUPLICATE_VOTE]
    driven.settle()
    assert driven.vote(TWO, No("too late")) == [Mistake.DUPLICATE_VOTE]
    assert driven.phase() is TxPhase.COMMITTING
    assert before != driven.state.snapshot()
    assert driven.stats.mistakes == {
        Mistake.UNKNOWN_TRANSACTION: 1,
        Mistake.FOREIGN_SHARD: 1,
        Mistake.DUPLICATE_VOTE: 3,
        Mistake.DUPLICATE_ACK: 0,
        Mistake.WRONG_PHASE: 0,
        Mistake.FAILED_ACK: 0,
    }


def test_a_vote_before_anybody_was_asked_is_of_the_wrong_phase() -> None:
    driven = Driven()
    driven.begin()
    assert driven.vote(ONE) == [Mistake.WRONG_PHASE]
    driven.make_durable()
    assert driven.coordinator.pending()[0].waiting == (ONE, TWO)


def test_a_key_on_two_shards_aborts() -> None:
    driven = Driven().begun()
    driven.vote(ONE, yes(ONE, LEFT, key=b"both"))
    driven.vote(TWO, yes(TWO, UP, key=b"both"))
    assert driven.phase() is TxPhase.ABORTING
    assert _ended(driven) == [(1, Ended.REFUSED)]
    assert [message.shard for message in driven.told(TxAbortMsg)] == [ONE, TWO]


# ---- acknowledgements -----------------------------------------------------------------------------------------------


def test_a_commit_ends_when_every_shard_has_acknowledged() -> None:
    driven = Driven().committing(X, ONE, TWO, THREE)
    assert driven.ack(ONE) == []
    assert driven.ack(ONE) == [Mistake.DUPLICATE_ACK]
    assert driven.ack(ONE) == [Mistake.DUPLICATE_ACK]
    assert driven.ack(HOME) == [Mistake.FOREIGN_SHARD]
    assert driven.ack(TWO, success=False, error="disk full") == [Mistake.FAILED_ACK]
    assert driven.ack(THREE) == []
    assert (driven.phase(), driven.writes) == (TxPhase.COMMITTING, [])
    assert driven.coordinator.pending()[0].waiting == (TWO,)
    assert [alarm.code for alarm in driven.alarms] == ["transaction-not-acknowledged"]
    driven.ack(TWO)
    assert driven.settle() == [
        LockRelease(X, ONE),
        LockRelease(X, THREE),
        LockRelease(X, TWO),
        TxComplete(X, commits=True),
        AllLocksReleased(X),
    ]
    assert (driven.phase(), driven.durable_phase()) == (None, None)
    assert driven.state.outcome(X) is True


def test_an_abort_ends_with_the_last_acknowledgement() -> None:
    driven = Driven().begun()
    driven.abort()
    driven.settle()
    driven.ack(TWO)
    assert (driven.phase(), driven.writes) == (TxPhase.ABORTING, [])
    driven.ack(ONE)
    assert [type(entry) for entry in driven.settle()] == [LockRelease, LockRelease, TxComplete, AllLocksReleased]
    assert driven.coordinator.pending() == ()
    assert driven.state.outcome(X) is False


def test_an_acknowledgement_before_the_decision_is_of_the_wrong_phase() -> None:
    driven = Driven().begun()
    assert driven.ack(ONE) == [Mistake.WRONG_PHASE]
    driven.vote(ONE)
    driven.vote(TWO)
    assert driven.ack(ONE) == [Mistake.WRONG_PHASE]
    driven.settle()
    assert driven.coordinator.pending()[0].waiting == (ONE, TWO)


def test_nothing_leaves_the_end() -> None:
    driven = Driven().committing()
    driven.ack(ONE)
    driven.ack(TWO)
    driven.settle()
    before = driven.state.snapshot()
    assert driven.coordinator.due_ms is None
    assert driven.vote(ONE, No("late")) == [Mistake.UNKNOWN_TRANSACTION]
    assert driven.ack(ONE) == [Mistake.UNKNOWN_TRANSACTION]
    assert driven.victim() == [Mistake.UNKNOWN_TRANSACTION]
    driven.tick(1_000_000)
    driven.abort(request=4)
    assert driven.ends[-1].ended is Ended.COMMITTED
    assert (driven.said, driven.writes) == ([], [])
    assert driven.state.snapshot() == before
    assert (driven.stats.committed, driven.stats.aborted) == (1, 0)


# ---- abort ----------------------------------------------------------------------------------------------------------


def test_an_abort_before_the_decision_aborts_and_after_it_is_refused() -> None:
    driven = Driven().begun()
    driven.vote(ONE)
    assert driven.abort(request=9) == []
    assert _ended(driven) == [(1, Ended.ABORTED), (9, Ended.ABORTED)]
    assert driven.phase() is TxPhase.ABORTING
    driven = Driven().committing()
    driven.ends.clear()
    assert driven.abort(request=9) == [Mistake.WRONG_PHASE]
    assert _ended(driven) == [(9, Ended.COMMITTED)]
    assert driven.phase() is TxPhase.COMMITTING
    assert driven.told(TxAbortMsg) == []


@pytest.mark.parametrize("is_written", [True, False])
def test_an_abort_while_the_decision_is_being_written_waits_for_that(*, is_written: bool) -> None:
    driven = Driven().begun()
    driven.vote(ONE)
    driven.vote(TWO)
    driven.abort(request=9)
    assert driven.phase() is TxPhase.PREPARED
    assert (driven.said, driven.ends) == ([], [])
    if is_written:
        driven.make_durable()
        assert _ended(driven) == [(1, Ended.COMMITTED), (9, Ended.COMMITTED)]
        assert [message.shard for message in driven.told(TxCommitMsg)] == [ONE, TWO]
    else:
        driven.lose()
        assert _ended(driven) == [(1, Ended.ABORTED), (9, Ended.ABORTED)]
        assert [message.shard for message in driven.told(TxAbortMsg)] == [ONE, TWO]
        driven.tick(100)
        driven.settle()
        assert driven.durable_phase() is TxPhase.ABORTING
    assert driven.is_balanced()


def test_a_prepared_one_whose_decision_was_lost_can_be_aborted() -> None:
    driven = Driven().begun()
    driven.vote(ONE)
    driven.vote(TWO)
    driven.lose()
    assert driven.phase() is TxPhase.PREPARED
    driven.abort()
    assert driven.phase() is TxPhase.ABORTING
    assert [message.shard for message in driven.told(TxAbortMsg)] == [ONE, TWO]


@pytest.mark.parametrize("is_written", [True, False])
def test_an_abort_before_the_beginning_is_durable_reaches_nobody(*, is_written: bool) -> None:
    driven = Driven()
    driven.begin()
    driven.abort(request=9)
    assert driven.ends == []
    if is_written:
        entries = driven.settle()
        assert [type(entry) for entry in entries] == [TxBegin, PhaseChange, AbortIntent, TxComplete, AllLocksReleased]
        assert _ended(driven) == [(1, Ended.ABORTED), (9, Ended.ABORTED)]
        assert driven.state.outcome(X) is False
    else:
        # The beginning may come again, so nobody is told that it is over.
        driven.lose()
        assert _ended(driven) == [(1, Ended.BUSY), (9, Ended.BUSY)]
    assert driven.said == []
    assert driven.coordinator.pending() == ()
    assert driven.is_balanced()


def test_an_abort_of_what_is_not_known_is_written_down_first() -> None:
    driven = Driven()
    driven.abort(request=9)
    assert (driven.ends, driven.writes[0].entries) == ([], (AbortIntent(X, "it is not known", ()),))
    driven.begin(X, request=1)
    assert len(driven.writes) == 1
    driven.make_durable()
    assert _ended(driven) == [(9, Ended.ABORTED), (1, Ended.ABORTED)]
    driven.begin(X, request=2)
    assert _ended(driven) == [(2, Ended.ABORTED)]
    assert driven.coordinator.pending() == ()


def test_an_abort_whose_entry_was_lost_is_not_final() -> None:
    driven = Driven()
    driven.abort(request=9)
    driven.lose()
    assert _ended(driven) == [(9, Ended.BUSY)]
    driven.begin(X, request=1)
    driven.settle()
    assert driven.phase() is TxPhase.PREPARING


def test_an_abort_of_no_id_is_refused() -> None:
    driven = Driven()
    driven.abort(tx=TxId(b"no"))
    assert _ended(driven) == [(9, Ended.REFUSED)]
    assert driven.writes == []


# ---- victims --------------------------------------------------------------------------------------------------------


def test_a_victim_is_aborted_while_it_is_not_being_decided() -> None:
    driven = Driven().begun()
    assert driven.victim(coordinator=THREE) == [Mistake.FOREIGN_SHARD]
    assert driven.victim(tx=Y) == [Mistake.UNKNOWN_TRANSACTION]
    assert driven.victim() == []
    assert _ended(driven) == [(1, Ended.ABORTED)]
    assert driven.victim() == [Mistake.WRONG_PHASE]
    assert (driven.stats.victims, driven.stats.aborted) == (1, 1)
    driven = Driven().begun()
    driven.vote(ONE)
    driven.vote(TWO)
    assert driven.victim() == [Mistake.WRONG_PHASE]
    driven.settle()
    assert driven.victim() == [Mistake.WRONG_PHASE]
    assert driven.phase() is TxPhase.COMMITTING


# ---- questions ------------------------------------------------------------------------------------------------------


def _answers(driven: Driven) -> list[bool | None]:
    return [message.commits for message in driven.told(TxDecisionMsg)]


def test_an_undecided_one_is_never_answered_abort() -> None:
    driven = Driven()
    driven.begin()
    driven.query()
    assert _answers(driven) == [None]
    driven.make_durable()
    driven.told(TxPrepareMsg)
    driven.query()
    driven.vote(ONE)
    driven.query()
    driven.vote(TWO)
    driven.query()
    assert driven.phase() is TxPhase.PREPARED
    assert _answers(driven) == [None, None, None]
    driven.make_durable()
    driven.told(TxCommitMsg)
    driven.query()
    assert _answers(driven) == [True]


def test_a_decided_one_is_answered_as_decided_also_after_its_end() -> None:
    driven = Driven().committing()
    driven.ack(ONE)
    driven.ack(TWO)
    driven.settle()
    driven.query()
    assert _answers(driven) == [True]
    driven.begun(Y)
    driven.vote(ONE, No("held"), tx=Y)
    driven.told(TxAbortMsg)
    driven.query(TWO, tx=Y)
    assert _answers(driven) == [False]


def test_an_unknown_one_is_answered_abort_once_that_can_never_be_otherwise() -> None:
    driven = Driven()
    assert driven.query(TWO) == [Mistake.UNKNOWN_TRANSACTION]
    driven.query(ONE)
    driven.query(TWO)
    assert driven.said == []
    assert len(driven.writes) == 1
    driven.make_durable()
    assert [effect.shard for effect in driven.said] == [ONE, TWO]
    assert _answers(driven) == [False, False]
    driven.query(ONE)
    assert _answers(driven) == [False]
    driven.begin(X, request=2)
    assert _ended(driven) == [(2, Ended.ABORTED)]


def test_a_question_whose_entry_is_lost_is_not_answered() -> None:
    driven = Driven()
    driven.query()
    driven.lose()
    assert driven.said == []


def test_a_question_about_a_forgotten_one_is_answered_abort() -> None:
    # Whoever still asks has not acknowledged; so it was no commit, for that is kept until everybody has.
    driven = Driven(TxRecoveryState(outcomes_max=1))
    for tx in (X, Y):
        driven.query(tx=tx)
        driven.settle()
        driven.said.clear()
    driven.query(tx=X)
    driven.settle()
    assert _answers(driven) == [False]
    assert driven.state.remembered == 1


def test_questions_of_strangers_are_refused() -> None:
    driven = Driven().begun()
    assert driven.query(coordinator=TWO) == [Mistake.FOREIGN_SHARD]
    assert driven.query(THREE) == [Mistake.FOREIGN_SHARD]
    assert driven.said == []


def test_so_many_unknown_ids_are_written_down_at_once() -> None:
    driven = Driven()
    for number in range(DENIALS_MAX):
        driven.query(tx=tx_id(number, b"unknown!"))
    driven.query(tx=X)
    driven.abort(tx=Y)
    assert len(driven.writes) == DENIALS_MAX
    assert _ended(driven) == [(9, Ended.BUSY)]


# ---- the rest -------------------------------------------------------------------------------------------------------


def test_pending_transactions_can_be_listed() -> None:
    driven = Driven().begun(Y)
    driven.committing(X)
    driven.ack(ONE)
    driven.ack(TWO, success=False, error="resolved by hand")
    first, second = driven.coordinator.pending()
    assert (first.tx, first.phase, first.waiting) == (Y, TxPhase.PREPARING, (ONE, TWO))
    assert (second.tx, second.phase, second.waiting) == (X, TxPhase.COMMITTING, (TWO,))
    assert (second.at_ms, second.reason) == (1_700_000_000_000, "resolved by hand")


def test_an_answer_to_no_write_is_an_error_of_ours() -> None:
    driven = Driven().begun()
    with pytest.raises(UsageError, match="ticket 1"):
        driven.coordinator.written(1, now_ms=driven.now_ms)
    with pytest.raises(UsageError, match="ticket 77"):
        driven.coordinator.lost(77, "", now_ms=driven.now_ms)
    assert driven.phase() is TxPhase.PREPARING


def test_locks_outlive_the_time_for_votes() -> None:
    config = DistributedTxConfig()
    assert (config.lock_timeout_ms, config.prepare_timeout_ms) == (30_000, 5_000)
    for lock_timeout_ms in (4_999, 5_000):
        with pytest.raises(UsageError, match="must exceed prepare_timeout_ms"):
            DistributedTxConfig(lock_timeout_ms=lock_timeout_ms)
    assert DistributedTxConfig(lock_timeout_ms=5_001).lock_timeout_ms == 5_001
