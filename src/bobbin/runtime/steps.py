"""The one thread in which a node works on its store: every step of every link, one at a time.

A store object belongs to one thread at a time, and a step may take a while; here both are settled at once, and the
event loop stays free for reading and writing. Links take turns by what they have used: of those that wait, the one that
has used least goes next (start-time fair queueing), so a link with much to do does not stand in the way of those with
little. A step that has begun is not interrupted; how long one can take is bounded by the limits of rules and blocks.
"""

import asyncio
import heapq
import threading
from collections.abc import Awaitable, Callable
from itertools import count
from time import perf_counter_ns
from typing import Final, TypeVar

from bobbin.errors import ResourceError

T = TypeVar("T")

_JOIN_SECONDS: Final = 30.0


class StepsClosed(ResourceError):
    """The node has stopped working on its store."""

    def __init__(self) -> None:
        super().__init__("the node has stopped", retry=False)


class Turn:
    """One link's way to the thread: calling it has a job done, after those of links that have used less."""

    def __init__(self, steps: "Steps") -> None:
        self._steps: Final = steps
        self.used_ns = 0
        """How long this link's jobs have taken so far."""
        self.position = 0
        """In the virtual time of the queue; the thread's business."""

    def __call__(self, job: Callable[[], T], /) -> Awaitable[T]:
        """Have a job done; what it returns or raises comes back."""
        return self._steps.submit(self, job)


class Steps:
    """The thread, and the queue before it."""

    def __init__(self, *, timed: Callable[[float], None] = lambda _: None, name: str = "bobbin-steps") -> None:
        """``timed`` hears in the thread how many seconds each job took."""
        self._timed: Final = timed
        self._waiting: Final[list[tuple[int, int, Callable[[], None]]]] = []
        """By position, then in the order in which they came."""
        self._numbers: Final = count()
        self._changed: Final = threading.Condition()
        self._now = 0
        """Virtual time: the position of the job that was begun last."""
        self._busy_since_ns: int | None = None
        self._is_closed = False
        self._thread: Final = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def turn(self) -> Turn:
        """A way in for one more link."""
        return Turn(self)

    @property
    def busy_seconds(self) -> float:
        """How long the present job has been going on; 0 if there is none."""
        since = self._busy_since_ns
        return 0.0 if since is None else (perf_counter_ns() - since) / 1e9

    def __len__(self) -> int:
        return len(self._waiting)

    async def submit(self, turn: Turn, job: Callable[[], T]) -> T:
        """Have a job done. Raises ``StepsClosed`` when the thread has ended."""
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[T] = loop.create_future()
        # An error holds the frames that it came through. So that it does not keep itself, and what the job was about,
        # none of them may lead to it in the end: not to the future either, which holds it.
        waiting = [answer]

        def perform() -> None:
            began = self._busy_since_ns = perf_counter_ns()
            try:
                told: tuple[Callable[..., None], object] = _answer, job()
            except BaseException as error:  # noqa: BLE001 -- it is raised where the job was asked for
                told = _fail, error
            took = perf_counter_ns() - began
            self._busy_since_ns = None
            turn.used_ns += took
            turn.position += took
            self._timed(took / 1e9)
            # Last: whoever hears of it may come with the next job at once.
            tell(told[0], waiting.pop(), told[1])
            del told

        def tell(how: Callable[..., None], *values: object) -> None:
            try:
                loop.call_soon_threadsafe(how, *values)
            except RuntimeError:  # the loop has been closed: nobody waits any more
                return

        with self._changed:
            if self._is_closed:
                raise StepsClosed
            # Who has been away does not save up turns: it goes on from now.
            turn.position = max(turn.position, self._now)
            heapq.heappush(self._waiting, (turn.position, next(self._numbers), perform))
            self._changed.notify()
        try:
            return await answer
        finally:
            del answer

    async def close(self) -> None:
        """Do what is waiting, and end the thread."""
        with self._changed:
            self._is_closed = True
            self._changed.notify()
        await asyncio.to_thread(self._thread.join, _JOIN_SECONDS)

    def _run(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._waiting or self._is_closed)
                if not self._waiting:
                    return
                self._now, _, perform = heapq.heappop(self._waiting)
            perform()
            del perform  # it holds on to what it was about


def _answer(answer: "asyncio.Future[T]", outcome: T) -> None:
    if not answer.done():
        answer.set_result(outcome)


def _fail(answer: "asyncio.Future[T]", error: BaseException) -> None:
    if not answer.done():
        # A future cannot hold the one that ends iterations.
        answer.set_exception(RuntimeError("a job ran out of items") if isinstance(error, StopIteration) else error)
