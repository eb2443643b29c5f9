"""What the log of a coordinator says, replayed (CL-093, 164, 297, 301, 373)."""

from random import Random

import msgspec
import pytest

from bobbin.cluster.transactions.coordinator import Coordinator
from bobbin.cluster.transactions.effects import CoordinatorEffect
from bobbin.cluster.transactions.messages import Conflict, No, TxAckMsg, TxPrepareResponse, TxQueryMsg
from bobbin.cluster.transactions.names import TxId, tx_id
from bobbin.cluster.transactions.phases import COORDINATOR, TxPhase
from bobbin.cluster.transactions.recovery import OUTCOMES_MAX, TxRecoveryState, TxSaved, overlap
from bobbin.cluster.transactions.stats import TxStats
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
from bobbin.errors import IntegrityError
from tests.unit.cluster.transactions.driven import DEFAULT, HOME, ONE, THREE, TWO, Driven, X, Y, delta_of, parts, yes

BEGIN = TxBegin(X, parts(X), 5_000, 77)
VOTES = (Voted(X, ONE, yes(ONE)), Voted(X, TWO, yes(TWO)))
PREPARED = PhaseChange(X, TxPhase.PREPARING, TxPhase.PREPARED)
DECIDED = PhaseChange(X, TxPhase.PREPARED, TxPhase.COMMITTING)
ABORTING = PhaseChange(X, TxPhase.PREPARING, TxPhase.ABORTING)
INTENT = AbortIntent(X, "held", (ONE, TWO))
RELEASED = (LockRelease(X, ONE), LockRelease(X, TWO))
COMMIT = (BEGIN, *VOTES, PREPARED, DECIDED)
POINTS: dict[str, tuple[TxWalEntry, ...]] = {
    "preparing": (BEGIN,),
    "voted": (BEGIN, VOTES[1]),
    "prepared": (BEGIN, *VOTES, PREPARED),
    "committing": COMMIT,
    "released": (*COMMIT, RELEASED[1]),
    "complete": (*COMMIT, *RELEASED, TxComplete(X, commits=True)),
    "aborting": (BEGIN, Voted(X, ONE, Conflict(0.5, Y, "moved")), ABORTING),
    "intended": (BEGIN, Voted(X, ONE, No("held")), ABORTING, AbortIntent(X, "held", (TWO,))),
    "intent alone": (BEGIN, VOTES[0], INTENT, RELEASED[0]),
    "complete abort": (BEGIN, INTENT, RELEASED[0], TxComplete(X, commits=False)),
}


def _state(*entries: TxWalEntry, outcomes_max: int = OUTCOMES_MAX) -> TxRecoveryState:
    state = TxRecoveryState(outcomes_max=outcomes_max)
    for entry in entries:
        wrong = state.apply((entry,))
        assert wrong is None, wrong
    return state


def test_a_whole_commit_leaves_nothing_but_its_outcome() -> None:
    state = _state(*POINTS["complete"])
    assert state.in_phase(TxPhase.COMMITTED) == (state.open[X],)
    assert state.apply((AllLocksReleased(X),)) is None
    assert (dict(state.open), state.outcome(X), state.remembered) == ({}, True, 1)


def test_what_is_complete_but_not_released_yields_locks_to_release() -> None:
    state = _state(*POINTS["complete abort"])
    assert state.open[X].owed == (TWO,)
    assert state.outcome(X) is None
    assert state.apply((RELEASED[1], AllLocksReleased(X))) is None
    assert state.outcome(X) is False


def test_an_intent_without_a_completion_yields_aborts_to_send_again() -> None:
    state = _state(*POINTS["intended"])
    assert (state.open[X].phase, state.open[X].owed) == (TxPhase.ABORTING, (TWO,))
    state = _state(BEGIN, INTENT)
    assert (state.open[X].phase, state.open[X].owed) == (TxPhase.ABORTING, (ONE, TWO))
    state = _state(*POINTS["aborting"])
    # Whoever has voted against it keeps nothing that could be released.
    assert state.open[X].owed == (TWO,)


