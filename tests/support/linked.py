"""Two machines over a byte stream in memory: the whole way that an exchange between two processes takes, in one."""

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from time import monotonic_ns
from typing import Final, TypeVar

from bobbin.interlace.config import Config
from bobbin.interlace.effects import Effect, FixedPoint, Notify
from bobbin.interlace.events import Event, Now
from bobbin.interlace.machine import InterlaceMachine
from bobbin.interlace.result import Result
from bobbin.runtime.exchange import Exchange, Work
from bobbin.runtime.stream_link import StreamLink
from bobbin.simulator.holdings import MemoryHoldings
from bobbin.wire.elements import Elements
from tests.support.byte_streams import MemoryStream, stream_pair, until, whole
from tests.support.exchanges import SetClock

T = TypeVar("T")


class LinkedEnd:
    """One side, with its machine, link and driver."""

    def __init__(
        self,
        config: Config,
        holdings: MemoryHoldings,
        stream: MemoryStream,
        *,
        clock: Callable[[], Now],
        work: Work | None = None,
        monotonic: Callable[[], int] = monotonic_ns,
    ) -> None:
        self.stream: Final = stream
        self.holdings: Final = holdings
        self.fixed_points = 0
        self.events: Final[list[Event]] = []
        self.notice: Callable[[Event], None] = lambda _: None
        """Told of every event after its step."""
        self.machine: Final = InterlaceMachine(config, holdings)
        self.link: Final = StreamLink(stream, Elements(has_preface=False), self.machine, work=work, monotonic=monotonic)
        self.exchange: Final = Exchange(
            self.machine, holdings, self.link, clock=clock, observers=[self._observe], work=work
        )

    def _observe(self, event: Event, effects: tuple[Effect, ...]) -> None:
        self.events.append(event)
        self.notice(event)
        for effect in effects:
            if isinstance(effect, Notify) and isinstance(effect.notice, FixedPoint):
                self.fixed_points += 1


class Linked:
    """Both sides. Introductions are left out: nobody has proven anything but what the configurations say."""

    def __init__(
        self,
        left: Config,
        right: Config,
        here: MemoryHoldings,
        there: MemoryHoldings,
        *,
        cut: Callable[[int], int] = whole,
        room_bytes: int = 256 * 1024,
        work: Work | None = None,
        clock: Callable[[], Now] | None = None,
        monotonic: Callable[[], int] = monotonic_ns,
    ) -> None:
        """Make both inside a running event loop."""
        self.clock: Final = clock or SetClock()
        ours, theirs = stream_pair(cut=cut, room_bytes=room_bytes)
        self.left: Final = LinkedEnd(left, here, ours, clock=self.clock, work=work, monotonic=monotonic)
        self.right: Final = LinkedEnd(right, there, theirs, clock=self.clock, work=work, monotonic=monotonic)

    def start(self) -> tuple[asyncio.Task[Result], asyncio.Task[Result]]:
        """Both run from now on."""
        return asyncio.create_task(self.left.exchange.run()), asyncio.create_task(self.right.exchange.run())

    async def run(self) -> tuple[Result, Result]:
        """Both to their end."""
        left, right = self.start()
        async with asyncio.timeout(60):
            return await left, await right

    async def at_rest(self, times: int = 1) -> None:
        """Both have come to so many fixed points."""
        await until(lambda: min(self.left.fixed_points, self.right.fixed_points) >= times)


class Threads:
    """Does every job in one thread of its own, as a node does, and says in which thread things happened."""

    def __init__(self) -> None:
        self.executor = ThreadPoolExecutor(max_workers=1)
        self.jobs = 0
        self.touched: set[int] = set()

    async def __call__(self, job: Callable[[], T], /) -> T:
        self.jobs += 1
        return await asyncio.get_running_loop().run_in_executor(self.executor, job)

    def note(self) -> None:
        self.touched.add(threading.get_ident())
