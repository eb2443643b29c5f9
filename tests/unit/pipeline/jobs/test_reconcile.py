"""Reconciliation finds exactly the differences of two sets, both ways, and ships what the other lacks."""

import random
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from pyspark.sql import Observation

from bobbin.errors import ResourceError
from bobbin.interlace.schema import Schema
from bobbin.pipeline import frames
from bobbin.pipeline.batches.advertise import Form
from bobbin.pipeline.failures import PipelineError
from bobbin.pipeline.jobs import advertise, reconcile, sides
from bobbin.pipeline.jobs.reconcile import Counts
from bobbin.pipeline.jobs.sides import Claimed, Side
from bobbin.pipeline.offer import Offer
from bobbin.policy.operands import label_origin
from bobbin.records.bundle import BundleReader, Run
from bobbin.records.record import Record
from bobbin.store.lake.errors import DamagedLake
from bobbin.store.lake.lake import Lake
from bobbin.store.lake.tables import ADVERTISEMENTS
from tests.support.lakes import some_records, store

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FORM = Form(source=label_origin("lab"), schema=Schema(all=True))
OFFER = Offer(form=FORM)


def lake_of(folder: Path, records: list[Record]) -> Lake:
    lake = Lake.create(folder)
    store(lake, records)
    return lake


def claims(session: "SparkSession", digests: list[tuple[str, bytes]]) -> Side:
    columns = [pa.array(column) for column in zip(*digests, strict=True)] if digests else [[], []]
    rows = pa.Table.from_arrays([pa.array(column) for column in columns], schema=ADVERTISEMENTS.schema)
    return sides.side_of_claims(session, Claimed("peer", FORM, rows))


def read_bundle(path: Path) -> set[str]:
    reader = BundleReader(recognises=True)
    pieces = reader.feed(path.read_bytes()) + reader.finish()
    assert all(isinstance(piece, Run) for piece in pieces), "a bundle holds valid records and nothing else"
    return {record.hash for piece in pieces if isinstance(piece, Run) for record in piece.records}


@pytest.mark.parametrize("with_tables", [False, True])
def test_two_lakes(spark: "SparkSession", tmp_path: Path, *, with_tables: bool) -> None:
    records = some_records(120, 11)
    ours, theirs = records[:110], [*records[:50], *records[52:]]
    here, there = lake_of(tmp_path / "here", ours), lake_of(tmp_path / "there", theirs)
    if with_tables:
        advertise.run(spark, here, OFFER)
        advertise.run(spark, there, OFFER)
    left, right = sides.side_of_lake(spark, here, OFFER), sides.side_of_lake(spark, there, OFFER)
    bundle, wanted = tmp_path / "to-ship.bundle", tmp_path / "wanted.txt"
    found = reconcile.run(spark, here, left, right, bundle=bundle, wanted=wanted, listed_max=5)
    extra, missing = {record.hash for record in records[50:52]}, {record.hash for record in records[110:]}
    assert (found.counts.here, found.counts.there, found.counts.common) == (110, 118, 108)
    assert (found.counts.extra, found.counts.missing, found.counts.differing) == (2, 10, 0)
    assert (found.counts.settled > 80) == with_tables
    assert found.listed == {"extra": sorted(extra), "missing": sorted(missing)[:5], "differing": []}
    assert read_bundle(bundle) == extra
    assert found.shipped == 2
    assert set(wanted.read_text().splitlines()) == missing
    report = next(here.reports())
    assert report.job == "reconcile"
    assert (report.counts["extra"], report.outputs) == (2, {"bundle": 2})
    assert not here.files.list("selections")


def test_claims_that_differ(spark: "SparkSession", tmp_path: Path) -> None:
    records = some_records(6, 12)
    lake = lake_of(tmp_path / "lake", records)
    here = sides.side_of_lake(spark, lake, OFFER)
    digests = [(row["record"], bytes(row["digest"])) for row in here.advertisements.collect()]
    lying = [(digests[0][0], b"\x00" * 32), *digests[1:4], ("S.elsewhere.H3", b"\x01" * 32)]
    found = reconcile.run(spark, lake, here, claims(spark, lying))
    assert found.counts == Counts(here=6, there=5, common=3, differing=1, missing=1, extra=2)
    assert found.counts.add_up()
    assert found.listed["differing"] == [digests[0][0]]
    assert found.listed["missing"] == ["S.elsewhere.H3"]
    assert found.shipped is None


@pytest.mark.parametrize("seed", range(2))
def test_equal_roots_change_no_answer(spark: "SparkSession", tmp_path: Path, seed: int) -> None:
    source = random.Random(seed)
    records = some_records(150, seed + 20)
    ours = [record for record in records if source.random() < 0.97]
    theirs = [record for record in records if source.random() < 0.97]
    here, there = lake_of(tmp_path / "here", ours), lake_of(tmp_path / "there", theirs)
    for lake in (here, there):
        advertise.run(spark, lake, OFFER, lengths=[1, 2])
    left, right = sides.side_of_lake(spark, here, OFFER), sides.side_of_lake(spark, there, OFFER)
    fast = reconcile.run(spark, here, left, right)
    slow = reconcile.run(spark, here, Side(name="here", advertisements=left.advertisements), right)
    assert slow.counts.settled == 0
    assert fast.listed == slow.listed
    assert fast.counts == Counts(
        **{name: getattr(slow.counts, name) for name in Counts.__struct_fields__ if name != "settled"},
        settled=fast.counts.settled,
    )
    assert slow.counts.extra == len({one.hash for one in ours} - {one.hash for one in theirs})


