"""Bundles, laces and lakes loaded in stretches, interrupted and gone on with; and the whole way round."""

from collections.abc import Callable, Sequence
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING
from unittest.mock import patch

import pytest

from bobbin.errors import ResourceError, UsageError
from bobbin.lace import Lace
from bobbin.pipeline.jobs import export, load
from bobbin.pipeline.jobs.cursors import LoadCursor
from bobbin.pipeline.reading.sources import MissingSource, find_sources
from bobbin.pipeline.source import columns, lake_slices
from bobbin.records.bundle import BundleReader
from bobbin.records.record import Record
from bobbin.store.lake.lake import Lake
from bobbin.store.lake.report import Report
from tests.conformance import samples
from tests.support.lake_tables import stage
from tests.support.lakes import some_records, store

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class Interrupted(Exception):
    """Somebody has lost patience."""


def _interrupt_after(runs: int) -> Callable[[Report], None]:
    seen: list[Report] = []

    def heard(report: Report) -> None:
        seen.append(report)
        if len(seen) == runs:
            raise Interrupted

    return heard


def _raws(lake: Lake) -> dict[str, bytes]:
    schema = columns.schema(("record", "raw"))
    rows = [
        (row["record"], row["raw"])
        for one in lake_slices.plan(lake.location)
        for made in lake_slices.read(one, schema)
        for row in made.to_pylist()
    ]
    assert len(rows) == len(dict(rows)), "no record is there twice"
    return dict(rows)


def _bundle(path: Path, records: Sequence[Record]) -> Path:
    path.write_bytes(b"".join(record.raw for record in records))
    return path


def _expected(records: Sequence[Record]) -> dict[str, bytes]:
    return {record.hash: record.raw for record in records}


def test_a_bundle_in_stretches_with_an_interruption(spark: "SparkSession", tmp_path: Path) -> None:
    lake, records = Lake.create(tmp_path / "lake"), some_records(60, 1)
    bundle = _bundle(tmp_path / "x.bundle", records)
    with pytest.raises(Interrupted):
        load.run(spark, lake, str(bundle), stretch_bytes=5_000, heard=_interrupt_after(2))
    taken = len(_raws(lake))
    assert 0 < taken < 60
    done = load.run(spark, lake, str(bundle), stretch_bytes=5_000)
    assert done.resumed
    assert (done.read, done.stored, done.duplicate) == (60 - taken, 60 - taken, 0)
    assert _raws(lake) == _expected(records)
    again = load.run(spark, lake, str(bundle), stretch_bytes=5_000)
    assert (again.resumed, again.runs) == (True, 0)
    reports = [report for report in lake.reports() if report.job == "load"]
    assert sum(report.counts["in"] for report in reports) == 60


def test_a_damaged_bundle_is_cut_as_the_whole_would_be(spark: "SparkSession", tmp_path: Path) -> None:
    lake, records = Lake.create(tmp_path / "lake"), some_records(40, 2)
    bundle = _bundle(tmp_path / "x.bundle", records)
    content = bytearray(bundle.read_bytes())
    for at in range(3_000, len(content), 4_000):
        content[at] ^= 0x41
    bundle.write_bytes(content)
    reader = BundleReader()
    pieces = len(reader.feed(bytes(content))) + len(reader.finish())
    done = load.run(spark, lake, str(bundle), stretch_bytes=3_500)
    assert done.runs > 2
    assert done.read == pieces == done.stored + done.duplicate + done.quarantined
    assert done.quarantined > 1
    kept = spark.read.parquet(*[lake.uri(file) for file in lake.manifest("quarantine").files])
    rejected = {row.offset: bytes(row.raw) for row in kept.select("offset", "raw").collect()}
    assert all(content[offset : offset + len(raw)] == raw for offset, raw in rejected.items())
    assert sum(map(len, rejected.values())) + sum(map(len, _raws(lake).values())) == len(content)
    assert sum(done.reasons.values()) == done.quarantined
    again = load.run(spark, lake, str(bundle), stretch_bytes=3_500)
    assert (again.resumed, again.runs, again.quarantined) == (True, 0, 0)
    assert again.earlier == done.reasons, "what was left out stays known"


def test_an_empty_bundle(spark: "SparkSession", tmp_path: Path) -> None:
    lake = Lake.create(tmp_path / "lake")
    assert load.run(spark, lake, str(_bundle(tmp_path / "x.bundle", []))).read == 0


