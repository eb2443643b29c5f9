"""How much of a node's time one peer may take with rounds that bring nothing.

Each round that a peer begins makes this side evaluate, and each new operand makes it compile and evaluate anew. A peer
that begins empty rounds, changes its operand, or opens links that bring nothing, more often than its bounds allow is
made to wait: what it has said is read, and taken only when it is due. A round that took long counts as many. Both sides
speak in step, so nothing piles up meanwhile, and no wait is longer than ``WAIT_SECONDS_MAX``. An honest peer with a
burst of changes gets through, more slowly and with more in each round; nobody is cut off.

The account is the peer's, not the link's: it does not begin anew when the peer comes back.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final

from bobbin.interlace.effects import Arrived, Effect, FixedPoint, Notify
from bobbin.interlace.events import Event
from bobbin.interlace.limits import SECOND_NS
from bobbin.interlace.machine import InterlaceMachine
from bobbin.interlace.messages import Advertise, Message, Setup
from bobbin.interlace.reasons import Reason
from bobbin.interlace.state import Awaits, Phase
from bobbin.runtime.admission import Bucket
from bobbin.runtime.exchange import Link
from bobbin.runtime.node_settings import LinkBounds

WAIT_SECONDS_MAX: Final = 10.0
"""Well below the time that a phase may take, so that waiting breaks no link."""
_COUNTS_ONCE_NS: Final = SECOND_NS // 10
"""A round counts once for each started tenth of a second that its steps took."""


class Pace:
    """The account of one peer, whatever links it has."""

    def __init__(self, bounds: LinkBounds, now_ns: int) -> None:
        rounds, changes = bounds.empty_rounds_per_minute_max, bounds.operand_changes_per_minute_max
        self.rounds: Final = Bucket(per_minute=rounds, burst=rounds, now_ns=now_ns)
        self.changes: Final = Bucket(per_minute=changes, burst=changes, now_ns=now_ns)


class PacedLink:
    """A link whose peer has to wait where it is too fast."""

    def __init__(
        self,
        link: Link,
        machine: InterlaceMachine,
        pace: Pace,
        *,
        used_ns: Callable[[], int],
        monotonic_ns: Callable[[], int],
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        slowed: Callable[[], None] = lambda: None,
    ) -> None:
        """``used_ns`` says how long the steps of this link have taken; ``slowed`` hears of every wait."""
        self._link: Final = link
        self._machine: Final = machine
        self._pace: Final = pace
        self._used_ns: Final = used_ns
        self._clock: Final = monotonic_ns
        self._sleep: Final = sleep
        self._slowed: Final = slowed
        self._began_ns: int | None = None
        """What was used when the peer began the present round; None if it did not, or if records have come since."""
        self._owed = 0
        """Of rounds that are over. The machine may work in another thread, so it is paid when a message comes."""

    async def send(self, message: Message) -> None:
        await self._link.send(message)

    async def receive(self, awaits: Awaits) -> Message:
        """The next message, when it is due. Raises what the link raises."""
        message = await self._link.receive(awaits)
        owed, self._owed = self._owed, 0
        self._pace.rounds.charge(self._clock(), owed)
        match message:
            case Setup() if self._machine.phase is not Phase.SETUP:
                await self._wait(self._pace.changes)
                self._pace.changes.charge(self._clock(), 1)
            case Setup() | Advertise() if self._machine.phase in (Phase.SETUP, Phase.IDLE):
                await self._wait(self._pace.rounds)
                self._began_ns = self._used_ns()
            case _:
                pass
        return message

    async def close(self, why: Reason | None = None) -> None:
        # What broke off counts like what came to its end: a peer cannot get out of it by going away.
        self._end_round()
        self._pace.rounds.charge(self._clock(), self._owed)
        self._owed = 0
        await self._link.close(why)

    def observe(self, event: Event, effects: tuple[Effect, ...]) -> None:
        """One step of the machine has been made. A round that the peer began and that brought nothing is counted."""
        del event
        for effect in effects:
            match effect:
                case Notify(Arrived()):
                    self._began_ns = None
                case Notify(FixedPoint()):
                    self._end_round()
                case _:
                    pass

    def _end_round(self) -> None:
        began, self._began_ns = self._began_ns, None
        if began is not None:
            self._owed += 1 + (self._used_ns() - began) // _COUNTS_ONCE_NS

    async def _wait(self, bucket: Bucket) -> None:
        delay = bucket.delay_ns(self._clock()) / SECOND_NS
        if delay:
            self._slowed()
            await self._sleep(min(delay, WAIT_SECONDS_MAX))
