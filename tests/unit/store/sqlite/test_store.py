"""Faults, other processes, and what else the SQLite store promises beyond the conformance kit."""

import subprocess
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING

import apsw
import pytest

from bobbin.errors import UsageError
from bobbin.store.base import Outcome, StoreError
from bobbin.store.sqlite import Config, SqliteStore, lookup, open_store, quarantine
from bobbin.store.sqlite import store as store_module
from tests.conformance.samples import plex
from tests.unit.store.sqlite.conftest import NOW, Database
from tests.unit.store.sqlite.plans import scanned_tables
from tests.unit.store.sqlite.processes import REPOSITORY, command, run

if TYPE_CHECKING:
    from typing_extensions import Buffer


def sound(store: SqliteStore) -> bool:
    return list(store.check()) == []


# ---- full disk ----------------------------------------------------------------------------------------------------


def test_a_full_database_loses_nothing_and_recovers(store: SqliteStore) -> None:
    store.put_records([plex(number) for number in range(10)])
    pages = store._connection.pragma("page_count")
    store._connection.pragma("max_page_count", pages + 2)
    batch = [plex(number, data=bytes(20_000)) for number in range(100, 120)]
    with pytest.raises(StoreError, match="no space") as caught:
        store.put_records(batch)
    assert caught.value.retry
    assert store.high_water() == 10
    assert [line.hash for line in store.scan()] == [plex(number).hash for number in range(10)]
    assert sound(store)
    store._connection.pragma("max_page_count", 1_000_000)
    assert [answer.id for answer in store.put_records(batch)] == list(range(11, 31))
    assert sound(store)


def test_a_full_disk_loses_nothing_and_recovers(path: Path) -> None:
    assert run("fill_disk", path) == "StoreError True True, True True True, stored, 0 findings"


# ---- a disk that fails --------------------------------------------------------------------------------------------


class _FailingFile(apsw.VFSFile):
    def __init__(self, disk: "_FailingDisk", name: str | apsw.URIFilename | None, flags: list[int]) -> None:
        super().__init__(disk.base_vfs, name, flags)
        self._disk = disk

    def xSync(self, flags: int) -> None:
        self._disk.fail_if_told("sync")
        super().xSync(flags)

    def xWrite(self, data: "Buffer", offset: int) -> None:
        self._disk.fail_if_told("write")
        super().xWrite(data, offset)

    def xRead(self, amount: int, offset: int) -> bytes:
        self._disk.fail_if_told("read")
        return super().xRead(amount, offset)


class _FailingDisk(apsw.VFS):
    """The operating system's files, until it is told to fail."""

    def __init__(self) -> None:
        self.failing: str | None = None
        self.base_vfs = ""
        super().__init__("failing-disk", self.base_vfs)

    def fail_if_told(self, work: str) -> None:
        if self.failing == work:
            raise apsw.IOError(f"the disk fails to {work}")

    def xOpen(self, name: str | apsw.URIFilename | None, flags: list[int]) -> _FailingFile:
        return _FailingFile(self, name, flags)


@pytest.fixture
def failing_disk() -> Iterator[_FailingDisk]:
    disk = _FailingDisk()
    yield disk
    disk.unregister()


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("work", ["sync", "write"])
def test_what_a_failing_disk_did_not_take_is_not_acknowledged(
    path: Path, failing_disk: _FailingDisk, work: str
) -> None:
    with open_store(path, create=True, now=lambda: NOW, config=Config(vfs="failing-disk")) as store:
        store.put_records([plex(1)])
        woken: list[int] = []
        store.subscribe(woken.append)
        failing_disk.failing = work
        with pytest.raises(StoreError):
            store.put_records([plex(2, extras=[("X", "lost")])])
        failing_disk.failing = None
        assert woken == []
        assert not store.have(plex(2, extras=[("X", "lost")]).hash)
        assert store.put_records([plex(3, extras=[("X", "kept")])])[0].id == 2
        assert set(store.facts.match("Field", (None, "X", None, None))) == {
            (plex(3, extras=[("X", "kept")]).hash, "X", "0", "kept")
        }
        assert sound(store)


