"""A store in a temporary folder, and the database under it."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import apsw
import pytest

from bobbin.store.sqlite import SqliteStore, open_store

NOW = 1_640_995_200_000_000_000

Database = Callable[[], AbstractContextManager[apsw.Connection]]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "records.db"


@pytest.fixture
def store(path: Path) -> Iterator[SqliteStore]:
    with open_store(path, create=True, now=lambda: NOW) as opened:
        yield opened


@pytest.fixture
def database(path: Path) -> Database:
    """The file as SQLite sees it, past everything that the store forbids."""

    @contextmanager
    def open_database() -> Iterator[apsw.Connection]:
        connection = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READWRITE)
        try:
            yield connection
        finally:
            connection.close(force=True)

    return open_database
