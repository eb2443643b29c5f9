"""Compacting: what nothing uses is gone, the rest is untouched."""

from pathlib import Path

from bobbin.store.sqlite import Config, SqliteStore, open_store
from tests.conformance.samples import plex, sealed
from tests.unit.store.sqlite.conftest import Database

EXTRAS = [("X", "one"), ("+Link", f"about {plex(50).hash}")]


def counts(database: Database) -> tuple[int, int]:
    with database() as connection:
        return (
            connection.execute("SELECT count(*) FROM text").get,
            connection.execute("SELECT count(*) FROM place").get,
        )


def test_only_values_in_use_stay(store: SqliteStore, database: Database) -> None:
    store.put_records([plex(1, group="g", extras=EXTRAS), sealed(2), plex(3)])
    assert counts(database) == (7, 2)
    store.compact()
    assert counts(database) == (7, 2)
    store.remove(plex(1, group="g", extras=EXTRAS).hash, reason="test")
    store.compact()
    assert counts(database) == (1, 1)
    store.remove(sealed(2).hash, reason="test")
    store.compact()
    assert counts(database) == (0, 1)
    assert list(store.check()) == []


def test_the_file_shrinks(store: SqliteStore) -> None:
    batch = [plex(number, data=bytes(100_000)) for number in range(50)]
    store.put_records(batch)
    for record in batch:
        store.remove(record.hash, reason="test")
    store.compact()
    assert store.stat().file_bytes < 1_000_000


def test_removed_bytes_are_nowhere_afterwards(path: Path) -> None:
    secret = b"something that must go"
    record = plex(1, data=secret * 2000)
    with open_store(path, create=True, now=lambda: 0) as store:
        store.put_records([record, plex(2)])
        store.remove(record.hash, reason="test")
        store.compact()
    assert secret not in path.read_bytes()
    assert {file.name for file in path.parent.iterdir()} == {path.name}


def test_what_was_kept_of_a_removed_record_is_nowhere_afterwards(path: Path) -> None:
    secret = b"something that must go"
    with open_store(path, create=True, now=lambda: 0) as store:
        store.put_records([plex(1), plex(2)])
        for kind in ("standing", "cursor"):
            store.keep(kind, "a", secret * 2000)
        store.remove(plex(1).hash, reason="test")
        store.compact()
    assert secret not in path.read_bytes()
    assert {file.name for file in path.parent.iterdir()} == {path.name}


def test_numbers_of_dropped_values_are_not_taken_from_the_cache(store: SqliteStore) -> None:
    record = plex(1, group="g", app="a", extras=[("X", "one")])
    store.put_records([record])
    store.remove(record.hash, reason="test")
    store.compact()
    store.put_records([plex(2, group="h", app="b", extras=[("Y", "two")])])
    store.put_records([plex(3, group="g", app="a", extras=[("X", "one")])])
    assert list(store.check()) == []
    assert {values[3] for values in store.facts.match("Field", (None, "Group", None, None))} == {"g", "h"}


def test_an_open_snapshot_stays_what_it_was_and_does_not_hold_it_up(path: Path) -> None:
    config = Config(busy_timeout_ms=600_000)
    with open_store(path, create=True, now=lambda: 0, config=config) as store:
        store.put_records([plex(number, extras=EXTRAS) for number in range(10)])
        with store.snapshot() as snapshot:
            for number in range(10):
                store.remove(plex(number, extras=EXTRAS).hash, reason="test")
            store.compact()
            assert len(list(snapshot.scan())) == 10
            assert len(list(snapshot.facts.match("Field", (None, "X", None, "one")))) == 10
        assert list(store.scan()) == []
        assert list(store.check()) == []
