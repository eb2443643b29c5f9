"""The promises of a shard: made once, ended by decisions, and the same after every restart."""

from collections.abc import Callable, Iterable
from typing import Final

import pytest
from msgspec.structs import replace

from bobbin.cluster.geometry import Embedding
from bobbin.cluster.operations import CounterAdd, Operation, Put, ReadVersion, TableInsert, Transaction, lock_names
from bobbin.cluster.transactions.messages import Conflict, No, TxPrepareMsg, Yes
from bobbin.cluster.transactions.names import ShardId, TxId
from bobbin.cluster.transactions.participant import (
    PARTICIPANT_FORMAT,
    Heuristic,
    PartEnded,
    Participant,
    ParticipantEntry,
    ParticipantHead,
    Promise,
)
from bobbin.cluster.transactions.phases import PARTICIPANT, Standing
from bobbin.errors import IntegrityError
from tests.unit.cluster.transactions.graphs import A, B, C, tx

OWN: Final = Embedding.dense((0.0, 1.0))
"""The delta as the participant works it out."""
SENT: Final = Embedding.dense((1.0, 0.0))
"""As the coordinator has it."""


def prepare_of(who: TxId, *operations: Operation, reads: tuple[ReadVersion, ...] = (), since: int = 5) -> TxPrepareMsg:
    part = Transaction(who, operations or (Put(b"x", b"1"),), reads, since)
    return TxPrepareMsg(who, ShardId(0), ShardId(1), part, SENT, 5_000, (ShardId(0), ShardId(1)))


def fine(_: TxPrepareMsg) -> Embedding:
    return OWN


def never(message: TxPrepareMsg) -> Embedding:
    raise AssertionError(f"{message.tx.hex()} is not looked at")


def promised(participant: Participant, message: TxPrepareMsg) -> Yes:
    vote = participant.prepare(message, fine)
    assert isinstance(vote, Yes)
    participant.check()
    return vote


def image(participant: Participant) -> list[ParticipantEntry]:
    return list(participant.entries())


def restarted(participant: Participant) -> Participant:
    """The same state on another machine, from what a snapshot holds."""
    again = Participant()
    again.restore(participant.entries())
    again.check()
    assert image(again) == image(participant)
    return again


def test_a_part_is_locked_whole_before_it_is_looked_at_and_then_promised() -> None:
    participant = Participant()
    message = prepare_of(A, Put(b"x", b"1"), TableInsert(b"t", (b"v",)), reads=(ReadVersion(b"seen", 3),))
    held: list[int] = []

    def check(given: TxPrepareMsg) -> Embedding:
        assert given == message
        held.append(participant.locks.count(A))
        return OWN

    vote = participant.prepare(message, check)
    names = lock_names(message.part)
    assert vote == Yes(1, OWN, names)
    assert held == [len(names)]
    assert participant.locks.held(A) is not None
    assert participant.promises == {A: Promise(message, Yes(1, OWN, names))}
    assert participant.standing(A) is Standing.WAITING_DECISION


def test_the_delta_of_a_yes_is_the_participants_own() -> None:
    vote = promised(Participant(), prepare_of(A))
    assert vote.delta == OWN != SENT


def test_the_same_prepare_again_gets_the_same_vote_and_no_second_handle() -> None:
    participant = Participant()
    message = prepare_of(A)
    vote = promised(participant, message)
    before = image(participant)
    assert participant.prepare(message, never) == vote
    assert restarted(participant).prepare(message, never) == vote
    assert image(participant) == before
    assert promised(participant, prepare_of(B, Put(b"y", b""))).handle == vote.handle + 1


def test_another_part_of_the_same_transaction_is_refused_and_the_promise_stays() -> None:
    participant = Participant()
    vote = promised(participant, prepare_of(A))
    before = image(participant)
    assert participant.prepare(prepare_of(A, Put(b"z", b"")), never) == No(
        "another part of this transaction is promised here", is_final=True
    )
    assert image(participant) == before
    assert participant.locks.owner(b"x") == A
    assert vote.handle == 1


def test_a_key_that_another_one_holds_gives_no_and_leaves_nothing() -> None:
    participant = Participant()
    promised(participant, prepare_of(A, Put(b"x", b"1")))
    before = image(participant)
    vote = participant.prepare(prepare_of(B, Put(b"w", b"1"), Put(b"x", b"2")), never)
    assert vote == No(f"locked by transaction {A.hex()}")
    participant.check()
    assert image(participant) == before
    assert participant.locks.owner(b"w") is None
    assert participant.standing(B) is Standing.IDLE


