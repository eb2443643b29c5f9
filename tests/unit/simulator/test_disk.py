"""The disk that fails: what is synced survives a power cut, what is not may not; while it is down, nothing answers."""

from contextlib import suppress
from pathlib import Path
from random import Random

import apsw
import pytest

from bobbin.simulator.disk import SECTOR, FaultyDisk, PowerCut


def open_database(path: Path, disk: FaultyDisk, *, synchronous: str = "FULL") -> apsw.Connection:
    connection = apsw.Connection(str(path), vfs=disk.name)
    connection.pragma("journal_mode", "WAL")
    connection.pragma("synchronous", synchronous)
    connection.execute("CREATE TABLE IF NOT EXISTS t(x)")
    return connection


def close_dead(connection: apsw.Connection) -> None:
    with suppress(PowerCut):
        connection.close(force=True)


def test_what_was_synced_survives_every_power_cut(tmp_path: Path) -> None:
    for seed in range(20):
        disk = FaultyDisk(f"synced-{seed}", Random(seed))
        path = tmp_path / f"{seed}.db"
        connection = open_database(path, disk)
        for number in range(5):
            connection.execute("INSERT INTO t VALUES (?)", (number,))
        disk.crash()
        close_dead(connection)
        disk.restart()
        assert [x for (x,) in open_database(path, disk).execute("SELECT x FROM t ORDER BY x")] == [0, 1, 2, 3, 4]


def test_what_was_not_synced_is_sometimes_lost(tmp_path: Path) -> None:
    survivors = set()
    for seed in range(20):
        disk = FaultyDisk(f"unsynced-{seed}", Random(seed))
        path = tmp_path / f"{seed}.db"
        connection = open_database(path, disk)
        connection.pragma("wal_checkpoint", "TRUNCATE")
        connection.pragma("synchronous", "OFF")
        connection.execute("INSERT INTO t VALUES (1)")
        disk.crash()
        close_dead(connection)
        disk.restart()
        survivors.add(open_database(path, disk).execute("SELECT count(*) FROM t").get)
    assert survivors == {0, 1}


def test_nothing_answers_while_the_power_is_off(tmp_path: Path) -> None:
    disk = FaultyDisk("down", Random(0))
    connection = open_database(tmp_path / "x.db", disk)
    disk.crash()
    with pytest.raises(apsw.IOError):
        connection.execute("INSERT INTO t VALUES (1)")
    close_dead(connection)
    disk.restart()
    open_database(tmp_path / "x.db", disk).execute("INSERT INTO t VALUES (1)")


def test_errors_come_at_the_rate_that_was_set_and_leave_the_database_whole(tmp_path: Path) -> None:
    disk = FaultyDisk("errors", Random(3))
    connection = open_database(tmp_path / "x.db", disk)
    disk.error_rate = 0.2
    written = 0
    for number in range(60):
        try:
            connection.execute("INSERT INTO t VALUES (?)", (number,))
            written += 1
        except (apsw.FullError, apsw.IOError):
            pass
    disk.error_rate = 0.0
    assert disk.errors > 0
    assert 0 < written < 60
    assert connection.execute("SELECT count(*) FROM t").get >= written
    assert connection.pragma("integrity_check") == "ok"


def test_one_seed_is_one_history(tmp_path: Path) -> None:
    def history(name: str) -> bytes:
        disk = FaultyDisk(name, Random(11))
        path = tmp_path / f"{name}.db"
        connection = open_database(path, disk, synchronous="OFF")
        connection.execute("INSERT INTO t VALUES (zeroblob(?))", (5 * SECTOR,))
        disk.crash()
        close_dead(connection)
        disk.restart()
        return path.read_bytes()

    assert history("first") == history("second")
