"""Open interlace: an exchange with a peer in this process that stays, and a stream of what comes in it (Lace-050).

The stream is this side's own affair. It watches the steps of our machine from the driver; no store and no machine knows
of it, and the peer sees the same messages with and without.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager, ExitStack
from types import TracebackType
from typing import Final, Self, TypeAlias

from msgspec import structs

from bobbin.errors import ResourceError, UsageError
from bobbin.interlace.config import Open
from bobbin.interlace.effects import Arrived, Effect, Notify
from bobbin.interlace.events import Event
from bobbin.interlace.machine import InterlaceMachine
from bobbin.interlace.result import Result
from bobbin.policy.modules import Selector
from bobbin.records.coordinate import Address, Coordinate, Prefix
from bobbin.records.ids import HashText
from bobbin.records.record import Blob, Record, read_trusted
from bobbin.runtime.exchange import Exchange, Link
from bobbin.runtime.local_peer import LocalSide, Manner, configure, make_machine, now
from bobbin.runtime.memory_link import memory_link
from bobbin.runtime.operations import Participant, sides
from bobbin.runtime.pair import Clock, Observer
from bobbin.store.base import Store

OBSERVATIONS_MAX: Final = 65_536
"""Observations that wait to be taken."""

ResultRule: TypeAlias = Callable[[Record], bool]
"""Which records a caller wants to hear of."""


class ObservationsMissed(ResourceError):
    """More records came than the observer took. They are stored; only the word of them is lost."""

    def __init__(self, count: int) -> None:
        super().__init__(f"{count} observations were not taken in time; list the records instead", retry=True)
        self.count = count


class Observations:
    """The records that came in an exchange and match a rule, until somebody takes them."""

    def __init__(self, store: Store, matches: ResultRule, *, waiting_max: int = OBSERVATIONS_MAX) -> None:
        self._store = store
        self._matches = matches
        self._waiting_max = waiting_max
        self._waiting: deque[Record] = deque()
        self._missed = 0
        self._news = asyncio.Event()

    def observe(self, event: Event, effects: tuple[Effect, ...]) -> None:
        """One step of the machine has been made."""
        del event
        for effect in effects:
            if not isinstance(effect, Notify) or not isinstance(effect.notice, Arrived):
                continue
            for name in effect.notice.records:
                raw = self._store.get(HashText(name))
                record = None if raw is None else read_trusted(raw)
                if record is None or not self._matches(record):
                    continue
                if len(self._waiting) < self._waiting_max:
                    self._waiting.append(record)
                else:
                    self._missed += 1
                self._news.set()

    def stir(self) -> None:
        """Let whoever waits look again whether it is over."""
        self._news.set()

    async def take(self, is_over: Callable[[], bool]) -> Record | None:
        """The next one, waited for; None when there are none left and it is over."""
        while not self._waiting:
            if self._missed:
                missed, self._missed = self._missed, 0
                raise ObservationsMissed(missed)
            if is_over():
                return None
            self._news.clear()
            await self._news.wait()
        return self._waiting.popleft()


class Following(AbstractAsyncContextManager["Following"]):
    """An open exchange with a peer in this process, and the stream of records that came in it and match a rule.

    ::

        async with follow(own, peer, matches=matches_place(place)) as following:
            async for record in following:
                ...

    The rule is this side's own: it chooses what the caller hears of, not what is exchanged. A record is observed once
    it is validated and stored.
    """

    def __init__(
        self,
        own: Participant,
        peer: Participant,
        *,
        matches: ResultRule,
        manner: Manner,
        clock: Clock,
        waiting_max: int,
    ) -> None:
        self._participants = own, peer
        self._manner = structs.replace(manner, lifecycle=Open(), direct=False)
        self._clock = clock
        self._observations = Observations(own.decisions.store, matches, waiting_max=waiting_max)
        self._stack = ExitStack()
        self._exchanges: tuple[Exchange, Exchange] | None = None
        self._tasks: tuple[asyncio.Task[Result], asyncio.Task[Result]] | None = None

    async def __aenter__(self) -> Self:
        own, peer = self._participants
        left, right = self._stack.enter_context(sides(own, peer))
        ends = memory_link()
        ours = make_machine(configure(left, right, self._manner, initiator=True), left.holdings)
        theirs = make_machine(configure(right, left, self._manner, initiator=False), right.holdings)
        self._exchanges = (
            self._exchange(ours, left, ends[0], own, [self._observations.observe]),
            self._exchange(theirs, right, ends[1], peer, []),
        )
        first, second = self._exchanges
        self._tasks = asyncio.create_task(first.run()), asyncio.create_task(second.run())
        for task in self._tasks:
            task.add_done_callback(lambda _: self._observations.stir())
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        del kind, error, trace
        await self.close()

    async def close(self) -> Result | None:
        """End the exchange; returns what became of our side of it. What was observed and not taken yet is let go."""
        if self._exchanges is None or self._tasks is None:
            return None
        exchanges, tasks = self._exchanges, self._tasks
        self._exchanges = self._tasks = None
        for exchange in exchanges:
            exchange.cancel()
        try:
            results = await asyncio.gather(*tasks)
        finally:
            self._stack.close()
        return results[0]

    def change_policy(self, selector: Selector) -> None:
        """Go on under another selector."""
        if self._exchanges is None:
            raise UsageError("the exchange is not open")
        self._exchanges[0].change_operand(selector)

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Record:
        record = await self._observations.take(lambda: self._tasks is None or self._tasks[0].done())
        if record is not None:
            return record
        if self._tasks is not None:
            self._tasks[0].result()
        raise StopAsyncIteration

    def _exchange(
        self, machine: InterlaceMachine, side: LocalSide, link: Link, who: Participant, observers: list[Observer]
    ) -> Exchange:
        store = who.decisions.store
        return Exchange(
            machine,
            side.holdings,
            link,
            clock=self._clock,
            observers=observers,
            subscribe=lambda wake: store.subscribe(lambda _: wake()),
            changed_elsewhere=store.changed_elsewhere,
        )


def follow(
    own: Participant,
    peer: Participant,
    *,
    matches: ResultRule,
    manner: Manner = Manner(),  # noqa: B008 (a frozen value)
    clock: Clock = now,
    waiting_max: int = OBSERVATIONS_MAX,
) -> Following:
    """An open exchange, to be entered with ``async with``. At most ``waiting_max`` observations wait to be taken."""
    return Following(own, peer, matches=matches, manner=manner, clock=clock, waiting_max=waiting_max)


def result_rule(matching: Coordinate | Prefix | Address | ResultRule | None) -> ResultRule:
    """A result rule from a place, or the one that is given; without any, every record matches."""
    if matching is None:
        return lambda record: True  # noqa: ARG005
    if isinstance(matching, Address):
        wanted = matching.hash
        return lambda record: record.hash == wanted
    return matches_place(matching) if isinstance(matching, Coordinate | Prefix) else matching


def matches_place(place: Coordinate | Prefix) -> ResultRule:
    """A result rule: the records at a coordinate or below a prefix."""

    def rule(record: Record) -> bool:
        if isinstance(record, Blob) or record.group != place.group:
            return False
        if isinstance(place, Coordinate):
            return (record.app, record.name) == (place.app, place.name)
        return place.app is None or (record.app == place.app and record.name.startswith(place.name))

    return rule
