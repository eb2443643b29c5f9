"""Reading is held to by the conformance kit; here, what a lake does not take, and how it follows its jobs."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from bobbin.errors import UsageError
from bobbin.records.ids import Kind
from bobbin.store.base import Rejected, takes_records
from bobbin.store.lake import store as store_module
from bobbin.store.lake.compact import compact
from bobbin.store.lake.errors import LakeError, NoLake, ReadOnlyLake
from bobbin.store.lake.lake import Lake
from bobbin.store.lake.store import LakeStore, open_lake_store
from tests.support.lake_tables import SMALL, ingest, make_facts
from tests.support.lakes import some_records

RECORDS = some_records(30, 3)
BAD = [
    Rejected(raw=b"bytes %d" % number, reason="r", detail="d", source="file", offset=number or None)
    for number in range(3)
]


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    lake = Lake.create(tmp_path / "lake")
    ingest(lake, RECORDS[:20], rejected=BAD, shape=SMALL)
    return lake


WRITES: dict[str, Callable[[LakeStore], Any]] = {
    "pipeline ingest": lambda store: store.put_records([RECORDS[25]]),
    "ingest": lambda store: store.put_many([b"x"]),
    "cannot be taken out": lambda store: store.remove(RECORDS[0].hash, reason="x"),
    "nothing to lift": lambda store: store.lift(RECORDS[0].hash),
    "quarantine": lambda store: store.release(1),
    "never emptied": lambda store: store.release_all(),
    "lake compact": lambda store: store.compact(),
    "pipeline export": lambda store: store.backup(Path("nowhere")),
}


@pytest.mark.parametrize("words", WRITES)
def test_whatever_would_write_says_what_to_do_instead(lake: Lake, words: str) -> None:
    with open_lake_store(lake.location) as store, pytest.raises(ReadOnlyLake, match=words):
        WRITES[words](store)


def test_putting_nothing_is_no_writing(lake: Lake) -> None:
    with open_lake_store(lake.location) as store:
        assert store.put_records([]) == []
        assert not takes_records(store)


def test_sizes_and_counts(lake: Lake) -> None:
    with open_lake_store(lake.location) as store:
        stat = store.stat()
        assert sum(stat.records.values()) == stat.high_water == 20
        assert stat.records[Kind.BLOB] == sum(record.kind is Kind.BLOB for record in RECORDS[:20])
        assert stat.record_bytes == sum(len(record.raw) for record in RECORDS[:20])
        assert (stat.quarantined, stat.refused) == (3, 0)
        named = [file for table in lake.tables() for file in lake.manifest(table).files]
        assert stat.file_bytes == sum(file.bytes for file in named)
        assert list(store.refusals()) == []
        assert list(store.check()) == []


def test_the_quarantine_is_read_with_or_without_bytes(lake: Lake) -> None:
    with open_lake_store(lake.location) as store:
        rows = list(store.quarantined())
        assert [(row.id, row.raw, row.size, row.offset) for row in rows] == [
            (1, b"bytes 0", 7, None),
            (2, b"bytes 1", 7, 1),
            (3, b"bytes 2", 7, 2),
        ]
        assert all(row.tai > 0 and row.source == "file" for row in rows)
        assert [row.raw for row in store.quarantined(with_bytes=False)] == [None] * 3
        assert store.quarantined_row(2) == rows[1]
        assert store.quarantined_row(9) is None


def test_what_jobs_commit_is_seen_and_told_once(lake: Lake) -> None:
    with open_lake_store(lake.location) as store:
        assert not store.changed_elsewhere()
        ingest(lake, RECORDS[20:], shape=SMALL)
        assert store.high_water() == 30
        assert store.changed_elsewhere()
        assert not store.changed_elsewhere()
        make_facts(lake, RECORDS)
        assert store.changed_elsewhere()
        compact(lake)
        assert store.changed_elsewhere()
        assert store.get(RECORDS[25].hash) == RECORDS[25].raw
        store.subscribe(lambda _: None)()


def test_single_records_may_be_of_a_moment_ago(lake: Lake) -> None:
    with LakeStore(lake, present_seconds=3_600) as late, LakeStore(lake, present_seconds=0) as store:
        ingest(lake, RECORDS[20:], shape=SMALL)
        assert not late.have(RECORDS[25].hash)
        assert store.have(RECORDS[25].hash)
        assert late.absent([RECORDS[25].hash]) == frozenset()
        assert late.have(RECORDS[25].hash)


def test_what_is_kept_is_bounded_and_ends_with_the_store(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store_module, "KEPT_TOTAL_BYTES_MAX", 10)
    with open_lake_store(lake.location) as store:
        store.keep("kind", "a", b"12345")
        store.keep("kind", "b", b"1234")
        with pytest.raises(LakeError, match="at most"):
            store.keep("kind", "a", b"1234567")
        assert store.kept("kind", "a") == b"12345"
        assert list(store.kept_rows("kind")) == [("b", 4), ("a", 5)]
        store.keep("kind", "a", None)
        assert store.kept("kind", "a") is None
        for kind, key in (("", "a"), ("a", "")):
            with pytest.raises(UsageError):
                store.keep(kind, key, b"")
    with open_lake_store(lake.location) as store:
        assert store.kept("kind", "b") is None


def test_a_closed_store_and_a_missing_lake(lake: Lake, tmp_path: Path) -> None:
    store = open_lake_store(lake.location)
    store.close()
    store.close()
    for ask in (store.high_water, store.snapshot, store.mark, lambda: store.get(RECORDS[0].hash)):
        with pytest.raises(UsageError, match="closed"):
            ask()
    with pytest.raises(NoLake):
        open_lake_store(tmp_path / "nowhere")
