"""Laces that are followed into lakes: each record once, whatever is run again. Kills are in ``tests/end_to_end``."""

import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

import pytest

from bobbin.errors import UsageError
from bobbin.lace import Lace
from bobbin.pipeline.failures import PipelineError
from bobbin.pipeline.jobs import cursors, follow, ingest, load
from bobbin.pipeline.source import lace_slices
from bobbin.pipeline.source.stream import OtherLace
from bobbin.store.lake.errors import Conflict, LakeError
from bobbin.store.lake.lake import Lake
from bobbin.store.lake.report import Report
from tests.conformance import samples
from tests.support.lakes import store

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def _put(folder: Path, numbers: range) -> Path:
    opened = Lace.open(folder) if folder.exists() else Lace.create(folder)
    with opened as lace:
        lace.store.put_records([samples.plex(number) for number in numbers])
    return folder


def _names(lake: Lake) -> list[str]:
    from bobbin.pipeline.source import columns, lake_slices  # noqa: PLC0415

    schema = columns.schema(("record",))
    return sorted(
        row["record"]
        for one in lake_slices.plan(lake.location)
        for made in lake_slices.read(one, schema)
        for row in made.to_pylist()
    )


def _expected(count: int) -> list[str]:
    return sorted(samples.plex(number).hash for number in range(count))


def test_a_lace_is_taken_in_and_followed(spark: "SparkSession", tmp_path: Path) -> None:
    lake, lace = Lake.create(tmp_path / "lake"), _put(tmp_path / "x.lace", range(10))
    heard: list[Report] = []
    first = follow.run(spark, lake, str(lace), once=True, records_per_batch_max=4, heard=heard.append)
    assert (first.after, first.id, first.runs) == (0, 10, 3)
    assert (first.read, first.stored, first.duplicate, first.quarantined) == (10, 10, 0, 0)
    assert [report.counts["in"] for report in heard] == [4, 4, 2]
    assert {report.job for report in heard} == {"follow"}
    _put(lace, range(13))
    second = follow.run(spark, lake, str(lace), once=True)
    assert (second.after, second.id, second.runs, second.read) == (10, 13, 1, 3)
    third = follow.run(spark, lake, str(lace), once=True)
    assert (third.runs, third.read) == (0, 0)
    assert _names(lake) == _expected(13)
    cursor = cursors.lace_cursor(lake, first.stream)
    assert cursor is not None
    assert (cursor.id, cursor.record, cursor.stream) == (13, samples.plex(12).hash, first.stream)


def _forget_commit(lake: Lake, stream: str, batch: int) -> None:
    """Leave the checkpoint as it is between the lake's commit of a batch and Spark's own."""
    commits = Path(lake.location) / "streams" / stream / "checkpoint" / "commits"
    (commits / str(batch)).unlink()
    (commits / f".{batch}.crc").unlink(missing_ok=True)


def test_a_batch_that_is_run_again_is_recognised(spark: "SparkSession", tmp_path: Path) -> None:
    """As after a crash between the lake's commit and Spark's own, in a batch that is not the first."""
    lake, lace = Lake.create(tmp_path / "lake"), _put(tmp_path / "x.lace", range(6))
    follow.run(spark, lake, str(lace), once=True)
    _put(lace, range(9))
    done = follow.run(spark, lake, str(lace), once=True)
    _forget_commit(lake, done.stream, 1)
    _put(lace, range(11))
    again = follow.run(spark, lake, str(lace), once=True)
    assert (again.after, again.recognised, again.runs, again.read, again.duplicate) == (9, 1, 1, 2, 0)
    assert _names(lake) == _expected(11)
    assert [report.counts["in"] for report in lake.reports() if report.job == "follow"] == [2, 3, 6]


def test_a_first_batch_that_spark_has_not_committed_begins_anew_at_the_cursor(
    spark: "SparkSession", tmp_path: Path
) -> None:
    lake, lace = Lake.create(tmp_path / "lake"), _put(tmp_path / "x.lace", range(6))
    done = follow.run(spark, lake, str(lace), once=True)
    _forget_commit(lake, done.stream, 0)
    again = follow.run(spark, lake, str(lace), once=True)
    assert (again.after, again.runs, again.read, again.duplicate) == (6, 0, 0, 0)
    _put(lace, range(8))
    assert follow.run(spark, lake, str(lace), once=True).read == 2
    assert _names(lake) == _expected(8)


def test_of_a_batch_that_reaches_beyond_the_cursor_only_the_rest_is_taken(
    spark: "SparkSession", tmp_path: Path
) -> None:
    """As after a crash before the lake's commit, where a load has then taken a part of it."""
    lake, lace = Lake.create(tmp_path / "lake"), _put(tmp_path / "x.lace", range(4))
    follow.run(spark, lake, str(lace), once=True)
    _put(lace, range(7))
    with patch.object(ingest, "take", side_effect=LakeError("the disk is full", retry=True)), pytest.raises(LakeError):
        follow.run(spark, lake, str(lace), once=True)

    def stop(_: Report) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        load.run(spark, lake, str(lace), stretch_records=2, heard=stop)
    again = follow.run(spark, lake, str(lace), once=True)
    assert (again.after, again.read, again.stored, again.duplicate) == (6, 1, 1, 0)
    assert _names(lake) == _expected(7)


def test_a_lost_checkpoint_loses_nothing(spark: "SparkSession", tmp_path: Path) -> None:
    lake, lace = Lake.create(tmp_path / "lake"), _put(tmp_path / "x.lace", range(6))
    follow.run(spark, lake, str(lace), once=True)
    shutil.rmtree(tmp_path / "lake" / "streams")
    _put(lace, range(8))
    again = follow.run(spark, lake, str(lace), once=True)
    assert (again.after, again.read, again.duplicate) == (6, 2, 0)
    assert _names(lake) == _expected(8)


