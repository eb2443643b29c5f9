"""Driving one side of an exchange over a link: events in, effects out, until it ends (Lace-050, drivers).

The driver decides nothing. It gives the machine what happens (messages, timers, changes of the store, a wish to end)
one event at a time, and performs the effects in their order. It reads and writes at the same time, so two sides that
both have much to say cannot block each other; it reads only what the machine awaits, and sends the next part of a
transfer only when the last one is out, so memory does not grow with what is exchanged.

A bounded exchange ends by itself. An open one goes on until somebody closes: it is woken by commits to its own store,
by other processes' commits (looked for at an interval), by ticks, and by the peer.

Steps, and whatever they want done to the store, take time. With ``work`` they are done elsewhere (in one thread for all
exchanges over one store), and the event loop stays free. Observers are called there too, right after the step.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from contextlib import suppress
from typing import Final, Protocol, TypeAlias, TypeVar

from bobbin.errors import PeerError, ResourceError, UsageError
from bobbin.interlace.config import Bounded
from bobbin.interlace.effects import Close, Effect, Ended, Notify, Persist, Remember, SaveCursor, Send, WakeAt
from bobbin.interlace.events import (
    Cancelled,
    Event,
    Fired,
    Flushed,
    LinkClosed,
    OperandChanged,
    PersistFailed,
    Received,
    Started,
    StoreChanged,
    Undecodable,
    Unsendable,
)
from bobbin.interlace.limits import SECOND_NS
from bobbin.interlace.machine import InterlaceMachine
from bobbin.interlace.messages import Message, Transfer
from bobbin.interlace.reasons import LimitReached, Reason
from bobbin.interlace.result import Result
from bobbin.interlace.state import Awaits
from bobbin.policy.modules import Selector
from bobbin.runtime.ahead import Ahead, Storing
from bobbin.runtime.pair import Clock, Observer, Performer, persist
from bobbin.runtime.undisturbed import undisturbed

POLL_SECONDS: Final = 1.0
"""How often an open exchange looks for what other processes have stored."""


LINGER_SECONDS: Final = 5.0
"""How long the last words may take to get out, once everything is decided."""

PARTING_SECONDS: Final = 0.01
"""How long it may take to say that nothing more comes."""

UNSETTLED_BYTES_MAX: Final = 32 * 1024 * 1024
"""While more than so much is being checked elsewhere, nothing is read. The machine bounds its records, of any size."""

T = TypeVar("T")


class LinkEnded(Exception):
    """The link is closed, by whoever's doing. There is nothing more to read."""


class Link(Protocol):
    """A way to one peer. Reading and writing go on at the same time."""

    async def send(self, message: Message) -> None:
        """Send a message; returns when there is room for the next one. Raises ``LinkEnded``.

        Raises ``PeerError`` where the peer is gone, and has said why.
        """
        ...

    async def receive(self, awaits: Awaits) -> Message:
        """The next message, read as what is awaited. Raises ``LinkEnded``, or ``PeerError`` for what is no message."""
        ...

    async def close(self, why: Reason | None = None) -> None:
        """Let go of the link. What was sent before still arrives, if the other side reads on.

        The peer may be told ``why``, where that is of use to it.
        """
        ...


class Work(Protocol):
    """Does a job, one at a time and in order, wherever the store may be used; returns what the job returns."""

    def __call__(self, job: Callable[[], T], /) -> Awaitable[T]: ...


Subscribe: TypeAlias = Callable[[Callable[[], None]], Callable[[], None]]
"""Takes what to call after each commit, from any thread; returns the undo."""


