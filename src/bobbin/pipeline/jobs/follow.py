"""``follow``: a lace into a lake as it grows, by Structured Streaming, each record exactly once.

The stream reads the lace from one ``StoreRecordId`` to the next (``pipeline.source.stream``). Each of its batches is
one run of the lake, checked, told apart and counted as an ingest is. With the records the run commits a cursor: the
stream, the batch, and the id up to which the lace is in the lake. Spark keeps a checkpoint of its own in
``streams/<key>`` of the lake, so that a stream goes on where it was; but what counts is the cursor:

* a batch that Spark runs again, since the process died between the lake's commit and Spark's own, is recognised by its
  end, and nothing is done; of a batch that reaches further, only the rest is taken;
* a checkpoint that is ahead of the cursor (the lake was put back from a backup) is thrown away, and so is one of a lake
  that has none: the stream begins anew at the cursor.

Removals are not followed: what a lace forgets later stays in the lake.
"""

import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final

import msgspec
from msgspec import Struct
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from bobbin.errors import BobbinError, UsageError
from bobbin.pipeline import interrupts
from bobbin.pipeline.failures import PipelineError, explained
from bobbin.pipeline.jobs import cursors, ingest
from bobbin.pipeline.jobs.cursors import LaceCursor
from bobbin.pipeline.jobs.ingest import Checked
from bobbin.pipeline.progress import Step, silent
from bobbin.pipeline.reading.sources import check_own_store
from bobbin.pipeline.source import lace_slices, locations
from bobbin.pipeline.source import stream as streams
from bobbin.pipeline.source.datasource import FORMAT, register
from bobbin.pipeline.source.lace_slices import Moment
from bobbin.pipeline.source.locations import Kind, Location
from bobbin.pipeline.source.stream import Offset
from bobbin.store.lake.errors import Conflict, LakeError
from bobbin.store.lake.keys import derived_key
from bobbin.store.lake.lake import Lake
from bobbin.store.lake.report import Report

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql.streaming.query import StreamingQuery

JOB: Final = "follow"
STREAMS: Final = "streams"
EVERY_SECONDS: Final = 10.0
RECORDS_PER_BATCH_MAX: Final = 1_000_000
_ATTEMPTS: Final = 5
"""How often a batch is tried where another run has changed the table meanwhile."""

_PAUSE_SECONDS: Final = 0.5
_POLL_SECONDS: Final = 1
_SETTLE_SECONDS_MAX: Final = 60.0
"""How long the end of a stream waits for a batch whose Spark jobs were cancelled."""

Heard = Callable[[Report], None]
"""Called with the report of every batch that was committed."""


class Followed(Struct, kw_only=True):
    """What one call of ``run`` did."""

    stream: str
    after: int
    """The id at which it began."""
    id: int
    """The id that it reached."""
    runs: int = 0
    recognised: int = 0
    """Batches that were in the lake already."""
    read: int = 0
    stored: int = 0
    duplicate: int = 0
    quarantined: int = 0
    interrupted: bool = False
    """Whether it ended because somebody pressed Ctrl-C. What is counted here is in the lake all the same."""


def run(
    session: SparkSession,
    lake: Lake,
    lace: str,
    *,
    once: bool = False,
    every_seconds: float = EVERY_SECONDS,
    records_per_batch_max: int = RECORDS_PER_BATCH_MAX,
    step: Step = silent,
    heard: Heard = lambda _: None,
) -> Followed:
    """Take in what the lace holds, and with ``once`` no more than that; else go on until somebody interrupts.

    An interrupt (``KeyboardInterrupt``) ends the stream in order: the batch that is under way is given up, or is
    committed if it has come that far, and what was done is returned.
    """
    path = locate_lace(lace)
    register(session)
    now = lace_slices.moment(path)
    key = stream_key(now)
    folder = f"{STREAMS}/{key}"
    cursor = cursors.lace_cursor(lake, key)
    after = 0 if cursor is None else streams.check(now, offset_of(cursor))
    with explained(JOB), _Alone(lake, folder):
        if _is_useless(lake, folder, after):
            lake.files.delete(f"{folder}/checkpoint")
        batches = _Batches(lake, path, now, folder, Followed(stream=key, after=after, id=after), heard, step)
        source = session.readStream.format(FORMAT).option("columns", "id,raw").option("verify", "false")
        source = source.option("startingId", str(after)).option("maxRecordsPerBatch", str(records_per_batch_max))
        writer = source.load(str(path)).writeStream.foreachBatch(batches)
        writer = writer.option("checkpointLocation", lake.uri(f"{folder}/checkpoint"))
        if once:
            writer = writer.trigger(availableNow=True)
        else:
            writer = writer.trigger(processingTime=f"{every_seconds} seconds")
        _wait(writer.start(), batches)
    return batches.total


def locate(name: str) -> Location:
    """What a name leads to. A lace over a lake is refused, since the lake itself can be loaded."""
    location = locations.find(name)
    if location.kind is Kind.LACE:
        check_own_store(location.path)
    return location


def locate_lace(name: str) -> Path:
    """The folder of a lace that can be followed."""
    location = locate(name)
    if location.kind is not Kind.LACE:
        raise UsageError(f"{name} is a {location.kind.value}; only a lace can be followed")
    return location.path


def stream_key(now: Moment) -> str:
    """What a lace is called in the lake."""
    return derived_key(job=JOB, lace=now.created)


