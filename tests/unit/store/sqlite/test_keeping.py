"""Values that only save work."""

import pytest

from bobbin.errors import UsageError
from bobbin.store.sqlite import SqliteStore, keeping
from tests.unit.store.sqlite.conftest import Database


def test_a_value_has_one_row(store: SqliteStore, database: Database) -> None:
    for value in (b"first", b"second"):
        store.keep("test", "a", value)
    with database() as connection:
        assert connection.execute("SELECT kind, key, value FROM kept").fetchall() == [("test", "a", b"second")]
        assert keeping.get(connection, "test", "a") == b"second"


def test_everything_is_cleared_at_once(store: SqliteStore, database: Database) -> None:
    for kind in ("test", "other"):
        store.keep(kind, "a", b"value")
    with database() as connection:
        assert list(keeping.rows(connection, "test")) == [("a", 5)]
        keeping.clear(connection)
        assert connection.execute("SELECT count(*) FROM kept").get == 0


def test_half_a_surrogate_pair_is_no_name(store: SqliteStore) -> None:
    for kind, key in (("\ud800", "a"), ("test", "\ud800")):
        with pytest.raises(UsageError, match="texts"):
            store.keep(kind, key, b"value")
        with pytest.raises(UsageError, match="texts"):
            store.kept(kind, key)
