"""What went wrong in a job, in one paragraph and with a class of its own.

Spark says what failed in a trace of some hundred lines: first that a job was aborted, then that a task was, then in
``Caused by`` what actually happened, and where a Python worker was at work its own trace in between. ``explained``
reads that text once and keeps what a user can act on. The exception of Spark stays as the cause, for ``--debug``.

An error of ours that was raised in a worker comes out as an error of the same family, so that a command ends with the
same code no matter where its work was done.
"""

import importlib
import re
import sys
import threading
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final, TypeAlias

from py4j.protocol import Py4JError, Py4JJavaError, Py4JNetworkError
from pyspark.errors import PySparkException

from bobbin.errors import BobbinError, IntegrityError, ProgramError, ResourceError, UsageError
from bobbin.pipeline import interrupts
from bobbin.store.base import DamagedStore
from bobbin.store.lake.errors import DamagedLake
from bobbin.store.lake.report import RUN

_WORDS_MAX: Final = 400
"""Of what Spark itself says, in an error of ours."""


class PipelineError(ResourceError):
    """A job on Spark failed. The lake is as it was before."""


class NoSpace(PipelineError):
    """A disk is full, or a file may not grow any more."""


class OutOfMemory(PipelineError):
    """The Java of the driver, or of an executor, or a Python worker had too little memory."""


class LostFile(PipelineError):
    """A file that the job was to read is not there any more."""


class DamagedFile(PipelineError):
    """A file cannot be read as what it claims to be. One of a lake's own is a ``DamagedLake``."""


class LostWorker(PipelineError):
    """A process of Spark was killed or crashed while it worked."""


class FailedWorker(PipelineError):
    """Code of ours failed in a worker in a way that nobody foresaw."""


@contextmanager
def explained(doing: str) -> Iterator[None]:
    """Turn what Spark raises in the block into an error of ours. ``doing`` is what failed then, as in ``ingest``.

    What fails after an interrupt fails of it: Ctrl-C reaches Java's workers, too, and breaks the connection to Java in
    the middle of a question. Then this is a ``KeyboardInterrupt``, whatever Spark says. One that came and was dropped
    on its way is raised after all (``interrupts.noticed``).
    """
    before, handled = interrupts.count(), sys.exception()
    with interrupts.noticed():
        try:
            yield
        except (PySparkException, Py4JError, OSError) as error:
            if isinstance(error, OSError) and not _is_of_gateway(error):
                raise
            if _is_interrupted(error, before, handled):
                raise KeyboardInterrupt from error
            if isinstance(error, PySparkException | Py4JError):
                raise explanation(error, doing) from error
            if isinstance(error, ConnectionError):
                raise _lost_java(doing) from error
            raise


def _is_interrupted(error: BaseException, before: int, handled: BaseException | None) -> bool:
    """Whether it is an interrupt that an error came of: one since there were so many, or since that was handled.

    An interrupt ends the main thread's work. What fails in others, as the batch of a stream, is told there.
    """
    if threading.current_thread() is not threading.main_thread():
        return False
    cause: BaseException | None = error
    while cause is not None and cause is not handled:
        if isinstance(cause, KeyboardInterrupt):
            return True
        cause = cause.__cause__ or cause.__context__
    if interrupts.count() == before and not isinstance(error, PySparkException | Py4JJavaError):
        interrupts.wait_pending()
    return interrupts.count() > before


def _is_of_gateway(error: BaseException) -> bool:
    """Whether it was the connection to Java that failed."""
    return any(Path(frame.filename).parent.name == "py4j" for frame in traceback.extract_tb(error.__traceback__))


def _lost_java(doing: str) -> LostWorker:
    return LostWorker(
        f"{doing}: the Java that Spark runs on has ended in the middle of its work. Somebody killed it, or the machine "
        "ran out of memory; --memory says how much it may take",
        retry=True,
    )