def test_what_another_one_has_read_or_counts_is_held_as_well() -> None:
    participant = Participant()
    promised(participant, prepare_of(A, CounterAdd(b"n", 1), reads=(ReadVersion(b"seen", 0),)))
    for operation in (Put(b"seen", b""), CounterAdd(b"n", 1)):
        assert isinstance(participant.prepare(prepare_of(B, operation), never), No)


@pytest.mark.parametrize("vote", [Conflict(0.8, C, "alike"), No("malformed", is_final=True)])
def test_a_conflict_found_is_the_vote_and_leaves_nothing(vote: No | Conflict) -> None:
    participant = Participant()
    message = prepare_of(A)

    def check(_: TxPrepareMsg) -> No | Conflict:
        return vote

    assert participant.prepare(message, check) == vote
    participant.check()
    assert (participant.locks.transactions, participant.promises, participant.ended(A)) == ((), {}, None)
    assert len(participant.locks.waits) == 0
    promised(participant, message)


def test_a_promise_ends_only_by_a_decision() -> None:
    """T4, T6: whatever others do, however often it is asked, and over restarts, it stands with its locks."""
    participant = Participant()
    message = prepare_of(A)
    vote = promised(participant, message)
    for number in range(100, 200):
        other = prepare_of(tx(number), Put(b"other", b""))
        promised(participant, other)
        assert isinstance(participant.prepare(prepare_of(tx(number + 1_000)), never), No)
        (participant.committed if number % 2 else participant.drop)(tx(number))
        if number % 10 == 0:
            participant = restarted(participant)
        assert participant.locks.owner(b"x") == A
        assert participant.locks.cleanup_expired(10**15) == ()
    assert participant.promises == {A: Promise(message, vote)}


def test_committed_unlocks_and_is_remembered_and_done_once() -> None:
    participant = Participant()
    message = prepare_of(A)
    promised(participant, message)
    assert participant.committed(A)
    participant.check()
    assert participant.locks.owner(b"x") is None
    assert (participant.standing(A), participant.decision(A)) == (Standing.COMMITTED, True)
    before = image(participant)
    assert not participant.committed(A)
    assert not participant.committed(B)
    assert not participant.drop(A), "what is done stays done"
    assert image(participant) == before


def test_dropped_unlocks_and_may_be_told_again() -> None:
    participant = Participant()
    promised(participant, prepare_of(A))
    assert participant.drop(A)
    participant.check()
    assert participant.locks.owner(b"x") is None
    assert (participant.standing(A), participant.decision(A)) == (Standing.ABORTED, False)
    before = image(participant)
    assert not participant.drop(A)
    assert not participant.committed(A)
    assert image(participant) == before
    promised(participant, prepare_of(B))


@pytest.mark.parametrize("end", [Participant.committed, Participant.drop])
@pytest.mark.parametrize("restarts", [False, True])
def test_a_prepare_that_comes_after_the_end_gets_no_promise(
    end: Callable[[Participant, TxId], bool], *, restarts: bool
) -> None:
    participant = Participant()
    message = prepare_of(A)
    promised(participant, message)
    end(participant, A)
    if restarts:
        participant = restarted(participant)
    assert participant.prepare(message, never) == No("this transaction has ended here", is_final=True)
    participant.check()


def test_a_prepare_that_comes_after_its_abort_gets_no_promise() -> None:
    participant = Participant()
    assert not participant.drop(A)
    assert participant.prepare(prepare_of(A), never) == No("this transaction has ended here", is_final=True)
    assert restarted(participant).decision(A) is False


def test_a_participant_that_never_promised_comes_back_without_locks() -> None:
    participant = Participant()
    participant.prepare(prepare_of(A), lambda _: Conflict(1.0, None))
    again = restarted(participant)
    assert (len(again.locks), again.promises) == (0, {})


def test_what_is_promised_comes_back_with_its_locks_and_handles() -> None:
    """L17."""
    participant = Participant()
    votes = [promised(participant, prepare_of(who, Put(who, b""))) for who in (C, A, B)]
    participant.drop(A)
    again = restarted(participant)
    assert [promise.vote for promise in again.promises.values()] == [votes[0], votes[2]]
    assert again.locks.save() == participant.locks.save()
    assert promised(again, prepare_of(tx(9), Put(b"new", b""))).handle == 4


