"""Checking records on Spark: against the least that Python can do to a record there, and against one process."""

import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pyarrow as pa
import pyarrow.parquet as pq
from blake3 import blake3

from benchmarks.rounds import Rates, rate_of, rate_row, ratio_row, setting, take_turns
from benchmarks.spark_material import DAMAGED_EVERY, PLEX_BYTES, SparkShape, spark_bundle, spark_parquet
from bobbin.pipeline.jobs import ingest
from bobbin.pipeline.reading.parts import PARTS_PER_CORE
from bobbin.pipeline.reading.sources import find_sources
from bobbin.pipeline.spark import session
from bobbin.records.record import validate
from bobbin.store.lake.lake import Lake
from measurement.result import Ratio, Result, Row

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

QUESTION: Final = (
    "How fast does Spark, on two cores, check records with the node's own validator and set apart what is none, "
    "compared with only hashing the same bytes with BLAKE3? And how much do signatures gain by a second core?"
)
CORES: Final = 2
CHECK_BAR: Final = 0.25
SIGNATURE_BAR: Final = 1.6


def run() -> Result:
    """Measure."""
    count = setting("SPARK_INGEST_RECORDS", 1_000_000)
    signed = setting("SPARK_INGEST_SIGNED", 100_000)
    rounds = setting("SPARK_INGEST_ROUNDS", 5)
    folder, seals = spark_parquet(count, damaged=True), spark_parquet(signed, SparkShape.SEAL)
    bundle = spark_bundle(count)
    raws = _raws(seals)
    with session(master=f"local[{CORES}]", application="benchmark") as spark, tempfile.TemporaryDirectory() as scratch:
        spark.conf.set("spark.sql.files.minPartitionNum", str(CORES * PARTS_PER_CORE))
        alternatives: dict[str, Callable[[], float]] = {
            "bare": lambda: rate_of(lambda: _drain(_read(spark, folder).mapInArrow(hash_only, "digest binary")), count),
            "checked": lambda: rate_of(lambda: _drain(_checked(spark, folder)), count),
            "signed": lambda: rate_of(lambda: _drain(_checked(spark, seals)), signed),
            "alone": lambda: rate_of(lambda: _validate_all(raws), signed),
        }
        for warm_up in ("bare", "checked", "signed"):
            alternatives[warm_up]()
        rates = take_turns(alternatives, rounds=rounds)
        jobs = {
            "parquet": lambda: _ingest(spark, folder, Path(scratch), count),
            "bundle": lambda: _ingest(spark, bundle, Path(scratch), count),
        }
        rates |= take_turns(jobs, rounds=max(1, rounds // 2))
    return Result(question=QUESTION, rows=_rows(rates, count, signed), ratios=_ratios(rates), notes=[_NOTE])


_NOTE: Final = (
    f"local[{CORES}], the session's start and one round for warming up not counted. Both passes over unsigned records "
    f"read the same Parquet files (one record in {DAMAGED_EVERY:,} is damaged) and hand their rows to nobody, so that "
    "reading is counted and writing is not: the bare one returns a digest, the other the record under its name or the "
    "reason why it is none. The whole job also sorts, writes and commits."
)


def _rows(rates: Rates, count: int, signed: int) -> list[Row]:
    many = f"{count:,} Plexes of {PLEX_BYTES} bytes"
    few = f"{signed:,} Seals of {SparkShape.SEAL.size} bytes"
    return [
        rate_row("BLAKE3 and nothing else", rates, "bare", unit="records/s", note=many),
        rate_row("checked, the damaged set apart", rates, "checked", unit="records/s", note=many),
        rate_row("signatures on Spark", rates, "signed", unit="records/s", note=few),
        rate_row("signatures in one process", rates, "alone", unit="records/s", note=few),
        rate_row("the whole job, from Parquet", rates, "parquet", unit="records/s", note=many),
        rate_row("the whole job, from one bundle", rates, "bundle", unit="records/s", note=many),
    ]


def _ratios(rates: Rates) -> list[Ratio]:
    return [
        ratio_row("checked / bare BLAKE3", rates, "checked", "bare", bar=CHECK_BAR),
        ratio_row("signatures, Spark / one process", rates, "signed", "alone", bar=SIGNATURE_BAR),
        ratio_row("whole job, from one bundle / from Parquet files", rates, "bundle", "parquet"),
    ]


def hash_only(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The least that a worker can do: one digest of each record's bytes."""
    for batch in batches:
        digests = [blake3(raw).digest() for raw in batch.column(0).to_pylist()]
        yield pa.RecordBatch.from_arrays([pa.array(digests, pa.binary())], ["digest"])


def _read(spark: "SparkSession", folder: Path) -> "DataFrame":
    return spark.read.schema("raw binary").parquet(str(folder))


def _checked(spark: "SparkSession", folder: Path) -> "DataFrame":
    return ingest.check_frame(ingest.read_files(spark, find_sources([str(folder)])))


def _drain(frame: "DataFrame") -> None:
    """Compute all rows, and keep none."""
    frame.write.format("noop").mode("overwrite").save()


def _ingest(spark: "SparkSession", source: Path, scratch: Path, count: int) -> float:
    """The rate of the whole job into a new lake."""
    location = Path(tempfile.mkdtemp(dir=scratch)) / "lake"
    lake = Lake.create(location)
    rate = rate_of(lambda: ingest.run(spark, lake, find_sources([str(source)])), count)
    stored = lake.manifest("records").rows + lake.manifest("quarantine").rows
    assert stored == count, f"{stored} of {count}"
    shutil.rmtree(location)
    return rate


def _validate_all(raws: list[bytes]) -> None:
    """Check one record after the other, and keep none: a hundred thousand live records would slow the loop down."""
    for raw in raws:
        validate(raw)


def _raws(folder: Path) -> list[bytes]:
    values: list[bytes] = pq.read_table(folder).column("raw").to_pylist()
    return values
