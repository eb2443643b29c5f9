"""Reading records by name and in order."""

from array import array

import apsw
import pytest

from bobbin.records import ids
from bobbin.records.ids import Kind, hash_text
from bobbin.store.base import DamagedStore, Outcome
from bobbin.store.sqlite import SqliteStore, coding, lookup
from tests.conformance.samples import plex, sealed
from tests.unit.store.sqlite.conftest import Database
from tests.unit.store.sqlite.plans import scanned_tables


@pytest.fixture
def colliding_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every record has one of two keys, as if someone had searched for collisions."""
    monkeypatch.setattr(coding, "key_of", lambda digest: digest[0] % 2)
    monkeypatch.setattr(coding, "keys_of", lambda digests: array("q", map(coding.key_of, digests)))
    monkeypatch.setattr(coding, "key_of_hash", lambda text: coding.key_of(ids.parse_hash(text)[1]))


@pytest.mark.usefixtures("colliding_keys")
def test_records_whose_keys_collide_are_told_apart(store: SqliteStore) -> None:
    batch = [plex(number) for number in range(20)]
    assert {answer.outcome for answer in store.put_records(batch)} == {Outcome.STORED}
    assert {answer.outcome for answer in store.put_records(batch)} == {Outcome.DUPLICATE}
    for record in batch:
        assert store.get(record.hash) == record.raw
        assert store.have(record.hash)
        assert not store.have(hash_text(Kind.BLOB, record.digest))
    assert store.get(plex(99).hash) is None
    assert not store.have(plex(99).hash)


@pytest.mark.usefixtures("colliding_keys")
def test_a_new_record_may_have_the_key_of_a_stored_one(store: SqliteStore) -> None:
    batch = [plex(number) for number in range(6)]
    for record in batch:
        assert [answer.outcome for answer in store.put_records([record])] == [Outcome.STORED]
    assert [stored.hash for stored in store.scan()] == [record.hash for record in batch]
    assert list(store.check()) == []


@pytest.mark.usefixtures("colliding_keys")
def test_facts_refusals_and_inner_records_survive_colliding_keys(store: SqliteStore) -> None:
    seals = [sealed(number) for number in range(6)]
    store.put_records(seals)
    for seal in seals:
        assert list(store.facts.match("PlexHash", (None, seal.plex_hash))) == [(seal.hash, seal.plex_hash)]
        assert list(store.facts.match("Have", (seal.hash,))) == [(seal.hash,)]
    assert store.remove(seals[0].hash, reason="test")
    assert [answer.outcome for answer in store.put_records(seals)] == [Outcome.REFUSED, *[Outcome.DUPLICATE] * 5]
    assert list(store.check()) == []


def test_reading_by_name_and_scanning_use_an_index(store: SqliteStore, database: Database) -> None:
    store.put_records([plex()])
    with database() as connection:
        assert scanned_tables(connection, lookup.GET, (1,)) == set()
        assert scanned_tables(connection, lookup.LOCATE, (1,)) == set()
        assert scanned_tables(connection, lookup.SCAN, (1, 10)) == set()


@pytest.mark.usefixtures("store")
def test_asking_whether_a_record_is_there_does_not_read_it(database: Database) -> None:
    with database() as connection:
        plan = [row[3] for row in connection.execute(f"EXPLAIN QUERY PLAN {lookup.LOCATE}", (1,))]
    assert any("COVERING INDEX record_by_key" in line for line in plan), plan


def test_a_large_store_is_scanned_one_record_at_a_time(store: SqliteStore) -> None:
    store.put_records([plex(number, data=bytes(100_000)) for number in range(40)])
    before = apsw.memory_used()
    peak = 0
    for _ in store.scan():
        peak = max(peak, apsw.memory_used() - before)
    assert peak < 12 * 1024 * 1024, "the page cache of one reader, and no more"


def test_a_record_whose_stored_name_is_damaged_is_not_simply_absent(store: SqliteStore) -> None:
    record = plex(1)
    store.put_records([record])
    damaged = bytearray(record.raw)
    damaged[20] ^= 1
    store._connection.execute("UPDATE record SET raw = ?", (bytes(damaged),))
    with pytest.raises(DamagedStore, match="open with another name"):
        store.get(record.hash)
    with store.snapshot() as snapshot, pytest.raises(DamagedStore):
        snapshot.get(record.hash)
    assert store.get(plex(2).hash) is None
