"""At most once: leases, fences, receipts, and a record before each firing, whoever crashes when."""

from random import Random

import pytest

from bobbin.errors import UsageError
from bobbin.reactive.authority import (
    Appointed,
    Authority,
    AuthorityEffect,
    Conflict,
    Dismissed,
    Entry,
    Fence,
    Finished,
    FireOnce,
    InDoubt,
    Lease,
    Outcome,
    Receipt,
    Receipts,
    Record,
    Recorded,
    RecordEnd,
    Stage,
    Taken,
    Wanted,
)
from bobbin.reactive.messages import PeerId

ME, YOU = PeerId(1), PeerId(2)


def test_a_lease_is_one_peer_s_until_it_runs_out() -> None:
    lease = Lease()
    assert lease.acquire(ME, now=0, lasts=10) == 1
    assert lease.acquire(YOU, now=9, lasts=10) is None
    assert lease.acquire(YOU, now=10, lasts=10) == 2
    assert not lease.renew(ME, now=11, lasts=10)
    assert lease.holder == YOU


def test_a_renewal_keeps_the_token_and_a_new_grant_raises_it_by_one() -> None:
    lease = Lease(fence=7)
    assert lease.acquire(ME, now=0, lasts=10) == 8
    assert lease.renew(ME, now=5, lasts=10)
    assert lease.acquire(ME, now=6, lasts=10) == 8
    assert not lease.tick(now=15)
    assert lease.tick(now=16)
    assert not lease.tick(now=17)
    assert lease.acquire(ME, now=17, lasts=10) == 9


def test_a_renewal_after_the_end_is_none() -> None:
    lease = Lease()
    lease.acquire(ME, now=0, lasts=10)
    assert not lease.renew(ME, now=10, lasts=10)
    assert lease.holder is None


def test_a_lease_is_given_back_by_its_holder() -> None:
    lease = Lease()
    lease.acquire(ME, now=0, lasts=10)
    assert not lease.release(YOU)
    assert lease.release(ME)
    assert lease.acquire(YOU, now=1, lasts=1) == 2


def test_a_lease_lasts_some_time() -> None:
    with pytest.raises(UsageError, match="no time"):
        Lease().acquire(ME, now=0, lasts=0)


def test_a_fence_lets_nothing_older_through() -> None:
    fence = Fence()
    assert [fence.admits(token) for token in (1, 1, 3, 2, 3, 4)] == [True, True, True, False, True, True]
    assert fence.highest == 4


def receipt(outcome: Outcome, *, id: str = "r", generation: int = 1) -> Receipt:
    return Receipt(id=id, cause="c", observer="o", generation=generation, outcome=outcome)


def test_receipts_go_forward_and_never_back() -> None:
    receipts = Receipts(1)
    assert receipts.outcome("c") is None
    for outcome, taken in [
        (Outcome.OBSERVED, Taken.NEW),
        (Outcome.ACCEPTED, Taken.NEW),
        (Outcome.OBSERVED, Taken.KNOWN),
        (Outcome.APPLIED, Taken.NEW),
        (Outcome.ACCEPTED, Taken.KNOWN),
        (Outcome.APPLIED, Taken.KNOWN),
    ]:
        assert receipts.add(receipt(outcome)) is taken
    assert receipts.outcome("c") is Outcome.APPLIED


def test_a_receipt_of_another_generation_is_stale_whichever_is_newer() -> None:
    receipts = Receipts(1)
    assert receipts.add(receipt(Outcome.APPLIED, generation=0)) is Taken.STALE
    assert receipts.add(receipt(Outcome.REJECTED, generation=2)) is Taken.STALE
    assert receipts.outcome("c") is None


def test_a_conflict_names_both_and_nothing_ends_it() -> None:
    receipts = Receipts(1)
    first, second = receipt(Outcome.REJECTED, id="1"), receipt(Outcome.APPLIED, id="2")
    receipts.add(first)
    assert receipts.add(second) is Taken.CONFLICT
    assert receipts.add(receipt(Outcome.REJECTED, id="3")) is Taken.KNOWN
    assert receipts.outcome("c") == Conflict(first, second)
    assert not receipts.is_over("c")


def test_an_effect_is_written_down_before_it_is_fired() -> None:
    authority = Authority()
    authority.step(Appointed(1, ()))
    assert authority.step(Wanted("mail")) == (Record("mail", 1),)
    assert authority.stage("mail") is Stage.RECORDING
    assert authority.step(Recorded("mail", 1)) == (FireOnce("mail", 1),)
    assert authority.step(Finished("mail", Outcome.APPLIED)) == (RecordEnd("mail", Outcome.APPLIED),)
    assert authority.stage("mail") is Stage.OVER
    assert authority.step(Wanted("mail")) == ()
    assert authority.stage("other") is None


