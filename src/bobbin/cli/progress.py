"""A progress bar with rate and time left, on stderr, and only where someone watches.

Nothing is shown in the first second, nor when stderr is not a terminal, so quick commands and scripts see none of it.
"""

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, BinaryIO, Final, Literal, TypeAlias

from bobbin.cli.text import printable

if TYPE_CHECKING:
    import rich.progress

    from bobbin.store.base import Progress

Unit: TypeAlias = Literal["bytes", "records", "steps"]

QUIET_SECONDS: Final = 1.0


class Meter:
    """Call it with (done, total); a total of 0 means that nobody knows. It draws when there is something to see."""

    def __init__(self, title: str, unit: Unit, *, watched: bool) -> None:
        self._title: Final = printable(title)
        self._unit: Final = unit
        self._watched: Final = watched
        self._began: Final = time.monotonic()
        self._bar: rich.progress.Progress | None = None

    def __call__(self, done: int, total: int) -> None:
        if not self._watched:
            return
        if self._bar is None:
            if time.monotonic() - self._began < QUIET_SECONDS:
                return
            self._bar = _draw(self._title, self._unit, total)
        self._bar.update(self._bar.task_ids[0], completed=done, total=total or None)

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
        data = self._stream.read(size)
        self._done += len(data)
        self._report(self._done, self._total)
        return data