def test_a_lace_in_stretches(spark: "SparkSession", tmp_path: Path) -> None:
    lake, records = Lake.create(tmp_path / "lake"), some_records(30, 3)
    with Lace.create(tmp_path / "x.lace") as lace:
        lace.store.put_records(records)
        for record in (records[4], records[29]):
            lace.store.remove(record.hash, reason="test")
    left = [record for number, record in enumerate(records) if number not in (4, 29)]
    with pytest.raises(Interrupted):
        load.run(spark, lake, str(tmp_path / "x.lace"), stretch_records=12, heard=_interrupt_after(1))
    assert len(_raws(lake)) == 12
    done = load.run(spark, lake, str(tmp_path / "x.lace"), stretch_records=12)
    assert (done.resumed, done.runs, done.stored, done.duplicate) == (True, 2, 16, 0)
    assert _raws(lake) == _expected(left)
    assert load.run(spark, lake, str(tmp_path / "x.lace")).runs == 0


def test_another_lake_file_by_file(spark: "SparkSession", tmp_path: Path) -> None:
    lake, other = Lake.create(tmp_path / "lake"), Lake.create(tmp_path / "other")
    records = some_records(30, 4)
    for begin in range(0, 30, 10):
        store(other, records[begin : begin + 10])
    store(lake, records[:3])
    with other.begin("damage") as run:
        stage(run, "records", [{"record": samples.plex(1).hash, "raw": b"no record"}])
        run.append("records")
        run.commit()
    with pytest.raises(Interrupted):
        load.run(spark, lake, str(tmp_path / "other"), stretch_bytes=1, heard=_interrupt_after(1))
    done = load.run(spark, lake, str(tmp_path / "other"), stretch_bytes=1)
    assert (done.resumed, done.runs, done.stored, done.quarantined) == (True, 3, 20, 1)
    assert _raws(lake) == _expected(records)
    assert done.earlier == {}
    assert load.run(spark, lake, str(tmp_path / "other")).earlier == done.reasons
    with pytest.raises(UsageError, match="the lake itself"):
        load.run(spark, lake, str(tmp_path / "lake"))


def test_the_way_round(spark: "SparkSession", tmp_path: Path) -> None:
    """Lake to bundle, bundle to lace, lace to lake: the same records, to the byte."""
    first, records = Lake.create(tmp_path / "first"), some_records(80, 5)
    store(first, records)
    export.run(spark, first, tmp_path / "x.bundle", part_bytes=4_000)
    with Lace.create(tmp_path / "x.lace") as lace, (tmp_path / "x.bundle").open("rb") as stream:
        assert lace.import_(stream, source="x.bundle").stored == 80
    second = Lake.create(tmp_path / "second")
    load.run(spark, second, str(tmp_path / "x.lace"))
    assert _raws(second) == _raws(first) == _expected(records)
    export.run(spark, second, tmp_path / "y.bundle")
    assert (tmp_path / "y.bundle").read_bytes() == (tmp_path / "x.bundle").read_bytes()


def test_a_source_that_vanishes_or_changes_meanwhile(spark: "SparkSession", tmp_path: Path) -> None:
    lake, records = Lake.create(tmp_path / "lake"), some_records(20, 6)
    bundle = _bundle(tmp_path / "x.bundle", records)
    stretch = load._bundle_stretch

    def and_then_it_grows(*arguments: object) -> object:
        made = stretch(*arguments)  # type: ignore[arg-type]
        bundle.write_bytes(bundle.read_bytes() + samples.plex(9).raw)
        return made

    with patch.object(load, "_bundle_stretch", and_then_it_grows), pytest.raises(ResourceError, match="has changed"):
        load.run(spark, lake, str(bundle))
    assert lake.manifest("records").number == 0
    assert load.run(spark, lake, str(bundle)).stored == 21
    bundle.unlink()
    with pytest.raises(MissingSource, match="there is no source"):
        load.run(spark, lake, str(bundle))


def test_lines_are_for_ingest(tmp_path: Path) -> None:
    lake = Lake.create(tmp_path / "lake")
    (tmp_path / "x.jsonl").write_text("{}\n")
    with pytest.raises(UsageError, match="no bundle"):
        load.run(None, lake, str(tmp_path / "x.jsonl"))  # type: ignore[arg-type]


def test_parts_of_a_stretch_begin_at_the_cursor(tmp_path: Path) -> None:
    records = some_records(50, 7)
    (source,) = find_sources([str(_bundle(tmp_path / "x.bundle", records))])
    at = sum(len(record.raw) for record in records[:10])
    cursor = LoadCursor(key="k", at=at, spent=3)
    parts = load.stretch_parts(source, cursor, source.size - 10, 2_000)
    assert len(parts) > 2
    assert parts[0].begin == at
    assert parts[-1].end == source.size - 10
    assert {part.spent for part in parts} == {3}
    assert all(one.end == other.begin for one, other in pairwise(parts))
    assert load.stretch_parts(source, LoadCursor(key="k", at=source.size), source.size, 2_000) == []
