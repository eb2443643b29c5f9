"""How far a job is, as Spark's own account of its stages says."""

import threading
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
from py4j.protocol import Py4JError
from pyspark.errors import PySparkAttributeError

from bobbin.pipeline import interrupts, progress
from bobbin.pipeline.progress import Watch, silent, watched

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa
    from pyspark.sql import SparkSession


class _Tracker:
    """Spark's account of its stages, as a test writes it."""

    def __init__(self) -> None:
        self.active: list[int] = []
        self.stages: dict[int, tuple[int, int]] = {}

    def getActiveStageIds(self) -> list[int]:  # noqa: N802 -- Spark's name
        return self.active

    def getStageInfo(self, stage: int) -> Any:  # noqa: ANN401, N802
        if stage not in self.stages:
            return None
        done, total = self.stages[stage]
        return SimpleNamespace(numCompletedTasks=done, numTasks=total)


@pytest.fixture
def tracker() -> _Tracker:
    return _Tracker()


@pytest.fixture
def session(tracker: _Tracker) -> Any:  # noqa: ANN401 -- as much of a session as is asked for
    return SimpleNamespace(sparkContext=SimpleNamespace(statusTracker=lambda: tracker))


def test_tasks_of_a_step_are_summed_over_its_stages(tracker: _Tracker, session: Any) -> None:  # noqa: ANN401
    shown: list[tuple[int, int]] = []
    watch = Watch(session, lambda done, total: shown.append((done, total)))
    watch.begin("validating")
    watch.look()
    tracker.active, tracker.stages = [1], {1: (1, 4)}
    watch.look()
    tracker.active, tracker.stages = [2], {1: (4, 4), 2: (0, 2)}
    watch.look()
    del tracker.stages[1]
    tracker.stages[2] = (1, 2)
    watch.look()
    assert shown == [(1, 4), (4, 6), (5, 6)]
    watch.begin("writing")
    tracker.active = []
    watch.look()
    assert watch.step == "writing"
    assert len(shown) == 3


def test_a_real_job_is_watched_to_its_end(spark: "SparkSession") -> None:
    shown: list[tuple[int, int]] = []
    seen = threading.Event()

    def show(done: int, total: int) -> None:
        shown.append((done, total))
        seen.set()

    with watched(spark, show, seconds=0.01) as watch:
        watch.begin("counting")
        while not seen.is_set():
            spark.range(1000).repartition(4).mapInArrow(_same, "id long").count()
    assert watch.step == "counting"
    assert all(0 <= done <= total for done, total in shown)
    assert not [thread for thread in threading.enumerate() if thread.name == "bobbin-spark-progress"]


def _same(batches: "Iterator[pa.RecordBatch]") -> "Iterator[pa.RecordBatch]":
    yield from batches


def test_showing_never_makes_a_job_fail(session: Any, tracker: _Tracker) -> None:  # noqa: ANN401
    failed = threading.Event()

    def fail() -> list[int]:
        failed.set()
        raise Py4JError("Java is gone")

    tracker.getActiveStageIds = fail  # type: ignore[method-assign]
    with watched(session, lambda _done, _total: None, seconds=0.001):
        assert failed.wait(60)


class _Remote:
    @property
    def sparkContext(self) -> None:  # noqa: N802 -- an attribute of Spark's
        raise PySparkAttributeError(errorClass="JVM_ATTRIBUTE_NOT_SUPPORTED", messageParameters={"attr_name": "x"})


def test_a_session_elsewhere_cannot_be_watched_and_works() -> None:
    with watched(_Remote(), lambda _done, _total: pytest.fail("nothing is known")) as watch:  # type: ignore[arg-type]
        watch.begin("counting")
        watch.look()
        assert watch.step == "counting"


def test_a_step_that_nobody_watches() -> None:
    silent("validating")
    assert progress.POLL_SECONDS > 0


def test_no_step_begins_after_an_interrupt_that_was_dropped(monkeypatch: pytest.MonkeyPatch, session: Any) -> None:  # noqa: ANN401
    watch = Watch(session, lambda _done, _total: None)
    watch.begin("storing")
    for begin in (watch.begin, silent):
        with interrupts.noticed():
            monkeypatch.setattr(interrupts, "_seen", [interrupts.count() + 1])
            with pytest.raises(KeyboardInterrupt):
                begin("committing")
    assert watch.step == "storing"