def test_a_checkpoint_ahead_of_the_lake_is_thrown_away(spark: "SparkSession", tmp_path: Path) -> None:
    lake, lace = Lake.create(tmp_path / "lake"), _put(tmp_path / "x.lace", range(6))
    done = follow.run(spark, lake, str(lace), once=True)
    Lake.create(tmp_path / "other")
    shutil.copytree(tmp_path / "lake" / "streams", tmp_path / "other" / "streams")
    again = follow.run(spark, Lake.open(tmp_path / "other"), str(lace), once=True)
    assert (again.after, again.stored) == (0, done.stored)
    assert _names(Lake.open(tmp_path / "other")) == _expected(6)


def test_what_came_by_another_way_is_a_duplicate(spark: "SparkSession", tmp_path: Path) -> None:
    lake, lace = Lake.create(tmp_path / "lake"), _put(tmp_path / "x.lace", range(6))
    store(lake, [samples.plex(number) for number in (2, 3)])
    done = follow.run(spark, lake, str(lace), once=True)
    assert (done.read, done.stored, done.duplicate) == (6, 4, 2)
    assert _names(lake) == _expected(6)


def test_a_conflict_is_tried_again(spark: "SparkSession", tmp_path: Path) -> None:
    lake, lace = Lake.create(tmp_path / "lake"), _put(tmp_path / "x.lace", range(3))
    take, calls = ingest.take, []

    def once_too_late(*arguments: Any, **options: Any) -> Report:  # noqa: ANN401
        calls.append(1)
        if len(calls) == 1:
            raise Conflict("the table has moved")
        return take(*arguments, **options)

    with patch.object(ingest, "take", once_too_late), patch.object(follow, "_PAUSE_SECONDS", 0):
        assert follow.run(spark, lake, str(lace), once=True).stored == 3


def test_what_fails_in_a_batch_is_raised_as_it_was(spark: "SparkSession", tmp_path: Path) -> None:
    lake, lace = Lake.create(tmp_path / "lake"), _put(tmp_path / "x.lace", range(3))
    failure = LakeError("the disk is full", retry=True)
    with patch.object(ingest, "take", side_effect=failure), pytest.raises(LakeError, match="the disk is full"):
        follow.run(spark, lake, str(lace), once=True)
    assert follow.run(spark, lake, str(lace), once=True).stored == 3


def test_another_lace_in_its_place(spark: "SparkSession", tmp_path: Path) -> None:
    lake, lace = Lake.create(tmp_path / "lake"), _put(tmp_path / "x.lace", range(3))
    with Lace.open(lace) as opened:
        opened.backup(tmp_path / "old.lace")
    _put(lace, range(6))
    follow.run(spark, lake, str(lace), once=True)
    shutil.rmtree(lace)
    (tmp_path / "old.lace").rename(lace)
    with pytest.raises(OtherLace, match="older state"):
        follow.run(spark, lake, str(lace), once=True)
    shutil.rmtree(lace)
    _put(lace, range(2, 8))
    assert follow.run(spark, lake, str(lace), once=True).duplicate == 4, "a new lace is a new stream"


def test_only_one_at_a_time(spark: "SparkSession", tmp_path: Path) -> None:
    lake, lace = Lake.create(tmp_path / "lake"), _put(tmp_path / "x.lace", range(3))
    key = follow.stream_key(lace_slices.moment(lace))
    with follow._Alone(lake, f"streams/{key}"), pytest.raises(LakeError, match="another process follows"):
        follow.run(spark, lake, str(lace), once=True)
    assert follow.run(spark, lake, str(lace), once=True).stored == 3


def test_only_laces_are_followed(tmp_path: Path) -> None:
    lake = Lake.create(tmp_path / "lake")
    with pytest.raises(UsageError, match="only a lace"):
        follow.run(None, lake, str(tmp_path / "lake"))  # type: ignore[arg-type]


def test_a_lace_over_a_lake_is_not_followed_but_its_lake_can_be_loaded(tmp_path: Path) -> None:
    lake = Lake.create(tmp_path / "lake")
    Lake.create(tmp_path / "other")
    Lace.create(tmp_path / "x.lace", lake=tmp_path / "other").close()
    for job in (follow.run, load.run):
        with pytest.raises(UsageError, match="has its records in the lake"):
            job(None, lake, str(tmp_path / "x.lace"))  # type: ignore[arg-type]


def test_a_name_with_a_colon_is_no_address(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lace = _put(tmp_path / "notes:1 2.lace", range(1))
    monkeypatch.chdir(tmp_path)
    for name in ("notes:1 2.lace", lace.as_uri()):
        assert follow.locate(name).path == lace
    with pytest.raises(UsageError, match="reads addresses"):
        follow.locate("hdfs://node/notes.lace")


def test_an_offset_that_cannot_be_read(tmp_path: Path) -> None:
    lake = Lake.create(tmp_path / "lake")
    with pytest.raises(PipelineError, match="cannot be read"):
        follow.read_offset(lake, "streams/x", 0)
    (tmp_path / "lake" / "streams" / "x" / "checkpoint" / "offsets").mkdir(parents=True)
    (tmp_path / "lake" / "streams" / "x" / "checkpoint" / "offsets" / "0").write_text("v1\n{}\n")
    with pytest.raises(PipelineError, match="no offset"):
        follow.read_offset(lake, "streams/x", 0)
