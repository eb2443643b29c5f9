"""``ingest``: bundles, lines, Parquet files, folders of records and laces into a lake, each record checked once.

One run, one commit:

1. *check*: the sources are read in parts by all workers, cut, and every record is checked. All rows, good and bad, go
   to a folder of the run's own. Where the parts of a bundle do not join, those that were wrong are read again; this is
   the only time that anything is checked twice.
2. *store*: the good rows are spread by hash, together with the names of what the lake has already; of each name the
   first copy is written, unless the lake has it.
3. *reject*: the bad rows go to the quarantine, unless the same bytes of the same place are there.
4. *count*: what the workers counted, what the second and third step saw, and what is in the files must agree, and the
   sources must still be what they were. Then the run is committed, or else leaves nothing behind. Spark counts only in
   the tasks that write files: what a task before a shuffle has counted, Spark may count again where it repeats it.
"""

from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import accumulate, count, groupby
from operator import attrgetter
from typing import Final

import msgspec
import pyarrow as pa
from msgspec import Struct
from msgspec.structs import astuple, replace
from pyspark.sql import Column, DataFrame, Observation, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import BinaryType, StructField, StructType

from bobbin.errors import UsageError
from bobbin.pipeline import frames, interrupts
from bobbin.pipeline.batches.validate import CHECKED
from bobbin.pipeline.failures import PipelineError, explained
from bobbin.pipeline.progress import Step, silent
from bobbin.pipeline.reading import parts as reading
from bobbin.pipeline.reading.parts import SEVERAL, UNREAD, Part, Tally, judge
from bobbin.pipeline.reading.plan import plan_parts
from bobbin.pipeline.reading.read_parts import PARTS, check_files, part_row, read_parts
from bobbin.pipeline.reading.sources import RAW_COLUMN, Form, Source, check_unchanged
from bobbin.pipeline.spark import parallelism
from bobbin.records.ids import Kind
from bobbin.store.lake.files import is_address
from bobbin.store.lake.lake import Lake, Run
from bobbin.store.lake.manifest import DataFile, Manifest
from bobbin.store.lake.report import Report
from bobbin.store.lake.tables import QUARANTINE, RECORDS

JOB: Final = "ingest"
REASON: Final = "reason:"
"""How the counts of the quarantined by reason are named in a report."""

FILE_BYTES: Final = 256 << 20
"""About how large the files of a run are, before they are compressed."""

_FILE_BYTES_MIN: Final = 32 << 20
"""Less than this in a file is not worth a task of its own."""

_LARGE_BYTES: Final = 64 << 10
"""From this size on a reader of Parquet takes rows one by one: it would have 4,096 of them in memory at a time."""

_LOOKED_UP_MAX: Final = 2_000
"""So few records are looked for only in those files of the lake that can have them."""

_CHECKED: Final = from_arrow_schema(CHECKED)
_SCRATCH: Final = "_checked"
"""In the run's folder, under a name that no table's file has."""

_LETTERS: Final = tuple(sorted(kind.letter for kind in Kind))
_FINE: Final = 1 << 13
"""In how many steps a hash is placed; with more, ``hash_range`` would leave the whole numbers that Spark counts in."""

_OURS: Final = False
_HELD: Final = True


class CountsDiffer(PipelineError):
    """What went in did not come out, or was not counted as often as it came. Nothing was committed."""

    def __init__(self, message: str) -> None:
        super().__init__(f"the counts do not agree: {message}. Nothing was committed; run the job again", retry=True)


class Checked(Struct, frozen=True, kw_only=True):
    """What the first step found, as its workers counted it."""

    tallies: tuple[Tally, ...]
    """Of everything that counts."""
    void: tuple[int, ...]
    """Numbers of parts that count for nothing: they began at a wrong place."""
    rounds: int
    """How often parts were read; 0 if there was nothing."""

    def total(self, field: str) -> int:
        return sum(getattr(tally, field) for tally in self.tallies)

    def reasons(self) -> Counter[str]:
        return self._added("reasons")

    def kinds(self) -> Counter[str]:
        return self._added("kinds")

    def _added(self, field: str) -> Counter[str]:
        counts: Counter[str] = Counter()
        for tally in self.tallies:
            counts.update(getattr(tally, field))
        return counts

    @property
    def largest(self) -> int:
        return max((tally.largest for tally in self.tallies), default=0)