BAD: dict[str, tuple[str, TxWalEntry]] = {
    "begun twice": ("preparing", BEGIN),
    "vote of a stranger": ("preparing", Voted(X, THREE, yes(THREE))),
    "vote twice": ("voted", Voted(X, TWO, No("I have thought about it"))),
    "vote when decided": ("committing", Voted(X, ONE, yes(ONE))),
    "vote when aborting": ("aborting", Voted(X, TWO, yes(TWO))),
    "prepared with a vote missing": ("voted", PREPARED),
    "prepared without votes": ("preparing", PREPARED),
    "a leap": ("preparing", PhaseChange(X, TxPhase.PREPARING, TxPhase.COMMITTING)),
    "from elsewhere": ("preparing", DECIDED),
    "back": ("committing", PhaseChange(X, TxPhase.COMMITTING, TxPhase.PREPARED)),
    "abort of a commit": ("committing", PhaseChange(X, TxPhase.COMMITTING, TxPhase.ABORTING)),
    "intent of a commit": ("committing", INTENT),
    "intent of the finished": ("complete abort", INTENT),
    "intent twice": ("intended", AbortIntent(X, "again", (TWO,))),
    "intent for a stranger": ("preparing", AbortIntent(X, "", (THREE,))),
    "end by a change of phase": ("released", PhaseChange(X, TxPhase.COMMITTING, TxPhase.COMMITTED)),
    "release before a decision": ("prepared", RELEASED[0]),
    "release twice": ("released", RELEASED[1]),
    "release of a stranger": ("committing", LockRelease(X, THREE)),
    "release after the end": ("complete", RELEASED[0]),
    "complete without every acknowledgement": ("released", TxComplete(X, commits=True)),
    "complete before anybody was told": ("committing", TxComplete(X, commits=True)),
    "complete without a decision": ("prepared", TxComplete(X, commits=True)),
    "commit of an abort": ("aborting", TxComplete(X, commits=True)),
    "abort of what is decided": ("committing", TxComplete(X, commits=False)),
    "forgotten while it goes on": ("committing", AllLocksReleased(X)),
    "vote for the unknown": ("preparing", Voted(Y, ONE, yes(ONE))),
    "release of the unknown": ("preparing", AllLocksReleased(Y)),
}


@pytest.mark.parametrize("name", BAD)
def test_an_entry_that_does_not_fit_is_refused_with_all_that_came_with_it(name: str) -> None:
    point, entry = BAD[name]
    state = _state(*POINTS[point])
    before = state.snapshot()
    other = TxBegin(Y, parts(Y), 5_000, 78)
    if entry.tx == Y:
        assert state.apply((entry,)) is not None
    else:
        assert state.apply((other, entry)) is not None
        assert state.apply((entry, other)) is not None
    assert state.snapshot() == before


def test_every_other_change_of_phase_is_refused() -> None:
    ways = {way for way in COORDINATOR if way[0] is not None and not way[1].is_terminal}
    points = {phase.value: POINTS[phase.value] for phase in TxPhase if phase.value in POINTS}
    for name, entries in points.items():
        for phase in TxPhase:
            was = TxPhase(name)
            wrong = _state(*entries).apply((PhaseChange(X, was, phase),))
            is_possible = (was, phase) in ways and (was, phase) != (TxPhase.PREPARING, TxPhase.PREPARED)
            assert (wrong is None) == is_possible, (was, phase)


def test_a_beginning_needs_participants_in_order() -> None:
    for shards in ((TWO, ONE), (ONE, ONE)):
        assert TxRecoveryState().apply((TxBegin(X, parts(X, *shards), 1, 0),)) is not None
    assert TxRecoveryState().apply((TxBegin(X, (), 1, 0),)) is not None


def test_a_key_on_two_shards_is_no_preparation() -> None:
    votes = (VOTES[0], Voted(X, TWO, yes(TWO, key=b"key-1")))
    assert overlap(votes) == b"key-1"
    assert overlap(VOTES) is None
    state = _state(BEGIN, *votes)
    assert not state.open[X].may_commit
    assert state.apply((PREPARED,)) is not None


def test_all_that_was_said_is_known_again() -> None:
    record = _state(*POINTS["prepared"]).open[X]
    assert record.begin == BEGIN
    assert record.shards == (ONE, TWO)
    assert [record.vote_of(shard) for shard in (ONE, TWO, THREE)] == [yes(ONE), yes(TWO), None]
    assert record.may_commit


# ---- ids are used once ----------------------------------------------------------------------------------------------


def _finish(state: TxRecoveryState, tx: TxId) -> None:
    begin = TxBegin(tx, parts(tx), 1, 0)
    assert state.apply((begin, AbortIntent(tx, "", ()), TxComplete(tx, commits=False), AllLocksReleased(tx))) is None


def test_an_ended_id_cannot_be_begun_again() -> None:
    state = TxRecoveryState()
    _finish(state, X)
    assert state.why_not_new(X) is not None
    assert state.apply((BEGIN,)) is not None
    assert state.why_not_new(Y) is None


def test_the_oldest_ids_make_way_and_the_horizon_rises_over_them() -> None:
    state = TxRecoveryState(outcomes_max=3)
    for since in (7, 3, 9, 8):
        _finish(state, tx_id(since, b"8 bytes!"))
    assert (state.remembered, state.horizon) == (3, 4)
    assert state.why_not_new(tx_id(3, b"another!")) is not None
    assert state.why_not_new(tx_id(4, b"another!")) is None
    _finish(state, tx_id(5, b"8 bytes!"))
    # It is the oldest of all, and forgotten at once; nobody can begin it again all the same.
    assert (state.outcome(tx_id(5, b"8 bytes!")), state.horizon) == (None, 6)
    assert state.why_not_new(tx_id(5, b"8 bytes!")) is not None