def explanation(error: Exception, doing: str) -> BobbinError:
    """The error of ours that an exception of Spark stands for."""
    if isinstance(error, Py4JError) and not isinstance(error, Py4JJavaError):
        return _lost_java(doing)
    text = _text(error)
    return next(found for rule in _RULES if (found := rule(text, doing)) is not None)


def _text(error: Exception) -> str:
    """All that Spark says: its message, its trace, and the causes."""
    try:
        parts = [str(error)]
    except (Py4JError, Py4JNetworkError, OSError, AssertionError):
        # The message is asked for in Java, which may be gone; of a session that has ended PySpark asserts that it has
        # not. What was copied when the error was made is there still.
        parts = [getattr(error, "_desc", None) or (str(error.args[0]) if error.args else "")]
    cause: object = error
    while cause is not None:
        parts.append(getattr(cause, "_stackTrace", None) or "")
        cause = getattr(cause, "_cause", None)
    return "\n".join(parts)


_Rule: TypeAlias = Callable[[str, str], BobbinError | None]

_FULL: Final = re.compile(r"No space left on device|Disk quota exceeded|File too large")
_MEMORY: Final = re.compile(r"java\.lang\.OutOfMemoryError: ([^\n]+)|^MemoryError\b", re.MULTILINE)
_READ: Final = re.compile(r"\[FAILED_READ_FILE\.(\w+)\] Encountered error while reading file (.+?)\.(?: |\n|$)")
_MISSING: Final = re.compile(
    r"\[PATH_NOT_FOUND\] Path does not exist: (.+?)\. SQLSTATE|java\.io\.FileNotFoundException: (?:File )?(\S+)"
)
_DIED: Final = re.compile(
    r"Python worker exited unexpectedly|Python worker failed to connect back|ExecutorLostFailure \(([^)]*)\)"
)
_LATE: Final = "Python worker failed to connect back"
_TRACE: Final = re.compile(
    r"^(?:\[[A-Z_]+\] .*: )?Traceback \(most recent call last\):\n(?:(?: .*)?\n)+?([\w.]+)(?:: (.*))?$", re.MULTILINE
)
_FRAME: Final = re.compile(r'^ +File "(?:.*/)?([^"/]+)", line (\d+), in (\S+)', re.MULTILINE)
_OF_LAKE: Final = re.compile(rf"/data/{RUN}/[^/]+\.parquet$", re.ASCII)
"""The end of the name of every file that a manifest names."""
_CAUSED: Final = re.compile(r"^(?:Caused by: |: )([\w.$]+)(?:: (.*))?$", re.MULTILINE)
_CONDITION: Final = re.compile(r"\[[A-Z][A-Z0-9_.]+\] .*")


def _worker(text: str, doing: str) -> BobbinError | None:
    """An exception in a Python worker; the last trace is the one that counts, the others led to it."""
    traces = list(_TRACE.finditer(text))
    if not traces:
        return None
    trace = traces[-1]
    name, message = trace[1], _short(trace[2] or "")
    if full := _no_space(message, doing):
        return full
    if name == "MemoryError":
        return _memory("MemoryError", doing)
    if name == "KeyboardInterrupt":
        return LostWorker(f"{doing}: somebody interrupted a Python worker in the middle of its work", retry=True)
    sentence = f"{doing}: {message or name}"
    kind = _class(name)
    for family in (DamagedLake, DamagedStore, UsageError, IntegrityError, ProgramError):
        if kind is not None and issubclass(kind, family):
            return family(sentence)
    if kind is not None and issubclass(kind, ResourceError):
        return PipelineError(sentence, retry=False)
    if kind is None and _class_is_of_machine(name):
        return PipelineError(f"{doing}: a worker failed with {name}: {message}", retry=False)
    frames = _FRAME.findall(trace[0])
    place = f" ({frames[-1][0]}:{frames[-1][1]}, in {frames[-1][2]})" if frames else ""
    return FailedWorker(
        f"{doing}: a worker failed with {name}{f': {message}' if message else ''}{place}. This is a bug in Bobbin; "
        "--debug shows the whole trace",
        retry=False,
    )


