"""The store of a node of a replicated lace, kept in step with the log by a thread of its own.

The event loop of a node must not wait for a database. So what is committed is queued, and the thread does it: all that
waits, up to a bound, in one transaction. Nothing is lost by that: what is in the queue when a process ends is in the
log, and is done again. Whoever waits for a command hears of it when it is done here (``expect``).

The queue also has what must happen between commands: a capture for a snapshot, which is then written by another thread,
and the change to a store that was built from another node's snapshot.

**Roots.** Every ``ROOT_EVERY`` places of the log the root of the store is noted. The leader says its own by a command,
and every node compares: one that holds something else stops, as with the table of keys (CL-374).
"""

import threading
import warnings
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, InvalidStateError
from contextlib import suppress
from itertools import count
from pathlib import Path
from time import sleep
from typing import TYPE_CHECKING, Any, Final, TypeAlias, TypeVar

from bobbin.cluster.composite import Placed
from bobbin.cluster.names import Index
from bobbin.errors import BobbinError, IntegrityError, ResourceError
from bobbin.runtime import replicated_machine
from bobbin.runtime.replicated_commands import TAGS, CompareRoot
from bobbin.runtime.replicated_machine import LaceCapture, LaceMachine
from bobbin.store.base import StoreError, StoreRecordId

if TYPE_CHECKING:
    from bobbin.store.sqlite.replica import EffectRow, ReplicaState

BACKLOG_BYTES_MAX: Final = 64 * 1024 * 1024
"""Of commands that wait; beyond it the event loop waits too."""
BATCH_BYTES: Final = 8 * 1024 * 1024
"""About so much is done in one transaction."""
ROOT_EVERY: Final = 1_024
ROOTS_MAX: Final = 64
TRIES_MAX: Final = 10
TRY_SECONDS: Final = 0.5
"""Before a write is tried again that another process was in the way of."""
_ROOT: Final = bytes(32)

T = TypeVar("T")
_Job: TypeAlias = Callable[[], None]


class OtherData(IntegrityError):
    """The store of this node holds something else than the leader's at the same place. Nothing is mended."""