# ---- what is forgotten ---------------------------------------------------------------------------------------------


def ended(participant: Participant, numbers: Iterable[int], *, commits: bool = True) -> None:
    for number in numbers:
        promised(participant, prepare_of(tx(number), since=number))
        (participant.committed if commits else participant.drop)(tx(number))


def test_so_many_ends_are_remembered_and_the_oldest_go_first() -> None:
    participant = Participant(outcomes_max=3)
    ended(participant, range(10, 15), commits=False)
    assert [participant.decision(tx(number)) for number in range(10, 15)] == [None, None, False, False, False]
    assert participant.horizon == 0
    participant.check()


def test_a_commit_that_was_forgotten_is_not_promised_again() -> None:
    """Otherwise a late copy of its commit would do it twice."""
    participant = Participant(outcomes_max=3)
    ended(participant, range(10, 15))
    assert participant.horizon == 12
    for number in (10, 11):
        vote = participant.prepare(prepare_of(tx(number), since=number), never)
        assert vote == No(f"began at height {number}, below 12: too long ago", is_final=True)
    promised(participant, prepare_of(A, since=12))
    again = Participant(outcomes_max=3)
    again.restore(participant.entries())
    assert again.horizon == 12


# ---- by hand -------------------------------------------------------------------------------------------------------

BY_HAND = {"operator": "eve", "reason": "coordinator burnt down"}


def by_hand(*, commits: bool) -> Heuristic:
    return Heuristic(commits, BY_HAND["operator"], BY_HAND["reason"])


def test_an_operator_drops_a_promise_and_that_is_kept_for_ever() -> None:
    participant = Participant(outcomes_max=1)
    promised(participant, prepare_of(A))
    assert participant.resolve(A, commits=False, **BY_HAND)
    participant.check()
    assert participant.locks.owner(b"x") is None
    ended(participant, range(10, 20))
    (kept,) = participant.heuristics
    assert kept == PartEnded(A, commits=False, number=1, since=5, heuristic=by_hand(commits=False))
    assert participant.standing(A) is Standing.ABORTED
    assert participant.decision(A) is None, "nobody has decided it"
    again = Participant(outcomes_max=1)
    again.restore(participant.entries())
    assert list(again.heuristics) == [kept]
    assert isinstance(again.prepare(prepare_of(A, since=50), never), No)


def test_an_operator_has_a_promise_done_which_stays_locked_until_it_is() -> None:
    participant = Participant()
    promised(participant, prepare_of(A))
    assert participant.resolve(A, commits=True, **BY_HAND)
    assert not participant.resolve(A, commits=False, **BY_HAND), "it was resolved before"
    participant = restarted(participant)
    assert participant.promises[A].resolution == by_hand(commits=True)
    assert participant.locks.owner(b"x") == A
    assert participant.committed(A)
    participant.check()
    assert [one.heuristic for one in participant.heuristics] == [by_hand(commits=True)]
    assert (participant.standing(A), participant.decision(A)) == (Standing.COMMITTED, None)


def test_a_decision_against_what_an_operator_did_is_noted() -> None:
    """The transaction is torn, and everybody who looks can see it."""
    participant = Participant()
    for who in (A, B, C):
        promised(participant, prepare_of(who, Put(who, b"")))
    participant.resolve(A, commits=True, **BY_HAND)
    participant.resolve(B, commits=True, **BY_HAND)
    participant.resolve(C, commits=False, **BY_HAND)
    assert not participant.drop(A), "before it is done"
    participant.committed(A)
    participant.committed(B)
    assert not participant.drop(B), "after it was done"
    participant.drop(C)
    participant.check()
    contradicted = {one.tx: one.heuristic.is_contradicted for one in participant.heuristics if one.heuristic}
    assert contradicted == {A: True, B: True, C: False}
    assert [participant.decision(who) for who in (A, B, C)] == [False, False, False]


def test_what_is_not_promised_cannot_be_resolved() -> None:
    participant = Participant()
    ended(participant, [10])
    before = image(participant)
    for who in (A, tx(10)):
        assert not participant.resolve(who, commits=True, **BY_HAND)
    assert image(participant) == before


# ---- snapshots -----------------------------------------------------------------------------------------------------