class Exchange:
    """One side of one exchange, running."""

    def __init__(
        self,
        machine: InterlaceMachine,
        performer: Performer,
        link: Link,
        *,
        clock: Clock,
        observers: Iterable[Observer] = (),
        subscribe: Subscribe | None = None,
        changed_elsewhere: Callable[[], bool] | None = None,
        poll_seconds: float = POLL_SECONDS,
        work: Work | None = None,
        ahead: Ahead | None = None,
    ) -> None:
        """``subscribe`` and ``changed_elsewhere`` say when the store has changed; an open exchange needs them.

        ``work`` runs every step, and everything else that touches the store; without it, all runs in the event loop.
        With ``ahead``, arrivals may be checked elsewhere while more come.
        """
        self._machine = machine
        self._performer = performer
        self._link = link
        self._clock = clock
        self._observers = tuple(observers)
        self._subscribe = subscribe
        self._changed_elsewhere = changed_elsewhere
        self._poll_seconds = poll_seconds
        self._work = work
        self._storing = Storing(ahead, self._note_ready)
        self._events: asyncio.Queue[Event | None] = asyncio.Queue()
        """None says that a message is out, and that it may be time to read again."""
        self._outgoing: asyncio.Queue[Message | None] = asyncio.Queue()
        self._timer: WakeAt | None = None
        self._unsent = 0
        """Messages that are not out yet. A peer needs one of ours for each of its own, so at most one may be behind."""
        self._changed = False
        self._result: Result | None = None
        self._kept_cursor = True
        self._loop: asyncio.AbstractEventLoop | None = None

    def cancel(self) -> None:
        """End soon, with what has been stored so far."""
        self._events.put_nowait(Cancelled())

    def change_operand(self, selector: Selector) -> None:
        """Go on under another selector. Only an open exchange can."""
        if isinstance(self._machine.config.lifecycle, Bounded):
            raise UsageError("a bounded exchange keeps its operand")
        self._events.put_nowait(OperandChanged(selector))

    def wake(self) -> None:
        """The store has changed. May be called from any thread, any number of times."""
        if self._loop is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._note_change)

    async def run(self, wind_up: Callable[[], None] | None = None) -> Result:
        """Run to the end; returns what became of it.

        ``wind_up`` is done at the end, if nothing has failed, while the peer takes its time to let go of the link too.
        """
        self._loop = asyncio.get_running_loop()
        writer = asyncio.create_task(self._write())
        poller = asyncio.create_task(self._poll()) if self._changed_elsewhere is not None else None
        undo: Callable[[], None] | None = None
        try:
            if (subscribe := self._subscribe) is not None:
                undo = await self._do(lambda: subscribe(self.wake))
            await self._step(Started())
            await self._drive(writer)
            self._outgoing.put_nowait(None)
            with suppress(TimeoutError):
                await asyncio.wait_for(writer, LINGER_SECONDS)
        finally:
            for task in (writer, poller):
                if task is not None:
                    task.cancel()
            closing = asyncio.create_task(self._link.close(self._parting()))
            try:
                if wind_up is not None and self._result is not None:
                    # That this side has said everything goes out first.
                    await asyncio.wait({closing}, timeout=PARTING_SECONDS)
                    await self._do(wind_up)
            finally:
                await closing
            if undo is not None:
                await self._do(undo)
        assert self._result is not None, "a machine that has ended says so"
        return self._result

    def _parting(self) -> Reason | None:
        """Why this side closes; None also where a message is not all out, since nothing can be said inside of one."""
        return self._result.reason if self._result is not None and not self._unsent else None

    async def _drive(self, writer: asyncio.Task[None]) -> None:
        """Take events until the machine has ended."""
        reading: asyncio.Task[Event] | None = None
        waiting: asyncio.Task[Event | None] | None = None
        try:
            while self._result is None:
                if self._timer is not None and self._seconds_left() == 0:
                    # Before anything else, so that a peer that never falls silent cannot outrun it.
                    token, self._timer = self._timer.token, None
                    await self._step(Fired(token))
                    continue
                if self._storing.is_ready:
                    await self._step(await self._do(self._storing.finish))
                    continue
                if reading is None and self._has_room and (awaits := self._machine.awaits) is not Awaits.NOTHING:
                    reading = asyncio.create_task(self._read(awaits))
                waiting = waiting or asyncio.create_task(self._events.get())
                if reading is None and self._work is None and self._storing.help():
                    # Nothing can be read before something is stored, and nothing is stored before it is checked.
                    await asyncio.sleep(0)
                    if not waiting.done():
                        continue
                tasks: set[asyncio.Task[Event] | asyncio.Task[Event | None] | asyncio.Task[None]] = {
                    waiting,
                    # While something is being stored, its end comes first, and says so itself.
                    waiting if reading is None and self._storing else writer if reading is None else reading,
                }
                done, _ = await asyncio.wait(tasks, timeout=self._seconds_left(), return_when=asyncio.FIRST_COMPLETED)
                if not done and self._timer is not None:
                    token, self._timer = self._timer.token, None
                    await self._step(Fired(token))
                if waiting in done:
                    given, waiting = waiting.result(), None
                    if given is not None:
                        await self._step(given)
                elif reading is None and not self._storing and writer in done and self._events.empty():
                    # Nothing is read at this moment, so only the writer can tell that the link is gone.
                    await self._step(LinkClosed())
                if reading is not None and reading in done and self._result is None:
                    event, reading = reading.result(), None
                    await self._step(event)
        finally:
            for task in (reading, waiting):
                if task is not None:
                    task.cancel()

    @property
    def _has_room(self) -> bool:
        """Whether what was read before is far enough along to read on."""
        return self._unsent <= 1 and self._storing.size <= UNSETTLED_BYTES_MAX

    async def _step(self, event: Event) -> None:
        if isinstance(event, StoreChanged):
            self._changed = False
        effects, answers = await self._do(lambda: self._advance(event))
        for answer in answers:
            self._events.put_nowait(answer)
        for effect in effects:
            self._perform(effect)

    def _advance(self, event: Event) -> tuple[tuple[Effect, ...], list[Event]]:
        """One step, and what it wants done to the store, which comes before everything else in its effects."""
        effects = self._machine.step(event, now=self._clock())
        for observer in self._observers:
            observer(event, effects)
        answers: list[Event] = []
        for effect in effects:
            match effect:
                case Persist():
                    self._persist(effect, answers)
                case SaveCursor():
                    # A store that has just failed may take as long to fail again, and the peer waits to hear of it.
                    self._kept_cursor = not _has_failed(effects) and self._performer.save(effect)
                case Remember():
                    self._performer.remember(effect)
                case _:
                    pass
        return effects, answers

    def _persist(self, effect: Persist, answers: list[Event]) -> None:
        """Store what came, now or when it has been checked elsewhere."""
        if self._storing.begin(effect):
            return
        answer = persist(self._performer, effect)
        if isinstance(answer, PersistFailed):
            self._storing.give_up()
        answers.append(answer)

    def _note_ready(self) -> None:
        """From any thread."""
        if self._loop is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._events.put_nowait, None)

    async def _do(self, job: Callable[[], T]) -> T:
        """Have a job done. One that was begun is waited for, whatever happens: it may be using the store."""
        if self._work is None:
            return undisturbed(job)
        doing = asyncio.ensure_future(self._work(lambda: undisturbed(job)))
        try:
            return await asyncio.shield(doing)
        except asyncio.CancelledError:
            await asyncio.wait({doing})
            raise

    def _perform(self, effect: Effect) -> None:
        match effect:
            case Persist() | SaveCursor() | Remember():
                pass  # done with the step
            case Send(message):
                self._unsent += 1
                self._outgoing.put_nowait(message)
            case Notify(notice):
                if isinstance(notice, Ended):
                    self._result = notice.result.with_cursor(kept=self._kept_cursor)
            case WakeAt():
                self._timer = effect
            case Close():
                # The writer closes after what was said before.
                self._timer = None

    async def _read(self, awaits: Awaits) -> Event:
        try:
            return Received(await self._link.receive(awaits))
        except PeerError as error:
            return Undecodable(Reason(error.code), str(error))
        except (LinkEnded, OSError):
            return LinkClosed()

    async def _write(self) -> None:
        """Send what the machine says, in order, until it has said everything."""
        try:
            while (message := await self._outgoing.get()) is not None:
                await self._link.send(message)
                self._unsent -= 1
                if self._unsent:
                    self._events.put_nowait(None)
                if isinstance(message, Transfer) and not message.last:
                    self._events.put_nowait(Flushed())
        except LimitReached as error:
            self._events.put_nowait(Unsendable(reason=error.reason, detail=str(error), limit=error.limit))
        except PeerError as error:
            self._events.put_nowait(Undecodable(Reason(error.code), str(error)))
        except (LinkEnded, OSError):
            # Whoever reads notices too; while nobody does, that this task is over says it.
            return

    async def _poll(self) -> None:
        assert self._changed_elsewhere is not None
        while True:
            await asyncio.sleep(self._poll_seconds)
            with suppress(ResourceError):
                if await self._do(self._changed_elsewhere):
                    self._note_change()

    def _note_change(self) -> None:
        if not self._changed:
            self._changed = True
            self._events.put_nowait(StoreChanged())

    def _seconds_left(self) -> float | None:
        if self._timer is None:
            return None
        return max(self._timer.monotonic_ns - self._clock().monotonic_ns, 0) / SECOND_NS


def _has_failed(effects: tuple[Effect, ...]) -> bool:
    """Whether a step has ended the exchange because the store failed."""
    return any(
        isinstance(one, Notify) and isinstance(one.notice, Ended) and one.notice.result.reason is Reason.STORE
        for one in effects
    )