class Outcome(Struct, frozen=True, kw_only=True):
    """What became of everything that was read."""

    stored: int
    duplicate: int
    quarantined: int
    """Those of the rejected that the quarantine had not yet."""
    known: int
    """Those of the rejected that it had."""


def run(
    session: SparkSession,
    lake: Lake,
    sources: Sequence[Source],
    *,
    column: str = RAW_COLUMN,
    part_bytes: int | None = None,
    step: Step = silent,
) -> Report:
    """Take the records of some sources (``find_sources``) into a lake. The report is what was committed.

    ``column`` is the one of Parquet files that holds the records; ``part_bytes`` how large the parts are in which
    sources are read, where that shall not follow from their size and the number of cores.
    """
    size = part_bytes or reading.part_bytes(sum(source.size for source in sources), parallelism(session))

    def check(scratch: str) -> Checked:
        return check_sources(session, sources, scratch, size=size, column=column)

    return take(session, lake, check, sources=sources, step=step)


def reasons_of(report: Report) -> dict[str, int]:
    """How many were quarantined for each reason, by the report of a run."""
    return {name.removeprefix(REASON): count for name, count in report.counts.items() if name.startswith(REASON)}


def take(
    session: SparkSession,
    lake: Lake,
    check: Callable[[str], Checked],
    *,
    job: str = JOB,
    sources: Sequence[Source] = (),
    properties: Callable[[Checked], Mapping[str, str]] | None = None,
    step: Step = silent,
) -> Report:
    """Take in whatever ``check`` reads and checks into the folder that it is given, as one run.

    ``properties`` are noted in the manifest of ``records`` with the commit: how far a job has come, for one that takes
    its sources in several runs.
    """
    with lake.begin(job) as run, explained(job):
        base, known = run.base(RECORDS.name), run.base(QUARANTINE.name)
        step("checking records")
        scratch = f"{run.folder(RECORDS.name)}/{_SCRATCH}"
        checked = check(scratch)
        with _one_by_one(session, checked.largest):
            rows = _read_checked(session, scratch, checked)
            step("storing records")
            stored, duplicate = _store(session, run, rows, base, checked, parallelism(session))
            step("quarantining the rest")
            quarantined, before = _quarantine(session, run, rows, known, checked)
        step("committing")
        for source in sources:
            check_unchanged(source)
        outcome = Outcome(stored=stored, duplicate=duplicate, quarantined=quarantined, known=before)
        return _commit(run, sources, checked, outcome, {} if properties is None else properties(checked))


# ---- check -----------------------------------------------------------------------------------------------------------


def check_sources(
    session: SparkSession,
    sources: Sequence[Source],
    scratch: str,
    *,
    size: int,
    column: str = RAW_COLUMN,
    parts: Sequence[Part] | None = None,
) -> Checked:
    """Read and check everything, into folders below ``scratch``, until the parts of every bundle join.

    ``parts`` are those that are read, where it is not all of every source. What comes before the first part of a bundle
    is settled then, and the part knows what was spent there.
    """
    if parts is None:
        parts = plan_parts(sources, size)
    else:
        parts = [replace(part, joins=sources[part.source].form is Form.BUNDLE) for part in parts]
    files = [source for source in sources if source.form is Form.PARQUET]
    tallies: list[Tally] = []
    rounds = 0
    check_columns(session, files, column)
    if files:
        with small_splits(session), _one_by_one(session, max(source.row_bytes for source in files)):
            _write(check_frame(read_files(session, files, column)), f"{scratch}/{rounds}")
        tallies += _read_tallies(session, f"{scratch}/{rounds}")
        rounds += 1
    joining = [part for part in parts if part.joins]
    fresh = count(max((part.number for part in parts), default=0) + 1)
    counted: dict[int, Tally] = {}
    unread = list(parts)
    while unread:
        folder = f"{scratch}/{rounds}"
        _write(check_parts(session, unread, sources, size), folder)
        found = _read_tallies(session, folder)
        counted |= {tally.part: tally for tally in found if tally.part != SEVERAL}
        tallies += (tally for tally in found if tally.part == SEVERAL)
        if sum(tally.parts for tally in found) != len(unread) or any(part.number not in counted for part in joining):
            raise CountsDiffer(f"of {len(unread)} parts {sum(tally.parts for tally in found)} were counted")
        joining, unread = _joined(joining, counted, fresh)
        rounds += 1
    tallies += (counted[part.number] for part in joining)
    void = sorted(counted.keys() - {part.number for part in joining})
    return Checked(tallies=tuple(tallies), void=tuple(void), rounds=rounds)


