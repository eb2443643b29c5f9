"""Key locks: all or nothing, exclusive, under handles that never come back; and the waits that follow them."""

from random import Random

import pytest

from bobbin.cluster.transactions.locks import KeyLocks, LockManager, LockRefused, LockTable, WaitInfo
from bobbin.cluster.transactions.names import TxId
from bobbin.errors import IntegrityError, UsageError
from tests.unit.cluster.transactions.graphs import A, B, C, D, image, tx

TIMEOUT_MS = 30_000


def table(timeout_ms: int | None = TIMEOUT_MS) -> LockManager:
    return LockManager(timeout_ms=timeout_ms)


def taken(locks: LockManager, who: TxId, *names: bytes, now_ms: int = 0) -> int:
    handle = locks.try_lock(who, names, now_ms)
    assert isinstance(handle, int)
    locks.check()
    return handle


def refused(locks: LockManager, who: TxId, *names: bytes, now_ms: int = 0) -> LockRefused:
    answer = locks.try_lock(who, names, now_ms)
    assert isinstance(answer, LockRefused)
    locks.check()
    return answer


def test_a_set_is_taken_whole_under_one_handle_or_not_at_all() -> None:
    locks = table()
    handle = taken(locks, A, b"x", b"y")
    assert locks.held(A) == KeyLocks(A, handle, (b"x", b"y"), 0, is_promised=False)
    assert refused(locks, B, b"w", b"y", b"z").blockers == (A,)
    assert locks.owner(b"w") is locks.owner(b"z") is None
    assert locks.held(B) is None
    assert locks.count(B) == 0
    assert (locks.owner(b"x"), locks.owner(b"y"), len(locks)) == (A, A, 2)
    assert len(locks.waits) == 0


def test_the_owner_may_take_its_keys_again_and_more_under_the_same_handle() -> None:
    locks = table()
    handle = taken(locks, A, b"x")
    assert taken(locks, A, b"x") == handle
    assert taken(locks, A, b"x", b"y", now_ms=5) == handle
    assert locks.held(A) == KeyLocks(A, handle, (b"x", b"y"), 0, is_promised=False)
    taken(locks, B, b"z")
    assert refused(locks, A, b"x", b"z", b"w").blockers == (B,), "nobody is in its own way"
    assert locks.count(A) == 2


def test_handles_never_come_back() -> None:
    locks = table()
    first = taken(locks, A, b"x")
    locks.release(A)
    second = taken(locks, A, b"x")
    assert second > first
    assert locks.release_handle(first) == ()
    assert locks.owner(b"x") == A, "a handle of the past frees nothing"


def test_a_saved_table_gives_the_same_holders_and_handles_and_goes_on_counting() -> None:
    locks = table()
    handles = {who: taken(locks, who, bytes([number])) for number, who in enumerate((A, B, C))}
    locks.mark_promised(B)
    locks.release(C)
    again = table()
    again.restore(locks.save())
    again.check()
    assert again.save() == locks.save()
    assert [again.held(who) for who in (A, B, C)] == [locks.held(who) for who in (A, B, C)]
    assert taken(again, D, b"new") > max(handles.values()), "also above the handle that was free when it was saved"
    behind = table()
    behind.restore(LockTable(1, ()))
    assert taken(behind, A, b"x") == 1
    locks.restore(LockTable(1, ()))
    assert taken(locks, A, b"x") > max(handles.values()), "an older table does not set the counter back"


