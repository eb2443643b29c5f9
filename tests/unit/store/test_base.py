"""The values that stores answer with."""

from pathlib import Path

import pytest

from bobbin.errors import ResourceError, UsageError
from bobbin.store.base import LostMark, Outcome, Put, Snapshot, Store, StoreError, takes_records
from bobbin.store.lake.lake import Lake
from bobbin.store.lake.snapshot import LakeSnapshot
from bobbin.store.lake.store import LakeStore
from bobbin.store.sqlite import SqliteStore, open_store
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


def test_so_is_the_one_over_a_lake() -> None:
    store: type[Store] = LakeStore
    snapshot: type[Snapshot] = LakeSnapshot
    assert store is LakeStore
    assert snapshot is LakeSnapshot


def test_a_lake_takes_no_records(tmp_path: Path) -> None:
    with LakeStore(Lake.create(tmp_path / "lake")) as lake:
        assert not takes_records(lake)
    with open_store(tmp_path / "records.db", create=True, now=lambda: 0) as store:
        assert takes_records(store)


def test_a_lost_mark_is_the_affair_of_whoever_holds_it() -> None:
    assert issubclass(LostMark, UsageError)
