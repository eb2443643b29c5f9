"""A signaling server for one test, and raw clients that may say anything."""

import asyncio
import json
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from typing import Any, TypeVar

from websockets.asyncio.client import ClientConnection, connect
from websockets.typing import Origin, Subprotocol

from bobbin.reactive.signaling import OPEN
from bobbin.runtime.signal_server import SignalServer, SignalSettings

T = TypeVar("T")
SECONDS_MAX = 60.0
"""After this a test has failed. None comes near it."""


def run(work: Coroutine[Any, Any, T]) -> T:
    """Run a test's coroutine, for a bounded time."""

    async def bounded() -> T:
        async with asyncio.timeout(SECONDS_MAX):
            return await work

    return asyncio.run(bounded())


@asynccontextmanager
async def serving(settings: SignalSettings | None = None) -> AsyncIterator[SignalServer]:
    """A server on this machine, at a port of its own."""
    server = SignalServer(settings or SignalSettings(access=OPEN))
    await server.start("127.0.0.1", 0)
    try:
        yield server
    finally:
        await server.close()


class RawClient:
    """Sends and hears JSON, whatever it is."""

    def __init__(self, socket: ClientConnection) -> None:
        self.socket = socket

    async def say(self, value: object) -> None:
        await self.socket.send(value if isinstance(value, str | bytes) else json.dumps(value))

    async def hear(self) -> Any:  # noqa: ANN401 (whatever the server says)
        return json.loads(await self.socket.recv())

    async def join(self, peer: int) -> Any:  # noqa: ANN401
        await self.say({"type": "join", "peer": peer})
        return await self.hear()

    async def close(self) -> None:
        await self.socket.close()


@asynccontextmanager
async def raw_client(
    server: SignalServer,
    path: str = "/session/one",
    *,
    token: str | None = None,
    origin: str | None = None,
    protocols: tuple[str, ...] = (),
) -> AsyncIterator[RawClient]:
    """A client that has connected, and not joined."""
    assert server.address is not None
    headers = {} if token is None else {"Authorization": f"Bearer {token}"}
    uri = f"ws://{server.address.host}:{server.address.port}{path}"
    async with connect(
        uri,
        additional_headers=headers,
        origin=None if origin is None else Origin(origin),
        subprotocols=[Subprotocol(name) for name in protocols] or None,
        proxy=None,
    ) as socket:
        yield RawClient(socket)
