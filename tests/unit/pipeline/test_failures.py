"""Each kind of failure, caused for real, and the one paragraph it becomes."""

import os
import resource
import signal
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from py4j.protocol import Py4JError, Py4JJavaError
from pyspark import SparkContext
from pyspark.errors import PySparkException

from bobbin.errors import BobbinError, IntegrityError, ProgramError, ResourceError, UsageError
from bobbin.pipeline import interrupts
from bobbin.pipeline.failures import (
    DamagedFile,
    FailedWorker,
    LostFile,
    LostWorker,
    NoSpace,
    OutOfMemory,
    PipelineError,
    explained,
    explanation,
)
from bobbin.records.record import validate
from bobbin.store.base import DamagedStore
from bobbin.store.lake.errors import DamagedLake

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Batches = Iterator[pa.RecordBatch]


def _validate(batches: Batches) -> Batches:
    """Fails with an error of ours, as the node's own function does."""
    for batch in batches:
        validate(b"no record at all")
        yield batch


def _damaged(batches: Batches) -> Batches:
    for batch in batches:
        raise DamagedStore(f"{batch.num_rows} rows are\nnot what was put there")
    yield from ()


def _wrong(batches: Batches) -> Batches:
    for batch in batches:
        try:
            batch.column("nothing of this name")
        except KeyError as error:
            raise ValueError("two\nlines") from error
    yield from ()


def _killed(batches: Batches) -> Batches:
    for _ in batches:
        os.kill(os.getpid(), signal.SIGKILL)
    yield from ()


def _full(batches: Batches) -> Batches:
    for _ in batches:
        with Path("/dev/full").open("wb") as file:
            file.write(b"x")
    yield from ()


def _missing(batches: Batches) -> Batches:
    for _ in batches:
        Path("/nowhere/at/all").read_bytes()
    yield from ()


def _failure(spark: "SparkSession", function: object) -> BobbinError:
    with pytest.raises(BobbinError) as caught, explained("ingest"):
        spark.range(4).mapInArrow(function, "id long").collect()  # type: ignore[arg-type]
    assert isinstance(caught.value.__cause__, (PySparkException, Py4JError))
    _check_paragraph(str(caught.value))
    return caught.value


def _check_paragraph(text: str) -> None:
    assert text.startswith("ingest: ")
    assert "\n" not in text
    assert "\tat " not in text
    assert "org.apache.spark" not in text
    assert len(text) < 800


@pytest.fixture
def table(spark: "SparkSession", tmp_path: Path) -> Path:
    """A folder with one Parquet file of a thousand rows."""
    folder = tmp_path / "table"
    spark.range(1000).coalesce(1).write.parquet(str(folder))
    for checksum in folder.glob(".*.crc"):
        checksum.unlink()
    return next(folder.glob("part-*.parquet"))


def _sum(spark: "SparkSession", file: Path) -> None:
    with explained("ingest"):
        spark.read.schema("id long").parquet(str(file.parent)).selectExpr("sum(id)").collect()


def test_an_error_of_ours_in_a_worker_stays_in_its_family(spark: "SparkSession") -> None:
    error = _failure(spark, _validate)
    assert type(error) is IntegrityError
    with pytest.raises(IntegrityError) as direct:
        validate(b"no record at all")
    assert str(error) == f"ingest: {direct.value}"