# ---- others at the same store -------------------------------------------------------------------------------------


def test_a_writer_that_does_not_finish_is_a_store_error_to_retry(path: Path, database: Database) -> None:
    with open_store(path, create=True, now=lambda: NOW, config=Config(busy_timeout_ms=20)) as store:
        with database() as other:
            other.execute("BEGIN IMMEDIATE")
            with pytest.raises(StoreError, match="another writer") as caught:
                store.put_records([plex(1)])
            assert caught.value.retry
            with pytest.raises(StoreError, match="another writer"):
                store.compact()
            assert list(store.scan()) == []
            other.execute("ROLLBACK")
        assert store.put_records([plex(1)])[0].outcome is Outcome.STORED


@pytest.mark.slow
def test_processes_that_write_at_once_store_everything_once(path: Path) -> None:
    with open_store(path, create=True, now=lambda: NOW) as store:
        others = [
            subprocess.Popen(
                command("write_beside_others", path, first), stdout=subprocess.PIPE, text=True, cwd=REPOSITORY
            )
            for first in (0, 50, 100)
        ]
        stored = sum(int(other.communicate()[0]) for other in others)
        assert [other.returncode for other in others] == [0, 0, 0]
        assert stored == sum(store.stat().records.values()) == 260
        assert [line.id for line in store.scan()] == list(range(1, 261))
        assert store.changed_elsewhere()
        assert sound(store)


@pytest.mark.slow
def test_what_was_acknowledged_survives_kill(path: Path) -> None:
    random = Random(0)
    acknowledged = 0
    for _ in range(6):
        process = subprocess.Popen(command("put_for_ever", path), stdout=subprocess.PIPE, text=True, cwd=REPOSITORY)
        assert process.stdout is not None
        for _ in range(random.randrange(1, 12)):
            acknowledged = int(process.stdout.readline())
        process.kill()
        # Lines that were on their way are acknowledgements too.
        acknowledged = max([acknowledged, *(int(line) for line in process.stdout if line.endswith("\n"))])
        process.wait()
        process.stdout.close()
        with open_store(path, now=lambda: NOW) as store:
            stored = [line.hash for line in store.scan()]
            assert len(stored) % 25 == 0, "a batch is all or nothing"
            assert len(stored) >= acknowledged * 25
            expected = [plex(number, extras=[("X", f"v{number % 25}")]).hash for number in range(len(stored))]
            assert stored == expected
            assert sound(store)


# ---- writing ------------------------------------------------------------------------------------------------------


def test_a_batch_is_compared_with_the_store_by_an_index(store: SqliteStore, database: Database) -> None:
    store.put_records([plex(1)])
    with database() as connection:
        statement = store_module.KNOWN.replace("carray(?)", "(SELECT ?)")
        assert scanned_tables(connection, statement, (1,)) == set()


def test_a_put_of_duplicates_writes_nothing(store: SqliteStore) -> None:
    store.put_records([plex(1)])
    before = store._connection.total_changes()
    store.put_records([plex(1), plex(1)])
    assert store._connection.total_changes() == before


@pytest.mark.parametrize("damage", ["CAST(raw || x'00' AS BLOB)", "x''", "CAST(substr(raw, 1, 90) AS BLOB)"])
def test_a_record_that_comes_again_heals_damaged_bytes(store: SqliteStore, damage: str) -> None:
    store.put_records([plex(1), plex(2)])
    store._connection.execute(f"UPDATE record SET raw = {damage} WHERE id = 1")
    assert not sound(store)
    answers = store.put_records([plex(1), plex(2), plex(3)])
    assert [answer.outcome for answer in answers] == [Outcome.DUPLICATE, Outcome.DUPLICATE, Outcome.STORED]
    assert store.get(plex(1).hash) == plex(1).raw
    assert sound(store)