class LaceKeeper:
    """Keeps one store in step. A ``Source`` of the machine that a node's log leads."""

    tags: Final = TAGS

    def __init__(
        self,
        path: Path,
        *,
        now: Callable[[], int],
        broke: Callable[[str], None] = lambda _: None,
        noted: Callable[[Index, bytes], None] = lambda _index, _root: None,
    ) -> None:
        """``broke`` hears, in the thread, why the store cannot go on, and ``noted`` of each root to be compared."""
        self._path: Final = path
        self._now: Final = now
        self._machine: Final = LaceMachine(path, now=now)
        self._broke: Final = broke
        self._noted: Final = noted
        self._builds: Final = count(1)
        self._changed: Final = threading.Condition()
        self._commands: deque[Placed] = deque()
        self._jobs: Final[deque[tuple[int, _Job]]] = deque()
        """What is done when all commands up to a place are."""
        self._promised: Final[set[Future[Any]]] = set()
        """Of the jobs that are not done: whoever waits for one must hear when the thread fails before it."""
        self._bytes = 0
        self._is_closed = False
        self._failure: BobbinError | None = None
        self._expected: Final[dict[bytes, Future[bytes]]] = {}
        self._wakes: Final[dict[object, Callable[[StoreRecordId], None]]] = {}
        self._roots: Final[dict[int, bytes]] = {}
        self.state: ReplicaState = self._machine.state
        """As of the last transaction."""
        self.queued = self.state.applied
        """Of the last command that was handed over, or that the store had."""
        self._thread: Final = threading.Thread(target=self._run, name="bobbin-replica", daemon=True)
        self._thread.start()

    # ---- a source of machines ---------------------------------------------------------------------------------------

    def open(self) -> "LacePart":
        """The machine that a node starts with: the store as it is."""
        return LacePart(self)

    def build(self, entries: Iterable[bytes], index: Index) -> "LacePart":
        """Write a snapshot into a new store beside the present one; it takes its place when it is adopted."""
        target = self._path.with_name(f"{self._path.name}.incoming{next(self._builds)}")
        replicated_machine.build(target, entries, index, now=self._now)
        return LacePart(self, target, index)

    # ---- what the event loop hands over -----------------------------------------------------------------------------

    def do(self, commands: Sequence[Placed]) -> None:
        """Queue committed commands; those that the store has are left out. Waits where too much waits already."""
        with self._changed:
            self._check()
            self._changed.wait_for(lambda: self._bytes < BACKLOG_BYTES_MAX or self._failure is not None)
            self._check()
            for placed in commands:
                if placed[0] > self.queued:
                    self.queued = placed[0]
                    self._commands.append(placed)
                    self._bytes += len(placed[2])
            self._changed.notify_all()

    @property
    def is_crowded(self) -> bool:
        """Whether so much waits that nothing should be proposed: half of what would make the event loop wait."""
        return self._bytes > BACKLOG_BYTES_MAX // 2

    def after(self, work: Callable[[], T]) -> "Future[T]":
        """Have something done in the thread, after all that is queued by now."""
        future: Future[T] = Future()

        def run() -> None:
            self._promised.discard(future)
            if not future.set_running_or_notify_cancel():
                return  # whoever wanted it has given up
            try:
                future.set_result(work())
            except BaseException as error:  # noqa: BLE001 -- it is raised where it was asked for
                future.set_exception(error)

        with self._changed:
            if self._failure is not None or self._is_closed:
                future.set_exception(self._failure or ResourceError("the store has been closed", retry=False))
                return future
            self._promised.add(future)
            self._jobs.append((self.queued, run))
            self._changed.notify_all()
        return future

    def settle(self, index: Index) -> None:
        """All of the log up to here is handed over."""
        self.queued = max(self.queued, index)
        self.after(lambda: self._apply([], index))

    def capture(self) -> "Future[LaceCapture]":
        """The store as it is after all that is queued by now."""
        return self.after(self._machine.capture)

    def adopt(self, built: Path, index: Index) -> None:
        """Hold what was built from a snapshot, from now on."""

        def take_over() -> None:
            self._retried(lambda: self._machine.take_over(built))
            replicated_machine.clear(built)
            self.state = self._machine.state
            self._roots.clear()
            self._answer_expected()
            self._wake()

        self.queued = max(self.queued, index)
        self.after(take_over).add_done_callback(self._note_failed)

    def effects(self) -> "Future[list[EffectRow]]":
        """What is written down of effects, after all that is queued by now."""
        return self.after(self._machine.store.replica.effects)

    # ---- whoever waits ----------------------------------------------------------------------------------------------

    def expect(self, token: bytes) -> "Future[bytes]":
        """The answer to a command that is about to be proposed, once it is done here. ``forget`` it in the end."""
        future: Future[bytes] = Future()
        with self._changed:
            if self._failure is not None:
                future.set_exception(self._failure)
            else:
                self._expected[token] = future
        return future

    def forget(self, token: bytes) -> None:
        """Nobody waits for it any more."""
        self._expected.pop(token, None)

    def subscribe(self, wake: Callable[[StoreRecordId], None]) -> Callable[[], None]:
        """Call ``wake``, in the thread, when records have come or gone by what nobody here waits for; returns the undo.

        Whoever waits for a command tells of it by itself. ``wake`` must not write.
        """
        mark = object()
        self._wakes[mark] = wake

        def undo() -> None:
            self._wakes.pop(mark, None)

        return undo

    def close(self) -> None:
        """Do what is queued, and let go of the store."""
        with self._changed:
            self._is_closed = True
            self._changed.notify_all()
        self._thread.join()
        self._fail_all(ResourceError("the node stops", retry=True))
        self._machine.close()

    # ---- the thread -------------------------------------------------------------------------------------------------

    def _run(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._commands or self._jobs or self._is_closed)
                if not self._commands and not self._jobs:
                    return
                batch, job = self._next()
            try:
                if batch:
                    self._apply(batch, Index(batch[-1][0]))
                if job is not None:
                    job()
            except Exception as error:  # noqa: BLE001 -- a store that does not follow must not be served
                self._fail(error)
                return
            with self._changed:
                self._bytes -= sum(len(command) for _, _, command in batch)
                self._changed.notify_all()
                if self._failure is not None:
                    # A snapshot could not be taken over: what comes after it does not belong into the store before it.
                    return

    def _next(self) -> tuple[list[Placed], _Job | None]:
        """What to do next: commands up to the next job, or place of a root, or enough for one transaction."""
        until = self._jobs[0][0] if self._jobs else None
        batch: list[Placed] = []
        size = 0
        while self._commands and size < BATCH_BYTES:
            index = self._commands[0][0]
            if (until is not None and index > until) or (batch and _before(index) != _before(batch[0][0])):
                break
            batch.append(self._commands.popleft())
            size += len(batch[-1][2])
        if self._jobs and not (self._commands and self._commands[0][0] <= self._jobs[0][0]):
            return batch, self._jobs.popleft()[1]
        return batch, None

    def _apply(self, batch: Sequence[Placed], place: Index) -> None:
        if batch:
            self._note_root(_before(batch[0][0]))
        done = self._retried(lambda: self._machine.apply(batch, place))
        self.state = done.state
        self._compare(done.compared)
        if done.news - self._expected.keys():
            self._wake()
        for token, answer in done.answers.items():
            if (waiting := self._expected.get(token)) is not None:
                _answer(waiting, answer)

    @staticmethod
    def _retried(work: Callable[[], T]) -> T:
        """Another process may be in the way for a while, and a disk full."""
        for _ in range(TRIES_MAX):
            try:
                return work()
            except StoreError as error:
                if not error.retry:
                    raise
            sleep(TRY_SECONDS)
        return work()

    def _wake(self) -> None:
        for wake in list(self._wakes.values()):
            try:
                wake(self.state.high_water)
            except Exception as error:  # noqa: BLE001 -- it is somebody else's code, and the commit has happened
                warnings.warn(f"a subscriber of the store failed: {error!r}", RuntimeWarning, stacklevel=4)

    def _answer_expected(self) -> None:
        """A snapshot may stand in for commands that somebody waits for."""
        for token, waiting in list(self._expected.items()):
            answer = self._machine.store.replica.answer(token)
            if answer is not None:
                _answer(waiting, answer)

    # ---- roots ------------------------------------------------------------------------------------------------------

    def _note_root(self, place: int) -> None:
        """Before a command after this place is done: the store is as the log says up to it, unless it is ahead."""
        if place in self._roots or place <= 0 or self.state.applied > place:
            return
        self._roots[place] = self.state.root
        while len(self._roots) > ROOTS_MAX:
            del self._roots[next(iter(self._roots))]
        self._noted(Index(place), self.state.root)

    def _compare(self, compared: Sequence[CompareRoot]) -> None:
        for one in compared:
            own = self._roots.get(one.index)
            if own is not None and own != one.root:
                raise OtherData(
                    f"the lace at place {one.index} of the log has the root {own.hex()} here and {one.root.hex()} at "
                    "the leader: what is stored differs, so this node stops"
                )

    # ---- failures ---------------------------------------------------------------------------------------------------

    def _check(self) -> None:
        if self._failure is not None:
            raise ResourceError(f"the store of the lace does not follow: {self._failure}", retry=False)
        if self._is_closed:
            raise ResourceError("the store of the lace has been closed", retry=False)

    def _note_failed(self, future: "Future[None]") -> None:
        error = future.exception()
        if isinstance(error, Exception):
            self._fail(error)

    def _fail(self, error: Exception) -> None:
        failure = error if isinstance(error, BobbinError) else ResourceError(f"{error!r}", retry=False)
        with self._changed:
            if self._failure is not None:
                return  # a snapshot that was to be taken over is one of the jobs that fail with the thread
            self._failure = failure
            self._jobs.clear()
            self._changed.notify_all()
        self._fail_all(failure)
        self._broke(str(failure))

    def _fail_all(self, failure: BobbinError) -> None:
        for waiting in [*self._expected.values(), *self._promised]:
            with suppress(InvalidStateError):  # it is done, or whoever waited has given up
                waiting.set_exception(failure)
        self._expected.clear()
        self._promised.clear()


