"""A small graph that is served to tests, and raw observers that may say anything."""

import asyncio
import json
import threading
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from concurrent.futures import Future
from contextlib import asynccontextmanager, contextmanager
from typing import Any, Final, TypeVar

from websockets.asyncio.client import ClientConnection, connect
from websockets.typing import Origin, Subprotocol

from bobbin.reactive.graph import Graph
from bobbin.reactive.messages import NodeId, PeerId
from bobbin.reactive.permissions import OpKind
from bobbin.runtime.graph_allowances import Allowance
from bobbin.runtime.graph_client import GraphMirror
from bobbin.runtime.graph_host import GraphHost
from bobbin.runtime.graph_peers import OWNER, Identities, token_digest
from bobbin.runtime.graph_server import GraphServer, ServerSettings
from bobbin.runtime.graph_web import PATH
from bobbin.runtime.reactive_context import ReactiveContext
from bobbin.transport.base import ByteStream
from bobbin.transport.dial import dial
from bobbin.wire import address as addresses
from bobbin.wire.address import Address
from bobbin.wire.lazily.framing import Deframer, frame

T = TypeVar("T")
SECONDS_MAX: Final = 60.0
"""After this a test has failed. None comes near it."""

PEER: Final = PeerId(7)
TOKEN: Final = "a-token-of-seven"
OTHER: Final = PeerId(8)
OTHER_TOKEN: Final = "a-token-of-eight"
TOKENS: Final = {token_digest(TOKEN): PEER, token_digest(OTHER_TOKEN): OTHER}
LARGE: Final = NodeId(2**53)


def run(work: Coroutine[Any, Any, T]) -> T:
    """Run a test's coroutine, for a bounded time."""

    async def bounded() -> T:
        async with asyncio.timeout(SECONDS_MAX):
            return await work

    return asyncio.run(bounded())


class Sample:
    """Two figures, their sum, a text, a secret, and a node whose id JavaScript cannot hold."""

    def __init__(self, *allowed: Allowance) -> None:
        graph = self.graph = Graph()
        self.context = ReactiveContext(graph)
        self.one = graph.cell(1, tag="i64", key="figures/one")
        self.two = graph.cell(2, tag="i64", key="figures/two")
        self.sum = graph.slot(lambda: self.one.get() + self.two.get(), tag="i64", key="sums/all")
        self.secret = graph.cell("hush", tag="string", key="secret")
        self.double = graph.slot(lambda: self.secret.get() * 2, tag="string", key="sums/secret")
        self.large = graph.cell("held", tag="string", key="figures/large", id=LARGE)
        self.told: list[tuple[str, dict[str, str | int]]] = []
        self.host = GraphHost(
            self.context, allowed=allowed or SEVEN, tell=lambda word, values: self.hear(word, dict(values))
        )

    def hear(self, word: str, values: dict[str, str | int]) -> None:
        self.told.append((word, values))

    def reasons(self, word: str) -> list[str | int]:
        """Why something was told."""
        return [values["reason"] for told, values in self.told if told == word]


def read(pattern: str, peer: PeerId = PEER) -> Allowance:
    return Allowance(peer, OpKind.READ, pattern)


SEVEN: Final = (read("figures/*"), read("sums/all"), Allowance(PEER, OpKind.WRITE, "figures/one"), read("*", OWNER))
"""What the peers of most tests may."""
SEEN: Final = {"figures/one": 1, "figures/two": 2, "sums/all": 3, "figures/large": "held"}
"""What the first of them sees at the beginning."""


def settings(**other: Any) -> ServerSettings:  # noqa: ANN401 -- any of its fields
    return ServerSettings(**{"identities": Identities(tokens=TOKENS), **other})


@asynccontextmanager
async def serving(host: GraphHost, *places: str, given: ServerSettings | None = None) -> AsyncIterator[list[Address]]:
    """The graph, served; yields where."""
    server = GraphServer(host, given or settings())
    try:
        yield [await server.start(addresses.parse(place, to_listen=True)) for place in places]
    finally:
        await server.close()


async def seen(mirror: GraphMirror, condition: Callable[[dict[str, object]], bool]) -> dict[str, object]:
    """What a mirror has, as soon as it is so."""
    async for _ in mirror.updates():
        if condition(mirror.values()):
            break
    return mirror.values()


def greeting(peer: int = PEER, **other: object) -> dict[str, object]:
    """A handshake, whole or with something wrong in it."""
    return {
        "protocol_id": "lazily-ipc",
        "protocol_major_version": 1,
        "codec": "json",
        "max_frame_size": 1_000_000,
        "fragmentation_supported": False,
        "ordered_reliable": True,
        "peer_id": peer,
        "session_id": "graph",
        "features": [],
        **other,
    }


class RawStream:
    """An observer on a stream of bytes."""

    def __init__(self, stream: ByteStream) -> None:
        self.stream: Final = stream
        self._frames: Final = Deframer()

    @classmethod
    async def dial(cls, address: Address, token: str | None = TOKEN) -> "RawStream":
        made = cls(await dial(address))
        if token is not None:
            await made.stream.write(f"token {token}\n".encode())
        return made

    async def say(self, value: object) -> None:
        raw = value if isinstance(value, bytes) else json.dumps(value).encode()
        await self.stream.write(frame(raw))

    async def hear(self) -> Any:  # noqa: ANN401 -- whatever the server says
        """What comes next; None at the end."""
        while (raw := self._frames.next()) is None:
            data = await self.stream.read()
            if not data:
                return None
            self._frames.feed(data)
        return json.loads(raw)

    async def greet(self, **other: object) -> Any:  # noqa: ANN401 -- as above
        """Shake hands; returns what comes after the server's own handshake."""
        await self.say(greeting(**other))  # type: ignore[arg-type]
        assert (await self.hear())["protocol_id"] == "lazily-ipc"
        return await self.hear()


@asynccontextmanager
async def raw_socket(
    address: Address, *, token: str | None = TOKEN, path: str = PATH, origin: str | None = None, **headers: str
) -> AsyncIterator[ClientConnection]:
    """An observer on a WebSocket, as a browser would open one."""
    protocols = ["lazily-ipc", *([] if token is None else [f"bearer.{token}"])]
    async with connect(
        f"ws://127.0.0.1:{address.port_number}{path}",
        subprotocols=[Subprotocol(name) for name in protocols],
        origin=None if origin is None else Origin(origin),
        additional_headers=headers,
        compression=None,
        proxy=None,
    ) as socket:
        yield socket


@contextmanager
def served_in_thread(sample: Sample, *places: str, given: ServerSettings | None = None) -> Iterator[list[str]]:
    """The graph, served by a thread of this process, for tests of commands; yields where."""
    started: Future[list[str]] = Future()
    stops: list[Callable[[], object]] = []

    async def main() -> None:
        over, loop = asyncio.Event(), asyncio.get_running_loop()
        stops.append(lambda: loop.call_soon_threadsafe(over.set))
        async with serving(sample.host, *places, given=given) as found:
            started.set_result([str(address) for address in found])
            await over.wait()

    def work() -> None:
        try:
            asyncio.run(main())
        except BaseException as error:
            if not started.done():
                started.set_exception(error)
            raise

    thread = threading.Thread(target=work)
    thread.start()
    try:
        yield started.result(SECONDS_MAX)
    finally:
        for stop in stops:
            stop()
        thread.join(SECONDS_MAX)
        assert not thread.is_alive()