def _class(name: str) -> type[BobbinError] | None:
    """The class of ours that a trace names."""
    module, _, plain = name.rpartition(".")
    if not module.startswith("bobbin."):
        return None
    try:
        found: object = getattr(importlib.import_module(module), plain, None)
    except ImportError:
        return None
    return found if isinstance(found, type) and issubclass(found, BobbinError) else None


def _class_is_of_machine(name: str) -> bool:
    found = getattr(importlib.import_module("builtins"), name, None)
    return isinstance(found, type) and issubclass(found, OSError)


def _no_space(text: str, doing: str) -> BobbinError | None:
    found = _FULL.search(text)
    if found is None:
        return None
    return NoSpace(
        f"{doing}: a disk is full ({found[0]}). The lake's takes what a job writes, and the one that TMPDIR names "
        "what it sorts; make room and run it again",
        retry=False,
    )


def _no_memory(text: str, doing: str) -> BobbinError | None:
    found = _MEMORY.search(text)
    return None if found is None else _memory(found[1] or "MemoryError", doing)


def _memory(words: str, doing: str) -> OutOfMemory:
    return OutOfMemory(f"{doing}: too little memory ({_short(words)}); --memory gives the job more", retry=False)


def _lost_file(text: str, doing: str) -> BobbinError | None:
    read, missing = _READ.search(text), _MISSING.search(text)
    if read is not None and read[1] == "FILE_NOT_EXIST":
        name = read[2]
    elif missing is not None:
        name = missing[1] or missing[2]
    else:
        return None
    return LostFile(f"{doing}: the file {_path(name)} is not there, or not any more", retry=True)


def _damaged_file(text: str, doing: str) -> BobbinError | None:
    read = _READ.search(text)
    if read is None:
        return None
    why = _innermost(text) or "it cannot be read"
    sentence = f"{doing}: the file {_path(read[2])} is damaged, or no such file as is expected: {why}"
    return DamagedLake(sentence) if _OF_LAKE.search(read[2]) else DamagedFile(sentence, retry=False)


def _lost_worker(text: str, doing: str) -> BobbinError | None:
    found = _DIED.search(text)
    if found is None:
        return None
    if found[0] == _LATE:
        return LostWorker(
            f"{doing}: a Python worker did not come up within the time that Spark gives it. The machine is very "
            "busy, or Python cannot be started there",
            retry=True,
        )
    what = f"an executor was lost ({_short(found[1])})" if found[1] else "a Python worker was killed or crashed"
    return LostWorker(
        f"{doing}: {what} in the middle of its work. Where nobody did that by hand, the machine ran out of memory",
        retry=True,
    )


def _other(text: str, doing: str) -> BobbinError:
    condition = _CONDITION.search(text)
    words = _innermost(text) or (_short(condition[0]) if condition else _short(text.partition("\n")[0]))
    return PipelineError(f"{doing}: Spark failed: {words}", retry=False)


def _innermost(text: str) -> str:
    """What the last cause says; it is the first thing that went wrong."""
    said = [_short(message) for _, message in _CAUSED.findall(text) if message]
    return said[-1] if said else ""


def _path(name: str) -> str:
    """A local file as its path; anything else as Spark names it."""
    return re.sub(r"^file:/+", "/", name)


def _short(words: str) -> str:
    line = " ".join(words.split())
    return line if len(line) <= _WORDS_MAX else f"{line[:_WORDS_MAX]}…"


# The order matters: a full disk damages files and kills workers, so what explains the others is looked for first.
_RULES: Final[tuple[_Rule, ...]] = (_worker, _no_space, _no_memory, _lost_worker, _lost_file, _damaged_file, _other)
