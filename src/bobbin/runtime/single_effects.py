"""Effects that happen at most once, whatever happens to the process: what it is about to do is on disk before it does.

>>> from tempfile import TemporaryDirectory
>>> from pathlib import Path
>>> with TemporaryDirectory() as folder:
...     with SingleEffects.open(Path(folder) / "effects") as effects:
...         first = effects.once("mail 7", lambda: print("sent"))
...         again = effects.once("mail 7", lambda: print("sent again"))
sent
>>> first, again
(<Fate.DONE: 'done'>, <Fate.OVER: 'over'>)

The records are one file of lines, synced after each. Whoever opens it holds it alone, as long as it is open: that is
the lease, and each opening raises the fencing token by one. An effect that was about to happen when the process ended,
or that failed half way, is in doubt; nothing here does it again, and whoever knows what became of it says so
(``settle``).

A last line without its end was being written when the power went, and nothing was done because of it: it is cut off.
Any other line that is wrong is a damaged file, which is not used.
"""

import errno
import fcntl
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from enum import StrEnum, unique
from pathlib import Path
from types import TracebackType
from typing import Final, Protocol, Self

import msgspec
from msgspec import Struct

from bobbin.errors import IntegrityError, ResourceError, UsageError
from bobbin.reactive.authority import (
    Appointed,
    Authority,
    AuthorityEffect,
    AuthorityEvent,
    Entry,
    Finished,
    FireOnce,
    InDoubt,
    Outcome,
    Record,
    Recorded,
    RecordEnd,
    Stage,
    Wanted,
)

ID_BYTES_MAX: Final = 1024


@unique
class Fate(StrEnum):
    """What became of an effect that was asked for."""

    DONE = "done"
    """It has happened now."""
    OVER = "over"
    """It had happened, or was refused, before."""
    IN_DOUBT = "in doubt"
    """It was about to happen at some time, and nobody has said whether it did."""


class _Term(Struct, frozen=True, tag="term", forbid_unknown_fields=True):
    fence: int


class _Begun(Struct, frozen=True, tag="begun", forbid_unknown_fields=True):
    id: str
    fence: int


class _Ended(Struct, frozen=True, tag="ended", forbid_unknown_fields=True):
    id: str
    outcome: Outcome


_Line = _Term | _Begun | _Ended
_decoder: Final = msgspec.json.Decoder(_Line)


class OnceRecords(Protocol):
    """By which an effect happens at most once: on one machine, or in a cluster (``replicated_effects``)."""

    def once(self, id: str, run: Callable[[], object]) -> Fate:
        """Do something, unless it was done or may have been."""
        ...


