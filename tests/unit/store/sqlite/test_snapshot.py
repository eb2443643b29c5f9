"""A snapshot, beyond what the conformance kit asks of it."""

import pytest

from bobbin.errors import UsageError
from bobbin.store.sqlite import SqliteStore
from tests.conformance.samples import plex


def test_a_snapshot_is_closed_at_the_end_of_its_block(store: SqliteStore) -> None:
    with store.snapshot() as snapshot:
        assert snapshot.high_water() == 0
    with pytest.raises(UsageError, match="closed"):
        snapshot.get(plex().hash)


def test_iterators_of_a_closed_snapshot_fail_when_they_are_used(store: SqliteStore) -> None:
    store.put_records([plex(1), plex(2)])
    snapshot = store.snapshot()
    begun, unbegun, facts = snapshot.scan(), snapshot.scan(), snapshot.facts.enumerate("Field")
    next(begun)
    next(facts)
    snapshot.close()
    for iterator in (begun, unbegun, facts):
        with pytest.raises(UsageError, match="closed"):
            next(iterator)


def test_the_next_snapshot_is_not_stuck_in_an_old_moment(store: SqliteStore) -> None:
    store.put_records([plex(1), plex(2)])
    snapshot = store.snapshot()
    left_open = snapshot.scan()
    next(left_open)
    snapshot.close()
    store.put_records([plex(3)])
    with store.snapshot() as later:
        assert later.have(plex(3).hash)
        assert later.high_water() == 3
