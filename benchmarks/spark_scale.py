"""Ten million records through the pipeline with a capped driver, and how much longer they take than one million."""

import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Final

from benchmarks.rounds import setting
from benchmarks.spark_material import PLEX_BYTES, spark_parquet
from bobbin.interlace.schema import Schema
from bobbin.pipeline.batches.advertise import Form
from bobbin.pipeline.jobs import advertise, facts, ingest
from bobbin.pipeline.offer import Offer
from bobbin.pipeline.reading.sources import find_sources
from bobbin.pipeline.spark import session
from bobbin.policy.operands import label_origin
from bobbin.store.lake.lake import Lake
from measurement.result import Ratio, Result, Row

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

QUESTION: Final = (
    "Do ten million unsigned records go through ingest, facts and advertise on one machine with 6 GB for the driver, "
    "and does that take about ten times as long as one million?"
)
ONLY_BY_NAME: Final = True
"""Ten million records take minutes, and gigabytes of disk."""
CORES: Final = 2
MEMORY: Final = "6g"
BAR: Final = 11.0
OFFER: Final = Offer(form=Form(source=label_origin("benchmark"), schema=Schema(all=True)))


def run() -> Result:
    """Measure."""
    small, large = setting("SPARK_SCALE_SMALL", 1_000_000), setting("SPARK_SCALE_LARGE", 10_000_000)
    sources = {count: spark_parquet(count) for count in (small // 10, small, large)}
    seconds: dict[int, dict[str, float]] = {}
    with (
        session(master=f"local[{CORES}]", memory=MEMORY, application="benchmark") as spark,
        tempfile.TemporaryDirectory(prefix="bobbin-bench-") as scratch,
    ):
        for count, source in sources.items():
            seconds[count] = _through(spark, Path(scratch) / str(count), source, count)
    totals = {count: sum(steps.values()) for count, steps in seconds.items()}
    return Result(
        question=QUESTION,
        rows=[
            Row(name=f"{step}, {count:,} records", value=round(seconds[count][step], 1), unit="s")
            for count in (small, large)
            for step in seconds[count]
        ],
        ratios=[
            Ratio(
                name=f"time for {large:,} records / for {small:,}",
                value=round(totals[large] / totals[small], 2),
                bar=BAR,
                comparison="<=",
                note=f"{totals[large]:.0f} s and {totals[small]:.0f} s, once each",
            ),
            *(
                Ratio(
                    name=f"the same, {step} alone",
                    value=round(seconds[large][step] / seconds[small][step], 2),
                    comparison="<=",
                )
                for step in seconds[large]
            ),
        ],
        notes=[_NOTE],
    )


_NOTE: Final = (
    f"local[{CORES}], the driver's Java with {MEMORY}, unsigned Plexes of {PLEX_BYTES} bytes in Parquet files, one "
    "tenth of the smaller number for warming up. Each step is the whole job, with its commit; advertise tells all "
    "fields, and makes the roots for k = 2 and k = 3. The counts of each step are checked."
)


def _through(spark: "SparkSession", location: Path, source: Path, count: int) -> dict[str, float]:
    """The seconds of each step, into a new lake."""
    lake = Lake.create(location)
    seconds: dict[str, float] = {}
    start = time.perf_counter()
    ingest.run(spark, lake, find_sources([str(source)]))
    seconds["ingest"] = time.perf_counter() - start
    start = time.perf_counter()
    facts.run(spark, lake)
    seconds["facts"] = time.perf_counter() - start
    start = time.perf_counter()
    advertise.run(spark, lake, OFFER, lengths=[2, 3])
    seconds["advertise"] = time.perf_counter() - start
    made = [lake.manifest(table).rows for table in ("records", "facts", OFFER.advertisements)]
    assert made == [count] * 3, f"{made} of {count}"
    return seconds
