"""Nodes for tests: real stores and keys, links in memory or over loopback, and peers that say what a test wants."""

import asyncio
import io
import json
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Final, Self

from msgspec import structs

from bobbin.interlace.choice import Strategy
from bobbin.interlace.config import Bounded, Open
from bobbin.interlace.effects import Effect, FixedPoint, Notify
from bobbin.interlace.events import Event
from bobbin.interlace.limits import Service
from bobbin.interlace.machine import InterlaceMachine
from bobbin.interlace.result import Result
from bobbin.policy.modules import Query, Selector
from bobbin.records.ids import HashText, Verifier
from bobbin.records.record import Record
from bobbin.records.signing import SigningKey
from bobbin.runtime.clock import tai_now
from bobbin.runtime.decisions import Decisions
from bobbin.runtime.exchange import Exchange
from bobbin.runtime.follows import Dial, dial_known
from bobbin.runtime.holdings import StoreHoldings
from bobbin.runtime.introduction import configure, introduce
from bobbin.runtime.local_peer import now
from bobbin.runtime.log import make_log
from bobbin.runtime.node import Listen, Node
from bobbin.runtime.node_settings import Logging, LogLevel, NodeSettings
from bobbin.runtime.pair import Clock
from bobbin.runtime.roster import KnownPeer, Roster, Way
from bobbin.runtime.serving import Serving
from bobbin.runtime.status import LinkStatus
from bobbin.runtime.stream_link import StreamLink
from bobbin.runtime.tracing import Tracing
from bobbin.store.base import Store
from bobbin.store.sqlite import open_store
from bobbin.transport.base import Accept, ByteStream, Listener, Route
from bobbin.transport.listen import Handshakes, Refused
from bobbin.wire.address import Address, Scheme
from bobbin.wire.proof import Role
from tests.policy_worlds import EVERYTHING
from tests.support.byte_streams import LOOPBACK, MemoryStream, stream_pair
from tests.support.exchanges import selector

ANY_PORT: Final = Address(scheme=Scheme.TCP, host="127.0.0.1", port=0)
PATIENCE_SECONDS: Final = 60.0
"""Nothing here depends on it; it ends a test that would wait for ever."""


def key(number: int) -> SigningKey:
    """One of many keys."""
    return SigningKey.from_secret(bytes([number]) * 32)


def peer(name: str, verifier: Verifier | None, **changes: object) -> KnownPeer:
    """A known peer under a policy that selects everything. ``address`` and ``certificate``: of its only way."""
    values: dict[str, object] = {"selector": selector(EVERYTHING), **changes}
    where, pin = values.pop("address", None), values.pop("certificate", None)
    if where is not None:
        values["ways"] = (Way(address=where, certificate=pin),)  # type: ignore[arg-type]
    return KnownPeer(name=name, verifier=verifier, **values)  # type: ignore[arg-type]


async def until(condition: Callable[[], object]) -> None:
    """Wait until it is so; threads take part, so this gives them time."""
    async with asyncio.timeout(PATIENCE_SECONDS):
        while not condition():  # noqa: ASYNC110 -- threads do not set events of the loop
            await asyncio.sleep(0.002)


class MemoryListener:
    """Takes the streams that a test gives it."""

    def __init__(self, address: Address, accept: Accept) -> None:
        self.address: Final = address
        self.is_closed = False
        self._accept: Final = accept
        self._tasks: Final[set[asyncio.Task[None]]] = set()

    def take(self, stream: ByteStream) -> None:
        async def run() -> None:
            await self._accept(stream)

        task = asyncio.create_task(run())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def close(self) -> None:
        self.is_closed = True


