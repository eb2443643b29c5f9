"""``conflicts``: all pairs of changes of each window, classified as a node would, and every pair accounted for.

Changes come from a table (``batches.deltas.DELTAS``) or from the blocks of a chain. Each window is divided into groups
by chance; a task is one group with itself or with another one, so each change goes to as many tasks as its window has
groups, and no pair of rows is ever made by Spark. Workers compare the groups of a task as matrices. A window of few
changes is one task.

Pairs that are not Orthogonal go to the table ``conflicts/<key>``, and what became of all of them to ``windows/<key>``:
the classes of each window must add up to its pairs before anything is committed. The key follows from the source and
the thresholds, so a later run over the same source writes the same tables anew.
"""

from collections.abc import Iterable, Iterator
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import Final, assert_never

import pyarrow as pa
import pyarrow.parquet as pq
from msgspec import Struct, structs
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.pandas.types import from_arrow_schema

from bobbin.cluster.conflicts.classify import DEFAULT, ConflictClass, Thresholds
from bobbin.errors import UsageError
from bobbin.pipeline import frames, interrupts
from bobbin.pipeline.batches import conflicts as batches
from bobbin.pipeline.batches import deltas
from bobbin.pipeline.batches.deltas import DELTAS
from bobbin.pipeline.delta_table import deltas_of_blocks, read_blocks, tables_of
from bobbin.pipeline.failures import PipelineError
from bobbin.pipeline.progress import Step, silent
from bobbin.pipeline.reading.sources import MissingSource, check_parquet_name
from bobbin.pipeline.rules.relations import materialise
from bobbin.pipeline.spark import parallelism
from bobbin.store.lake.files import local_path
from bobbin.store.lake.keys import derived_key
from bobbin.store.lake.lake import Lake, Run
from bobbin.store.lake.report import Report
from bobbin.store.lake.tables import CONFLICTS, WINDOWS, difference

GROUP_ROWS_MAX: Final = 1 << 14
"""Changes of a group; a task holds two groups in memory."""
TASK_PAIRS_MIN: Final = 1 << 20
"""Fewer pairs are not worth a task of their own."""
_TASKS_PER_CORE: Final = 4
_BROADCAST_MAX: Final = 100_000
"""So many windows are small enough to be sent to every worker."""
_JSONL_SUFFIXES: Final = (".jsonl", ".ndjson")
_BLOCKS_SUFFIX: Final = ".blocks.jsonl"
_CLASSES: Final = {one: one.value.replace("-", "_") for one in ConflictClass}
"""The columns of ``windows``."""
_TASK: Final = ["window", "low", "high"]


class Form(StrEnum):
    """How changes stand in a source."""

    PARQUET = "parquet"
    """A file, or a folder of files."""
    JSONL = "jsonl"
    BLOCKS = "blocks"
    """The blocks of a chain, one a line, from which the changes are worked out."""


class DeltaSource(Struct, frozen=True):
    """Where changes come from."""

    location: str
    form: Form
    heights: int = 1_000
    """Of blocks: so many make a window."""
    dimension: int = 128
    """Of blocks: what the changes of the chain have."""

    @property
    def uri(self) -> str:
        """As Spark opens it."""
        local = local_path(self.location)
        return frames.spark_path(self.location if local is None else f"file://{Path(local).absolute()}")


def find_source(location: str, *, heights: int = 1_000, dimension: int = 128) -> DeltaSource:
    """What is at a location, by its name. Raises ``MissingSource``, or ``UsageError`` for what is no such source."""
    form = Form.JSONL if location.endswith(_JSONL_SUFFIXES) else Form.PARQUET
    local = local_path(location)
    if location.endswith(_BLOCKS_SUFFIX):
        if local is None:
            raise UsageError(f"blocks are read in order, by one process: {location} must be a file of this machine")
        form = Form.BLOCKS
    if local is not None:
        path = Path(local)
        if not path.exists():
            raise MissingSource(f"there is no file {location}")
        if form is Form.PARQUET:
            for file in [path] if path.is_file() else sorted(path.glob("*.parquet")):
                _check_parquet(file)
    return DeltaSource(location, form, heights, dimension)


