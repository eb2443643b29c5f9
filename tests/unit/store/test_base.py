"""The values that stores answer with."""

import pytest

from bobbin.errors import ResourceError
from bobbin.store.base import Outcome, Put, Snapshot, Store, StoreError
from bobbin.store.sqlite import SqliteStore
from bobbin.store.sqlite.snapshot import SqliteSnapshot


def test_a_store_error_says_whether_to_retry() -> None:
    with pytest.raises(ResourceError, match="disk") as caught:
        raise StoreError("the disk is full", retry=True)
    assert caught.value.retry


def test_outcomes_are_stable_words() -> None:
    assert [str(outcome) for outcome in Outcome] == ["stored", "duplicate", "refused", "rejected"]


def test_an_answer_cannot_be_changed() -> None:
    with pytest.raises(AttributeError):
        Put(Outcome.STORED, None).outcome = Outcome.REJECTED  # type: ignore[misc]


def test_the_sqlite_store_is_a_store() -> None:
    # Checked by the type checker: an assignment that it refuses fails `make check`.
    store: type[Store] = SqliteStore
    snapshot: type[Snapshot] = SqliteSnapshot
    assert store is SqliteStore
    assert snapshot is SqliteSnapshot