def check_rows(session: SparkSession, rows: DataFrame, scratch: str) -> Checked:
    """Check the rows (raw, source, offset) of any frame, into a folder below ``scratch``."""
    _write(check_frame(rows), f"{scratch}/0")
    return Checked(tallies=tuple(_read_tallies(session, f"{scratch}/0")), void=(), rounds=1)


def check_parts(session: SparkSession, parts: Sequence[Part], sources: Sequence[Source], size: int) -> DataFrame:
    """The checked rows of some parts, each task reading about ``size`` bytes."""
    tasks = list(reading.tasks(parts, size))
    rows = [part_row(number, part, sources[part.source]) for number, task in enumerate(tasks) for part in task]
    frame = session.createDataFrame(pa.Table.from_pylist(rows, PARTS))
    return frame.repartitionById(len(tasks), "task").mapInArrow(read_parts, _CHECKED)


def read_files(session: SparkSession, files: Sequence[Source], column: str = RAW_COLUMN) -> DataFrame:
    """The rows (raw, source, offset) of Parquet files; the offset is the number of the row."""
    paths = [frames.spark_path(source.name) for source in files]
    schema = StructType([StructField(column, BinaryType())])
    quoted = f"`{column.replace('`', '``')}`"
    return (
        session.read.schema(schema)
        .parquet(*paths)
        .select(f.col(quoted).alias("raw"), "_metadata.file_path", "_metadata.row_index")
    )


def check_columns(session: SparkSession, files: Sequence[Source], column: str = RAW_COLUMN) -> None:
    """Refuse Parquet files elsewhere that have no such column: Spark would give nulls for it, without a word.

    Those of this machine were looked at when they were found.
    """
    for source in files:
        if not is_address(source.name):
            continue
        schema = session.read.option("mergeSchema", "true").parquet(frames.spark_path(source.name)).schema
        if column not in schema.names:
            raise UsageError(f"{source.name} has no column {column!r}; it has {', '.join(schema.names) or 'none'}")
        kind = schema[column].dataType
        if not isinstance(kind, BinaryType):
            raise UsageError(f"the column {column!r} of {source.name} holds {kind.simpleString()}, not bytes")


def check_frame(rows: DataFrame) -> DataFrame:
    """The checked rows of a frame (raw, source, offset)."""
    return rows.mapInArrow(check_files, _CHECKED)


def _joined(parts: Sequence[Part], counted: dict[int, Tally], fresh: Iterator[int]) -> tuple[list[Part], list[Part]]:
    """The parts of bundles that shall be there, and those of them that are not read yet, with fresh numbers.

    The numbers of rows that count for nothing are those of parts that are gone, so no other part may ever have one.
    """
    joined: list[Part] = []
    unread: list[Part] = []
    for _, own in groupby(parts, key=attrgetter("source")):
        for part in judge(list(own), counted):
            if part.number == UNREAD:
                unread.append(replace(part, number=next(fresh)))
                joined.append(unread[-1])
            else:
                joined.append(part)
    return joined, unread


@contextmanager
def small_splits(session: SparkSession) -> Iterator[None]:
    """Let Spark divide files among more tasks than there are cores, since checking a row takes longer than reading it.

    For as long as a frame of files is computed.
    """
    with _set(session, "spark.sql.files.minPartitionNum", str(reading.PARTS_PER_CORE * parallelism(session))):
        yield


def _write(rows: DataFrame, folder: str) -> None:
    # Checks of the size after every row: a hundred large records would not fit.
    writer = rows.write.option("compression", "snappy").option("parquet.block.size.row.check.min", 1)
    writer.option("parquet.page.size.row.check.min", 1).parquet(folder)


def _read_tallies(session: SparkSession, folder: str) -> list[Tally]:
    rows = session.read.schema(_CHECKED).parquet(frames.spark_path(folder)).where("tally IS NOT NULL").select("tally")
    return [msgspec.json.decode(row.tally, type=Tally) for row in rows.collect()]


def _read_checked(session: SparkSession, scratch: str, checked: Checked) -> DataFrame:
    folders = [frames.spark_path(f"{scratch}/{number}") for number in range(checked.rounds)]
    rows = session.read.schema(_CHECKED).parquet(*folders) if folders else session.createDataFrame([], _CHECKED)
    return rows.where(~f.col("part").isin(*checked.void)) if checked.void else rows


