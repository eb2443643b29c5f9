"""Which transports the kit tests. A new one joins by one entry here."""

import asyncio
import os
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TypeAlias

import pytest

from bobbin.transport import certificate, stdio
from bobbin.transport.base import ByteStream
from bobbin.transport.dial import dial
from bobbin.transport.listen import listen
from bobbin.transport.tls import TlsClient, TlsServer
from bobbin.wire.address import Address, Scheme

Ends: TypeAlias = tuple[ByteStream, ByteStream]
"""Who dialled, and who was dialled."""


class Kit:
    """One transport, ready to give pairs of connected streams."""

    def __init__(self, name: str, connect: Callable[[], Awaitable[Ends]], *, binding: bytes | None) -> None:
        self.name = name
        self.binding = binding
        """What both ends must have."""
        self._connect = connect

    @asynccontextmanager
    async def connected(self) -> AsyncIterator[Ends]:
        """Two ends, which are let go afterwards."""
        one, other = await self._connect()
        try:
            yield one, other
        finally:
            one.abort()
            other.abort()
            # asyncio lets sockets go in the next turns.
            for _ in range(5):
                await asyncio.sleep(0)

    def run(self, test: Callable[[ByteStream, ByteStream], Awaitable[None]]) -> None:
        """Run a test over a fresh pair."""

        async def main() -> None:
            async with self.connected() as (one, other):
                await test(one, other)

        asyncio.run(main())


async def _over_network(address: Address, client: TlsClient | None, server: TlsServer | None) -> Ends:
    taken: asyncio.Queue[ByteStream] = asyncio.Queue()
    listener = await listen(address, taken.put, tls=server)
    try:
        return await dial(listener.address, tls=client), await taken.get()
    finally:
        await listener.close()


async def _over_pipes() -> Ends:
    address = Address(scheme=Scheme.STDIO)
    (first, second), (third, fourth) = os.pipe(), os.pipe()
    return await stdio.open_stream(address, first, fourth), await stdio.open_stream(address, third, second)


async def _over_socket_pair() -> Ends:
    address = Address(scheme=Scheme.STDIO)
    descriptors = [one.detach() for one in socket.socketpair()]
    one, other = [await stdio.open_stream(address, descriptor, os.dup(descriptor)) for descriptor in descriptors]
    return one, other


NETWORK = {
    "tcp": Address(scheme=Scheme.TCP, host="127.0.0.1", port=0),
    "tcp6": Address(scheme=Scheme.TCP, host="::1", port=0),
    "tls": Address(scheme=Scheme.TLS, host="127.0.0.1", port=0),
    "ws": Address(scheme=Scheme.WS, host="127.0.0.1", port=0),
    "wss": Address(scheme=Scheme.WSS, host="127.0.0.1", port=0),
}
LOCAL: dict[str, Callable[[], Awaitable[Ends]]] = {"stdio": _over_pipes, "stdio-socket": _over_socket_pair}


@pytest.fixture(scope="session")
def server_files(tmp_path_factory: pytest.TempPathFactory) -> TlsServer:
    folder: Path = tmp_path_factory.mktemp("certificate")
    files = TlsServer(certificate=folder / "certificate.pem", key=folder / "key.pem")
    certificate.create(files.certificate, files.key, names=["127.0.0.1"])
    return files


def _has_ipv6() -> bool:
    try:
        with socket.socket(socket.AF_INET6) as probe:
            probe.bind(("::1", 0))
    except OSError:
        return False
    return True


@pytest.fixture(params=[*LOCAL, "unix", *NETWORK])
def kit(request: pytest.FixtureRequest, tmp_path: Path, server_files: TlsServer) -> Kit:
    name: str = request.param
    if name in LOCAL:
        return Kit(name, LOCAL[name], binding=None)
    if name == "tcp6" and not _has_ipv6():
        pytest.skip("this machine has no IPv6")
    address = NETWORK.get(name) or Address(scheme=Scheme.UNIX, path=str(tmp_path / "node.sock"))
    if address.scheme not in (Scheme.TLS, Scheme.WSS):
        return Kit(name, lambda: _over_network(address, None, None), binding=None)
    pin = certificate.fingerprint(server_files.certificate)
    return Kit(name, lambda: _over_network(address, TlsClient(pin=pin), server_files), binding=pin)