@pytest.mark.parametrize(
    "saved",
    [
        LockTable(2, (KeyLocks(A, 2, (b"x",), 0, is_promised=True),)),
        LockTable(3, (KeyLocks(A, 1, (b"x",), 0, is_promised=True), KeyLocks(B, 2, (b"x",), 0, is_promised=True))),
        LockTable(3, (KeyLocks(A, 1, (b"x",), 0, is_promised=True), KeyLocks(A, 2, (b"y",), 0, is_promised=True))),
        LockTable(3, (KeyLocks(A, 2, (b"x",), 0, is_promised=True), KeyLocks(B, 1, (b"y",), 0, is_promised=True))),
        LockTable(3, (KeyLocks(A, 1, (b"x", b"x"), 0, is_promised=True),)),
    ],
    ids=["handle-to-come", "name-twice", "transaction-twice", "out-of-order", "name-twice-in-one"],
)
def test_a_table_that_cannot_be_is_refused_and_nothing_changes(saved: LockTable) -> None:
    locks = table()
    taken(locks, C, b"mine")
    before = locks.save()
    with pytest.raises(IntegrityError):
        locks.restore(saved)
    assert locks.save() == before


def test_release_frees_exactly_what_is_of_the_transaction_or_handle() -> None:
    locks = table()
    taken(locks, A, b"a1", b"a2")
    handle = taken(locks, B, b"b1", b"b2")
    taken(locks, C, b"c")
    assert locks.release(A) == (b"a1", b"a2")
    assert locks.release_handle(handle) == (b"b1", b"b2")
    assert (locks.transactions, len(locks)) == ((C,), 1)
    assert locks.release(A) == ()
    locks.check()


@pytest.mark.parametrize("by_handle", [False, True])
def test_release_takes_the_transaction_out_of_the_wait_graph_on_both_sides(*, by_handle: bool) -> None:
    locks = table()
    handle = taken(locks, A, b"a")
    taken(locks, B, b"b")
    locks.lock_or_wait(A, [b"b"], 0)
    locks.lock_or_wait(C, [b"a"], 0)
    assert image(locks.waits)[0] == {A: {B}, C: {A}}
    if by_handle:
        locks.release_handle(handle)
    else:
        locks.release(A)
    assert image(locks.waits) == ({}, {}, {}, {}, {})


def test_a_lock_expires_only_before_its_promise() -> None:
    """At 31 s one that was not promised is free, and one that was is held."""
    locks = table()
    taken(locks, A, b"a", now_ms=0)
    taken(locks, B, b"b", now_ms=0)
    assert locks.mark_promised(B)
    assert refused(locks, C, b"a", now_ms=29_999).blockers == (A,)
    assert refused(locks, D, b"b", now_ms=31_000).blockers == (B,)
    taken(locks, C, b"a", now_ms=31_000)
    assert locks.held(A) is None
    assert refused(locks, D, b"b", now_ms=10**12).blockers == (B,)
    assert not locks.mark_promised(A), "whose locks have gone is told so"


def test_clean_up_frees_what_nobody_promised_and_its_waits() -> None:
    locks = table()
    taken(locks, A, b"a", now_ms=0)
    taken(locks, B, b"b", now_ms=0)
    taken(locks, C, b"c", now_ms=2_000)
    locks.mark_promised(B)
    locks.lock_or_wait(C, [b"a"], 2_000)
    locks.lock_or_wait(A, [b"b"], 2_000)
    assert locks.cleanup_expired(29_999) == ()
    assert locks.cleanup_expired(31_000) == (A,)
    locks.check()
    assert locks.transactions == (B, C)
    assert image(locks.waits) == ({}, {}, {}, {}, {})


def test_clean_up_tells_also_what_went_because_somebody_wanted_it() -> None:
    locks = table()
    taken(locks, A, b"a1", b"a2", now_ms=0)
    locks.lock_or_wait(B, [b"a1"], 1_000)
    taken(locks, C, b"a2", now_ms=30_000)
    assert image(locks.waits) == ({}, {}, {}, {}, {})
    assert locks.cleanup_expired(30_000) == (A,)
    assert locks.cleanup_expired(30_000) == ()


def test_taking_more_does_not_make_locks_last_longer() -> None:
    locks = table()
    taken(locks, A, b"x", now_ms=0)
    taken(locks, A, b"x", b"y", now_ms=29_000)
    assert locks.cleanup_expired(30_000) == (A,)


