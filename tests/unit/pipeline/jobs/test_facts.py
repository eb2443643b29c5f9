"""The job ``facts``: incremental, exact, and its views are the five relations."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from msgspec import structs

from bobbin.facts.extract import extract
from bobbin.pipeline import frames
from bobbin.pipeline.jobs import facts
from bobbin.pipeline.wide_rows import VIEWS
from bobbin.records.record import Record, build_blob
from bobbin.store.lake.compact import compact
from bobbin.store.lake.errors import DamagedLake
from bobbin.store.lake.lake import Lake
from bobbin.store.lake.manifest import encode
from bobbin.store.lake.tables import RECORDS
from bobbin.store.lake.writing import PartWriter
from tests.support.described import describe_all
from tests.support.lakes import some_records, store

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def stated(session: "SparkSession", lake: Lake) -> list[tuple[str, tuple[str, ...]]]:
    """Every tuple of every view."""
    wide = frames.read(session, lake, lake.manifest("facts"))
    return sorted((name, tuple(row)) for name, view in VIEWS.items() for row in view(wide).collect())


def expected(records: Sequence[Record]) -> list[tuple[str, tuple[str, ...]]]:
    return sorted(fact for record in records for fact in extract(record))


def test_views_say_what_the_records_say_and_only_new_files_are_read(spark: "SparkSession", tmp_path: Path) -> None:
    lake = Lake.create(tmp_path / "lake")
    assert facts.run(spark, lake) is None
    first, second = some_records(40, 1), some_records(30, 2)
    store(lake, first)
    report = facts.run(spark, lake)
    assert report is not None
    assert report.counts == {"before": 0, "described": 40, "after": 40}
    assert stated(spark, lake) == expected(first)
    assert facts.run(spark, lake) is None

    store(lake, second)
    report = facts.run(spark, lake)
    assert report is not None
    assert report.counts == {"before": 40, "described": 30, "after": 70}
    assert stated(spark, lake) == expected(first + second)


def test_files_that_are_gone_make_the_table_anew(spark: "SparkSession", tmp_path: Path) -> None:
    lake = Lake.create(tmp_path / "lake")
    records = some_records(20, 3)
    store(lake, records)
    facts.run(spark, lake)
    store(lake, records[:12], replace=True)
    report = facts.run(spark, lake)
    assert report is not None
    assert report.counts == {"before": 0, "described": 12, "after": 12}
    assert stated(spark, lake) == expected(records[:12])


def test_a_compaction_changes_no_rows_and_nothing_is_read_again(tmp_path: Path) -> None:
    lake = Lake.create(tmp_path / "lake")
    store(lake, some_records(5, 1))
    store(lake, some_records(5, 2))
    describe_all(lake)
    compact(lake, ("records",), force=True)
    assert facts.find_pending(lake, lake.manifest("records"), lake.manifest("facts")) is None
    store(lake, some_records(3, 3))
    records = lake.manifest("records")
    pending = facts.find_pending(lake, records, lake.manifest("facts"))
    assert pending is not None
    assert (pending.files.rows, pending.from_nothing) == (3, False)
    assert pending.files.files == records.files[-1:]


def test_a_manifest_with_nothing_new_is_caught_up_with(tmp_path: Path) -> None:
    """Lakes have manifests that moved on without new rows and do not say so."""
    lake = Lake.create(tmp_path / "lake")
    store(lake, some_records(5, 1))
    describe_all(lake)
    with lake.begin("load") as run:
        run.append("records", properties={"cursor": "7"})
        run.commit()
    silent = structs.replace(lake.manifest("records"), properties={"cursor": "7"})
    for name in ("manifest.json", "history/00000002.json"):
        lake.files.replace(f"records/{name}", encode(silent))
    assert not lake.is_current("records", 1)
    report = facts.run(None, lake)  # type: ignore[arg-type]  # no session is needed where nothing is read
    assert report is not None
    assert report.counts == {"before": 5, "described": 0, "after": 5}
    assert lake.manifest("facts").properties["records"] == "2"
    assert lake.is_current("facts", 1), "what was made from the facts stays as it is"
    assert facts.run(None, lake) is None  # type: ignore[arg-type]


def test_bytes_that_are_no_record_any_more_change_nothing(spark: "SparkSession", tmp_path: Path) -> None:
    lake = Lake.create(tmp_path / "lake")
    good, bad = build_blob(b"good"), build_blob(b"bad")
    batch = pa.RecordBatch.from_arrays([pa.array([bad.hash]), pa.array([good.raw])], ["record", "raw"])
    with lake.begin("ingest") as run:
        with PartWriter(lake.files, RECORDS, run.path("records")) as writer:
            writer.write(batch)
        run.append("records")
        run.commit()
    with pytest.raises(Exception, match=f"the bytes stored as {bad.hash} are those of {good.hash}"):
        facts.run(spark, lake)
    assert lake.manifest("facts").number == 0
    assert not lake.files.list("facts/data")


def test_a_table_with_fewer_rows_than_its_manifest_says(
    spark: "SparkSession", tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake = Lake.create(tmp_path / "lake")
    store(lake, some_records(5, 4))
    monkeypatch.setattr(frames, "read", _short)
    with pytest.raises(DamagedLake, match="promises 5 rows"):
        facts.run(spark, lake)
    assert lake.manifest("facts").number == 0


_read = frames.read


def _short(session: "SparkSession", lake: Lake, manifest: object) -> object:
    return _read(session, lake, manifest).limit(4)  # type: ignore[arg-type]