def _answer(waiting: "Future[bytes]", answer: bytes) -> None:
    with suppress(InvalidStateError):  # it is done, or whoever waited has given up
        waiting.set_result(answer)


def _before(index: int) -> int:
    """The place of the last root before an index."""
    return (index - 1) // ROOT_EVERY * ROOT_EVERY


class LacePart:
    """The machine as the composite of a node sees it: the present store, or one that was built from a snapshot."""

    root: Final = _ROOT
    """The same always: roots of laces are compared by commands of their own, which need not wait for the thread."""

    def __init__(self, keeper: LaceKeeper, built: Path | None = None, index: Index | None = None) -> None:
        self._keeper: Final = keeper
        self._built = built
        self._index: Final = index

    @property
    def applied(self) -> Index:
        """As far as commands are queued: nothing of it is lost."""
        return Index(self._keeper.queued) if self._built is None or self._index is None else self._index

    def apply_many(self, commands: Sequence[Placed]) -> list[bytes]:
        """Queue them. Whoever proposed one hears of it by its token."""
        self._keeper.do(commands)
        return [b""] * len(commands)

    def settle(self, index: Index) -> None:
        """Note, in its turn, that all is there up to here."""
        self._keeper.settle(index)

    def snapshot(self) -> "LaterCapture":
        """The store at this place, as soon as the thread is there."""
        return LaterCapture(self._keeper.capture())

    def adopt(self) -> None:
        """Let the store hold what was built."""
        if self._built is not None and self._index is not None:
            self._keeper.adopt(self._built, self._index)
            self._built = None

    def close(self) -> None:
        """What was built and not adopted is taken away. The store belongs to the keeper."""
        if self._built is not None:
            replicated_machine.clear(self._built)
            self._built = None


class LaterCapture:
    """A capture that the thread makes when it is there; read in yet another thread, which waits for it."""

    def __init__(self, coming: "Future[LaceCapture]") -> None:
        self._coming: Final = coming

    def __len__(self) -> int:
        return len(self._coming.result())

    def __iter__(self) -> Iterator[bytes]:
        return iter(self._coming.result())