def test_without_a_lease_nothing_is_written_down_and_nothing_fired() -> None:
    authority = Authority()
    assert authority.step(Wanted("mail")) == ()
    assert authority.step(Recorded("mail", 1)) == ()
    authority.step(Appointed(1, ()))
    authority.step(Dismissed())
    assert authority.step(Recorded("mail", 1)) == ()


def test_what_was_about_to_be_fired_is_in_doubt_and_not_fired_again() -> None:
    authority = Authority()
    authority.step(Wanted("new"))
    effects = authority.step(Appointed(4, (Entry("begun"), Entry("done", Outcome.REJECTED))))
    assert effects == (InDoubt("begun"), Record("new", 4))
    assert authority.step(Wanted("begun")) == authority.step(Wanted("done")) == ()
    assert authority.step(Finished("begun", Outcome.APPLIED)) == (RecordEnd("begun", Outcome.APPLIED),)


def test_a_record_that_was_never_made_is_asked_for_again_under_the_next_lease() -> None:
    authority = Authority()
    authority.step(Appointed(1, ()))
    authority.step(Wanted("mail"))
    authority.step(Dismissed())
    assert authority.step(Appointed(3, ())) == (Record("mail", 3),)
    assert authority.step(Recorded("mail", 1)) == (), "what an old token asked for does not count"
    assert authority.step(Recorded("mail", 3)) == (FireOnce("mail", 3),)


def test_what_makes_no_sense_is_refused() -> None:
    authority = Authority()
    authority.step(Appointed(2, ()))
    with pytest.raises(UsageError, match="granted before"):
        authority.step(Appointed(1, ()))
    with pytest.raises(UsageError, match="not fired"):
        authority.step(Finished("mail", Outcome.APPLIED))
    with pytest.raises(UsageError, match="final"):
        authority.step(Finished("mail", Outcome.ACCEPTED))


class _Records:
    """What is durable, for all: it takes nothing from a token older than the newest it was shown."""

    def __init__(self) -> None:
        self.fence = Fence()
        self.entries: dict[str, Outcome | None] = {}

    def read(self, token: int) -> tuple[Entry, ...]:
        assert self.fence.admits(token)
        return tuple(Entry(id, outcome) for id, outcome in self.entries.items())

    def take(self, record: Record) -> bool:
        if not self.fence.admits(record.fence) or record.id in self.entries:
            return False
        self.entries[record.id] = None
        return True


@pytest.mark.parametrize("seed", range(60))
def test_whoever_crashes_sleeps_or_is_replaced_nothing_happens_twice(seed: int) -> None:
    """Three peers, one lease, records that all share. Everybody wants every effect; steps come in any order."""
    random = Random(seed)
    peers = [Authority() for _ in range(3)]
    tokens: list[int | None] = [None] * 3
    lease, records, door = Lease(), _Records(), Fence()
    waiting: list[tuple[int, Record]] = []
    happened: list[str] = []
    now = 0

    def perform(number: int, effects: tuple[AuthorityEffect, ...]) -> None:
        for effect in effects:
            if isinstance(effect, Record):
                waiting.append((number, effect))
            elif isinstance(effect, FireOnce) and door.admits(effect.fence):
                happened.append(effect.id)

    for _ in range(120):
        now += random.randint(0, 3)
        number = random.randrange(3)
        peer, token = peers[number], tokens[number]
        draw = random.random()
        if draw < 0.3:
            perform(number, peer.step(Wanted(f"effect {random.randrange(8)}")))
        elif draw < 0.55:
            granted = lease.acquire(PeerId(number), now=now, lasts=6)
            if granted is not None and granted != token:
                tokens[number] = granted
                perform(number, peer.step(Appointed(granted, records.read(granted))))
        elif draw < 0.62 and token is not None and lease.holder != number:
            tokens[number] = None
            perform(number, peer.step(Dismissed()))
        elif draw < 0.7:
            peers[number], tokens[number] = Authority(), None
            waiting = [one for one in waiting if one[0] != number or random.random() < 0.5]
            lease.release(PeerId(number))
        elif waiting:
            writer, record = waiting.pop(random.randrange(len(waiting)))
            if records.take(record):
                perform(writer, peers[writer].step(Recorded(record.id, record.fence)))
    assert len(happened) == len(set(happened))
    assert set(happened) <= records.entries.keys(), "nothing happened that was not written down"
