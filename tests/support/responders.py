"""A lace that answers, for tests of the side that dials: every stream gets an introduction and an exchange."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Final

from bobbin.interlace.config import Bounded, Open
from bobbin.interlace.limits import Limits, Service
from bobbin.interlace.machine import InterlaceMachine
from bobbin.runtime.exchange import Exchange
from bobbin.runtime.holdings import StoreHoldings
from bobbin.runtime.introduction import Introduction, configure, introduce
from bobbin.runtime.local_peer import now
from bobbin.runtime.operations import Participant
from bobbin.runtime.remote import Admit, RemotePeer, expecting
from bobbin.runtime.stream_link import StreamLink
from bobbin.transport.base import ByteStream, Route, TransportError
from bobbin.wire.proof import Role
from tests.support.byte_streams import LOOPBACK, MemoryStream, seeded, stream_pair

if TYPE_CHECKING:
    from bobbin.interlace.result import Result


class Responder:
    """Answers on streams in memory. Each dial makes one; ``streams`` are those of the side that dialled."""

    def __init__(
        self,
        own: Participant,
        *,
        lifecycle: Bounded | Open | None = None,
        limits: Limits | None = None,
        service: Service | None = None,
        admit: Admit = lambda _: None,
        routes: tuple[Route, Route] = (LOOPBACK, LOOPBACK),
        seed: int = 1,
    ) -> None:
        self.own = own
        self.admit = admit
        self.results: Final[list[Result]] = []
        self.refusals: Final[list[Exception]] = []
        self.streams: Final[list[MemoryStream]] = []
        self.dials = 0
        self.is_down = False
        self._lifecycle = lifecycle or Open()
        self._limits = limits or Limits()
        self._service = service or Service()
        self._routes = routes
        self._seed = seed
        self._tasks: set[asyncio.Task[None]] = set()

    async def dial(self) -> ByteStream:
        """A stream whose other end this answers."""
        self.dials += 1
        if self.is_down:
            raise TransportError("nobody listens there", retry=True)
        ours, theirs = stream_pair(*self._routes, cut=seeded(self._seed + self.dials))
        self.streams.append(ours)
        task = asyncio.create_task(self.answer(theirs))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return ours

    async def answer(self, stream: ByteStream) -> None:
        """One link, from its first byte to its last."""
        try:
            introduction, _ = await introduce(stream, role=Role.RESPONDER, key=self.own.key, admit=self._admit)
        except Exception as error:  # noqa: BLE001 -- whatever it was, a test looks at it
            self.refusals.append(error)
            return
        store = self.own.decisions.store
        holdings = StoreHoldings(self.own.decisions)
        config = configure(
            introduction,
            role=Role.RESPONDER,
            selector=self.own.selector,
            lifecycle=self._lifecycle,
            limits=self._limits,
            service=self._service,
        )
        machine = InterlaceMachine(config, holdings)
        exchange = Exchange(
            machine,
            holdings,
            StreamLink(stream, introduction.elements, machine),
            clock=now,
            subscribe=lambda wake: store.subscribe(lambda _: wake()),
            changed_elsewhere=store.changed_elsewhere,
        )
        try:
            self.results.append(await exchange.run())
        finally:
            holdings.release()

    def _admit(self, introduction: Introduction) -> None:
        self.admit(introduction)

    async def finish(self) -> None:
        """Wait until every link is over."""
        while self._tasks:
            await asyncio.gather(*self._tasks, return_exceptions=True)


@asynccontextmanager
async def responding(responder: Responder, demand: Admit | None = None) -> AsyncIterator[RemotePeer]:
    """The responder as a peer to dial."""
    yield RemotePeer(dial=responder.dial, admit=demand or expecting(None), name="test")
    await responder.finish()
