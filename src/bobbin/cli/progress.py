"""A progress bar with rate and time left, on stderr, and only where someone watches.

Nothing is shown in the first second, nor when stderr is not a terminal, so quick commands and scripts see none of it.
Work that has no count yet, such as rules that are evaluated before anything moves, is named after a few seconds.
"""

import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, BinaryIO, Final, Literal, TypeAlias

from bobbin.cli.output import say
from bobbin.cli.text import printable

if TYPE_CHECKING:
    import rich.progress

    from bobbin.store.base import Progress

Unit: TypeAlias = Literal["bytes", "records", "steps", "tasks"]

QUIET_SECONDS: Final = 1.0
SILENT_SECONDS: Final = 2.0
"""After so long without a step, somebody who watches is told what is going on."""


class Meter:
    """Call it with (done, total); a total of 0 means that nobody knows. It draws when there is something to see."""

    def __init__(self, title: str, unit: Unit, *, watched: bool) -> None:
        self._title: Final = printable(title)
        self._unit: Final = unit
        self._began: Final = time.monotonic()
        self.watched: Final = watched
        self.words: Callable[[], str] | None = None
        """What else there is to say at a moment, beside the title."""
        self._bar: rich.progress.Progress | None = None

    def __call__(self, done: int, total: int) -> None:
        if not self.watched:
            return
        if self._bar is None:
            if time.monotonic() - self._began < QUIET_SECONDS:
                return
            self._bar = _draw(self._title, self._unit, total)
        title = self._title if self.words is None else f"{self._title} · {printable(self.words())}"
        self._bar.update(self._bar.task_ids[0], description=title, completed=done, total=total or None)

    @property
    def is_drawn(self) -> bool:
        """Whether there is something to see."""
        return self._bar is not None

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Without the bar, so that lines can be printed where it stands."""
        if self._bar is None:
            yield
            return
        self._bar.stop()
        try:
            yield
        finally:
            self._bar.start()

    def close(self) -> None:
        """Take the bar away again; what is said afterwards stands where it was."""
        if self._bar is not None:
            self._bar.stop()


@contextmanager
def progress(title: str, unit: Unit) -> Iterator[Meter]:
    """A meter for the length of a block."""
    meter = Meter(title, unit, watched=sys.stderr is not None and sys.stderr.isatty())
    try:
        yield meter
    finally:
        meter.close()


class Silence:
    """Says a sentence when no step has been made for a while: once for each silence, from a thread of its own."""

    def __init__(self, say: Callable[[], None], *, seconds: float = SILENT_SECONDS) -> None:
        self._say: Final = say
        self._seconds: Final = seconds
        self._stirred: Final = threading.Event()
        self._ended = False
        self._thread: Final = threading.Thread(target=self._watch, name="bobbin-silence", daemon=True)

    def observe(self, *_: object) -> None:
        """A step was made."""
        self._stirred.set()

    def begin(self) -> None:
        """Listen from now on."""
        self._thread.start()

    def end(self) -> None:
        """Say nothing more."""
        self._ended = True
        self._stirred.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._ended:
            if not self._stirred.wait(self._seconds):
                self._say()
                self._stirred.wait()
            self._stirred.clear()


@contextmanager
def silence(meter: Meter, sentence: str | Callable[[], str]) -> Iterator[Silence]:
    """Name the work that is done for the length of a block, where someone watches and no bar shows it."""

    def say_so() -> None:
        if not meter.is_drawn:
            say(printable(sentence if isinstance(sentence, str) else sentence()))

    listening = Silence(say_so)
    if not meter.watched:
        yield listening
        return
    listening.begin()
    try:
        yield listening
    finally:
        listening.end()


def _draw(title: str, unit: Unit, total: int) -> "rich.progress.Progress":
    # Only a long command in a terminal pays for the library.
    from rich import progress as bars
    from rich.console import Console

    columns: list[bars.ProgressColumn] = [
        # A title may hold the name of a file: it is text, never markup.
        bars.TextColumn("{task.description}", markup=False),
        bars.BarColumn(),
    ]
    if unit == "bytes":
        columns += [bars.DownloadColumn(), bars.TransferSpeedColumn()]
    else:
        columns += [bars.MofNCompleteColumn(), bars.TextColumn("{task.fields[unit]}"), _rate_column()]
    columns += [bars.TextColumn("ETA"), bars.TimeRemainingColumn()]
    bar = bars.Progress(
        *columns, console=Console(stderr=True), transient=True, redirect_stdout=False, redirect_stderr=False
    )
    bar.add_task(title, total=total or None, unit=unit)
    bar.start()
    return bar


def _rate_column() -> "rich.progress.ProgressColumn":
    from rich import progress as bars
    from rich.text import Text

    class Rate(bars.ProgressColumn):
        """Steps per second over the last moments."""

        def render(self, task: bars.Task) -> Text:
            speed = task.finished_speed or task.speed
            return Text("" if speed is None else f"{speed:,.0f}/s")

    return Rate()


class CountingReader:
    """A stream that says how far it has been read."""

    def __init__(self, stream: BinaryIO, total: int, report: "Progress") -> None:
        self._stream: Final = stream
        self._total: Final = total
        self._report: Final = report
        self._done = 0

    def read(self, size: int = -1, /) -> bytes:
        return self._count(self._stream.read(size))

    def read1(self, size: int = -1, /) -> bytes:
        """What is there, without waiting for all of it."""
        some: Callable[[int], bytes] = getattr(self._stream, "read1", self._stream.read)
        return self._count(some(size))

    def fileno(self) -> int:
        return self._stream.fileno()

    def _count(self, data: bytes) -> bytes:
        self._done += len(data)
        self._report(self._done, self._total)
        return data
