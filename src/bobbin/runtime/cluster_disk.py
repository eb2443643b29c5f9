"""The thread that makes durable what a raft machine asks for.

What has come in while the disk was busy is written together and covered by one fsync; then the machine hears of the
last token. So the cost of an fsync is shared by all who wait for it, and nothing that rests on a record leaves before
one covers it (CL-088): the machine holds it back until it hears.

A disk that is quick is not worth waking a thread for: while the last writes were over in less than a moment, and
nothing else is under way, a few small entries are written and synced in the event loop itself. One write that takes
longer ends that for a while; so what a slow disk can hold up is one write.

A write that fails in the thread is tried three times, 100 and then 200 ms apart (CL-013). After the third the machine
hears of the failure, and of that alone: whatever it had asked for until then is dropped, since it rested on what has
failed.

Anything else that is raised in the thread is a fault of this program, or memory has run out. Nobody can say then what
the disk holds: the thread ends, and says so.
"""

import threading
from collections.abc import Callable, Sequence
from functools import partial
from queue import Empty, SimpleQueue
from time import monotonic_ns
from typing import Final, Protocol, TypeAlias, TypeVar

from bobbin.cluster.raft.effects import Append, DurableRecord, Persist
from bobbin.cluster.raft.events import Persisted, PersistFailed
from bobbin.errors import BobbinError, ResourceError

ATTEMPT_DELAYS_SECONDS: Final = (0.1, 0.2)
"""Between the attempts to write something; one attempt more than there are delays."""
GROUP_MAX: Final = 4_096
"""``Persist`` effects that one fsync covers at most."""

QUICK_NS_MAX: Final = 2_000_000
"""A write that takes no longer is quick."""
QUICK_IN_A_ROW: Final = 4
"""So many quick writes make a quick disk."""
_SMALL_ENTRIES: Final = 8
_SMALL_BYTES: Final = 64 * 1024
"""What is written in the event loop at most: entries, and the bytes of one of them."""

T = TypeVar("T")

Heard: TypeAlias = Callable[[Persisted | PersistFailed], None]
"""Tells the machine. Called in the event loop."""
Post: TypeAlias = Callable[[Callable[[], object]], object]
"""Has something called in the event loop, from this thread."""


class Records(Protocol):
    """A log, as far as it is written here. Errors are ``ResourceError`` and leave it as the disk has it."""

    def append(self, records: Sequence[DurableRecord]) -> None:
        """Write; not durable yet."""
        ...

    def sync(self) -> None:
        """Make everything durable that was written."""
        ...


class _Job:
    """Something else to be done with the storage, in order with what is written."""

    __slots__ = ("run",)

    def __init__(self, run: Callable[[], None]) -> None:
        self.run: Final = run


class _Stop:
    pass


