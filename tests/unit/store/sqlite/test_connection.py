"""Opening connections, and transactions."""

from pathlib import Path

import apsw
import pytest

from bobbin.store.base import StoreError
from bobbin.store.sqlite import Config
from bobbin.store.sqlite.connection import Access, Source, fingerprint_of, transaction


def source(path: Path, access: Access = Access.WRITE) -> Source:
    return Source(path=path, access=access, config=Config())


@pytest.mark.usefixtures("store")
def test_the_writer_waits_for_the_disk(path: Path) -> None:
    connection = source(path).main()
    try:
        assert connection.pragma("synchronous") == 2
        assert connection.pragma("journal_mode") == "wal"
        assert connection.pragma("cache_size") == -64 * 1024
    finally:
        connection.close()


@pytest.mark.usefixtures("store")
@pytest.mark.parametrize("access", Access)
def test_a_reader_refuses_to_write(path: Path, access: Access) -> None:
    connection = source(path, access).reader()
    try:
        with pytest.raises(apsw.ReadOnlyError):
            connection.execute("DELETE FROM tally")
    finally:
        connection.close()


def test_a_change_under_an_unlocked_reader_is_noticed(tmp_path: Path) -> None:
    path = tmp_path / "x"
    path.write_bytes(b"one")
    unlocked = Source(path=path, access=Access.READ_UNLOCKED, config=Config(), fingerprint=fingerprint_of(path))
    unlocked.verify_unchanged()
    path.write_bytes(b"other")
    with pytest.raises(StoreError, match="changed") as caught:
        unlocked.verify_unchanged()
    assert caught.value.retry


def test_a_path_with_special_characters_is_opened_literally(tmp_path: Path) -> None:
    path = tmp_path / "a?mode=memory#%41.db"
    connection = apsw.Connection(str(path))
    connection.execute("CREATE TABLE t(x)")
    connection.close()
    for access in Access:
        connection = source(path, access).reader()
        assert connection.table_exists("main", "t")
        connection.close()


def test_a_transaction_is_all_or_nothing() -> None:
    connection = apsw.Connection(":memory:")
    connection.execute("CREATE TABLE t(x)")
    with transaction(connection):
        connection.execute("INSERT INTO t VALUES (1)")

    def fail() -> None:
        with transaction(connection):
            connection.execute("INSERT INTO t VALUES (2)")
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert not connection.in_transaction
    assert connection.execute("SELECT x FROM t").fetchall() == [(1,)]
    connection.close()


def test_a_transaction_that_sqlite_ended_itself_raises_what_ended_it() -> None:
    connection = apsw.Connection(":memory:")
    connection.execute("CREATE TABLE t(x UNIQUE ON CONFLICT ROLLBACK)")
    with pytest.raises(apsw.ConstraintError), transaction(connection):
        connection.execute("INSERT INTO t VALUES (1), (1)")
    assert not connection.in_transaction
    connection.close()
