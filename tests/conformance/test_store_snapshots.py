"""Snapshots, iterators and wake-ups: one moment stays one moment, and news is told."""

import pytest

from bobbin.errors import UsageError
from bobbin.facts.relations import HAVE
from bobbin.records.coordinate import Prefix
from bobbin.store.base import Store, StoreRecordId
from tests.conformance.conftest import Kit
from tests.conformance.samples import plex

EVERYTHING = Prefix(group="u")


@pytest.mark.reading
def test_a_snapshot_does_not_see_later_writes(kit: Kit, store: Store) -> None:
    store.put_records([plex(1), plex(2)])
    with store.snapshot() as snapshot:
        store.put_records([plex(3)])
        if kit.removes:
            store.remove(plex(1).hash, reason="test")
        assert {line.hash for line in snapshot.scan()} == {plex(1).hash, plex(2).hash}
        assert snapshot.get(plex(1).hash) == plex(1).raw
        assert snapshot.have(plex(1).hash)
        assert not snapshot.have(plex(3).hash)
        assert snapshot.get(plex(3).hash) is None
        assert [line.name for line in snapshot.list(EVERYTHING)] == ["links/1", "links/2"]
        assert set(snapshot.facts.enumerate(HAVE)) == {(plex(1).hash,), (plex(2).hash,)}
        assert snapshot.high_water() == 2
        assert store.high_water() == 3
    with store.snapshot() as later:
        gone = {plex(1).hash} if kit.removes else set()
        assert {line.hash for line in later.scan()} == {plex(number).hash for number in (1, 2, 3)} - gone


@pytest.mark.reading
def test_a_snapshot_does_not_see_what_another_store_object_writes(kit: Kit) -> None:
    with kit.open(create=True) as store, kit.open() as other:
        store.put_records([plex(1)])
        with store.snapshot() as snapshot:
            other.put_records([plex(2)])
            assert not snapshot.have(plex(2).hash)
            assert store.have(plex(2).hash)
            assert other.have(plex(1).hash)


@pytest.mark.reading
def test_snapshots_of_different_moments_live_side_by_side(store: Store) -> None:
    snapshots = []
    for number in range(6):
        store.put_records([plex(number)])
        snapshots.append(store.snapshot())
    assert [len(list(snapshot.scan())) for snapshot in snapshots] == [1, 2, 3, 4, 5, 6]
    for snapshot in reversed(snapshots):
        snapshot.close()


@pytest.mark.reading
def test_an_iterator_stays_valid_while_others_write(kit: Kit, store: Store) -> None:
    store.put_records([plex(number) for number in range(10)])
    iterators = [store.scan(), store.list(EVERYTHING), store.facts.enumerate(HAVE)]
    firsts = [next(iterator) for iterator in iterators]
    store.put_records([plex(number) for number in range(10, 20)])
    for number in range(5 if kit.removes else 0):
        store.remove(plex(number).hash, reason="test")
    assert [1 + len(list(iterator)) for iterator in iterators] == [10, 10, 10]
    assert len(firsts) == 3


def test_a_walk_may_change_what_it_walks_over(store: Store) -> None:
    store.put_records([plex(number) for number in range(10)])
    for line in store.scan():
        store.remove(line.hash, reason="one by one")
    assert list(store.scan()) == []
    assert store.stat().refused == 10


@pytest.mark.reading
def test_an_iterator_that_is_left_early_holds_nothing_up(store: Store) -> None:
    store.put_records([plex(number) for number in range(10)])
    for _ in range(20):
        next(iter(store.scan()))
    assert store.put_records([plex(11)])[0].id == 11
    assert [line.id for line in store.scan(after=StoreRecordId(10))] == [11]


@pytest.mark.reading
def test_a_closed_snapshot_refuses_to_work(store: Store) -> None:
    snapshot = store.snapshot()
    snapshot.close()
    snapshot.close()
    with pytest.raises(UsageError):
        snapshot.get(plex(1).hash)
    with pytest.raises(UsageError):
        snapshot.have(plex(1).hash)


def test_subscribers_are_woken_after_the_commit_with_the_high_water_mark(kit: Kit) -> None:
    with kit.open(create=True) as store, kit.open() as other:
        seen: list[tuple[int, bool]] = []
        undo = store.subscribe(lambda mark: seen.append((mark, other.have(plex(mark).hash))))
        for number in (1, 2):
            store.put_records([plex(number)])
        assert seen == [(1, True), (2, True)]
        undo()
        undo()
        store.put_records([plex(3)])
        assert len(seen) == 2


def test_nobody_is_woken_when_nothing_changed(store: Store) -> None:
    store.put_records([plex(1)])
    marks: list[int] = []
    store.subscribe(marks.append)
    store.put_records([plex(1)])
    store.put_records([])
    store.lift(plex(2).hash)
    store.release(99)
    assert marks == []
    store.remove(plex(1).hash, reason="test")
    assert marks == [1]


def test_a_subscriber_may_write(store: Store) -> None:
    answered: list[int] = []

    def answer(mark: StoreRecordId) -> None:
        answered.append(mark)
        if mark < 3:
            store.put_records([plex(mark + 1)])

    store.subscribe(answer)
    store.put_records([plex(1)])
    assert answered == [1, 2, 3]
    assert store.high_water() == 3


def test_changes_by_others_are_noticed_and_own_ones_are_not(kit: Kit) -> None:
    with kit.open(create=True) as store, kit.open() as other:
        assert not store.changed_elsewhere()
        store.put_records([plex(1)])
        assert not store.changed_elsewhere()
        other.put_records([plex(2)])
        assert store.changed_elsewhere()
        assert not store.changed_elsewhere()
        assert other.changed_elsewhere()
        other.put_records([plex(2)])
        assert not store.changed_elsewhere()
