"""``reconcile``: where a lake and another side differ, in one pass, and the bundle that the other side lacks.

Both sides are frames of records and digests (``sides``). Where both have partition roots, what lies under equal ones is
equal and is not looked at again. All else goes through one full outer join, which gives both directions and differing
claims at once. Every record of either side is counted exactly once, and the counts must add up before anything is
written where the user looks. Rows are counted in the stage that writes: one before a shuffle may run again when a
worker is lost, and would count twice.
"""

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from itertools import chain
from pathlib import Path
from typing import BinaryIO, Final

import pyarrow as pa
import pyarrow.compute as pc
from msgspec import Struct
from pyspark.sql import DataFrame, Observation, SparkSession
from pyspark.sql import functions as f

from bobbin.config.durable import replacing
from bobbin.errors import ResourceError
from bobbin.pipeline import frames, interrupts
from bobbin.pipeline.failures import PipelineError
from bobbin.pipeline.jobs.sides import Side
from bobbin.pipeline.progress import Step, silent
from bobbin.pipeline.spark import parallelism
from bobbin.records.canonical import MARK
from bobbin.store.lake import staging
from bobbin.store.lake.errors import DamagedLake
from bobbin.store.lake.keys import derived_key
from bobbin.store.lake.lake import Lake, Run
from bobbin.store.lake.tables import RECORDS, SELECTIONS

MISSING: Final = "missing"
EXTRA: Final = "extra"
DIFFERING: Final = "differing"
_COMMON: Final = "common"
_STATES: Final = (_COMMON, DIFFERING, MISSING, EXTRA)
_SETTLED_FRACTION: Final = 0.1
"""Fewer records under equal roots than this part are not worth leaving out."""
_BATCH_ROWS: Final = 1 << 13


class Counts(Struct, frozen=True, kw_only=True):
    """How many records there are, by where they are and what is said of them."""

    here: int
    there: int
    common: int
    """On both sides, with the same digest."""
    differing: int
    """On both sides, with another digest: the sides claim different things about one record."""
    missing: int
    """Only there."""
    extra: int
    """Only here."""
    settled: int = 0
    """Of the common ones, those that lie under equal roots."""

    def add_up(self) -> bool:
        """Whether every record is accounted for."""
        is_here = self.here == self.common + self.differing + self.extra
        return is_here and self.there == self.common + self.differing + self.missing


class Difference(Struct, frozen=True, kw_only=True):
    """What was found."""

    counts: Counts
    listed: dict[str, list[str]]
    """The first records that are missing, extra or differing, by name."""
    shipped: int | None = None
    """How many records are in the bundle, if one was asked for."""


def run(
    session: SparkSession,
    lake: Lake,
    here: Side,
    there: Side,
    *,
    bundle: Path | None = None,
    wanted: Path | None = None,
    listed_max: int = 10,
    step: Step = silent,
) -> Difference:
    """Compare a lake's side with another, and write what was asked for.

    ``bundle``: gets the records that only the lake's side has. ``wanted``: gets the names of those that only the other
    side has, one a line. Both appear when they are whole; files of these names are replaced.
    """
    with lake.begin("reconcile") as run, _resting(run) as table:
        step("comparing")
        counts = _compare(run, table, here, there)
        names = {state: _first(run, table, state, listed_max) for state in (MISSING, EXTRA, DIFFERING)}
        if wanted is not None:
            _write_names(run, table, MISSING, wanted)
        shipped = None
        if bundle is not None:
            step("shipping")
            shipped = _ship(session, run, frames.read_staged(session, run, table), bundle, counts.extra)
        interrupts.check()
        run.commit(
            inputs={"here": counts.here, "there": counts.there},
            outputs={} if shipped is None else {"bundle": shipped},
            counts={name: getattr(counts, name) for name in counts.__struct_fields__},
            notes=[f"{here.name} compared with {there.name}", *here.notes, *there.notes],
        )
    return Difference(counts=counts, listed=names, shipped=shipped)


@contextmanager
def _resting(run: Run) -> Iterator[str]:
    """The name under which the differences rest: that of a table which is never made, and of which nothing stays."""
    key = derived_key(run=run.id)
    try:
        yield f"{SELECTIONS.name}/{key}"
    finally:
        with suppress(OSError):
            run.lake.files.delete(f"{SELECTIONS.name}/{key}")


def compare(here: DataFrame, there: DataFrame) -> DataFrame:
    """For each record of either side how it stands: ``record`` and ``predicate``."""
    ours = here.select("record", f.col("digest").alias("here"))
    theirs = there.select("record", f.col("digest").alias("there"))
    state = (
        f.when(f.col("here").isNull(), MISSING)
        .when(f.col("there").isNull(), EXTRA)
        .when(f.col("here") == f.col("there"), _COMMON)
        .otherwise(DIFFERING)
    )
    return ours.join(theirs, "record", "full_outer").select("record", state.alias("predicate"))


def equal_prefixes(here: DataFrame, there: DataFrame, length: int) -> DataFrame:
    """The prefixes of a length that this side has: ``prefix``, ``count``, and whether the other has the same there."""
    same = ["k", "prefix", "count", "root"]
    theirs = there.select(*same, f.lit(1).alias("equal"))
    ours = here.where(f.col("k") == length).join(theirs, same, "left")
    return ours.select("prefix", "count", f.col("equal").isNotNull().alias("equal"))


def outside(advertisements: DataFrame, prefixes: DataFrame, length: int) -> DataFrame:
    """The advertisements that lie under none of some prefixes."""
    return advertisements.join(f.broadcast(prefixes), frames.payload(length) == prefixes["prefix"], "left_anti")


