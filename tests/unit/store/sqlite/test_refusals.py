"""Refusals in their table."""

from bobbin.store.sqlite import SqliteStore, coding, refusals
from bobbin.store.sqlite import tally as tallies
from tests.conformance.samples import plex
from tests.unit.store.sqlite.conftest import Database
from tests.unit.store.sqlite.plans import scanned_tables


def test_only_the_refusals_of_a_batch_are_looked_at(store: SqliteStore, database: Database) -> None:
    for number in range(50):
        store.remove(plex(number).hash, reason=f"reason {number}")
    keys = [coding.key_of(plex(number).digest) for number in (3, 99)]
    with database() as connection:
        assert refusals.reasons(connection, keys) == {plex(3).hash: "reason 3"}
        plan = scanned_tables(connection, "SELECT hash, reason FROM refusal WHERE key IN (SELECT ?)", (1,))
        assert plan == set()


def test_of_no_records_none_is_refused(store: SqliteStore, database: Database) -> None:
    store.remove(plex(1).hash, reason="test")
    with database() as connection:
        assert refusals.reasons(connection, []) == {}


def test_lifting_counts_once(store: SqliteStore, database: Database) -> None:
    store.remove(plex(1).hash, reason="test")
    with database() as connection:
        tally = tallies.read(connection)
        assert refusals.lift(connection, tally, plex(1).hash)
        assert not refusals.lift(connection, tally, plex(1).hash)
        assert tally.refused == 0


def test_a_reason_with_half_a_surrogate_pair_is_kept_readable(store: SqliteStore) -> None:
    store.remove(plex(1).hash, reason="odd \udcff")
    assert [refusal.reason for refusal in store.refusals()] == ["odd \\udcff"]


def test_times_up_to_the_end_of_tai_can_be_stored(store: SqliteStore) -> None:
    store._now = lambda: 10**19 - 1
    store.remove(plex(1).hash, reason="late")
    assert [refusal.tai for refusal in store.refusals()] == [10**19 - 1]