class SingleEffects:
    """The one that may fire, while it is open. Effects run one at a time, in the thread that asks for them."""

    def __init__(self, descriptor: int, lines: list[_Line]) -> None:
        """Of a file that is locked. Use ``open``."""
        self._descriptor: int | None = descriptor
        self._lock: Final = threading.RLock()
        self._is_running = False
        self._authority: Final = Authority()
        self._in_doubt: dict[str, None] = {}
        entries: dict[str, Outcome | None] = {}
        fence = 0
        for line in lines:
            match line:
                case _Term(token):
                    fence = token
                case _Begun(id):
                    entries[id] = None
                case _Ended(id, outcome):
                    entries[id] = outcome
        self.fence: Final = fence + 1
        """The token of this opening."""
        self._write(_Term(self.fence))
        self._step(Appointed(self.fence, tuple(Entry(id, outcome) for id, outcome in entries.items())))

    @classmethod
    def open(cls, path: Path) -> Self:
        """Open the records, or begin them.

        Raises:
            ResourceError: another process has them open, or the disk fails. Trying again makes sense in the first case.
            IntegrityError: the file is damaged.
        """
        try:
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                # Also where the file was there: whoever made it may have stopped before this.
                _sync_folder(path.parent)
                return cls(descriptor, _read(descriptor, path))
            except BaseException:
                os.close(descriptor)
                raise
        except BlockingIOError as error:
            raise ResourceError(f"{path} is open elsewhere", retry=True) from error
        except OSError as error:
            raise ResourceError(f"{path} cannot be used: {error.strerror}", retry=False) from error

    def close(self) -> None:
        """Give the right to fire away."""
        with self._lock:
            if self._descriptor is not None:
                os.close(self._descriptor)
                self._descriptor = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @property
    def in_doubt(self) -> tuple[str, ...]:
        """What was about to happen at some time, and perhaps did."""
        with self._lock:
            return tuple(self._in_doubt)

    def once(self, id: str, run: Callable[[], object]) -> Fate:
        """Do something, unless it was done or may have been. The same id is the same effect, for ever.

        ``run`` may return ``Outcome.REJECTED``: it has made sure that nothing happened, and it is over. If it raises,
        the effect is in doubt, and the error goes on.
        """
        if not id or len(id.encode()) > ID_BYTES_MAX:
            raise UsageError(f"an effect has an id of 1 to {ID_BYTES_MAX} bytes")
        with self._alone():
            known = self._authority.stage(id)
            if known is Stage.OVER:
                return Fate.OVER
            if known is not None:
                return Fate.IN_DOUBT
            fired = [effect for effect in self._step(Wanted(id)) if isinstance(effect, FireOnce)]
            assert fired == [FireOnce(id, self.fence)]
            self._in_doubt[id] = None
            outcome = run()
            self._end(id, Outcome.REJECTED if outcome is Outcome.REJECTED else Outcome.APPLIED)
            return Fate.DONE

    def settle(self, id: str, outcome: Outcome) -> None:
        """Say what became of an effect that is in doubt. Raises ``UsageError`` for any other."""
        with self._alone():
            if id not in self._in_doubt:
                raise UsageError(f"{id!r} is not in doubt")
            self._end(id, outcome)

    def _end(self, id: str, outcome: Outcome) -> None:
        self._step(Finished(id, outcome))
        del self._in_doubt[id]

    @contextmanager
    def _alone(self) -> Iterator[None]:
        with self._lock:
            if self._descriptor is None:
                raise UsageError("these records are closed")
            if self._is_running:
                raise UsageError("an effect cannot ask for another one")
            self._is_running = True
            try:
                yield
            finally:
                self._is_running = False

    def _step(self, event: AuthorityEvent) -> list[AuthorityEffect]:
        """Let the machine step, and make durable what it wants to be; returns the rest."""
        left: list[AuthorityEffect] = []
        events = [event]
        while events:
            for effect in self._authority.step(events.pop(0)):
                match effect:
                    case Record(id, fence):
                        self._write(_Begun(id, fence))
                        events.append(Recorded(id, fence))
                    case RecordEnd(id, outcome):
                        self._write(_Ended(id, outcome))
                    case InDoubt(id):
                        self._in_doubt[id] = None
                    case FireOnce():
                        left.append(effect)
        return left

    def _write(self, line: _Line) -> None:
        assert self._descriptor is not None
        raw = msgspec.json.encode(line) + b"\n"
        try:
            before = os.fstat(self._descriptor).st_size
            if os.write(self._descriptor, raw) != len(raw):
                os.ftruncate(self._descriptor, before)
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            os.fsync(self._descriptor)
        except OSError as error:
            # Whether it is on the disk, nobody knows now: nothing is done any more before the file is read again.
            self.close()
            raise ResourceError(f"the records of effects cannot be written: {error.strerror}", retry=False) from error


def _read(descriptor: int, path: Path) -> list[_Line]:
    raw = _read_all(descriptor)
    whole = raw.rfind(b"\n") + 1
    if whole < len(raw):
        os.ftruncate(descriptor, whole)
        os.fsync(descriptor)
    lines: list[_Line] = []
    for number, text in enumerate(raw[:whole].splitlines(), 1):
        try:
            lines.append(_decoder.decode(text))
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise IntegrityError(f"line {number} of {path} is no record of an effect: {error}") from error
    return lines


def _read_all(descriptor: int) -> bytes:
    """The whole file. One read may give less than there is, and what it leaves out must not pass for a torn line."""
    size = os.fstat(descriptor).st_size
    parts: list[bytes] = []
    place = 0
    while place < size:
        part = os.pread(descriptor, size - place, place)
        if not part:
            raise OSError(errno.EIO, "the file is shorter than it says")
        parts.append(part)
        place += len(part)
    return b"".join(parts)


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
