"""Partition roots on Spark, against the shuffle and sort that they need anyway; and the stages before them."""

import random
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import functions as f

from benchmarks.rounds import Rates, rate_of, rate_row, ratio_row, setting, take_turns
from benchmarks.spark_material import PLEX_BYTES, spark_parquet
from bobbin.interlace.schema import Schema
from bobbin.pipeline import frames
from bobbin.pipeline.batches.advertise import Form
from bobbin.pipeline.jobs.advertise import by_digest, partition
from bobbin.pipeline.jobs.facts import describe_records
from bobbin.pipeline.spark import parallelism, session
from bobbin.policy.operands import label_origin
from bobbin.records.canonical import MARK, MARKLINE_SIZE
from bobbin.records.ids import Kind, hash_text
from bobbin.store.lake.tables import ADVERTISEMENTS, FACTS
from measurement.result import Ratio, Result, Row

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

QUESTION: Final = (
    "What do the Merkle roots of all partitions cost on Spark, compared with only bringing the same rows together and "
    "in order? And how fast are records described and advertised?"
)
CORES: Final = 2
FILES: Final = 8
BAR: Final = 2.0


def run() -> Result:
    """Measure."""
    count, described = setting("SPARK_ADVERTISE_RECORDS", 1_000_000), setting("SPARK_ADVERTISE_DESCRIBED", 200_000)
    rounds = setting("SPARK_ADVERTISE_ROUNDS", 7)
    with (
        session(master=f"local[{CORES}]", application="benchmark") as spark,
        tempfile.TemporaryDirectory(prefix="bobbin-bench-") as scratch,
    ):
        rows = write_advertisements(spark, Path(scratch) / "advertisements", count)
        facts = _facts(spark, described, Path(scratch) / "facts")
        roots: dict[str, Callable[[], float]] = {
            "sort 2": lambda: _rate(_sorted(rows, 2), count),
            "roots 2": lambda: _rate(_roots(rows, [2]), count),
            "key 2": lambda: _rate(_keyed(rows, 2), count),
            "sort 3": lambda: _rate(_sorted(rows, 3), count),
            "roots 3": lambda: _rate(_roots(rows, [3]), count),
            "key 3": lambda: _rate(_keyed(rows, 3), count),
            "both": lambda: _rate(_roots(rows, [2, 3]), count),
        }
        stages: dict[str, Callable[[], float]] = {
            "describe": lambda: _rate(describe_records(_records(spark, described)), described),
            "all": lambda: _rate(by_digest(facts, _form(Schema(all=True))), described),
            "some": lambda: _rate(by_digest(facts, _form(Schema(names=frozenset({"Name", "TAI"})))), described),
        }
        for warm_up in (*roots.values(), *stages.values()):
            warm_up()
        rates = take_turns(roots, rounds=rounds) | take_turns(stages, rounds=3)
    return Result(question=QUESTION, rows=_rows(rates, count, described), ratios=_ratios(rates), notes=[_NOTE])


_NOTE: Final = (
    f"local[{CORES}], the session's start and one round for warming up not counted. All alternatives read the same "
    "Parquet files and hand their rows to nobody. The bare one spreads rows of prefix and digest by prefix, and sorts "
    "by both within each partition: that is what the bar is about. The job puts both into one column, which sorts "
    "faster and gives the same order; a bare sort by that column is the second one, and has no bar."
)


def _rows(rates: Rates, count: int, described: int) -> list[Row]:
    many, few = f"{count:,} advertisements", f"{described:,} Plexes of {PLEX_BYTES} bytes"
    return [
        rate_row("spread and sorted by 2 symbols", rates, "sort 2", unit="records/s", note=many),
        rate_row("the same by one column", rates, "key 2", unit="records/s", note=many),
        rate_row("roots, k = 2", rates, "roots 2", unit="records/s", note=many),
        rate_row("spread and sorted by 3 symbols", rates, "sort 3", unit="records/s", note=many),
        rate_row("the same by one column, 3 symbols", rates, "key 3", unit="records/s", note=many),
        rate_row("roots, k = 3", rates, "roots 3", unit="records/s", note=many),
        rate_row("roots, k = 2 and 3 in one pass", rates, "both", unit="records/s", note=many),
        rate_row("described", rates, "describe", unit="records/s", note=few),
        rate_row("advertised, all fields", rates, "all", unit="records/s", note=few),
        rate_row("advertised, two fields", rates, "some", unit="records/s", note=few),
    ]