def test_without_a_timeout_nothing_expires() -> None:
    locks = table(None)
    taken(locks, A, b"x")
    assert locks.cleanup_expired(10**15) == ()
    assert refused(locks, B, b"x", now_ms=10**15).blockers == (A,)


def test_a_timeout_of_nothing_is_refused() -> None:
    with pytest.raises(UsageError, match="0 ms"):
        table(0)


def test_who_waits_has_an_edge_to_everybody_in_the_way() -> None:
    locks = table()
    for number, holder in enumerate((C, B, A)):
        taken(locks, holder, bytes([number]), bytes([number, 1]))
    wanted = [b"\x00", b"\x02\x01", b"\x02", b"free"]
    answer = locks.lock_or_wait(D, wanted, 50, started_ms=40, born_ms=7, priority=2)
    assert answer == LockRefused((WaitInfo(D, A, (b"\x02", b"\x02\x01")), WaitInfo(D, C, (b"\x00",))))
    assert image(locks.waits) == ({D: {A, C}}, {A: {D}, C: {D}}, {D: 40}, {D: 7}, {D: 2})
    assert locks.blockers(D, wanted) == answer.waits


def test_edges_are_those_of_the_present_whenever_it_is_asked_again() -> None:
    locks = table()
    taken(locks, A, b"x")
    taken(locks, B, b"y")
    locks.lock_or_wait(C, [b"x", b"y"], 10)
    locks.release(A)
    locks.lock_or_wait(D, [b"x"], 11)
    locks.lock_or_wait(C, [b"x", b"y"], 12, started_ms=10)
    assert image(locks.waits)[:3] == ({C: {B, D}}, {B: {C}, D: {C}}, {C: 10})
    locks.release(D)
    locks.release(B)
    assert isinstance(locks.lock_or_wait(C, [b"x", b"y"], 13, started_ms=10), int)
    assert image(locks.waits) == ({}, {}, {}, {}, {})


def test_a_refused_lock_that_does_not_wait_leaves_no_edge() -> None:
    """L21."""
    locks = table()
    taken(locks, A, b"x")
    refused(locks, B, b"x")
    assert len(locks.waits) == 0
    locks.lock_or_wait(B, [b"x"], 0)
    locks.waits.stop_waiting(B)
    locks.release(A)
    assert image(locks.waits) == ({}, {}, {}, {}, {})


def test_two_transactions_never_hold_one_key_whatever_is_done() -> None:
    """Against a table of plain pairs: T6, over many random histories, with clocks that jump."""
    random = Random(3)
    refusals = expiries = 0
    for _ in range(60):
        locks, holds = table(100), dict[bytes, TxId]()
        now_ms = 0
        promised: set[TxId] = set()
        for _ in range(60):
            now_ms += random.choice((0, 5, 30))
            who = tx(random.randrange(5))
            names = {bytes([random.randrange(6)]) for _ in range(random.randint(1, 3))}
            match random.randrange(5):
                case 0 | 1 | 2:
                    before = {name: holds.get(name) for name in names}
                    answer = locks.try_lock(who, names, now_ms)
                    if isinstance(answer, int):
                        lost = {holder for holder in before.values() if holder not in (None, who)}
                        assert lost.isdisjoint(promised), "a promised lock was taken away"
                        expiries += len(lost)
                        holds = {name: one for name, one in holds.items() if one not in lost}
                        holds |= dict.fromkeys(names, who)
                    else:
                        refusals += 1
                        holds = {name: one for name, one in holds.items() if locks.held(one) is not None}
                case 3:
                    if locks.mark_promised(who):
                        promised.add(who)
                case _:
                    locks.release(who)
                    promised.discard(who)
                    holds = {name: one for name, one in holds.items() if one != who}
            locks.check()
            assert {name: locks.owner(name) for name in holds} == holds
            assert len(locks) == len(holds)
    assert refusals > 500
    assert expiries > 50