@contextmanager
def _one_by_one(session: SparkSession, largest: int) -> Iterator[None]:
    """Read Parquet by rows instead of batches of thousands, where a row may be large."""
    if largest <= _LARGE_BYTES:
        yield
        return
    with _set(session, "spark.sql.parquet.enableVectorizedReader", "false"):
        yield


@contextmanager
def _set(session: SparkSession, name: str, value: str) -> Iterator[None]:
    """A setting of the session, for the length of a block."""
    before = session.conf.get(name, None)
    session.conf.set(name, value)
    try:
        yield
    finally:
        if before is None:
            session.conf.unset(name)
        else:
            session.conf.set(name, before)


# ---- store -----------------------------------------------------------------------------------------------------------


def new_records(rows: DataFrame, held: DataFrame, partitions: int, kinds: Mapping[str, int] | None = None) -> DataFrame:
    """One row for each name in ``rows`` or ``held``, by ranges of names: record, raw, copies, is_held.

    ``copies`` says how often it is in ``rows``. Rows meet their copies where they are written anyway, so nothing moves
    twice. ``kinds`` says how many names in ``rows`` begin with each letter, so that the ranges are of about one size.
    """
    own = rows.where("record IS NOT NULL").select("record", "raw", f.lit(_OURS).alias("is_held"))
    theirs = held.select("record", f.lit(None).cast("binary").alias("raw"), f.lit(_HELD).alias("is_held"))
    return (
        own.unionByName(theirs)
        .withColumn("range", name_range(partitions, kinds or {}))
        .repartitionById(partitions, "range")
        .groupBy("range", "record")
        .agg(
            f.first("raw", ignorenulls=True).alias("raw"),
            f.count("raw").alias("copies"),
            f.max("is_held").alias("is_held"),
        )
    )


def name_range(partitions: int, kinds: Mapping[str, int]) -> Column:
    """Which of so many ranges of the whole name ``record`` is in: letter first, then hash.

    What the ranges hold is in order from one to the next, so the files made of them do not overlap, and a name is
    looked for in one file of a run. Hashes are evenly spread, so that the numbers of names by letter give the bounds.
    """
    counts = (
        {letter: kinds.get(letter, 0) for letter in _LETTERS} if sum(kinds.values()) else dict.fromkeys(_LETTERS, 1)
    )
    total = sum(counts.values())
    before = accumulate(counts.values(), initial=0)
    within = frames.hash_range(_FINE)
    place: Column = f.lit(total)
    for (letter, own), start in reversed(list(zip(counts.items(), before, strict=False))):
        position = f.lit(start).cast("long") + f.lit(own).cast("long") * within / f.lit(_FINE)
        place = f.when(f.substring("record", 1, 1) == letter, position).otherwise(place)
    return f.least(f.floor(place * partitions / total).cast("int"), f.lit(partitions - 1))


def _store(
    session: SparkSession, run: Run, rows: DataFrame, base: Manifest, checked: Checked, cores: int
) -> tuple[int, int]:
    """Write what is new. How many were stored, and how many were there already or came more than once."""
    records = checked.total("records")
    if not records:
        return 0, 0
    held = _held(session, run.lake, base, rows, records)
    seen = Observation()
    is_new = ~f.col("is_held")
    judged = new_records(rows, held, file_count(checked.total("record_bytes"), cores), checked.kinds()).observe(
        seen,
        f.coalesce(f.sum("copies"), f.lit(0)).alias("copies"),
        f.coalesce(f.sum(f.col("copies") - is_new.cast("long")), f.lit(0)).alias("surplus"),
        f.count_if(is_new).alias("new"),
    )
    frames.write(judged.where(is_new), run.folder(RECORDS.name), RECORDS)
    arrived, new, surplus = (seen.get[name] for name in ("copies", "new", "surplus"))
    written = frames.staged_rows(run, RECORDS.name)
    if arrived != records or written != new:
        raise CountsDiffer(f"{records} records were valid; {arrived} arrived, {new} were new, {written} were written")
    return written, surplus


