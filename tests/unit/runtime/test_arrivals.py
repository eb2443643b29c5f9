"""Who has connected and asked for nothing, also where a TLS handshake goes before the request."""

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from websockets.asyncio.client import connect
from websockets.asyncio.server import ServerConnection, serve

from bobbin.runtime.arrivals import Arrivals
from bobbin.transport import certificate
from bobbin.transport.listen import Handshakes, Secure
from bobbin.transport.tls import TlsServer
from tests.support.byte_streams import until
from tests.support.graphs import run

BOUNDS = Handshakes(count_max=3, count_per_origin_max=2, seconds=60.0)


class _Served:
    def __init__(self, secure: Secure | None, bounds: Handshakes) -> None:
        self.turned: list[str] = []
        self.writers: list[asyncio.StreamWriter] = []
        self.arrivals = Arrivals(bounds, lambda why, _: self.turned.append(why), secure.context if secure else None)
        self.trust = ssl.create_default_context() if secure else None
        if self.trust is not None:
            self.trust.check_hostname = False
            self.trust.verify_mode = ssl.CERT_NONE
        self.port = 0

    async def greet(self, socket: ServerConnection) -> None:
        self.arrivals.release(socket)
        await socket.send("welcome")

    async def ask(self) -> object:
        scheme = "ws" if self.trust is None else "wss"
        async with connect(f"{scheme}://127.0.0.1:{self.port}", ssl=self.trust, compression=None) as socket:
            return await socket.recv()

    async def silent(self, local: str = "127.0.0.1") -> asyncio.StreamReader:
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port, local_addr=(local, 0))
        self.writers.append(writer)
        return reader


@asynccontextmanager
async def _serving(secure: Secure | None, bounds: Handshakes = BOUNDS) -> AsyncIterator[_Served]:
    served = _Served(secure, bounds)
    server = await serve(
        served.greet, "127.0.0.1", 0, create_connection=served.arrivals.connection(), open_timeout=60, compression=None
    )
    served.port = next(iter(server.sockets)).getsockname()[1]
    try:
        yield served
    finally:
        server.close()
        await served.arrivals.close()
        await server.wait_closed()
        for writer in served.writers:
            writer.close()


@pytest.fixture(params=["plain", "encrypted"])
def secure(request: pytest.FixtureRequest, tmp_path: Path) -> Secure | None:
    if request.param == "plain":
        return None
    shown = TlsServer(certificate=tmp_path / "certificate.pem", key=tmp_path / "key.pem")
    certificate.create(shown.certificate, shown.key, names=["127.0.0.1"])
    return Secure.load(shown)


def test_whoever_says_nothing_gives_way_and_whoever_asks_is_heard(secure: Secure | None) -> None:
    async def main() -> None:
        async with _serving(secure) as served:
            silent = [await served.silent() for _ in range(3)]
            assert await silent[0].read() == b"", "the oldest of this address"
            assert await served.ask() == "welcome"
            assert await silent[1].read() == b""
            silent += [await served.silent(local) for local in ("127.0.0.8", "127.0.0.9", "127.0.0.1")]
            assert await silent[2].read() == b"", "the oldest of the busiest address"
            assert served.turned == ["too-many-handshakes"] * 3
            assert served.arrivals.held == 3
        assert served.arrivals.held == 0
        assert await silent[3].read() == b"", "all go with the server"

    run(main())


def test_whoever_goes_is_counted_no_longer(secure: Secure | None) -> None:
    async def main() -> None:
        async with _serving(secure) as served:
            _, writer = await asyncio.open_connection("127.0.0.1", served.port)
            await until(lambda: served.arrivals.held == 1)
            writer.close()
            await until(lambda: served.arrivals.held == 0)
            assert await served.ask() == "welcome"
            assert served.arrivals.held == 0

    run(main())


@pytest.mark.parametrize("secure", ["encrypted"], indirect=True)
@pytest.mark.parametrize("said", [b"GET / HTTP/1.1\r\n\r\n", b""])
def test_a_handshake_that_is_none_or_never_comes_ends(secure: Secure | None, said: bytes) -> None:
    async def main() -> None:
        bounds = Handshakes(count_max=3, count_per_origin_max=2, seconds=60.0 if said else 0.05)
        async with _serving(secure, bounds) as served:
            reader, writer = await asyncio.open_connection("127.0.0.1", served.port)
            writer.write(said)
            # An alert may come first.
            await reader.read()
            await until(lambda: served.turned == ["handshake-failed"])
            assert served.arrivals.held == 0
            writer.close()

    run(main())
