"""What a path may hold, and what is said about it."""

import stat
from pathlib import Path

import apsw
import pytest

from bobbin.errors import UsageError
from bobbin.store.base import StoreError
from bobbin.store.sqlite import migrations, open_store
from tests.conformance.samples import plex
from tests.unit.store.sqlite.conftest import Database
from tests.unit.store.sqlite.processes import dropped, scratch_folder


def opened(path: Path, *, create: bool = False, read_only: bool = False) -> None:
    open_store(path, create=create, now=lambda: 0, read_only=read_only).close()


def make_database(path: Path, *statements: str) -> None:
    connection = apsw.Connection(str(path))
    for statement in statements:
        connection.execute(statement)
    connection.close()


def test_creating_leaves_one_file(tmp_path: Path) -> None:
    opened(tmp_path / "records.db", create=True)
    assert [path.name for path in tmp_path.iterdir()] == ["records.db"]


def test_creating_needs_the_folder(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="does not exist"):
        opened(tmp_path / "no" / "records.db", create=True)
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(UsageError):
        opened(tmp_path / "file" / "records.db", create=True)


def test_nothing_is_made_without_being_asked(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no store"):
        opened(tmp_path / "records.db")
    with pytest.raises(UsageError, match="no store"):
        opened(tmp_path / "records.db", create=True, read_only=True)
    assert list(tmp_path.iterdir()) == []


def test_when_another_process_is_faster_its_store_is_opened(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real_migrate = migrations.migrate

    def migrate_late(connection: apsw.Connection) -> None:
        # While this store is being built, another one takes the name and gets a record.
        monkeypatch.undo()
        with open_store(path, create=True, now=lambda: 0) as other:
            other.put_records([plex(1)])
        real_migrate(connection)

    monkeypatch.setattr(migrations, "migrate", migrate_late)
    with open_store(path, create=True, now=lambda: 0) as store:
        assert store.have(plex(1).hash)
    assert [file.name for file in path.parent.iterdir()] == [path.name]


@pytest.mark.parametrize("create", [False, True])
def test_an_empty_file_or_a_folder_is_no_store(path: Path, create: object) -> None:
    path.touch()
    with pytest.raises(UsageError, match="empty"):
        opened(path, create=bool(create))
    assert path.read_bytes() == b""
    path.unlink()
    path.mkdir()
    with pytest.raises(UsageError, match="not a file"):
        opened(path, create=bool(create))


@pytest.mark.parametrize(
    "content",
    [b"x", b"hello world\n" * 5000, b"SQLite format 3\x00" + b"\xff" * 4096, b"SQLite format 3\x00"],
    ids=["one byte", "text", "damaged header", "cut header"],
)
def test_a_file_that_is_no_database_is_refused_and_left_alone(path: Path, content: bytes) -> None:
    path.write_bytes(content)
    for create, read_only in ((False, False), (True, False), (False, True)):
        with pytest.raises(StoreError, match=r"records\.db") as caught:
            opened(path, create=create, read_only=read_only)
        assert not caught.value.retry
    assert path.read_bytes() == content
    assert [file.name for file in path.parent.iterdir()] == [path.name]


@pytest.mark.parametrize("mode", ["DELETE", "WAL"])
def test_a_database_of_someone_else_is_refused_and_left_alone(path: Path, mode: str) -> None:
    make_database(path, f"PRAGMA journal_mode={mode}", "CREATE TABLE theirs(x)", "INSERT INTO theirs VALUES (1)")
    before = path.read_bytes()
    for create in (False, True):
        with pytest.raises(StoreError, match="not a store of Bobbin"):
            opened(path, create=create)
    assert path.read_bytes() == before


def test_the_log_of_someone_else_is_not_brought_into_their_file(path: Path) -> None:
    connection = apsw.Connection(str(path))
    connection.execute("PRAGMA journal_mode=WAL")
    connection.execute("CREATE TABLE theirs(x)")
    connection.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)
    connection.close()
    before = path.read_bytes()
    with pytest.raises(StoreError, match="not a store of Bobbin"):
        opened(path)
    assert path.read_bytes() == before


@pytest.mark.parametrize("read_only", [False, True])
def test_a_newer_store_is_refused_and_left_alone(path: Path, database: Database, read_only: object) -> None:
    opened(path, create=True)
    with database() as connection:
        connection.pragma("user_version", migrations.VERSION + 1)
    before = path.read_bytes()
    with pytest.raises(StoreError, match="newer Bobbin") as caught:
        opened(path, read_only=bool(read_only))
    assert not caught.value.retry
    assert path.read_bytes() == before


def test_a_store_without_a_version_is_damaged(path: Path, database: Database) -> None:
    opened(path, create=True)
    with database() as connection:
        connection.pragma("user_version", 0)
    with pytest.raises(StoreError, match="damaged"):
        opened(path)


def test_an_older_store_is_migrated_when_it_is_opened_for_writing(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with open_store(path, create=True, now=lambda: 0) as store:
        store.put_records([plex(1)])

    def add_a_table(connection: apsw.Connection) -> None:
        connection.execute("CREATE TABLE added(x TEXT) STRICT")

    steps = (*migrations.STEPS, add_a_table)
    real_migrate = migrations.migrate
    monkeypatch.setattr(migrations, "VERSION", len(steps))
    monkeypatch.setattr(migrations, "migrate", lambda connection: real_migrate(connection, steps=steps))
    with pytest.raises(StoreError, match="older version"):
        opened(path, read_only=True)
    with open_store(path, now=lambda: 0) as store:
        assert store.stat().schema_version == len(steps)
        assert store.have(plex(1).hash)
        assert list(store.check()) == []


def test_a_store_that_lost_its_log_mode_gets_it_back(path: Path, database: Database) -> None:
    opened(path, create=True)
    with database() as connection:
        connection.pragma("journal_mode", "DELETE")
    opened(path)
    with database() as connection:
        assert connection.pragma("journal_mode") == "wal"


def is_usable(path: Path) -> bool:
    try:
        with open_store(path, now=lambda: 0) as store:
            return list(store.check()) == []
    except StoreError:
        return False


def test_a_store_cut_short_is_refused_or_found_damaged(path: Path) -> None:
    with open_store(path, create=True, now=lambda: 0) as store:
        store.put_records([plex(number) for number in range(200)])
    whole = path.read_bytes()
    assert is_usable(path)
    for size in range(20_000, len(whole), 50_000):
        path.write_bytes(whole[:size])
        assert not is_usable(path)


# ---- permissions (in a process without privileges, since they do not bind the superuser) ---------------------------


@pytest.mark.slow
def test_a_read_only_file_can_be_read_but_not_written() -> None:
    with scratch_folder() as folder:
        path = folder / "records.db"
        with open_store(path, create=True, now=lambda: 0) as store:
            store.put_records([plex(1)])
        path.chmod(0o444)
        folder.chmod(0o777)
        assert dropped("open_for_writing", path) == "StoreError False: cannot be written"
        assert dropped("read", path) == "1 records, 0 findings"


@pytest.mark.slow
def test_a_read_only_folder_can_be_read_but_not_written() -> None:
    with scratch_folder() as folder:
        path = folder / "records.db"
        with open_store(path, create=True, now=lambda: 0) as store:
            store.put_records([plex(1)])
        path.chmod(0o666)
        folder.chmod(0o555)
        before = path.read_bytes()
        assert dropped("open_for_writing", path).startswith("StoreError False")
        assert dropped("create", folder / "other.db").startswith("StoreError False")
        assert dropped("read", path) == "1 records, 0 findings"
        assert path.read_bytes() == before
        assert [file.name for file in folder.iterdir()] == ["records.db"]


@pytest.mark.slow
def test_what_may_not_be_read_is_a_store_error() -> None:
    with scratch_folder() as folder:
        path = folder / "records.db"
        opened(path, create=True)
        path.chmod(0)
        folder.chmod(0o777)
        assert dropped("open_for_writing", path).startswith("StoreError False")
        assert dropped("read", path).startswith("StoreError False")
        path.chmod(stat.S_IRUSR | stat.S_IROTH)
        folder.chmod(0)
        assert dropped("read", path).startswith("StoreError False")
        folder.chmod(0o700)
