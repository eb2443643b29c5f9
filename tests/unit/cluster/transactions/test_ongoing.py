"""What may be said, and what has to be written for it."""

import pytest

from bobbin.cluster.transactions.messages import No
from bobbin.cluster.transactions.ongoing import Ongoing
from bobbin.cluster.transactions.phases import COORDINATOR, TxPhase
from bobbin.cluster.transactions.recovery import TxRecord
from bobbin.cluster.transactions.tx_log import (
    AbortIntent,
    AllLocksReleased,
    LockRelease,
    PhaseChange,
    TxBegin,
    TxComplete,
    Voted,
)
from tests.unit.cluster.transactions.driven import DEFAULT, ONE, TWO, X, parts, yes

BEGIN = TxBegin(X, parts(X), 5_000, 77)
VOTES = (Voted(X, ONE, yes(ONE)), Voted(X, TWO, yes(TWO)))


def _found(phase: TxPhase, *votes: Voted, intent: AbortIntent | None = None) -> Ongoing:
    return Ongoing(BEGIN, durable=TxRecord(BEGIN, phase, votes, intent), now_ms=0)


def test_ways_that_the_table_lacks_cannot_be_gone() -> None:
    for was in TxPhase:
        for phase in TxPhase:
            one = _found(TxPhase.PREPARING)
            one.phase = was
            if (was, phase) in COORDINATOR:
                one.move(phase)
                assert one.phase is phase
            else:
                with pytest.raises(AssertionError):
                    one.move(phase)
                assert one.phase is was


def test_an_abort_may_be_said_where_no_later_leader_can_commit() -> None:
    for durable, may_say in ((TxPhase.PREPARING, True), (TxPhase.PREPARED, False), (TxPhase.ABORTING, True)):
        one = _found(durable)
        one.phase = TxPhase.ABORTING
        assert one.may_say is may_say
    begun = Ongoing(BEGIN, durable=None, now_ms=0)
    begun.phase = TxPhase.ABORTING
    assert not begun.may_say


def test_a_commit_may_be_said_once_it_is_durable() -> None:
    for durable, may_say in ((TxPhase.PREPARING, False), (TxPhase.PREPARED, False), (TxPhase.COMMITTING, True)):
        one = _found(durable)
        one.phase = TxPhase.COMMITTING
        assert one.may_say is may_say
    for phase in (TxPhase.PREPARING, TxPhase.PREPARED):
        assert not _found(phase).may_say


def test_the_beginning_comes_first() -> None:
    assert Ongoing(BEGIN, durable=None, now_ms=0).missing() == (BEGIN,)
    assert _found(TxPhase.PREPARING).missing() == ()


def test_what_is_durable_is_not_written_again() -> None:
    one = _found(TxPhase.PREPARING, VOTES[0])
    one.votes[TWO] = yes(TWO)
    one.move(TxPhase.PREPARED)
    decided = PhaseChange(X, TxPhase.PREPARED, TxPhase.COMMITTING)
    assert one.missing() == (VOTES[1], PhaseChange(X, TxPhase.PREPARING, TxPhase.PREPARED), decided)
    assert _found(TxPhase.PREPARED, *VOTES).missing() == (decided,)


def test_an_abort_says_who_is_to_be_told() -> None:
    one = _found(TxPhase.PREPARING)
    one.prepare_due_ms = 0
    one.votes[ONE] = No("held")
    one.move(TxPhase.ABORTING)
    assert one.owed == (TWO,)
    assert one.missing() == (
        Voted(X, ONE, No("held")),
        PhaseChange(X, TxPhase.PREPARING, TxPhase.ABORTING),
        AbortIntent(X, "", (TWO,)),
    )


def test_where_no_prepare_has_left_nobody_is_told() -> None:
    one = _found(TxPhase.PREPARING)
    one.move(TxPhase.ABORTING)
    assert one.owed == ()
    one.deliver(DEFAULT, 0)
    assert one.missing()[1:] == (AbortIntent(X, "", ()), TxComplete(X, commits=False), AllLocksReleased(X))


def test_the_end_is_written_when_everybody_has_acknowledged() -> None:
    one = _found(TxPhase.COMMITTING, *VOTES)
    delivery = one.deliver(DEFAULT, 0)
    assert one.missing() == ()
    delivery.acknowledge(TWO)
    assert one.missing() == ()
    one.is_overdue = True
    assert one.missing() == (LockRelease(X, TWO),)
    delivery.acknowledge(ONE)
    assert one.missing() == (
        LockRelease(X, TWO),
        LockRelease(X, ONE),
        TxComplete(X, commits=True),
        AllLocksReleased(X),
    )


def test_what_is_complete_is_not_completed_again() -> None:
    one = _found(TxPhase.ABORTED, intent=AbortIntent(X, "", (ONE,)))
    assert one.phase is TxPhase.ABORTING
    one.deliver(DEFAULT, 0).acknowledge(ONE)
    assert one.missing() == (LockRelease(X, ONE), AllLocksReleased(X))


def test_the_next_moment_is_the_earliest() -> None:
    one = Ongoing(BEGIN, durable=None, now_ms=0)
    one.deadline_ms = 500
    moments = [one.due_ms]
    one.prepare_due_ms = 300
    moments.append(one.due_ms)
    one.phase = TxPhase.PREPARED
    moments.append(one.due_ms)
    one.writes_lost, one.write_due_ms = 1, 70
    moments.append(one.due_ms)
    one.ticket = 1
    moments.append(one.due_ms)
    assert moments == [500, 300, None, 70, None]
    committing = _found(TxPhase.COMMITTING, *VOTES)
    committing.deliver(DEFAULT, 1_000)
    assert committing.due_ms == 3_000
