"""Rows of records: complete, and gone without a rest."""

from bobbin.store.sqlite import SqliteStore, coding
from tests.conformance.samples import EMPTY_BLOB, EXTRAS, plex, sealed
from tests.unit.store.sqlite.conftest import Database

TABLES = ("record", "fact", "header", "link")


def test_a_wide_row_holds_what_the_record_says(store: SqliteStore, database: Database) -> None:
    seal, inner = sealed(1, tai=9), plex(1, tai=9)
    store.put_records([seal, inner, EMPTY_BLOB])
    with database() as connection:
        rows = connection.execute(
            "SELECT f.kind, f.digest, p.group_path, p.app, f.name, f.tai, f.data_length, t.value, f.inner_key, f.inner "
            "FROM fact f LEFT JOIN place p ON p.id = f.place LEFT JOIN text t ON t.id = f.signer ORDER BY f.id"
        ).fetchall()
    place = ("u", "ding", "links/1", coding.tai_column(9), len(b"data 1"))
    assert rows == [
        (3, seal.digest, *place, seal.verifier, coding.key_of(inner.digest), inner.digest),
        (2, inner.digest, *place, None, coding.key_of(inner.blob), inner.blob),
        (1, EMPTY_BLOB.digest, None, None, None, None, 0, None, None, None),
    ]


def test_texts_and_places_are_stored_once(store: SqliteStore, database: Database) -> None:
    store.put_records([plex(number, extras=[("X", "same"), ("Same", "X")]) for number in range(20)])
    store.put_records([sealed(number) for number in range(3)])
    with database() as connection:
        assert connection.execute("SELECT count(*) FROM place").get == 1
        assert connection.execute("SELECT count(*) FROM text").get == 4


def test_deleting_leaves_no_row(store: SqliteStore, database: Database) -> None:
    batch = [plex(number, extras=EXTRAS) for number in range(3)]
    store.put_records(batch)
    for record in batch:
        assert store.remove(record.hash, reason="test")
    with database() as connection:
        assert [connection.execute(f"SELECT count(*) FROM {table}").get for table in TABLES] == [0] * 4