def test_memory_is_bounded_whatever_goes_on() -> None:
    state = TxRecoveryState(outcomes_max=50)
    random = Random(3)
    for number in range(500):
        _finish(state, tx_id(number // 7, random.randbytes(8)))
        assert state.remembered <= 50
    assert state.snapshot()[1:] == ()
    assert OUTCOMES_MAX == 4_096


def test_an_unknown_id_that_is_denied_is_never_begun() -> None:
    state = TxRecoveryState()
    assert state.apply((AbortIntent(X, "it is not known", ()),)) is None
    assert state.outcome(X) is False
    assert state.apply((AbortIntent(X, "it is not known", ()),)) is None
    assert state.remembered == 1
    assert state.apply((BEGIN,)) is not None
    assert state.apply((AbortIntent(Y, "", ()), TxBegin(Y, parts(Y), 1, 0))) is not None
    assert state.outcome(Y) is None


def test_a_denial_of_what_is_forgotten_or_committed_changes_nothing() -> None:
    state = _state(*POINTS["complete"], AllLocksReleased(X), outcomes_max=1)
    before = state.snapshot()
    assert state.apply((AbortIntent(X, "it is not known", ()),)) is None
    assert state.snapshot() == before
    _finish(state, Y)
    before = state.snapshot()
    assert state.apply((AbortIntent(X, "it is not known", ()),)) is None
    assert state.snapshot() == before


# ---- snapshots ------------------------------------------------------------------------------------------------------


def _again(state: TxRecoveryState) -> TxRecoveryState:
    raw = [msgspec.msgpack.encode(saved) for saved in state.snapshot()]
    restored = TxRecoveryState()
    restored.restore(msgspec.msgpack.decode(one, type=TxSaved) for one in raw)
    return restored


def _next_effects(state: TxRecoveryState) -> list[list[CoordinatorEffect]]:
    """What a coordinator that is built on a state does, and how it goes on after each of some events."""
    found = []
    for event in (
        None,
        TxAckMsg(X, ONE, success=True),
        TxAckMsg(X, TWO, success=True),
        TxPrepareResponse(X, TWO, yes(TWO)),
        TxQueryMsg(X, HOME, ONE, HOME),
        TxQueryMsg(Y, HOME, ONE, HOME),
    ):
        coordinator = Coordinator(HOME, DEFAULT, TxStats(), state, delta_of=delta_of)
        effects = coordinator.tick(now_ms=5)
        match event:
            case TxAckMsg():
                effects += coordinator.ack(event, now_ms=6)
            case TxPrepareResponse():
                effects += coordinator.vote(event, now_ms=6)
            case TxQueryMsg():
                effects += coordinator.query(event, now_ms=6)
            case None:
                pass
        effects += coordinator.begin(X, parts(X), 100, 4, now_ms=7, at_ms=8)
        found.append(effects + coordinator.tick(now_ms=100_000))
    return found


@pytest.mark.parametrize("name", POINTS)
def test_a_restored_state_behaves_like_the_saved_one(name: str) -> None:
    state = _state(*POINTS[name], TxBegin(Y, parts(Y), 1, 0))
    _finish(state, tx_id(9, b"finished"))
    restored = _again(state)
    assert restored.snapshot() == state.snapshot()
    assert dict(restored.open) == dict(state.open)
    assert _next_effects(restored) == _next_effects(state)


def test_horizon_outcomes_and_order_survive() -> None:
    state = TxRecoveryState(outcomes_max=2)
    assert state.apply((TxBegin(Y, parts(Y), 1, 0), BEGIN)) is None
    for since in (20, 30, 40):
        _finish(state, tx_id(since, b"8 bytes!"))
    restored = _again(state)
    assert (restored.horizon, restored.remembered) == (21, 2)
    assert list(restored.open) == [Y, X]
    assert restored.why_not_new(tx_id(20, b"another!")) is not None
    assert restored.outcome(tx_id(30, b"8 bytes!")) is False


HEAD = TxSaved(0, (), ())


@pytest.mark.parametrize(
    "saved",
    [
        (),
        (TxSaved(0, (), (BEGIN,)),),
        (HEAD, HEAD),
        (HEAD, TxSaved(0, (), (BEGIN,)), TxSaved(4, (), (BEGIN,))),
        (HEAD, TxSaved(0, (), (BEGIN,)), TxSaved(0, (), (BEGIN,))),
        (HEAD, TxSaved(0, (), (PREPARED,))),
        (TxSaved(0, tuple((tx_id(n, b"8 bytes!"), True) for n in range(OUTCOMES_MAX + 1)), ()),),
    ],
)
def test_a_snapshot_that_makes_no_sense_changes_nothing(saved: tuple[TxSaved, ...]) -> None:
    state = _state(*POINTS["prepared"])
    before = state.snapshot()
    with pytest.raises(IntegrityError):
        state.restore(saved)
    assert state.snapshot() == before


def test_what_a_driven_coordinator_writes_always_fits() -> None:
    driven = Driven().committing()
    driven.tick(10_000)
    driven.ack(ONE)
    driven.settle()
    assert _again(driven.state).open[X].released == {ONE}
