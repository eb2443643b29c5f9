"""The bounds of the quarantine: nothing fills the disk, nothing vanishes without a trace."""

from pathlib import Path

from bobbin.store.base import Rejected
from bobbin.store.sqlite import Config, SqliteStore, open_store
from bobbin.store.sqlite.quarantine import KNOWN


def open_small(path: Path, config: Config) -> SqliteStore:
    return open_store(path, create=True, now=lambda: 5, config=config)


def reject(store: SqliteStore, *sizes: int) -> None:
    store.put_records([], rejected=[Rejected(raw=bytes(size), reason="r", detail="d") for size in sizes])


def kept(store: SqliteStore) -> list[tuple[int, bool]]:
    return [(row.size, row.raw is not None) for row in store.quarantined()]


def test_beyond_the_total_only_the_bytes_are_dropped(path: Path) -> None:
    with open_small(path, Config(quarantine_bytes_max=100)) as store:
        reject(store, 60, 50, 40)
        assert kept(store) == [(60, True), (50, False), (40, True)]
        reject(store, 1)
        assert kept(store)[-1] == (1, False)
        assert store.stat().quarantined == 4
        assert list(store.check()) == []


def test_releasing_makes_room(path: Path) -> None:
    with open_small(path, Config(quarantine_bytes_max=100)) as store:
        reject(store, 100, 10)
        assert kept(store) == [(100, True), (10, False)]
        store.release(1)
        store.release(2)
        reject(store, 100)
        assert kept(store) == [(100, True)]
        assert list(store.check()) == []


def test_a_single_item_has_a_bound_of_its_own(path: Path) -> None:
    with open_small(path, Config(quarantine_item_bytes_max=10)) as store:
        reject(store, 11, 10)
        assert kept(store) == [(11, False), (10, True)]


def test_beyond_the_number_of_rows_rejections_are_counted(path: Path) -> None:
    with open_small(path, Config(quarantine_rows_max=3)) as store:
        reject(store, 1, 2)
        reject(store, 3, 4, 5)
        reject(store, 6)
        assert kept(store) == [(1, True), (2, True), (3, True)]
        stat = store.stat()
        assert (stat.quarantined, stat.quarantine_overflow) == (3, 3)
        store.release(1)
        reject(store, 7)
        assert kept(store) == [(2, True), (3, True), (7, True)]
        assert store.stat().quarantine_overflow == 3
        assert list(store.check()) == []


def test_a_smaller_bound_than_what_is_there_drops_nothing(path: Path) -> None:
    with open_small(path, Config()) as store:
        reject(store, 10, 20, 30)
    with open_small(path, Config(quarantine_rows_max=2, quarantine_bytes_max=5)) as store:
        reject(store, 1)
        assert kept(store) == [(10, True), (20, True), (30, True)]
        assert store.stat().quarantine_overflow == 1


def test_many_equal_rejections_are_looked_up_by_index(path: Path) -> None:
    # Equal bytes at different places share their key; the place must be part of the index.
    with open_small(path, Config()) as store:
        plan = " ".join(row[3] for row in store._connection.execute(f"EXPLAIN QUERY PLAN {KNOWN}", (1, 2, "s", 3, "r")))
        assert "quarantine_by_place (key=? AND start=? AND source=?)" in plan


def test_beyond_the_row_bound_nothing_is_looked_up(path: Path) -> None:
    with open_small(path, Config(quarantine_rows_max=1)) as store:
        reject(store, 1, 2, 3)
        assert store.stat().quarantine_overflow == 2
        assert store.release_all() == 1
        assert store.stat().quarantine_overflow == 0