class Running:
    """A node over a store of its own, with its log in memory."""

    def __init__(
        self,
        folder: Path,
        *,
        own: SigningKey | None,
        roster: Roster,
        settings: NodeSettings | None = None,
        dial: Dial = dial_known,
        in_memory: bool = True,
        take: Listen | None = None,
        clock: Clock = now,
        service: Service = Service(),  # noqa: B008 (a frozen value)
        store: Store | None = None,
        tracing: Tracing | None = None,
    ) -> None:
        folder.mkdir(exist_ok=True)
        self.store: Final = store or open_store(folder / "records.db", create=True, now=tai_now)
        self.output: Final = io.StringIO()
        log = make_log(Logging(level=LogLevel.DEBUG), output=self.output)
        self.serving: Final = Serving(self.store, own, log=log, tracing=tracing, clock=clock, service=service)
        self.listeners: Final[list[MemoryListener]] = []
        settings = settings or NodeSettings(listen=(ANY_PORT,))
        self.node: Final = Node(self.serving, roster, settings, take=self._take if in_memory else take, dial=dial)

    async def _take(self, address: Address, accept: Accept, *, handshakes: Handshakes, refused: Refused) -> Listener:
        del handshakes, refused
        self.listeners.append(MemoryListener(address, accept))
        return self.listeners[-1]

    async def __aenter__(self) -> Self:
        await self.node.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.node.stop(0.0)
        self.store.close()

    def open(self, route: Route = LOOPBACK) -> MemoryStream:
        """A stream to the node, as one who dials has it."""
        theirs, ours = stream_pair(route, route)
        self.listeners[-1].take(ours)
        return theirs

    async def put(self, records: Iterable[Record]) -> None:
        """Store records as a step of the node would."""
        await self.serving.steps.turn()(lambda: self.store.put_records(list(records)))

    async def have(self, record: str) -> bool:
        return await self.serving.steps.turn()(lambda: self.store.have(HashText(record)))

    async def receive(self, record: str) -> None:
        """Wait until a record is here."""
        async with asyncio.timeout(PATIENCE_SECONDS):
            while not await self.have(record):  # noqa: ASYNC110 -- as above
                await asyncio.sleep(0.002)

    async def links(self) -> tuple[LinkStatus, ...]:
        return (await self.node.status()).links

    def entries(self, event: str) -> list[dict[str, object]]:
        """Of the log."""
        lines = [json.loads(line) for line in self.output.getvalue().splitlines()]
        return [line for line in lines if line["event"] == event]


class Client:
    """One side of a link to a node, driven by the test: an honest machine over a store of its own."""

    def __init__(
        self,
        folder: Path,
        own: SigningKey | None,
        *,
        rules: Selector | None = None,
        query: Query | None = None,
        lifecycle: Bounded | Open = Bounded(),  # noqa: B008 (a frozen value)
        service: Service = Service(),  # noqa: B008 (a frozen value)
        clock: Clock = now,
        strategy: Strategy = Strategy.AUTO,
    ) -> None:
        folder.mkdir(exist_ok=True)
        self.store: Final = open_store(folder / "records.db", create=True, now=tai_now)
        self._key = own
        self._rules = rules or selector(EVERYTHING)
        self._decisions = Decisions(self.store, query=query)
        self._lifecycle = lifecycle
        self._service = service
        self._clock = clock
        self._strategy = strategy
        self.fixed_points = 0
        self.exchange: Exchange | None = None
        self.machine: InterlaceMachine | None = None

    async def run(self, stream: ByteStream, role: Role = Role.INITIATOR) -> Result:
        """Introduce, and exchange to the end."""
        introduction, _ = await introduce(stream, role=role, key=self._key, admit=lambda found: found)
        holdings = StoreHoldings(self._decisions)
        config = configure(
            introduction, role=role, selector=self._rules, lifecycle=self._lifecycle, service=self._service
        )
        config = structs.replace(config, strategy=self._strategy)
        self.machine = machine = InterlaceMachine(config, holdings)
        link = StreamLink(stream, introduction.elements, machine)
        self.exchange = Exchange(
            machine,
            holdings,
            link,
            clock=self._clock,
            observers=[self._observe],
            subscribe=lambda wake: self.store.subscribe(lambda _: wake()),
        )
        try:
            return await self.exchange.run()
        finally:
            holdings.release()

    def _observe(self, event: Event, effects: tuple[Effect, ...]) -> None:
        del event
        for effect in effects:
            if isinstance(effect, Notify) and isinstance(effect.notice, FixedPoint):
                self.fixed_points += 1

    async def receive(self, record: str) -> None:
        """Wait until a record is here."""
        await until(lambda: self.store.have(HashText(record)))

    def close(self) -> None:
        self.store.close()