class Disk:
    """One thread, started with the first thing to do."""

    def __init__(
        self,
        records: Records,
        *,
        post: Post,
        hear: Heard,
        broke: Callable[[BaseException], object],
        took: Callable[[int], None] = lambda _: None,
        wait: Callable[[float], object] | None = None,
        quick_ns_max: int = 0,
    ) -> None:
        """``broke`` hears, in the event loop, of what nobody has foreseen; nothing is written after it.

        ``took`` hears how long each write took. ``quick_ns_max``: 0 to leave everything to the thread.

        ``wait`` passes the time between two attempts; without it, that time, or less where the thread is to end.
        """
        self._records: Final = records
        self._post: Final = post
        self._hear: Final = hear
        self._broke: Final = broke
        self._took: Final = took
        self._queue: Final[SimpleQueue[tuple[int, Persist] | _Job | _Stop]] = SimpleQueue()
        self._stopping: Final = threading.Event()
        self._wait: Final = self._stopping.wait if wait is None else wait
        self._generation = 0
        """Rises in the event loop when a failure is told. What was asked for before is not wanted any more."""
        self._quick_ns_max: Final = quick_ns_max
        self._quick_in_a_row = 0
        self._under_way = 0
        """What the thread was given and the event loop has not heard of yet."""
        self._thread: Final = threading.Thread(target=self._run, name="cluster-disk", daemon=True)
        self.syncs = 0
        self.retries = 0
        self.failures = 0

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    # ---- called in the event loop -----------------------------------------------------------------------------------

    def persist(self, effect: Persist) -> None:
        """Make something durable, soon, and say so; perhaps at once."""
        if self._quick_in_a_row >= QUICK_IN_A_ROW and self._is_for_now(effect) and self._write_now(effect):
            return
        self._under_way += 1
        self._queue.put((self._generation, effect))

    def _is_for_now(self, effect: Persist) -> bool:
        if self._under_way or self._stopping.is_set() or len(effect.records) != 1:
            return False
        (record,) = effect.records
        if not isinstance(record, Append) or len(record.entries) > _SMALL_ENTRIES:
            return False
        payloads = (entry.payload for entry in record.entries)
        return all(isinstance(payload, bytes) and len(payload) <= _SMALL_BYTES for payload in payloads)

    def _write_now(self, effect: Persist) -> bool:
        """Write in the event loop; whether it worked. What did not is for the thread, which can wait."""
        began = monotonic_ns()
        try:
            self._records.append(effect.records)
            self._records.sync()
        except (BobbinError, OSError):
            self._quick_in_a_row = 0
            return False
        self.syncs += 1
        self._tell(Persisted(effect.token), monotonic_ns() - began, 0)
        return True

    def do(self, work: Callable[[], T], done: Callable[[T | BobbinError], None]) -> None:
        """Do something else with the storage, after what was asked for before; ``done`` hears of it in the loop."""

        def run() -> None:
            outcome: T | BobbinError
            try:
                outcome = work()
            except BobbinError as error:
                outcome = error
            except OSError as error:
                outcome = ResourceError(f"the disk failed: {error.strerror or error}", retry=True)
            self._post(lambda: self._finish(done, outcome))

        self._under_way += 1
        self._queue.put(_Job(run))

    def stop(self) -> None:
        """Finish what was asked for, and end the thread. Waits for it."""
        if self._thread.is_alive():
            self._queue.put(_Stop())
            self._stopping.set()
            self._thread.join()

    def _finish(self, done: Callable[[T | BobbinError], None], outcome: T | BobbinError) -> None:
        self._under_way -= 1
        done(outcome)

    def _tell(self, persisted: Persisted, duration_ns: int, count: int) -> None:
        """So many of those that were under way are durable."""
        self._under_way -= count
        self._quick_in_a_row = self._quick_in_a_row + 1 if duration_ns <= self._quick_ns_max else 0
        self._took(duration_ns)
        self._hear(persisted)

    def _tell_failure(self, failure: PersistFailed, count: int) -> None:
        self._under_way -= count
        self._quick_in_a_row = 0
        self._generation += 1
        self._hear(failure)

    def _drop(self, count: int) -> None:
        self._under_way -= count

    # ---- the thread -------------------------------------------------------------------------------------------------

    def _run(self) -> None:
        try:
            self._work()
        except BaseException as error:  # noqa: BLE001 -- a thread that ends unheard leaves a node that waits for ever
            self._post(partial(self._broke, error))

    def _work(self) -> None:
        waiting: list[tuple[int, Persist] | _Job | _Stop] = []
        while True:
            waiting.append(self._queue.get())
            try:
                while len(waiting) < GROUP_MAX:
                    waiting.append(self._queue.get_nowait())
            except Empty:
                pass
            group: list[tuple[int, Persist]] = []
            for one in waiting:
                if isinstance(one, tuple):
                    group.append(one)
                    continue
                self._write(group)
                group = []
                if isinstance(one, _Stop):
                    return
                one.run()
            self._write(group)
            waiting.clear()

    def _write(self, group: Sequence[tuple[int, Persist]]) -> None:
        if not group:
            return
        wanted = [effect for generation, effect in group if generation == self._generation]
        if not wanted:
            self._post(partial(self._drop, len(group)))
            return
        records = [record for effect in wanted for record in effect.records]
        reason = ""
        for delay in (*ATTEMPT_DELAYS_SECONDS, None):
            began = monotonic_ns()
            try:
                self._records.append(records)
                self._records.sync()
            except (BobbinError, OSError) as error:
                reason = str(error)
                if delay is not None:
                    self.retries += 1
                    self._wait(delay)
                continue
            self.syncs += 1
            self._post(partial(self._tell, Persisted(wanted[-1].token), monotonic_ns() - began, len(group)))
            return
        self.failures += 1
        failed = PersistFailed(wanted[0].token, reason)
        self._drop_until_told(failed, len(group))

    def _drop_until_told(self, failed: PersistFailed, count: int) -> None:
        """Wait until the machine has heard, so that nothing that rests on what failed is written after it."""
        told = threading.Event()

        def tell() -> None:
            try:
                self._tell_failure(failed, count)
            finally:
                told.set()

        self._post(tell)
        while not told.wait(1.0) and not self._stopping.is_set():
            pass