def filled() -> Participant:
    participant = Participant()
    for who in (A, B, C):
        promised(participant, prepare_of(who, Put(who, b"")))
    participant.drop(tx(77))
    participant.committed(B)
    participant.resolve(C, commits=False, **BY_HAND)
    return participant


def test_the_entries_are_a_head_promises_and_ends_in_order() -> None:
    head, promise, *ends = image(filled())
    assert head == ParticipantHead(PARTICIPANT_FORMAT, 4, 4, 0, 1, 3)
    assert isinstance(promise, Promise)
    assert [one.tx for one in ends if isinstance(one, PartEnded)] == [tx(77), B, C]


def test_changes_tell_what_was_changed_since_they_were_asked_for() -> None:
    participant = filled()
    told = dict(participant.take_changes())
    assert told.keys() == {A, B, C, tx(77)}
    assert told == {who: participant.entry(who) for who in told}
    assert list(participant.take_changes()) == []
    participant.drop(A)
    assert list(participant.take_changes()) == [(A, PartEnded(A, commits=False, number=4, since=5))]
    assert {who for who, _ in restarted(participant).take_changes()} == {A, B, C, tx(77)}
    small = Participant(outcomes_max=1)
    ended(small, [10])
    small.take_changes()
    small.drop(A)
    assert dict(small.take_changes())[tx(10)] is None


def spoiled(change: str) -> list[ParticipantEntry]:
    entries = image(filled())
    head, promise, first = entries[:3]
    assert isinstance(head, ParticipantHead)
    assert isinstance(promise, Promise)
    assert isinstance(first, PartEnded)
    ways: dict[str, list[ParticipantEntry]] = {
        "no-head": entries[1:],
        "two-heads": [head, *entries],
        "late-head": [promise, *entries],
        "format": [replace(head, format=2), *entries[1:]],
        "promise-missing": [head, *entries[2:]],
        "end-missing": entries[:-1],
        "promise-twice": [head, promise, *entries[1:]],
        "promise-after-ends": [head, *entries[2:], promise],
        "end-twice": [*entries, entries[-1]],
        "promised-and-ended": [replace(head, ends=4), promise, replace(first, tx=A, number=0), *entries[2:]],
        "out-of-order": [head, promise, entries[3], entries[2], entries[4]],
        "number-to-come": [replace(head, next_number=3), *entries[1:]],
        "handle-to-come": [replace(head, next_handle=1), *entries[1:]],
        "horizon": [replace(head, horizon=-1), *entries[1:]],
        "key-twice": [
            replace(head, promises=2),
            promise,
            Promise(prepare_of(tx(9)), Yes(2, OWN, promise.vote.keys)),
            *entries[2:],
        ],
    }
    return ways[change]


@pytest.mark.parametrize(
    "change",
    [
        "no-head",
        "two-heads",
        "late-head",
        "format",
        "promise-missing",
        "end-missing",
        "promise-twice",
        "promise-after-ends",
        "end-twice",
        "promised-and-ended",
        "out-of-order",
        "number-to-come",
        "handle-to-come",
        "horizon",
        "key-twice",
    ],
)
def test_entries_that_cannot_be_are_refused_and_nothing_changes(change: str) -> None:
    participant = filled()
    before, locks = image(participant), participant.locks.save()
    with pytest.raises(IntegrityError):
        participant.restore(spoiled(change))
    assert (image(participant), participant.locks.save()) == (before, locks)


def test_two_participants_with_the_same_commands_are_the_same() -> None:
    assert image(filled()) == image(filled())


def every_way() -> None:
    """Parts that go all the ways of the diagram."""
    participant = Participant()
    promised(participant, prepare_of(A))
    participant.prepare(prepare_of(B), never)
    participant.committed(A)
    participant.prepare(prepare_of(B), lambda _: No("malformed"))
    participant.prepare(prepare_of(B), lambda _: Conflict(1.0, None))
    promised(participant, prepare_of(B))
    participant.drop(B)


@pytest.mark.parametrize("way", PARTICIPANT, ids=lambda way: f"{way[0].value}-{way[1].value}")
def test_the_code_runs_on_the_diagram(way: tuple[Standing, Standing], monkeypatch: pytest.MonkeyPatch) -> None:
    """CL-377: every way is gone, and none that the diagram does not have."""
    every_way()
    monkeypatch.delitem(PARTICIPANT, way)
    with pytest.raises(AssertionError, match=way[1].name):
        every_way()
