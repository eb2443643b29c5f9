"""Upkeep: counts, backup, check, compacting, and two store objects on one store."""

import pytest

from bobbin.errors import UsageError
from bobbin.facts.relations import ARITY
from bobbin.records.ids import Kind
from bobbin.store.base import Store
from tests.conformance.conftest import Kit
from tests.conformance.samples import EMPTY_BLOB, EXTRAS, plex, sealed


def contents(store: Store) -> list[object]:
    """Everything that a store says about what it holds."""
    return [
        list(store.scan()),
        list(store.refusals()),
        list(store.quarantined()),
        [sorted(store.facts.enumerate(predicate)) for predicate in ARITY],
        store.high_water(),
        store.stat().records,
    ]


def fill(store: Store) -> None:
    store.put_records([plex(number, extras=EXTRAS[:number]) for number in range(6)])
    store.put_records([sealed(7), EMPTY_BLOB])
    store.put_many([b"junk"])
    assert store.remove(plex(0).hash, reason="test")


def test_an_empty_store_counts_nothing(store: Store) -> None:
    stat = store.stat()
    assert stat.records == {Kind.BLOB: 0, Kind.PLEX: 0, Kind.SEAL: 0}
    assert (stat.record_bytes, stat.quarantined, stat.refused, stat.high_water) == (0, 0, 0, 0)
    assert stat.quarantine_overflow == 0
    assert stat.file_bytes > 0
    assert stat.schema_version >= 1


def test_counts_follow_every_write(store: Store) -> None:
    fill(store)
    stat = store.stat()
    assert stat.records == {Kind.BLOB: 1, Kind.PLEX: 5, Kind.SEAL: 1}
    assert stat.record_bytes == sum(len(line.raw) for line in store.scan())
    assert (stat.quarantined, stat.refused, stat.high_water) == (1, 1, 8)


def test_a_sound_store_has_no_findings(store: Store) -> None:
    assert list(store.check()) == []
    fill(store)
    progress: list[tuple[int, int]] = []
    assert list(store.check(progress=lambda done, total: progress.append((done, total)))) == []
    assert progress[-1] == (7, 7)


def test_compacting_changes_nothing_that_can_be_seen(kit: Kit) -> None:
    with kit.open(create=True) as store:
        fill(store)
        # The newest record goes, so that its number must be remembered by other means.
        store.remove(EMPTY_BLOB.hash, reason="test")
        before = contents(store)
        store.compact()
        assert contents(store) == before
        assert list(store.check()) == []
    with kit.open() as store:
        assert contents(store) == before
        assert store.put_records([plex(99)])[0].id == 9


def test_compacting_does_not_confuse_another_store_object(kit: Kit) -> None:
    with kit.open(create=True) as store, kit.open() as other:
        # Both learn values that are then dropped and stored anew in another order.
        other.put_records([plex(1, group="g", app="a", extras=[("X", "one"), ("Y", "two")])])
        store.remove(plex(1, group="g", app="a", extras=[("X", "one"), ("Y", "two")]).hash, reason="test")
        store.compact()
        store.put_records([plex(2, group="h", app="b", extras=[("Y", "three"), ("Z", "one")])])
        other.put_records([plex(3, group="g", app="a", extras=[("X", "one"), ("Y", "two")])])
        assert list(store.check()) == []
        assert set(store.facts.match("Field", (None, "X", None, None))) == {
            (plex(3, group="g", app="a", extras=[("X", "one"), ("Y", "two")]).hash, "X", "0", "one")
        }


def test_a_backup_is_a_store_of_that_moment(kit: Kit) -> None:
    target = kit.path.with_name("backup.db")
    with kit.open(create=True) as store:
        fill(store)
        progress: list[tuple[int, int]] = []
        store.backup(target, progress=lambda done, total: progress.append((done, total)))
        done, total = progress[-1]
        assert done == total > 0
        with kit.open(path=target) as copy:
            assert contents(copy) == contents(store)
            assert list(copy.check()) == []
            store.put_records([plex(50)])
            copy.put_records([plex(60)])
            assert not copy.have(plex(50).hash)
            assert not store.have(plex(60).hash)


def test_a_backup_replaces_nothing(kit: Kit) -> None:
    target = kit.path.with_name("backup.db")
    with kit.open(create=True) as store:
        store.put_records([plex(1)])
        store.backup(target)
        store.put_records([plex(2)])
        with pytest.raises(UsageError):
            store.backup(target)
        with kit.open(path=target) as copy:
            assert not copy.have(plex(2).hash)


def test_two_store_objects_share_one_order_of_numbers(kit: Kit) -> None:
    with kit.open(create=True) as store, kit.open() as other:
        ids = [
            (store if number % 2 else other).put_records([plex(number, extras=EXTRAS[: number % 5])])[0].id
            for number in range(20)
        ]
        assert ids == list(range(1, 21))
        assert contents(store) == contents(other)
        assert list(other.check()) == []