def offset_of(cursor: LaceCursor) -> Offset:
    """The offset at which a stream goes on."""
    return {"lace": cursor.lace, "id": cursor.id, "record": cursor.record}


def _wait(query: "StreamingQuery", batches: "_Batches") -> None:
    """Until the stream ends. What has failed in a batch is raised as it was, and not as Spark tells of it."""
    try:
        while not query.awaitTermination(_POLL_SECONDS):
            interrupts.check()
    except KeyboardInterrupt:
        interrupts.acknowledge()
        batches.total.interrupted = True
    except PySparkException:
        if batches.failure is not None:
            raise batches.failure from None
        raise
    finally:
        with suppress(PySparkException):
            query.stop()
        batches.settle()


class _Batches:
    """Takes the batches of one stream, one at a time."""

    def __init__(
        self, lake: Lake, lace: Path, now: Moment, folder: str, total: Followed, heard: Heard, step: Step
    ) -> None:
        self._lake: Final = lake
        self._lace: Final = lace
        self._now: Final = now
        self._folder: Final = folder
        self._heard: Final = heard
        self._step: Final = step
        self.total: Final = total
        self.failure: BaseException | None = None
        self._working: Final = threading.Lock()

    def __call__(self, frame: DataFrame, batch: int) -> None:
        """One batch, as Spark hands it over."""
        with self._working:
            try:
                self._take(frame, batch)
            except BaseException as error:
                self.failure = error
                raise

    def settle(self) -> None:
        """Wait for the batch under way, which Spark does not: it runs in a thread of its own, and may be committing."""
        if self._working.acquire(timeout=_SETTLE_SECONDS_MAX):
            self._working.release()

    def _take(self, frame: DataFrame, batch: int) -> None:
        end = read_offset(self._lake, self._folder, batch)
        for attempt in range(_ATTEMPTS):
            found = cursors.lace_cursor(self._lake, self.total.stream)
            done = 0 if found is None else found.id
            if end["id"] <= done:
                self.total.recognised += 1
                self.total.id = max(self.total.id, done)
                return
            try:
                report = self._commit(frame, batch, found, end)
            except Conflict:
                if attempt == _ATTEMPTS - 1:
                    raise
                time.sleep(_PAUSE_SECONDS)
                continue
            self._count(report, end["id"])
            return

    def _commit(self, frame: DataFrame, batch: int, before: LaceCursor | None, end: Offset) -> Report:
        done, rejected = (0, {}) if before is None else (before.id, before.rejected)
        rows = frame.where(f.col("id") > done).select(
            "raw", f.lit(str(self._lace)).alias("source"), f.col("id").alias("offset")
        )
        cursor = LaceCursor(lace=end["lace"], id=end["id"], record=end["record"], stream=self.total.stream, batch=batch)

        def check(scratch: str) -> Checked:
            return ingest.check_rows(frame.sparkSession, rows, scratch)

        def properties(checked: Checked) -> "Mapping[str, str]":
            after = msgspec.structs.replace(cursor, rejected=cursors.added(rejected, checked.reasons()))
            return cursors.lace_property(self.total.stream, after)

        return ingest.take(frame.sparkSession, self._lake, check, job=JOB, properties=properties, step=self._step)

    def _count(self, report: Report, reached: int) -> None:
        total = self.total
        total.runs += 1
        total.id = reached
        total.read += report.counts["in"]
        total.stored += report.counts["stored"]
        total.duplicate += report.counts["duplicate"]
        total.quarantined += report.counts["quarantined"]
        self._heard(report)


# ---- the checkpoint --------------------------------------------------------------------------------------------------


def read_offset(lake: Lake, folder: str, batch: int) -> Offset:
    """Where a batch ends: what Spark has written down before it began."""
    path = f"{folder}/checkpoint/offsets/{batch}"
    try:
        lines = lake.files.read(path).decode().splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise PipelineError(f"{path} of the lake {lake.location} cannot be read ({error})", retry=False) from error
    for line in reversed(lines):
        with suppress(msgspec.DecodeError):
            offset = msgspec.json.decode(line)
            if isinstance(offset, dict) and offset.keys() >= {"lace", "id", "record"}:
                return offset
    raise PipelineError(f"{path} of the lake {lake.location} has no offset of a lace", retry=False)


def _is_useless(lake: Lake, folder: str, after: int) -> bool:
    """Whether going on from the checkpoint would leave something out: Spark is further than the cursor."""
    committed = [int(name) for name in lake.files.list(f"{folder}/checkpoint/commits") if name.isdigit()]
    if not committed:
        return lake.files.exists(f"{folder}/checkpoint") and after > 0
    try:
        reached: int = read_offset(lake, folder, max(committed))["id"]
    except PipelineError:
        return True
    return reached > after


class _Alone:
    """One stream at a time takes a lace into a lake."""

    def __init__(self, lake: Lake, folder: str) -> None:
        self._files: Final = lake.files
        self._path: Final = f"{folder}/running"

    def __enter__(self) -> None:
        with self._files.lock():
            if self._files.exists(self._path):
                if self._files.is_claimed(self._path):
                    raise LakeError(f"another process follows this lace into the lake ({self._path})", retry=True)
                self._files.delete(self._path)
            self._claim = self._files.claim(self._path, b"")

    def __exit__(self, *_: object) -> None:
        self._claim.release()
        with suppress(BobbinError, OSError):
            self._files.delete(self._path)