def file_count(size: int, cores: int) -> int:
    """In how many files so many bytes are written: enough for all cores, but none too small or too large."""
    return max(1, min(-(-size // _FILE_BYTES_MIN), max(cores, -(-size // FILE_BYTES))))


def _held(session: SparkSession, lake: Lake, base: Manifest, rows: DataFrame, records: int) -> DataFrame:
    """The names in the lake that may be among the rows."""
    if records > _LOOKED_UP_MAX or not base.files:
        return frames.read(session, lake, base).select("record")
    names = sorted({row.record for row in rows.where("record IS NOT NULL").select("record").collect()})
    files = tuple(file for file in base.files if _may_hold(file, names))
    return frames.read(session, lake, replace(base, files=files)).select("record").where(f.col("record").isin(names))


def _may_hold(file: DataFile, names: Sequence[str]) -> bool:
    """Whether one of some names, in order, is within the bounds of a file."""
    if file.low is None or file.high is None:
        return True
    first = bisect_left(names, file.low)
    return first < len(names) and names[first] <= file.high


# ---- reject ----------------------------------------------------------------------------------------------------------


def new_rejections(rows: DataFrame, known: DataFrame, run: str) -> DataFrame:
    """Rejected rows as those of the quarantine, and whether they are there already: ``is_known``."""
    rejected = rows.select(
        "raw",
        f.length("raw").cast("long").alias("size"),
        "digest",
        "reason",
        "detail",
        "source",
        "offset",
        f.lit(run).alias("run"),
    )
    there = known.select(*(f.col(name).alias(f"there_{name}") for name in _REJECTION)).distinct()
    same = [f.col(name).eqNullSafe(f.col(f"there_{name}")) for name in _REJECTION]
    marked = rejected.join(there.withColumn("is_there", f.lit(_HELD)), same, "left")
    return marked.select(*QUARANTINE.schema.names, f.col("is_there").isNotNull().alias("is_known"))


_REJECTION: Final = ("source", "offset", "digest", "reason")
"""What makes two rejections the same."""


def _quarantine(session: SparkSession, run: Run, rows: DataFrame, base: Manifest, checked: Checked) -> tuple[int, int]:
    """Write what the quarantine has not yet. How many these are, and how many it had."""
    rejected = checked.total("rejected")
    if not rejected:
        return 0, 0
    marked = new_rejections(rows.where("reason IS NOT NULL"), frames.read(session, run.lake, base), run.id)
    # What is there already moves along to be counted, but without its bytes.
    slim = marked.withColumn("raw", f.when(~f.col("is_known"), f.col("raw")))
    seen = Observation()
    judged = slim.repartition(file_count(checked.total("rejected_bytes"), 1)).observe(
        seen, f.count_if(~f.col("is_known")).alias("new"), f.count_if("is_known").alias("known")
    )
    frames.write(judged.where(~f.col("is_known")), run.folder(QUARANTINE.name), QUARANTINE)
    new, known = (seen.get[name] for name in ("new", "known"))
    written = frames.staged_rows(run, QUARANTINE.name)
    if written != new or new + known != rejected:
        raise CountsDiffer(
            f"{rejected} were rejected; {new} were new to the quarantine, {known} were known, {written} were written"
        )
    return written, known


# ---- count -----------------------------------------------------------------------------------------------------------


def _commit(
    run: Run, sources: Sequence[Source], checked: Checked, outcome: Outcome, properties: Mapping[str, str]
) -> Report:
    """Let everything that was read have one outcome, and commit."""
    read = checked.total("records") + checked.total("rejected")
    stored, duplicate, quarantined, known = astuple(outcome)
    rejected = quarantined + known
    if read != stored + duplicate + rejected:
        raise CountsDiffer(
            f"of {read} that were read, {stored} were stored, {duplicate} are duplicates and {rejected} were rejected"
        )
    if stored or properties:
        run.append(RECORDS.name, properties=properties)
    if quarantined:
        run.append(QUARANTINE.name)
    notes = []
    if checked.void:
        notes.append(f"{len(checked.void)} parts of bundles began inside a record or damage and were read again")
    interrupts.check()
    return run.commit(
        inputs={
            "sources": len(sources),
            "bytes": sum(source.size for source in sources),
            "records": read,
        },
        outputs={RECORDS.name: stored, QUARANTINE.name: quarantined},
        counts={
            "in": read,
            "stored": stored,
            "duplicate": duplicate,
            "quarantined": rejected,
            "quarantined_before": known,
            "reread": len(checked.void),
            **{f"{REASON}{reason}": count for reason, count in sorted(checked.reasons().items())},
        },
        notes=notes,
        rows={RECORDS.name: stored, QUARANTINE.name: quarantined},
    )
