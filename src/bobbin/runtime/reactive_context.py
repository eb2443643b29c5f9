"""A graph for several threads and coroutines: one lock around it, and an event loop for what takes its time.

The graph itself is for one caller at a time. Here every call takes the lock, does its operation whole, effects
included, and lets go; so each thread sees the graph at rest, and a batch of one is never seen half done by another. A
coroutine must not wait inside a batch. Computations and effects run in the thread that caused them, hold the lock, and
read nodes directly.

Asynchronous slots are driven in the event loop in which the context was entered: each run is a task whose steps take
the lock and whose pauses do not. A run that is overtaken is cancelled. One that is on its way when the context is left
is cancelled, too, and its slot waits for another event loop, in which it is run from the beginning.

Whoever wants to hear of changes takes an iterator. It holds a bounded number of values; beyond that the oldest go, and
the iterator says how many.
"""

import asyncio
import secrets
import threading
from collections import deque
from collections.abc import Callable, Coroutine, Generator, Iterator
from contextlib import contextmanager
from types import TracebackType, coroutine
from typing import Final, Generic, Self, TypeVar

from bobbin.errors import ResourceError, UsageError
from bobbin.reactive.graph import Cell, Effect, Graph, Readable, Run, StillPending

T = TypeVar("T")

CHANGES_MAX: Final = 1024
"""Values that wait to be taken from one iterator."""
_ID_BITS: Final = 52


class ChangesMissed(ResourceError):
    """More values came than were taken. The newest ones are still there."""

    def __init__(self, count: int) -> None:
        super().__init__(f"{count} values were not taken in time", retry=True)
        self.count = count


def _draw_id() -> int:
    """A number that every peer takes exactly, JavaScript too, and that says nothing of other nodes."""
    return secrets.randbits(_ID_BITS)


class RunCancelled(ResourceError):
    """A run was cancelled by something other than the graph."""

    def __init__(self) -> None:
        super().__init__("the computation was cancelled", retry=True)


class ReactiveContext:
    """One graph, shared. ``async with`` gives it an event loop; without one, asynchronous slots stay pending."""

    def __init__(self, graph: Graph | None = None, *, on_error: Callable[[Exception], None] | None = None) -> None:
        """``on_error`` hears of effects that fail when a run has ended, since nobody has called then."""
        self._graph: Final = Graph(draw_id=_draw_id) if graph is None else graph
        self._on_error: Final = on_error
        self._lock: Final = threading.RLock()
        self._depth = 0
        """How often the thread that has the lock has entered."""
        self._task: asyncio.Task[object] | None = None
        """The task, if any, that entered first."""
        self._loop: asyncio.AbstractEventLoop | None = None
        self._is_tending = False
        """Whether the event loop has been asked to look for runs that have begun or ended."""
        self._tasks: Final[dict[Run, asyncio.Task[None]]] = {}
        """Of the event loop alone."""

    async def __aenter__(self) -> Self:
        with self._lock:
            if self._loop is not None:
                raise UsageError("a context is entered once at a time")
            self._loop = asyncio.get_running_loop()
        self._tend()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with self._lock:
            self._loop = None
        tasks = dict(self._tasks)
        for task in tasks.values():
            task.cancel()
        try:
            await asyncio.gather(*tasks.values(), return_exceptions=True)
        finally:
            # A task that was cancelled before its first step has done nothing, not even forgotten itself.
            with self._lock:
                for run in tasks:
                    self._tasks.pop(run, None)
                    self._graph.give_back(run)

    # ---- calls, from any thread -------------------------------------------------------------------------------------

    @contextmanager
    def entered(self) -> Iterator[Graph]:
        """Have the graph to oneself, for several operations. Others wait meanwhile."""
        with self._lock:
            task = _present_task()
            if not self._depth:
                self._task = task
            elif task is not self._task:
                raise UsageError("another coroutine of this thread has the graph, and waits for something: it must not")
            self._depth += 1
            try:
                yield self._graph
            finally:
                self._depth -= 1
                if not self._depth:
                    self._task = None
                    self._ask_to_tend()

    @contextmanager
    def batch(self) -> Iterator[Graph]:
        """Have the graph to oneself, for one operation."""
        with self.entered() as graph, graph.batch():
            yield graph

    def get(self, node: Readable[T]) -> T:
        """The value of a node, up to date."""
        with self.entered():
            return node.get()

    def set(self, cell: Cell[T], value: T) -> None:
        """Write a cell."""
        with self.entered():
            cell.set(value)

    def update(self, cell: Cell[T], change: Callable[[T], T]) -> None:
        """Write what a function makes of the value; nobody writes in between."""
        with self.entered():
            cell.update(change)

    # ---- calls, from coroutines -------------------------------------------------------------------------------------

    async def value(self, node: Readable[T]) -> T:
        """The value of a node as soon as there is one. Raises what its computation raised."""
        try:
            return self.get(node)
        except StillPending:
            if self._loop is None:
                raise
        async with self.changes(node) as changes:
            return await anext(changes)

    def changes(self, node: Readable[T], *, waiting_max: int = CHANGES_MAX) -> "Changes[T]":
        """The values of a node, from the present one on: ``async with context.changes(node) as values: …``.

        A computation that fails is raised in the place of its value; the iterator goes on after that.
        """
        return Changes(self, node, waiting_max)

    # ---- runs -------------------------------------------------------------------------------------------------------

    def _ask_to_tend(self) -> None:
        """With the lock. Let the event loop look after the runs, if there may be anything to see."""
        if self._loop is not None and not self._is_tending and (self._graph.has_starts or self._tasks):
            self._is_tending = True
            self._loop.call_soon_threadsafe(self._tend)

    def _tend(self) -> None:
        """In the event loop: begin runs, and cancel those that have been overtaken."""
        with self._lock:
            self._is_tending = False
            starts = [] if self._loop is None else self._graph.take_starts()
            overtaken = [task for run, task in self._tasks.items() if not run.is_current]
        for task in overtaken:
            task.cancel()
        for run in starts:
            self._tasks[run] = asyncio.create_task(self._drive(run))

    async def _drive(self, run: Run) -> None:
        """See one run to its end, and forget it."""
        try:
            await self._hand_in(run)
        finally:
            self._tasks.pop(run, None)

    async def _hand_in(self, run: Run) -> None:
        try:
            value = await self._stepping(run, run.begin())
        except asyncio.CancelledError:
            if self._loop is None or not run.is_current:
                raise
            self._end(lambda: self._graph.fail(run, RunCancelled()))
        except Exception as error:  # noqa: BLE001 -- whoever reads the slot gets it
            failure = error
            self._end(lambda: self._graph.fail(run, failure))
        else:
            self._end(lambda: self._graph.resolve(run, value))

    def _end(self, hand_in: Callable[[], bool]) -> None:
        try:
            with self.entered():
                hand_in()
        except ResourceError as error:
            if self._on_error is not None:
                self._on_error(error)
            else:
                context = {"message": "effects failed after a run of an asynchronous slot", "exception": error}
                asyncio.get_running_loop().call_exception_handler(context)

    @coroutine
    def _stepping(self, run: Run, steps: Coroutine[object, object, object]) -> Generator[object, object, object]:
        """Resume a run with the lock, and wait without it, as often as it takes."""

        def resume() -> tuple[bool, object]:
            try:
                return False, (steps.send(None) if thrown is None else steps.throw(thrown))
            except StopIteration as end:
                return True, end.value

        thrown: BaseException | None = None
        try:
            while True:
                with self.entered():
                    is_over, given = self._graph.step(run, resume)
                if is_over:
                    return given
                try:
                    yield given
                    thrown = None
                except BaseException as error:  # noqa: BLE001 -- it is the run's to deal with
                    thrown = error
        finally:
            steps.close()


