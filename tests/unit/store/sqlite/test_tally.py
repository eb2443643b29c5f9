"""Counts in one row."""

import pytest

from bobbin.records.ids import Kind
from bobbin.store.base import StoreError
from bobbin.store.sqlite import SqliteStore, tally
from tests.conformance.samples import plex
from tests.unit.store.sqlite.conftest import Database


def test_what_is_written_is_read(store: SqliteStore, database: Database) -> None:
    store.put_records([plex()])
    with database() as connection:
        counts = tally.read(connection)
        assert counts.records() == {Kind.BLOB: 0, Kind.PLEX: 1, Kind.SEAL: 0}
        counts.add(Kind.SEAL, 3)
        counts.quarantine_overflow += 2
        tally.write(connection, counts)
        assert tally.read(connection) == counts
        assert tally.read(connection).seals == 3


@pytest.mark.usefixtures("store")
def test_a_missing_row_is_damage(database: Database) -> None:
    with database() as connection:
        connection.execute("DELETE FROM tally")
        with pytest.raises(StoreError, match="damaged"):
            tally.read(connection)


def test_the_highest_number_outlives_its_record(store: SqliteStore, database: Database) -> None:
    store.put_records([plex(1), plex(2)])
    store.remove(plex(2).hash, reason="test")
    with database() as connection:
        assert tally.high_water(connection) == 2


def test_counting_does_not_grow_with_the_store(store: SqliteStore, database: Database) -> None:
    with database() as connection:
        plan = [row[3] for row in connection.execute("EXPLAIN QUERY PLAN SELECT * FROM tally")]
        assert plan == ["SCAN tally"]
        assert connection.execute("SELECT count(*) FROM tally").get == 1
    store.put_records([plex(number) for number in range(50)])
    with database() as connection:
        assert connection.execute("SELECT count(*) FROM tally").get == 1