def run(
    session: SparkSession,
    lake: Lake,
    source: DeltaSource,
    *,
    thresholds: Thresholds = DEFAULT,
    step: Step = silent,
) -> Report:
    """Classify all pairs of changes of each window of a source. The report is what was committed."""
    key = key_of(source, thresholds)
    pairs_table, windows_table = f"{CONFLICTS.name}/{key}", f"{WINDOWS.name}/{key}"
    with lake.begin("conflicts") as run:
        for table in (pairs_table, windows_table):
            run.base(table)
        step("reading changes")
        packed, count = materialise(read(session, source))
        windows, _ = materialise(count_windows(packed))
        step("comparing")
        found, _ = materialise(compare(packed, windows, thresholds))
        step("writing")
        reported = found.where(f.col("class") != ConflictClass.ORTHOGONAL.value)
        frames.write(reported.coalesce(parallelism(session)), run.folder(pairs_table), CONFLICTS)
        frames.write(summarise(found, windows).coalesce(1), run.folder(windows_table), WINDOWS)
        counts = _account(session, run, pairs_table, windows_table)
        properties = {"source": source.location} | {
            name: str(value) for name, value in structs.asdict(thresholds).items()
        }
        run.replace(pairs_table, properties=properties)
        run.replace(windows_table, properties=properties)
        step("committing")
        written = counts["pairs"] - counts["orthogonal"]
        interrupts.check()
        return run.commit(
            inputs={"deltas": count},
            outputs={pairs_table: written, windows_table: counts["windows"]},
            counts=counts,
            rows={pairs_table: written, windows_table: counts["windows"]},
        )


def key_of(source: DeltaSource, thresholds: Thresholds) -> str:
    """The key of the tables that a run over a source writes."""
    local = local_path(source.location)
    place = source.location if local is None else str(Path(local).absolute())
    of_blocks = {"heights": source.heights, "dimension": source.dimension} if source.form is Form.BLOCKS else {}
    return derived_key(
        source=place, **of_blocks, **{name: str(value) for name, value in structs.asdict(thresholds).items()}
    )


def read(session: SparkSession, source: DeltaSource) -> DataFrame:
    """The changes of a source, checked and packed. What is wrong with them is raised by the workers that see it."""
    schema = frames.schema_of(DELTAS)
    match source.form:
        case Form.PARQUET:
            rows = session.read.schema(schema).parquet(source.uri)
        case Form.JSONL:
            rows = session.read.text(source.uri).mapInArrow(_parse, schema)
        case Form.BLOCKS:
            blocks = read_blocks(Path(source.location))
            changes = deltas_of_blocks(blocks, dimension=source.dimension, window_heights=source.heights)
            rows = session.createDataFrame(pa.concat_tables(tables_of(changes)), schema)
        case _:
            assert_never(source.form)
    return rows.mapInArrow(_pack, from_arrow_schema(deltas.PACKED))


def count_windows(packed: DataFrame) -> DataFrame:
    """For each window how many changes and pairs it has."""
    counted = packed.groupBy("window").agg(f.count(f.lit(1)).alias("deltas"))
    return counted.withColumn("pairs", f.expr("deltas * (deltas - 1) div 2"))


