"""What Spark aggregates is what counting by hand gives, on lakes of a few records and of none."""

from collections import Counter
from pathlib import Path
from statistics import median_low
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from blake3 import blake3
from pyspark.sql import functions as f

from bobbin.pipeline import frames
from bobbin.pipeline.jobs import facts
from bobbin.pipeline.report import gather as module
from bobbin.pipeline.report.figures import DAMAGED
from bobbin.pipeline.report.gather import WIDTHS, choose_range, count_over_time, distribute, gather, rank
from bobbin.records import tai
from bobbin.records.record import Record, Seal, build_blob, build_plex, seal
from bobbin.records.signing import SigningKey
from bobbin.store.lake.keys import derived_key
from bobbin.store.lake.lake import Lake
from bobbin.store.lake.tables import FACTS, QUARANTINE, RECORDS, SELECTIONS
from bobbin.store.lake.writing import PartWriter
from tests.support.lakes import store

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

DAY = 86400
FIRST = 1_767_225_600
KEYS = [SigningKey.from_secret(bytes([number]) * 32) for number in range(1, 4)]


def _records() -> list[Record]:
    found: list[Record] = [build_blob(b"x" * number) for number in range(4)]
    for number in range(40):
        plex = build_plex(
            group=("g", "<b>")[number % 2],
            app="a",
            name=f"n/{number}",
            tai_ns=tai.from_utc((FIRST + number * DAY // 4) * 10**9),
            data=b"y" * (number * 10),
        )
        key = KEYS[0 if number % 4 else number % 3]
        found.append(seal(plex, key, auxiliary=b"\x01" * 32) if number % 3 else plex)
    return found


def _reject(lake: Lake, pieces: list[tuple[bytes, str, str, int | None]]) -> None:
    with lake.begin("test") as run:
        rows = [
            {
                "raw": raw,
                "size": len(raw),
                "digest": blake3(raw).digest(),
                "reason": reason,
                "detail": "d" * 500,
                "source": source,
                "offset": offset,
                "run": run.id,
            }
            for raw, reason, source, offset in pieces
        ]
        with PartWriter(lake.files, QUARANTINE, run.path(QUARANTINE.name)) as writer:
            writer.write(pa.RecordBatch.from_pylist(rows, schema=QUARANTINE.schema))
        run.append(QUARANTINE.name)
        run.commit()


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    return Lake.create(tmp_path / "lake")


def test_a_lake_with_something_of_everything(spark: "SparkSession", lake: Lake) -> None:
    records = _records()
    store(lake, records)
    facts.run(spark, lake)
    _reject(lake, [(b"\xff\n" * 100, "bad", "x.bundle", 5), (b"q", "bad", "x.bundle", None), (b"zz", "worse", "y", 0)])
    steps: list[str] = []
    found = gather(spark, lake, step=steps.append)

    assert steps
    assert (found.records, found.described, found.facts_current) == (44, 44, True)
    assert {kind.name: kind.records for kind in found.kinds} == {"Blob": 4, "Plex": 14, "Seal": 26}
    assert sum(kind.bytes for kind in found.kinds) == sum(record.data_length for record in records)

    assert {one.name: one.records for one in found.places.top} == {"g / a": 20, "<b> / a": 20}
    assert (found.places.distinct, found.places.others.records, found.places.without.records) == (2, 0, 4)
    signers = Counter(record.verifier for record in records if isinstance(record, Seal))
    assert [(one.name, one.records) for one in found.signers.top] == sorted(
        signers.items(), key=lambda item: (-item[1], item[0])
    )
    assert found.signers.without.records == 18

    timeline = found.timeline
    assert (timeline.width, timeline.first, timeline.last) == (6 * 3600, FIRST, FIRST + 39 * DAY // 4)
    assert [bucket.records for bucket in timeline.buckets] == [1] * 40
    assert (timeline.earlier, timeline.later) == (0, 0)

    lengths = sorted(len(record.raw) for record in records)
    assert (found.sizes.least, found.sizes.largest, found.sizes.total) == (lengths[0], lengths[-1], sum(lengths))
    assert found.sizes.median == median_low(lengths)
    assert sum(bucket.records for bucket in found.sizes.buckets) == 44
    for bucket in found.sizes.buckets:
        assert bucket.records == sum(bucket.low <= length < bucket.high for length in lengths)

    prefixes = Counter(record.hash[2:4] for record in records)
    assert (found.balance.prefixes, found.balance.empty) == (4096, 4096 - len(prefixes))
    assert (found.balance.fewest, found.balance.most) == (0, max(prefixes.values()))
    assert sum(one.prefixes for one in found.balance.distribution) == 4096
    assert found.balance.mean == pytest.approx(44 / 4096)

    bad, worse = found.quarantine.reasons
    assert (bad.reason, bad.pieces, bad.bytes, worse.pieces) == ("bad", 2, 201, 1)
    assert {example.offset for example in bad.examples} == {5, None}
    long = next(example for example in bad.examples if example.offset == 5)
    assert (len(long.detail), long.beginning) == (module.TEXT_MAX, "\\xff\n" * 24)
    assert {one.name: one.records for one in found.quarantine.sources.top} == {"x.bundle": 2, "y": 1}
    assert [table.name for table in found.tables] == ["facts", "quarantine", "records"]
    assert [run.job for run in found.runs] == ["test", "facts", "ingest"]


def test_a_lake_without_anything(spark: "SparkSession", lake: Lake) -> None:
    found = gather(spark, lake)
    assert (found.records, found.runs_total, found.tables) == (0, 0, ())
    assert (found.timeline.buckets, found.sizes.buckets, found.balance.distribution) == ((), (), ())
    assert found.quarantine.pieces == found.balance.most == found.places.distinct == 0


def test_what_is_not_described_and_what_was_made_from_older_facts(spark: "SparkSession", lake: Lake) -> None:
    records = _records()
    store(lake, records[:20])
    facts.run(spark, lake)
    _select(lake, [record.hash for record in records[:5]], facts_number=lake.manifest(FACTS.name).number)
    assert gather(spark, lake).selections[0].current
    store(lake, records[20:])
    _select(lake, [record.hash for record in records[:5]], facts_number=0)
    found = gather(spark, lake)
    assert not found.facts_current
    assert (found.records, found.described, found.derived_total) == (44, 20, 1)
    assert [one.current for one in found.selections] == [False]
    assert found.selections[0].counts == {"MaySend": 3, "SelectHave": 2}


def _select(lake: Lake, records: list[str], *, facts_number: int, plan: str = "R.x") -> None:
    name = f"{SELECTIONS.name}/{derived_key(plan=plan)}"
    rows = [
        {"record": record, "predicate": ("MaySend", "SelectHave")[at % 2]} for at, record in enumerate(sorted(records))
    ]
    with lake.begin("select", plan=plan) as run:
        with PartWriter(lake.files, SELECTIONS, run.path(name)) as writer:
            writer.write(pa.RecordBatch.from_pylist(rows, schema=SELECTIONS.schema))
        run.replace(name, properties={FACTS.name: str(facts_number), "plan": plan})
        run.commit()


def test_a_ranking_is_cut_and_the_rest_is_counted(spark: "SparkSession") -> None:
    rows = spark.range(100).select(
        f.when(f.col("id") % 10 < 8, f.concat(f.lit("n"), (f.col("id") % 8).cast("string"))).alias("name"),
        f.lit(2).cast("long").alias("data_length"),
    )
    found = rank(rows, top=3)
    assert found.distinct == 8
    assert len(found.top) == 3
    assert sum(one.records for one in found.top) + found.others.records == 80
    assert (found.without.records, found.without.bytes) == (20, 40)
    assert found.others.bytes == 2 * found.others.records


def test_times_far_away_are_counted_and_not_drawn(spark: "SparkSession") -> None:
    seconds = [FIRST + number * 600 for number in range(500)] + [5, 9_999_999_999]
    rows = spark.createDataFrame(
        [(f"{second:010d}:000000000", 1) for second in seconds], "tai string, data_length long"
    )
    found = count_over_time(rows)
    assert (found.earlier, found.later) in {(1, 1), (2, 2), (3, 3)}
    assert sum(bucket.records for bucket in found.buckets) + found.earlier + found.later == 502
    assert len(found.buckets) <= module.BUCKETS_MAX
    assert (found.first, found.last) == (5 - 10, 9_999_999_999 - 37)


def test_times_are_utc_whatever_the_leap_seconds(spark: "SparkSession") -> None:
    turns = [63_072_000, 78_796_800, 1_136_073_600, 1_483_228_800]
    seconds = [
        0,
        *(tai.from_utc((turn + near) * 10**9) // 10**9 for turn in turns for near in (-2, 0, 1)),
        9_999_999_999,
    ]
    rows = spark.createDataFrame([(tai.render(second * 10**9),) for second in seconds], "tai string")
    found = [row.second for row in rows.select(module.utc_second().alias("second")).collect()]
    assert found == [tai.to_utc(second * 10**9) // 10**9 for second in seconds]


def test_of_any_number_of_tables_and_runs_some_are_read(
    spark: "SparkSession", lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "DERIVED_MAX", 2)
    monkeypatch.setattr(module, "RUNS_MAX", 4)
    records = _records()
    store(lake, records[:5])
    for number in range(6):
        _select(lake, [records[0].hash], facts_number=0, plan=str(number))
    runs = lake.runs()
    (Path(lake.location) / "runs" / f"{runs[1]}.json").write_text("{")
    (Path(lake.location) / "runs" / f"{runs[5]}.json").write_text("{")
    found = gather(spark, lake)
    assert [one.properties["plan"] for one in found.selections] == ["5", "4"]
    assert (len(found.tables), found.tables_total, found.derived_total) == (3, 7, 6)
    assert found.runs_total == 7
    assert [one.job for one in found.runs] == ["select", DAMAGED, "select", "select"]
    damaged = found.runs[1]
    assert damaged.run == runs[1]
    assert "is no report of a run" in damaged.notes[0]
    assert tai.parse(damaged.started) <= tai.parse(found.runs[0].started)


@pytest.mark.parametrize("span", [0, 1, 3000, 10**5, 10**7, 10**9, 9_999_999_999])
def test_every_span_gets_buckets_that_cover_it(span: int) -> None:
    begin, end, width = choose_range(0, span, (0, span), 96)
    assert width in WIDTHS
    assert begin <= 0
    assert end > span
    assert begin % width == end % width == 0
    assert (end - begin) // width <= 96


def test_a_span_beyond_all_widths_shows_its_end() -> None:
    begin, end, width = choose_range(0, 10**12, (0, 10**12), 96)
    assert (end - begin, end > 10**12) == (96 * width, True)


def test_a_distribution_has_equal_columns_and_loses_nobody() -> None:
    assert distribute([], 4096) == ()
    columns = distribute([5, 6, 100, 1000], 0)
    assert sum(column.prefixes for column in columns) == 4
    assert len(columns) <= module.FILLED_MAX
    assert (columns[0].low, columns[-1].high >= 1000) == (5, True)
    assert distribute([1, 1, 2], 7)[0].prefixes == 7
    assert len({column.high - column.low for column in columns}) == 1


def test_frames_are_read_through_manifests_alone(spark: "SparkSession", lake: Lake) -> None:
    store(lake, _records()[:3])
    before = gather(spark, lake)
    stray = Path(lake.location) / RECORDS.name / "data" / "stray"
    stray.mkdir()
    (stray / "part-0.parquet").write_bytes(b"not even Parquet")
    assert gather(spark, lake).sizes == before.sizes
    assert frames.read(spark, lake, lake.manifest(RECORDS.name)).count() == 3
