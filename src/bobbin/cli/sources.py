"""Files that a command reads, and what it says about records that it could not take."""

import io
import os
import stat
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, Final

from msgspec import Struct

from bobbin.cli.output import Output
from bobbin.cli.progress import Meter
from bobbin.errors import ResourceError, UsageError

if TYPE_CHECKING:
    from bobbin.runtime.transfer import Problem

STDIN: Final = "-"

_WORKERS_FROM_BYTES: Final = 2 * 1024 * 1024
"""Below this size the work is done before worker processes have started."""

_LINES_WAITING_MAX: Final = 500


class MissingFile(ResourceError):
    """A file that was to be read, or a folder that was to be written to, is not there. Nothing was done."""

    def __init__(self, message: str) -> None:
        super().__init__(message, retry=False)


class Source(Struct, frozen=True, kw_only=True):
    """An open file."""

    name: str
    stream: BinaryIO
    size: int
    """Bytes in all; 0 where nobody knows."""


def check_files(files: Sequence[str]) -> None:
    """Refuse names that are no files, before anything is done with the others."""
    for file in files:
        if file == STDIN:
            if files.count(STDIN) > 1:
                raise UsageError("stdin (-) can be read only once")
        elif not Path(file).exists():
            raise MissingFile(f"there is no file {file}")
        elif Path(file).is_dir():
            raise UsageError(f"{file} is a folder, not a file")


def check_given(file: Path | None) -> None:
    """The same for the file of an option, which may be left out."""
    if file is not None:
        check_files([str(file)])


def check_outside(lace: Path | None, *files: str | Path) -> None:
    """Refuse files that belong to a lace: writing one destroys it, and reading one takes its locks away.

    ``lace`` is the folder that the command works on; other laces are left alone, too.
    """
    from bobbin.config.layout import Layout, lace_around

    for file in files:
        path = Path(file)
        if file == STDIN:
            continue
        owner = lace if lace is not None and Layout(lace).holds(path) else lace_around(path)
        if owner is not None:
            raise UsageError(f"{file} is inside the lace {owner}; name a file outside it")


def read_whole(file: str, *, bytes_max: int, what: str) -> bytes:
    """A small file, or stdin, as bytes. More than the limit is an error, never a truncation."""
    check_files([file])
    with open_source(file) as source:
        data = source.stream.read(bytes_max + 1)
    if len(data) > bytes_max:
        raise UsageError(f"{source.name} is too large: {what} has at most {bytes_max:,} bytes")
    return data


@contextmanager
def open_source(file: str) -> Iterator[Source]:
    """A file by name, or stdin."""
    if file == STDIN:
        if sys.stdin is None:
            raise UsageError("stdin is closed")
        yield Source(name="stdin", stream=sys.stdin.buffer, size=_size(sys.stdin.buffer))
        return
    with Path(file).open("rb") as stream:
        yield Source(name=file, stream=stream, size=_size(stream))


def _size(stream: BinaryIO) -> int:
    try:
        status = os.fstat(stream.fileno())
    except io.UnsupportedOperation:  # a stream without a file under it
        return 0
    return status.st_size if stat.S_ISREG(status.st_mode) else 0


def choose_workers(wanted: int | None, size: int) -> int:
    """How many processes check signatures: what the user says, else as many as pay for a source of this size."""
    if wanted is not None:
        return wanted
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return 0 if cores == 1 or 0 < size < _WORKERS_FROM_BYTES else cores


class ProblemPrinter:
    """Prints what was not taken. Gathers some lines first, so that the progress bar gives way once for all of them."""

    def __init__(self, out: Output, meter: Meter) -> None:
        self._out: Final = out
        self._meter: Final = meter
        self._waiting: list[Problem] = []

    def report(self, problem: "Problem") -> None:
        """Take one in."""
        self._waiting.append(problem)
        if len(self._waiting) >= _LINES_WAITING_MAX:
            self.flush()

    def flush(self) -> None:
        """Print all that wait."""
        if self._waiting:
            with self._meter.paused():
                for problem in self._waiting:
                    self._print(problem)
            self._waiting.clear()

    def _print(self, problem: "Problem") -> None:
        out = self._out
        if out.as_json:
            out.row(
                {
                    "event": problem.outcome.value,
                    "source": problem.source,
                    "offset": problem.offset,
                    "size": problem.size,
                    "hash": problem.hash,
                    "reason": problem.reason,
                    "detail": problem.detail,
                }
            )
            return
        head = f"{out.style(problem.outcome.value, fg='red')}  {out.style(_where(problem))}"
        reason = out.style(f"{problem.reason:<18}", bold=True)
        out.row(None, f"{head}  {reason}  {out.style(problem.detail)}")


def _where(problem: "Problem") -> str:
    if problem.hash is not None:
        return f"{problem.source} {problem.hash}"
    return problem.source if problem.offset is None else f"{problem.source}:{problem.offset:<8}"