def compare(packed: DataFrame, windows: DataFrame, thresholds: Thresholds) -> DataFrame:
    """Rows of ``batches.FOUND`` for all pairs of changes of each window.

    A transaction that a window has twice comes into one task twice, which refuses it.
    """
    cores = parallelism(packed.sparkSession)
    whole = windows.agg(f.sum("pairs").alias("pairs"), f.count(f.lit(1)).alias("windows")).collect()[0]
    pairs = whole["pairs"] or 0
    task_pairs = max(TASK_PAIRS_MIN, pairs // (cores * _TASKS_PER_CORE))
    partitions = max(1, min(whole["windows"] + 2 * pairs // task_pairs, cores * _TASKS_PER_CORE * 4))
    divided = windows.where("deltas > 1").select("window", _groups(task_pairs).alias("groups"))
    placed = (
        packed.join(f.broadcast(divided) if whole["windows"] <= _BROADCAST_MAX else divided, "window")
        .withColumn("own", f.pmod(f.xxhash64("tx"), f.col("groups")).cast("int"))
        .withColumn("met", f.explode(f.sequence(f.lit(0), f.col("groups") - 1)))
        .withColumn("low", f.least("own", "met"))
        .withColumn("high", f.greatest("own", "met"))
        .withColumn("side", f.when(f.col("own") == f.col("low"), 0).otherwise(1))
    )
    rows = placed.repartitionById(partitions, _place(partitions)).select(
        *_TASK, "side", "tx", "positions", "values", "keys"
    )
    ordered = rows.sortWithinPartitions(*_TASK, "side", "tx")
    return ordered.mapInArrow(partial(_classify, thresholds=thresholds), from_arrow_schema(batches.FOUND))


def _groups(task_pairs: int) -> Column:
    """Into how many groups a window is divided: none too large, and no task with too many pairs."""
    by_size = f.ceil(f.col("deltas") / GROUP_ROWS_MAX)
    by_pairs = f.ceil(f.col("deltas") / f.sqrt(f.lit(float(task_pairs))))
    return f.greatest(by_size, by_pairs).cast("int")


def summarise(found: DataFrame, windows: DataFrame) -> DataFrame:
    """Rows of ``windows``: what the workers have counted."""
    sums = found.groupBy("window").agg(
        *(
            f.coalesce(f.sum(f.when(f.col("class") == one.value, f.col("pairs"))), f.lit(0)).alias(name)
            for one, name in _CLASSES.items()
        )
    )
    whole = windows.select("window", "deltas", "pairs").join(sums, "window", "left")
    return whole.fillna(0).select(*WINDOWS.schema.names)


def _place(partitions: int) -> Column:
    """Tasks of one window go to partitions one after the other; windows begin anywhere."""
    number = f.expr("low * groups - low * (low - 1) div 2 + high - low")
    return f.pmod(f.pmod(f.xxhash64("window"), f.lit(partitions)) + number, f.lit(partitions)).cast("int")


def _account(session: SparkSession, run: Run, pairs_table: str, windows_table: str) -> dict[str, int]:
    """The sums over all windows, if each of them adds up and all that was found was written."""
    windows = frames.read_staged(session, run, windows_table)
    names = ["deltas", "pairs", *_CLASSES.values()]
    adds_up = f.expr(f"pairs = {' + '.join(_CLASSES.values())} AND pairs = deltas * (deltas - 1) div 2")
    sums = windows.agg(
        f.count(f.lit(1)).alias("windows"),
        f.count_if(~adds_up).alias("wrong"),
        *(f.coalesce(f.sum(name), f.lit(0)).alias(name) for name in names),
    ).collect()[0]
    written = frames.staged_rows(run, pairs_table)
    if sums["wrong"] or written != sums["pairs"] - sums["orthogonal"]:
        raise PipelineError(
            f"the pairs do not add up: {sums['wrong']} of {sums['windows']} windows, and {written} rows for "
            f"{sums['pairs'] - sums['orthogonal']} pairs. Nothing was committed; run the job again",
            retry=True,
        )
    return {name: int(sums[name]) for name in ("windows", *names)}


def _check_parquet(file: Path) -> None:
    check_parquet_name(str(file))
    try:
        schema = pq.read_schema(file)
    except (pa.ArrowException, OSError) as error:
        raise UsageError(f"{file} is no Parquet file, or a damaged one ({error})") from error
    known = pa.schema([schema.field(name) for name in DELTAS.schema.names if name in schema.names])
    if reason := difference(known, DELTAS.schema):
        raise UsageError(f"{file} is no table of changes: {reason}")


def _parse(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    return deltas.parse(batches)


def _pack(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    return deltas.pack(batches)


def _classify(rows: Iterable[pa.RecordBatch], thresholds: Thresholds) -> Iterator[pa.RecordBatch]:
    return batches.classify(rows, thresholds)
