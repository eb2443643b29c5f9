"""The tables: what identifies a store, and what may never change in a published version."""

import pytest
from blake3 import blake3

from bobbin.store.sqlite import schema
from tests.unit.store.sqlite.conftest import Database


def test_a_published_version_never_changes() -> None:
    # A change of the tables is a new step in migrations.py, never an edit of an old one.
    assert blake3(schema.VERSION_1.encode()).hexdigest(8) == "d5d7e81cbd4ab1f4"
    assert blake3(schema.VERSION_2.encode()).hexdigest(8) == "d67b1c5ee224fbb9"
    assert blake3(schema.VERSION_3.encode()).hexdigest(8) == "fac55eb5f1653ef1"
    assert blake3(schema.VERSION_4.encode()).hexdigest(8) == "5dd2afee59573044"


@pytest.mark.usefixtures("store")
def test_the_file_says_what_it_is(database: Database) -> None:
    with database() as connection:
        assert connection.pragma("application_id") == 0x426F6262
        assert connection.pragma("user_version") == 4
        assert connection.pragma("page_size") == schema.PAGE_BYTES
        assert connection.pragma("journal_mode") == "wal"


@pytest.mark.usefixtures("store")
def test_every_table_is_strict(database: Database) -> None:
    with database() as connection:
        tables = connection.execute("SELECT name, strict FROM pragma_table_list WHERE schema = 'main'")
        assert {name for name, strict in tables if not strict} == {"sqlite_schema", "sqlite_sequence"}