def test_two_empty_sides(spark: "SparkSession", tmp_path: Path) -> None:
    lake = Lake.create(tmp_path / "lake")
    here = sides.side_of_lake(spark, lake, OFFER)
    found = reconcile.run(spark, lake, here, claims(spark, []), bundle=tmp_path / "nothing.bundle")
    assert found.counts == Counts(here=0, there=0, common=0, differing=0, missing=0, extra=0)
    assert (tmp_path / "nothing.bundle").read_bytes() == b""


def test_a_side_that_has_a_record_twice(spark: "SparkSession", tmp_path: Path) -> None:
    records = some_records(3, 13)
    lake = lake_of(tmp_path / "lake", records)
    here = sides.side_of_lake(spark, lake, OFFER)
    twice = claims(spark, [(records[0].hash, b"a" * 32), (records[0].hash, b"b" * 32)])
    with pytest.raises(PipelineError, match="does not add up"):
        reconcile.run(spark, lake, here, twice, bundle=tmp_path / "b.bundle")
    assert not (tmp_path / "b.bundle").exists()
    assert [report.job for report in lake.reports()] == ["ingest"]


def test_what_is_advertised_and_not_stored_is_not_shipped(spark: "SparkSession", tmp_path: Path) -> None:
    lake = lake_of(tmp_path / "lake", some_records(3, 14))
    here = claims(spark, [(some_records(1, 15)[0].hash, b"a" * 32)])
    with pytest.raises(DamagedLake, match="no bundle was written"):
        reconcile.run(spark, lake, here, claims(spark, []), bundle=tmp_path / "b.bundle")
    assert not (tmp_path / "b.bundle").exists()


def test_a_bundle_that_cannot_be_written(spark: "SparkSession", tmp_path: Path) -> None:
    lake = lake_of(tmp_path / "lake", some_records(3, 16))
    here = sides.side_of_lake(spark, lake, OFFER)
    with pytest.raises(ResourceError, match="cannot write"):
        reconcile.run(spark, lake, here, claims(spark, []), bundle=tmp_path / "nowhere" / "b.bundle")
    assert [report.job for report in lake.reports()] == ["ingest"]


def test_rows_are_counted_after_the_shuffle_and_shuffled_once(
    spark: "SparkSession", capsys: pytest.CaptureFixture[str]
) -> None:
    """What is counted before a shuffle is counted again when a lost worker's part of it is."""
    here, there = (claims(spark, [("P.a.H3", b"a"), ("P.b.H3", b"b")]).advertisements for _ in "12")
    reconcile.counted(here, there, Observation(), Observation(), Observation()).explain()
    depths = [(len(line) - len(line.lstrip(" :+-")), line) for line in capsys.readouterr().out.splitlines()]
    exchanges = [number for number, (_, line) in enumerate(depths) if "Exchange" in line]
    metrics = [number for number, (_, line) in enumerate(depths) if "CollectMetrics" in line]
    assert (len(exchanges), len(metrics)) == (2, 3)
    for exchange in exchanges:
        level = depths[exchange][0]
        end = next((at for at in range(exchange + 1, len(depths)) if depths[at][0] <= level), len(depths))
        assert not [line for _, line in depths[exchange:end] if "CollectMetrics" in line]


def test_what_a_report_says_of_a_stale_side(spark: "SparkSession", tmp_path: Path) -> None:
    lake = lake_of(tmp_path / "lake", some_records(2, 17))
    here = Side(name="here", advertisements=claims(spark, []).advertisements, notes=("it is stale",))
    reconcile.run(spark, lake, here, claims(spark, []))
    assert next(lake.reports()).notes == ("here compared with peer", "it is stale")


def test_counts_that_do_not_add_up() -> None:
    assert not Counts(here=3, there=2, common=1, differing=0, missing=1, extra=1).add_up()
    assert Counts(here=2, there=2, common=1, differing=0, missing=1, extra=1).add_up()


def test_only_what_lies_outside_equal_partitions_is_compared(spark: "SparkSession") -> None:
    rows = [("P.aa1.H3", b"x"), ("P.ab2.H3", b"y"), ("S.aa3.H3", b"z")]
    frame = spark.createDataFrame(rows, frames.schema_of(ADVERTISEMENTS))
    prefixes = spark.createDataFrame([("aa", 2)], "prefix string, count long")
    assert [row["record"] for row in reconcile.outside(frame, prefixes, 2).collect()] == ["P.ab2.H3"]
