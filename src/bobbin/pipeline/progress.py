"""How far a running job is: the tasks of its stages, asked for from a thread of its own.

A job says which step begins (``Step``); how many tasks that takes, and how many are done, Spark knows better than the
job does. Spark plans as it goes, so the total is that of the work which is known by now.
"""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final, Protocol, TypeAlias

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from bobbin.pipeline import interrupts

Step: TypeAlias = Callable[[str], None]
"""Takes the name of the step that begins, as in ``validating``."""

POLL_SECONDS: Final = 0.25


class Shows(Protocol):
    """Where progress is shown."""

    def __call__(self, done: int, total: int) -> None:
        """So many tasks are done; a total of 0 means that nobody knows."""


def silent(step: str) -> None:
    """Say nothing of a step; for jobs that nobody watches."""
    del step
    interrupts.check()


class Watch:
    """Counts the tasks of a session, and remembers the step that they belong to."""

    def __init__(self, session: SparkSession, show: Shows) -> None:
        self._tracker: Final = session.sparkContext.statusTracker()
        self._show: Final = show
        self._done: dict[int, int] = {}
        """Tasks done of each stage that was seen in this step."""
        self._total: dict[int, int] = {}
        self._lock: Final = threading.Lock()
        self.step = ""

    def begin(self, step: str) -> None:
        """Another step begins, and counts from nothing; unless somebody has interrupted the one before."""
        interrupts.check()
        with self._lock:
            self.step = step
            self._done.clear()
            self._total.clear()

    def look(self) -> None:
        """Ask Spark once, and show what it says."""
        with self._lock:
            active = set(self._tracker.getActiveStageIds())
            for stage in active | self._done.keys():
                information = self._tracker.getStageInfo(stage)
                if information is not None:
                    self._done[stage] = information.numCompletedTasks
                    self._total[stage] = information.numTasks
                elif stage not in active:
                    # Spark forgets stages that are long over.
                    self._done[stage] = self._total[stage]
            done, total = sum(self._done.values()), sum(self._total.values())
        if total:
            self._show(done, total)


@contextmanager
def watched(session: SparkSession, show: Shows, *, seconds: float = POLL_SECONDS) -> Iterator[Watch]:
    """Show the progress of whatever runs in the block. Showing never makes a job fail."""
    try:
        watch = Watch(session, show)
    except PySparkException:  # Spark Connect tells nothing of its stages
        yield _Blind()
        return
    ended = threading.Event()

    def poll() -> None:
        while not ended.wait(seconds):
            try:
                watch.look()
            except (Py4JError, OSError):  # Java is going away; whoever waits for the job hears of it
                return

    thread = threading.Thread(target=poll, name="bobbin-spark-progress", daemon=True)
    thread.start()
    try:
        yield watch
    finally:
        ended.set()
        thread.join()


class _Blind(Watch):
    """For a session that cannot be watched."""

    def __init__(self) -> None:
        self.step = ""

    def begin(self, step: str) -> None:
        interrupts.check()
        self.step = step

    def look(self) -> None:
        """There is nothing to see."""