def test_an_error_can_be_read_after_the_session_has_ended(
    spark: "SparkSession", monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(PySparkException) as caught:
        spark.range(4).mapInArrow(_validate, "id long").collect()
    monkeypatch.setattr(SparkContext, "_gateway", None)
    monkeypatch.setattr(SparkContext, "_jvm", None)
    error = explanation(caught.value, "ingest")
    assert type(error) is IntegrityError
    _check_paragraph(str(error))


def test_damage_of_a_store_that_a_worker_finds_is_damage(spark: "SparkSession") -> None:
    error = _failure(spark, _damaged)
    assert isinstance(error, DamagedStore)
    assert "rows are" in str(error)


def test_a_bug_in_a_worker_says_where_it_is(spark: "SparkSession") -> None:
    error = _failure(spark, _wrong)
    assert isinstance(error, FailedWorker)
    assert "a worker failed with ValueError: two (test_failures.py:" in str(error)
    assert "in _wrong)" in str(error)


def test_a_killed_worker_can_be_tried_again(spark: "SparkSession") -> None:
    error = _failure(spark, _killed)
    assert isinstance(error, LostWorker)
    assert error.retry
    assert "a Python worker was killed or crashed" in str(error)


def test_a_full_disk_under_a_worker(spark: "SparkSession") -> None:
    assert isinstance(_failure(spark, _full), NoSpace)


def test_a_file_that_a_worker_misses(spark: "SparkSession") -> None:
    error = _failure(spark, _missing)
    assert type(error) is PipelineError
    assert "FileNotFoundError" in str(error)
    assert "/nowhere/at/all" in str(error)


def test_a_truncated_parquet_file_is_named(spark: "SparkSession", table: Path) -> None:
    table.write_bytes(table.read_bytes()[:-10])
    with pytest.raises(DamagedFile) as caught:
        _sum(spark, table)
    _check_paragraph(str(caught.value))
    assert f"the file {table} is damaged" in str(caught.value)
    assert "is not a Parquet file" in str(caught.value)


def test_a_parquet_file_with_other_bytes_inside_is_named(spark: "SparkSession", table: Path) -> None:
    content = bytearray(table.read_bytes())
    content[30:300] = b"\xff" * 270
    table.write_bytes(content)
    with pytest.raises(DamagedFile, match="is damaged") as caught:
        _sum(spark, table)
    _check_paragraph(str(caught.value))


def test_a_parquet_file_of_another_schema_is_named(spark: "SparkSession", tmp_path: Path) -> None:
    spark.range(3).selectExpr("cast(id as string) id").coalesce(1).write.parquet(str(tmp_path / "texts"))
    with pytest.raises(DamagedFile, match=r"part-.*parquet is damaged, or no such file") as caught:
        _sum(spark, next((tmp_path / "texts").glob("part-*")))
    _check_paragraph(str(caught.value))


def test_a_file_that_vanished_is_named(spark: "SparkSession", table: Path) -> None:
    frame = spark.read.schema("id long").parquet(str(table.parent)).selectExpr("sum(id)")
    table.unlink()
    with pytest.raises(LostFile) as caught, explained("ingest"):
        frame.collect()
    assert str(caught.value) == f"ingest: the file {table} is not there, or not any more"


def test_a_folder_that_is_not_there_is_named(spark: "SparkSession", tmp_path: Path) -> None:
    with pytest.raises(LostFile, match=f"the file {tmp_path}/none is not there"), explained("ingest"):
        spark.read.parquet(str(tmp_path / "none")).collect()


def test_a_disk_without_room_for_what_is_written(spark: "SparkSession", tmp_path: Path) -> None:
    java = spark.sparkContext._gateway.proc.pid  # type: ignore[union-attr]
    _, hard = resource.prlimit(java, resource.RLIMIT_FSIZE)
    resource.prlimit(java, resource.RLIMIT_FSIZE, (4096, hard))
    try:
        with pytest.raises(NoSpace) as caught, explained("ingest"):
            spark.range(100_000).write.parquet(str(tmp_path / "large"))
    finally:
        resource.prlimit(java, resource.RLIMIT_FSIZE, (hard, hard))
    _check_paragraph(str(caught.value))
    assert spark.range(10).count() == 10


def test_too_little_memory(spark: "SparkSession") -> None:
    with pytest.raises(OutOfMemory, match="--memory") as caught, explained("ingest"):
        spark.range(1).selectExpr("repeat('x', 500000000) a").selectExpr("concat(a, a, a)").collect()
    _check_paragraph(str(caught.value))


def test_anything_else_is_said_in_sparks_words(spark: "SparkSession") -> None:
    with pytest.raises(PipelineError) as caught, explained("ingest"):
        spark.sql("select cast('x' as int)").collect()
    _check_paragraph(str(caught.value))
    assert "CAST_INVALID_INPUT" in str(caught.value)


def test_errors_of_ours_and_bugs_in_the_driver_pass_through() -> None:
    with pytest.raises(UsageError, match=r"^mine$"), explained("ingest"):
        raise UsageError("mine")
    with pytest.raises(ZeroDivisionError), explained("ingest"):
        _ = 1 // 0


def test_a_java_that_is_gone() -> None:
    error = explanation(Py4JError("An error occurred while calling o51.sc"), "ingest")
    assert isinstance(error, LostWorker)
    assert error.retry
    _check_paragraph(str(error))


def test_another_connection_that_fails_is_not_javas() -> None:
    with pytest.raises(ConnectionRefusedError), explained("ingest"):
        raise ConnectionRefusedError(111, "Connection refused")


_TRACE = """
An exception was thrown from the Python worker:
Traceback (most recent call last):
  File "/x/bobbin/pipeline/source/reader.py", line 8, in read
    raise
{line}
"""


class _Spark:
    """A way to fail in the middle of an interrupt, as the gateway to Java does when it cleans up."""

    def __init__(self, error: Exception) -> None:
        self._error = error

    def ask(self) -> None:
        try:
            raise KeyboardInterrupt
        except KeyboardInterrupt:
            raise self._error  # noqa: B904 -- so it is in the gateway


@pytest.mark.parametrize("error", [Py4JError("Gateway must be connected"), PySparkException("cancelled")], ids=type)
def test_what_fails_of_an_interrupt_is_the_interrupt(error: Exception) -> None:
    with pytest.raises(KeyboardInterrupt), explained("outer"), explained("ingest"):
        _Spark(error).ask()


def test_what_fails_after_an_interrupt_is_the_interrupt(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail() -> None:
        monkeypatch.setattr(interrupts, "_seen", [interrupts.count() + 1])
        raise PySparkException("Job 3 cancelled")

    with pytest.raises(KeyboardInterrupt), explained("ingest"):
        fail()


def test_an_interrupt_of_before_is_no_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(interrupts, "_seen", [7])

    def go_on() -> None:
        try:
            raise KeyboardInterrupt
        except KeyboardInterrupt:
            with explained("the next job"):
                raise PySparkException("no")  # noqa: B904 -- it has nothing to do with what was handled

    with pytest.raises(PipelineError):
        go_on()


def test_in_another_thread_an_interrupt_is_no_reason() -> None:
    def fail() -> None:
        with explained("batch"):
            _Spark(Py4JError("gone")).ask()

    with ThreadPoolExecutor(1) as threads, pytest.raises(LostWorker):
        threads.submit(fail).result()


def test_a_signal_that_has_ended_java_first_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    def arrive() -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(interrupts, "wait_pending", arrive)
    with pytest.raises(KeyboardInterrupt), explained("ingest"):
        raise Py4JError("An error occurred while calling o1.count")


def test_a_worker_that_somebody_interrupts() -> None:
    text = 'Traceback (most recent call last):\n  File "worker.py", line 1, in main\nKeyboardInterrupt'
    error = explanation(PySparkException(text), "ingest")
    assert isinstance(error, LostWorker)
    assert str(error) == "ingest: somebody interrupted a Python worker in the middle of its work"


@pytest.mark.parametrize(
    ("line", "family"),
    [
        ("bobbin.errors.UsageError: what was asked", UsageError),
        ("bobbin.errors.ProgramError: what was asked", ProgramError),
        ("bobbin.store.base.StoreError: what was asked", PipelineError),
        ("bobbin.store.base.DamagedStore: what was asked", DamagedStore),
        ("bobbin.store.lake.errors.DamagedLake: what was asked", DamagedLake),
        ("bobbin.nowhere.Else: what was asked", FailedWorker),
        ("bobbin.errors.Unknown: what was asked", FailedWorker),
        ("MemoryError", OutOfMemory),
        ("os.error: what was asked", FailedWorker),
    ],
)
def test_families_of_errors_in_a_worker(line: str, family: type[BobbinError]) -> None:
    error = explanation(PySparkException(_TRACE.format(line=line)), "ingest")
    assert type(error) is family
    _check_paragraph(str(error))


@pytest.mark.parametrize(
    ("place", "family"),
    [
        ("file:///x/records/data/20261116T092011Z-385591-53a0/part-00000.parquet", DamagedLake),
        ("hdfs://n/l/selections/0123456789abcdef/data/20261116T092011Z-385591-53a0/a.parquet", DamagedLake),
        ("file:///x/records/data/20261116T092011Z-385591-53a0/_checked/0/part-00000.parquet", DamagedFile),
        ("file:///x/data/part-00000.parquet", DamagedFile),
    ],
)
def test_a_damaged_file_of_a_lake_is_damage_of_the_lake(place: str, family: type[BobbinError]) -> None:
    said = f"[FAILED_READ_FILE.NO_HINT] Encountered error while reading file {place}. SQLSTATE: KD001"
    error = explanation(PySparkException(said), "ingest")
    assert type(error) is family
    assert place.removeprefix("file://") in str(error)


def test_a_worker_that_comes_up_too_late() -> None:
    text = "[STREAM_FAILED] Query terminated with exception: Python worker failed to connect back. SQLSTATE: XXKST"
    error = explanation(PySparkException(text), "ingest")
    assert isinstance(error, LostWorker)
    assert error.retry
    assert "did not come up within the time" in str(error)
    _check_paragraph(str(error))


def test_a_lost_executor_is_named_with_its_reason() -> None:
    text = (
        "Job aborted due to stage failure: Task 0 failed 4 times: ExecutorLostFailure (executor 1 exited caused by one "
        "of the running tasks) Reason: worker lost"
    )
    error = explanation(PySparkException(text), "ingest")
    assert isinstance(error, LostWorker)
    assert "an executor was lost (executor 1 exited caused by one of the running tasks)" in str(error)


def test_long_words_are_cut() -> None:
    error = explanation(PySparkException("x" * 10_000), "ingest")
    assert isinstance(error, ResourceError)
    assert len(str(error)) < 500


class _Gone(Py4JJavaError):  # type: ignore[misc]
    """An exception whose words are asked for in a Java that is not there any more."""

    def __init__(self) -> None:
        Exception.__init__(self, "it failed")

    def __str__(self) -> str:
        raise Py4JError("no answer")


def test_an_exception_whose_java_is_gone_is_still_one_paragraph() -> None:
    assert str(explanation(_Gone(), "ingest")) == "ingest: Spark failed: it failed"


def test_an_interrupt_that_was_dropped_on_its_way_is_raised_at_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(KeyboardInterrupt), explained("ingest"):
        monkeypatch.setattr(interrupts, "_seen", [interrupts.count() + 1])