def _ratios(rates: Rates) -> list[Ratio]:
    names = ("sort 2", "sort 3", "key 2", "key 3", "roots 2", "roots 3", "both")
    times = {name: [1 / rate for rate in rates[name]] for name in names}
    named = [("k = 2", "roots 2", "sort 2", BAR), ("k = 3", "roots 3", "sort 3", BAR)]
    ratios = [
        ratio_row(f"time of roots, {name} / of spreading and sorting", times, mine, theirs, bar=bar, comparison="<=")
        for name, mine, theirs, bar in named
    ]
    by_one = [
        ratio_row(
            f"time of roots, k = {length} / of a bare sort by one column",
            times,
            f"roots {length}",
            f"key {length}",
            comparison="<=",
        )
        for length in (2, 3)
    ]
    return [
        *ratios,
        *by_one,
        ratio_row(
            "time of roots, k = 2 and 3 / of spreading and sorting once", times, "both", "sort 2", comparison="<="
        ),
    ]


def write_advertisements(spark: "SparkSession", folder: Path, count: int, *, seed: int = 1) -> "DataFrame":
    """A table of advertisements of records that nobody has: as many rows, as evenly spread as real ones."""
    source = random.Random(seed)
    folder.mkdir()
    share = -(-count // FILES)
    for number in range(FILES):
        size = min(share, count - number * share)
        records = [hash_text(Kind.PLEX, source.randbytes(32)) for _ in range(size)]
        digests = [source.randbytes(32) for _ in range(size)]
        table = pa.table([pa.array(records), pa.array(digests)], schema=ADVERTISEMENTS.schema)
        pq.write_table(table, folder / f"{number}.parquet", compression="zstd")
    return spark.read.schema(frames.schema_of(ADVERTISEMENTS)).parquet(str(folder))


def _sorted(rows: "DataFrame", length: int) -> "DataFrame":
    short = rows.select(frames.payload(length).alias("prefix"), "digest")
    return short.repartition(parallelism(rows.sparkSession), "prefix").sortWithinPartitions("prefix", "digest")


def _keyed(rows: "DataFrame", length: int) -> "DataFrame":
    keys = rows.select(f.concat(f.encode(frames.payload(length), "utf-8"), "digest").alias("key"))
    spread = keys.repartition(parallelism(rows.sparkSession), f.substring("key", 1, length))
    return spread.sortWithinPartitions("key")


def _roots(rows: "DataFrame", lengths: Sequence[int]) -> "DataFrame":
    return partition(rows, lengths, parallelism(rows.sparkSession))


def _records(spark: "SparkSession", count: int) -> "DataFrame":
    raws = spark.read.schema("raw binary").parquet(str(spark_parquet(count)))
    begin = len(MARK) + 2
    return raws.select(
        f.decode(f.substring("raw", begin + 1, MARKLINE_SIZE - 1 - begin), "utf-8").alias("record"), "raw"
    )


def _facts(spark: "SparkSession", count: int, folder: Path) -> "DataFrame":
    describe_records(_records(spark, count)).write.parquet(str(folder))
    return spark.read.schema(frames.schema_of(FACTS)).parquet(str(folder))


def _form(schema: Schema) -> Form:
    return Form(source=label_origin("benchmark"), schema=schema)


def _rate(frame: "DataFrame", count: int) -> float:
    """Compute all rows, and keep none."""
    return rate_of(lambda: frame.write.format("noop").mode("overwrite").save(), count)