def _compare(run: Run, table: str, here: Side, there: Side) -> Counts:
    ours, theirs, settled = _unsettled(here, there)
    of_ours, of_theirs, of_all = Observation(), Observation(), Observation()
    compared = counted(ours, theirs, of_ours, of_theirs, of_all)
    frames.write(compared.where(f.col("predicate") != _COMMON), run.folder(table), SELECTIONS)
    found = {state: int(of_all.get[state]) for state in _STATES}
    counts = Counts(
        here=int(of_ours.get["rows"]) + settled,
        there=int(of_theirs.get["rows"]) + settled,
        common=found[_COMMON] + settled,
        differing=found[DIFFERING],
        missing=found[MISSING],
        extra=found[EXTRA],
        settled=settled,
    )
    written = frames.staged_rows(run, table)
    if not counts.add_up() or written != counts.differing + counts.missing + counts.extra:
        raise PipelineError(
            f"the comparison does not add up ({counts}, {written} differences written); a side has a record twice, or "
            "changed while it was read",
            retry=True,
        )
    return counts


def counted(
    here: DataFrame, there: DataFrame, of_here: Observation, of_there: Observation, of_all: Observation
) -> DataFrame:
    """The comparison, with the rows of both sides and those of each state observed.

    A side is observed where its rows have come together for the join, which shuffles them no more.
    """
    one = f.count(f.lit(1)).alias("rows")
    cores = parallelism(here.sparkSession)
    ours = here.repartition(cores, "record").observe(of_here, one)
    theirs = there.repartition(cores, "record").observe(of_there, one)
    counting = [f.count_if(f.col("predicate") == state).alias(state) for state in _STATES]
    return compare(ours, theirs).observe(of_all, *counting)


def _unsettled(here: Side, there: Side) -> tuple[DataFrame, DataFrame, int]:
    """The advertisements that do not lie under equal roots, and how many records do on each side."""
    shared = sorted(set(here.lengths) & set(there.lengths))
    if not shared or here.partitions is None or there.partitions is None:
        return here.advertisements, there.advertisements, 0
    length = shared[0]
    prefixes = equal_prefixes(here.partitions, there.partitions, length)
    equal = f.sum(f.when(f.col("equal"), f.col("count")))
    sums = prefixes.agg(f.sum("count").alias("whole"), equal.alias("equal")).collect()[0]
    settled, whole = sums["equal"] or 0, sums["whole"] or 0
    if settled <= whole * _SETTLED_FRACTION:
        return here.advertisements, there.advertisements, 0
    same = prefixes.where("equal")
    ours, theirs = (outside(side.advertisements, same, length) for side in (here, there))
    return ours, theirs, settled


# ---- what the user gets ---------------------------------------------------------------------------------------------


def _first(run: Run, table: str, state: str, count: int) -> list[str]:
    """The first records of one state. Each file is sorted, so no more than the first of each can be among them."""
    found: list[str] = []
    for batches in _staged_files(run, table):
        of_file: list[str] = []
        for batch in batches:
            if len(of_file) < count:
                of_file += batch.filter(pc.equal(batch.column("predicate"), state)).column("record").to_pylist()
        found = sorted(found + of_file[:count])[:count]
    return found


def _write_names(run: Run, table: str, state: str, target: Path) -> None:
    """The records of one state, one a line."""
    with _writing(target) as stream:
        for batch in _staged_batches(run, table):
            for row in batch.to_pylist():
                if row["predicate"] == state:
                    stream.write(f"{row['record']}\n".encode())


def _ship(session: SparkSession, run: Run, found: DataFrame, target: Path, expected: int) -> int:
    """The bytes of the records that only this side has, as a bundle; how many there are."""
    extra = found.where(f.col("predicate") == EXTRA).select("record")
    records = frames.read(session, run.lake, run.base(RECORDS.name)).join(extra, "record", "left_semi")
    frames.write(frames.by_hash(records, parallelism(session)), run.folder(RECORDS.name), RECORDS)
    staged = frames.staged_rows(run, RECORDS.name)
    if staged != expected:
        raise DamagedLake(
            f"{expected} records are advertised by the lake {run.lake.location} and lacking there; {staged} of "
            "them are stored, and no bundle was written"
        )
    with _writing(target) as stream:
        for batch in _staged_batches(run, RECORDS.name):
            for row in batch.to_pylist():
                # Whoever gets the bundle checks every byte. This is so that nobody is sent what we can see is wrong.
                if not row["raw"].startswith(b"%b: %b\n" % (MARK, row["record"].encode())):
                    raise DamagedLake(f"the bytes stored as {row['record']} are not those of that record")
                stream.write(row["raw"])
    return staged


def _staged_batches(run: Run, table: str) -> Iterator[pa.RecordBatch]:
    return chain.from_iterable(_staged_files(run, table))


def _staged_files(run: Run, table: str) -> Iterator[Iterator[pa.RecordBatch]]:
    """The rows that a run has staged for a table, file by file."""
    folder = run.path(table)
    for part in staging.names(run.lake.files, folder)[0]:
        with staging.opened(run.lake.files, f"{folder}/{part}") as parquet:
            yield parquet.iter_batches(_BATCH_ROWS)


@contextmanager
def _writing(target: Path) -> Iterator[BinaryIO]:
    """A file that appears when it is whole."""
    try:
        with replacing(target) as stream:
            yield stream
    except OSError as error:
        raise ResourceError(f"cannot write {target}: {error.strerror or error}", retry=False) from error