def test_a_write_that_fails_midway_leaves_nothing_behind(store: SqliteStore, monkeypatch: pytest.MonkeyPatch) -> None:
    store.put_records([plex(1, extras=[("X", "one")])])

    def fail(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(quarantine, "add", fail)
        with pytest.raises(KeyboardInterrupt):
            store.put_many([plex(2, group="lost", extras=[("X", "lost")]).raw, b"junk"])
    assert store.high_water() == 1
    assert store.put_records([plex(3, group="kept", extras=[("X", "kept")])])[0].id == 2
    assert {values[3] for values in store.facts.match("Field", (None, "Group", None, None))} == {"u", "kept"}
    assert sound(store)


def test_a_subscriber_that_raises_keeps_nobody_else_waiting(store: SqliteStore) -> None:
    def fail(_: int) -> None:
        raise ZeroDivisionError

    woken: list[int] = []
    store.subscribe(fail)
    store.subscribe(woken.append)
    with pytest.warns(RuntimeWarning, match="ZeroDivisionError"):
        (answer,) = store.put_records([plex(1)])
    assert answer.outcome is Outcome.STORED
    assert woken == [1]


def test_a_subscriber_is_kept_as_often_as_it_subscribed(store: SqliteStore) -> None:
    woken: list[int] = []
    undo = store.subscribe(woken.append)
    store.subscribe(woken.append)
    undo()
    store.put_records([plex(1)])
    assert woken == [1]


def test_the_log_is_copied_into_the_database_now_and_then(path: Path) -> None:
    config = Config(wal_bytes=1_000_000)
    with open_store(path, create=True, now=lambda: NOW, config=config) as store:
        for batch in range(30):
            store.put_records([plex(batch * 10 + item, data=bytes(20_000)) for item in range(10)])
        assert path.with_name(f"{path.name}-wal").stat().st_size < 4_000_000
        assert store.stat().file_bytes > 5_000_000


# ---- reading ------------------------------------------------------------------------------------------------------


def test_iterators_of_a_closed_store_fail_when_they_are_begun(path: Path) -> None:
    store = open_store(path, create=True, now=lambda: NOW)
    walks: list[Iterator[object]] = [store.scan(), store.facts.enumerate("Have"), store.check(), store.refusals()]
    store.close()
    for walk in walks:
        with pytest.raises(UsageError, match="closed"):
            next(walk)


def test_an_iterator_sees_the_moment_of_its_first_step(store: SqliteStore) -> None:
    store.put_records([plex(1)])
    walk = store.scan()
    store.put_records([plex(2)])
    assert next(walk).id == 1
    store.put_records([plex(3)])
    assert [line.id for line in walk] == [2]


def test_damage_is_a_store_error_wherever_it_is_met(path: Path, database: Database) -> None:
    with open_store(path, create=True, now=lambda: NOW) as store:
        store.put_records([plex(1)])
    with database() as connection:
        connection.execute("PRAGMA writable_schema=ON")
        connection.execute("UPDATE fact SET kind = 9")
        connection.execute("DROP TABLE header")
    with open_store(path, now=lambda: NOW) as store:
        for walk in (store.facts.enumerate("Have"), store.facts.enumerate("Field"), store.list(plex(1).coordinate)):
            with pytest.raises(StoreError) as caught:
                list(walk)
            assert not caught.value.retry


def test_the_size_on_disk_counts_the_log(store: SqliteStore, path: Path) -> None:
    before = store.stat().file_bytes
    store.put_records([plex(number, data=bytes(10_000)) for number in range(20)])
    after = store.stat().file_bytes
    assert after > before + 200_000
    log = path.with_name(f"{path.name}-wal")
    assert after == path.stat().st_size + log.stat().st_size


def test_the_first_number_is_after_the_start(store: SqliteStore) -> None:
    assert store.high_water() == lookup.START == 0
    assert store.put_records([plex(1)])[0].id == 1
