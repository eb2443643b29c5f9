"""Reconciling two large sets of advertisements on Spark, against the bare join that it needs anyway."""

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pyarrow as pa
import pyarrow.parquet as pq
from blake3 import blake3
from pyspark.sql import functions as f

from benchmarks.rounds import Rates, rate_of, rate_row, ratio_row, setting, take_turns
from bobbin.pipeline import frames
from bobbin.pipeline.jobs import reconcile
from bobbin.pipeline.jobs.advertise import partition
from bobbin.pipeline.jobs.sides import Side
from bobbin.pipeline.spark import parallelism, session
from bobbin.records.ids import Kind, hash_text
from bobbin.store.lake.lake import Lake
from bobbin.store.lake.tables import ADVERTISEMENTS, PARTITIONS
from measurement.result import Ratio, Result, Row

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import DataFrame, SparkSession

QUESTION: Final = (
    "What does it cost to find every difference of two sides, both ways, with counts that are proven to add up, "
    "compared with only joining the same rows?"
)
CORES: Final = 2
FILES: Final = 8
BAR: Final = 1.5
_PARTS: Final = 100
"""One record in so many is on this side only, and as many are on the other side only."""
_FEW: Final = 100
"""So many each way, where few differ."""


def run() -> Result:
    """Measure."""
    count, rounds = setting("SPARK_RECONCILE_RECORDS", 1_000_000), setting("SPARK_RECONCILE_ROUNDS", 9)
    with (
        session(master=f"local[{CORES}]", application="benchmark") as spark,
        tempfile.TemporaryDirectory(prefix="bobbin-bench-") as scratch,
    ):
        folder = Path(scratch)
        lake = Lake.create(folder / "lake")
        many = count // _PARTS
        here = _side(spark, folder / "here", count, begin=0)
        there = _side(spark, folder / "there", count, begin=many)
        near = _side(spark, folder / "near", count, begin=_FEW)
        bare_here, bare_there = (Side(name=one.name, advertisements=one.advertisements) for one in (here, there))
        alternatives: dict[str, Callable[[], float]] = {
            "bare": lambda: rate_of(lambda: _drain(_joined(here, there)), 2 * count),
            "found": lambda: rate_of(lambda: _reconcile(spark, lake, bare_here, bare_there, many), 2 * count),
            "roots": lambda: rate_of(lambda: _reconcile(spark, lake, here, there, many), 2 * count),
            "near": lambda: rate_of(lambda: _reconcile(spark, lake, here, near, _FEW), 2 * count),
        }
        for warm_up in alternatives.values():
            warm_up()
        rates = take_turns(alternatives, rounds=rounds)
    return Result(question=QUESTION, rows=_rows(rates, count), ratios=_ratios(rates), notes=[_NOTE])


_NOTE: Final = (
    f"local[{CORES}], the session's start and one round for warming up not counted. The bare join is a full outer join "
    "of the same Parquet files on the record, whose rows go to nobody. The job also classifies, counts on both inputs "
    "and on the result, writes the differences, lists some of them and commits a report to the lake. Where 1 % differ, "
    "hardly a partition of two symbols is equal on both sides, so roots are read for nothing; where few differ, nearly "
    "all are, and little is left to join."
)


def _rows(rates: Rates, count: int) -> list[Row]:
    note = f"2 × {count:,} records, 1 % different each way"
    return [
        rate_row("bare full outer join", rates, "bare", unit="records/s", note=note),
        rate_row("reconciled", rates, "found", unit="records/s", note=note),
        rate_row("reconciled, roots of both sides there", rates, "roots", unit="records/s", note=note),
        rate_row(
            "reconciled, roots there, few differences",
            rates,
            "near",
            unit="records/s",
            note=f"2 × {count:,} records, {_FEW} different each way",
        ),
    ]


def _ratios(rates: Rates) -> list[Ratio]:
    times = {name: [1 / rate for rate in each] for name, each in rates.items()}
    names = {"found": "without roots", "roots": "with roots, 1 % different", "near": "with roots, few different"}
    return [
        ratio_row(
            f"time to reconcile {words} / of a bare full outer join",
            times,
            which,
            "bare",
            bar=BAR if which == "found" else None,
            comparison="<=",
        )
        for which, words in names.items()
    ]


def _side(spark: "SparkSession", folder: Path, count: int, *, begin: int) -> Side:
    """A side with the records of these numbers, and the roots of its partitions."""
    rows = folder / "advertisements"
    rows.mkdir(parents=True)
    share = -(-count // FILES)
    for number in range(FILES):
        numbers = range(begin + number * share, begin + min(count, (number + 1) * share))
        noise = [blake3(b"%d" % one).digest(length=64) for one in numbers]
        records, digests = [hash_text(Kind.PLEX, one[:32]) for one in noise], [one[32:] for one in noise]
        table = pa.table([pa.array(records), pa.array(digests)], schema=ADVERTISEMENTS.schema)
        pq.write_table(table, rows / f"{number}.parquet", compression="zstd")
    advertisements = spark.read.schema(frames.schema_of(ADVERTISEMENTS)).parquet(str(rows))
    partition(advertisements, [2], parallelism(spark)).write.parquet(str(folder / "partitions"))
    partitions = spark.read.schema(frames.schema_of(PARTITIONS)).parquet(str(folder / "partitions"))
    return Side(name=folder.name, advertisements=advertisements, partitions=partitions, lengths=(2,))


def _joined(here: Side, there: Side) -> "DataFrame":
    ours = here.advertisements.select("record", f.col("digest").alias("here"))
    return ours.join(there.advertisements.select("record", f.col("digest").alias("there")), "record", "full_outer")


def _reconcile(spark: "SparkSession", lake: Lake, here: Side, there: Side, expected: int) -> None:
    counts = reconcile.run(spark, lake, here, there).counts
    assert (counts.extra, counts.missing, counts.differing) == (expected, expected, 0), counts


def _drain(frame: "DataFrame") -> None:
    """Compute all rows, and keep none."""
    frame.write.format("noop").mode("overwrite").save()
