"""Both sides of an exchange in one process and one thread: the two machines take turns until both have ended.

A channel carries messages from one machine to the other. ``DirectChannel`` hands over the values themselves: the
trusted engine of Lace-050, with the same transitions and nothing serialised. ``CodecChannel``
(``runtime.codec_channel``) passes the bytes that a socket would carry. Both lead to the same results.

Nobody waits for anything here. When both machines have nothing left to take, an exchange has ended or, if it is open,
stands at its fixed point.
"""

from collections import deque
from collections.abc import Callable, Iterable
from typing import Final, Protocol, TypeAlias

from bobbin.errors import ResourceError
from bobbin.interlace.effects import Close, Effect, Ended, Notice, Notify, Persist, Remember, SaveCursor, Send, WakeAt
from bobbin.interlace.events import (
    Event,
    Flushed,
    LinkClosed,
    Now,
    Persisted,
    PersistFailed,
    Received,
    Settled,
    Started,
    Undecodable,
    Unsendable,
)
from bobbin.interlace.machine import InterlaceMachine
from bobbin.interlace.messages import Message, Transfer
from bobbin.interlace.reasons import LimitReached
from bobbin.interlace.result import Result
from bobbin.interlace.state import Awaits
from bobbin.store.base import FullStore


class Performer(Protocol):
    """Does what a machine wants done to the store."""

    def persist(self, effect: Persist) -> tuple[Settled, ...]:
        """Validate and store; returns when what was valid is durable."""
        ...

    def save(self, effect: SaveCursor) -> bool:
        """Keep a cursor, if that is possible; whether it was, or will be soon.

        It only saves work: one that cannot be kept makes nothing fail.
        """
        ...

    def remember(self, effect: Remember) -> None: ...


class Channel(Protocol):
    """One direction of a link."""

    def push(self, message: Message) -> None:
        """Take a message from the sender. Raises ``LimitReached`` for one that the link cannot carry."""
        ...

    def pull(self, awaits: Awaits) -> Received | Undecodable | None:
        """The next message, read as what the receiver awaits; None if there is none."""
        ...


Clock: TypeAlias = Callable[[], Now]
Observer: TypeAlias = Callable[[Event, tuple[Effect, ...]], None]
"""Sees every step of one side."""


def persist(performer: Performer, effect: Persist) -> Persisted | PersistFailed:
    """Store what came, and say what became of it, or that the store failed."""
    try:
        return Persisted(performer.persist(effect))
    except ResourceError as error:
        return failure(error)


def failure(error: ResourceError) -> PersistFailed:
    """What the machine hears of a store that has failed. Space does not come by itself, though another try may do."""
    return PersistFailed(str(error), may_pass=error.retry and not isinstance(error, FullStore))


class DirectChannel:
    """Hands messages over as they are."""

    def __init__(self) -> None:
        self._messages: deque[Message] = deque()

    def push(self, message: Message) -> None:
        self._messages.append(message)

    def pull(self, awaits: Awaits) -> Received | Undecodable | None:
        del awaits
        return Received(self._messages.popleft()) if self._messages else None


class Side:
    """One machine with what performs its effects."""

    def __init__(self, machine: InterlaceMachine, performer: Performer, observers: Iterable[Observer] = ()) -> None:
        self.machine: Final = machine
        self.notices: Final[list[Notice]] = []
        self.result: Result | None = None
        self.closed = False
        self._performer = performer
        self._observers = tuple(observers)
        self._pending: deque[Event] = deque()
        self._kept_cursor = True

    def give(self, event: Event) -> None:
        """Something happened on this side."""
        self._pending.append(event)

    def turn(self, inbound: Channel, outbound: Channel, *, peer_closed: bool, now: Now) -> bool:
        """Take one event, if there is one; returns whether there was."""
        event = self._next(inbound, peer_closed=peer_closed)
        if event is None:
            return False
        effects = self.machine.step(event, now=now)
        for observer in self._observers:
            observer(event, effects)
        for effect in effects:
            self._perform(effect, outbound)
        return True

    def _next(self, inbound: Channel, *, peer_closed: bool) -> Event | None:
        if self._pending:
            return self._pending.popleft()
        if self.result is not None:
            return None
        awaits = self.machine.awaits
        if awaits is not Awaits.NOTHING and (event := inbound.pull(awaits)) is not None:
            return event
        return LinkClosed() if peer_closed and not self.closed else None

    def _perform(self, effect: Effect, outbound: Channel) -> None:
        match effect:
            case Persist():
                self._pending.append(persist(self._performer, effect))
            case SaveCursor():
                self._kept_cursor = self._performer.save(effect)
            case Remember():
                self._performer.remember(effect)
            case Send(message):
                try:
                    outbound.push(message)
                except LimitReached as error:
                    self._pending.append(Unsendable(reason=error.reason, detail=str(error), limit=error.limit))
                    return
                if isinstance(message, Transfer) and not message.last:
                    self._pending.append(Flushed())
            case Notify(notice):
                self.notices.append(notice)
                if isinstance(notice, Ended):
                    self.result = notice.result.with_cursor(kept=self._kept_cursor)
            case Close():
                self.closed = True
            case WakeAt():
                # Neither side waits, so no phase can take too long.
                pass


class Pair:
    """Two sides and the link between them."""

    def __init__(
        self,
        left: Side,
        right: Side,
        *,
        clock: Clock,
        channel: Callable[[Side, Side], Channel] = lambda sender, receiver: DirectChannel(),  # noqa: ARG005
    ) -> None:
        """``channel`` makes the way from the first to the second."""
        self.left: Final = left
        self.right: Final = right
        self._clock = clock
        self._to_right = channel(left, right)
        self._to_left = channel(right, left)

    def start(self) -> None:
        """The link is up."""
        self.left.give(Started())
        self.right.give(Started())

    def settle(self) -> None:
        """Let both sides take turns until neither has anything to take."""
        busy = True
        while busy:
            moved = self.left.turn(self._to_left, self._to_right, peer_closed=self.right.closed, now=self._clock())
            busy = self.right.turn(self._to_right, self._to_left, peer_closed=self.left.closed, now=self._clock())
            busy = busy or moved

    def run(self) -> tuple[Result, Result]:
        """A bounded exchange, from start to end."""
        self.start()
        self.settle()
        assert self.left.result is not None, "a bounded exchange ends"
        assert self.right.result is not None, "a bounded exchange ends"
        return self.left.result, self.right.result