class Changes(Generic[T]):
    """The values of one node, as they come, until somebody takes them. Belongs to one event loop."""

    def __init__(self, context: ReactiveContext, node: Readable[T], waiting_max: int) -> None:
        if waiting_max < 1:
            raise UsageError("an iterator holds at least one value")
        self._context: Final = context
        self._node: Final = node
        self._waiting: Final[deque[tuple[T | None, Exception | None]]] = deque(maxlen=waiting_max)
        """A value, or what was raised in place of it. Guarded by the context's lock."""
        self._missed = 0
        self._effect: Effect | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._news: Final = asyncio.Event()

    async def __aenter__(self) -> Self:
        self._loop = asyncio.get_running_loop()
        with self._context.entered() as graph:
            self._effect = graph.effect(self._note)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._effect is not None:
            with self._context.entered():
                self._effect.dispose()
            self._effect = None
        self._news.set()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> T:
        if self._loop is None:
            raise UsageError("use it in `async with`")
        while (given := self._take()) is None:
            if self._effect is None:
                raise StopAsyncIteration
            await self._news.wait()
        value, error = given
        if error is not None:
            raise error
        return value  # type: ignore[return-value]  # there is one if there is no error

    def _take(self) -> tuple[T | None, Exception | None] | None:
        with self._context.entered():
            missed, self._missed = self._missed, 0
            if missed:
                raise ChangesMissed(missed)
            if self._waiting:
                return self._waiting.popleft()
            self._news.clear()
            return None

    def _note(self) -> None:
        """The effect: in any thread, with the lock."""
        try:
            given: tuple[T | None, Exception | None] = (self._node.get(), None)
        except StillPending:
            raise
        except Exception as error:  # noqa: BLE001 -- raised where the value is taken
            given = (None, error)
        if len(self._waiting) == self._waiting.maxlen:
            self._missed += 1
        self._waiting.append(given)
        assert self._loop is not None
        self._loop.call_soon_threadsafe(self._news.set)


def _present_task() -> asyncio.Task[object] | None:
    try:
        return asyncio.current_task()
    except RuntimeError:
        return None
