"""Listening: addresses, bounds on handshakes, and what a stream or its owner does to the others."""

import asyncio
import errno
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from bobbin.errors import UsageError
from bobbin.transport import certificate, tcp
from bobbin.transport import listen as module
from bobbin.transport.base import ByteStream, TransportError
from bobbin.transport.dial import dial
from bobbin.transport.listen import Handshakes, SocketListener, Turned, listen
from bobbin.transport.tls import TlsClient, TlsServer
from bobbin.wire import address
from bobbin.wire.address import Address, Scheme

_ANY = Address(scheme=Scheme.TCP, host="127.0.0.1", port=0)
_TURNS_MAX = 200_000


async def _until(condition: Callable[[], bool]) -> None:
    """Let everybody else run until it is so."""
    for _ in range(_TURNS_MAX):
        if condition():
            return
        await asyncio.sleep(0)
    raise AssertionError("it never came")


async def _ignore(stream: ByteStream) -> None:
    await stream.read()
    stream.abort()


@pytest.fixture
def server(tmp_path: Path) -> TlsServer:
    files = TlsServer(certificate=tmp_path / "certificate.pem", key=tmp_path / "key.pem")
    certificate.create(files.certificate, files.key)
    return files


def _connect(listener: SocketListener) -> socket.socket:
    """A client that connects and says nothing."""
    return socket.create_connection((listener.address.host, listener.address.port_number))


def test_a_port_of_the_systems_choice_is_shown() -> None:
    async def main() -> None:
        listener = await listen(_ANY, _ignore)
        assert listener.address.port
        assert address.parse(str(listener.address)) == listener.address
        (await dial(listener.address)).abort()
        await listener.close()
        await listener.close()
        with pytest.raises(TransportError, match="refused"):
            await dial(listener.address)

    asyncio.run(main())


def test_two_cannot_listen_at_one_address(tmp_path: Path) -> None:
    async def main() -> None:
        for wanted in (_ANY, address.parse(f"unix:{tmp_path}/node.sock")):
            first = await listen(wanted, _ignore)
            with pytest.raises(TransportError, match="listens there already") as found:
                await listen(first.address, _ignore)
            assert found.value.retry
            await first.close()
            await (await listen(first.address, _ignore)).close()

    asyncio.run(main())


def test_a_socket_file_is_gone_after_the_end(tmp_path: Path) -> None:
    async def main() -> None:
        listener = await listen(address.parse(f"unix:{tmp_path}/node.sock"), _ignore)
        assert (tmp_path / "node.sock").exists()
        await listener.close()
        assert not (tmp_path / "node.sock").exists()

    asyncio.run(main())


@pytest.mark.parametrize("text", ["unix:/no/such/folder/node.sock", f"unix:/tmp/{'x' * 150}", "tcp:192.0.2.1:4790"])
def test_an_address_that_this_machine_does_not_have(text: str) -> None:
    async def main() -> None:
        with pytest.raises(TransportError) as found:
            await listen(address.parse(text), _ignore)
        assert str(found.value).startswith(text)

    asyncio.run(main())


def test_a_certificate_belongs_to_an_encrypted_address(server: TlsServer) -> None:
    async def main() -> None:
        with pytest.raises(UsageError, match="needs a certificate"):
            await listen(address.parse("tls:127.0.0.1"), _ignore)
        with pytest.raises(UsageError, match="takes no certificate"):
            await listen(_ANY, _ignore, tls=server)

    asyncio.run(main())


def test_streams_go_on_when_no_more_are_taken() -> None:
    async def main() -> None:
        taken: asyncio.Queue[ByteStream] = asyncio.Queue()
        listener = await listen(_ANY, taken.put)
        stream, other = await dial(listener.address), await taken.get()
        await listener.close()
        await stream.write(b"still here")
        assert await other.read() == b"still here"
        await asyncio.gather(stream.close(), other.close())

    asyncio.run(main())


def test_an_owner_that_fails_takes_down_its_own_stream_only() -> None:
    async def main() -> None:
        told: list[object] = []
        asyncio.get_running_loop().set_exception_handler(lambda _, context: told.append(context.get("exception")))

        async def accept(stream: ByteStream) -> None:
            if await stream.read() == b"fail":
                raise ValueError("a mistake of ours")
            await stream.write(b"fine")
            await stream.close()

        listener = await listen(_ANY, accept)
        one, other = await dial(listener.address), await dial(listener.address)
        await one.write(b"fail")
        assert await one.read() == b""
        await other.write(b"go on")
        assert await other.read() == b"fine"
        await asyncio.gather(one.close(), other.close())
        await listener.close()
        await _until(lambda: bool(told))
        assert [type(error) for error in told] == [ValueError]

    asyncio.run(main())


def _is_ended(client: socket.socket) -> bool:
    """Whether the other end has let go."""
    client.settimeout(0)
    try:
        return client.recv(1) == b""
    except BlockingIOError:
        return False
    except ConnectionResetError:
        return True


@pytest.mark.parametrize("scheme", [Scheme.TLS, Scheme.WS, Scheme.WSS])
def test_clients_that_begin_and_wait_cannot_pile_up(server: TlsServer, scheme: Scheme) -> None:
    """Beyond the bound of their origin the oldest of them goes, and the newcomer is taken."""

    async def main() -> None:
        wanted = Address(scheme=scheme, host="127.0.0.1", port=0)
        told: list[tuple[Turned, str]] = []
        tls = server if scheme is not Scheme.WS else None
        listener = await listen(
            wanted,
            _ignore,
            tls=tls,
            handshakes=Handshakes(count_per_origin_max=3),
            refused=lambda reason, remote: told.append((reason, remote)),
        )
        assert isinstance(listener, SocketListener)
        waiting = []
        for count in range(1, 4):
            waiting.append(_connect(listener))
            await _until(lambda count=count: listener.unfinished == count)  # type: ignore[misc]
        assert told == []
        stream = await dial(listener.address, tls=TlsClient(unverified=True) if tls else None)
        await _until(lambda: listener.unfinished == 2)
        names = [f"127.0.0.1:{one.getsockname()[1]}" for one in waiting]
        assert told == [(Turned.TOO_MANY, names[0])]
        await _until(lambda: _is_ended(waiting[0]))
        assert [_is_ended(one) for one in waiting] == [True, False, False]
        stream.abort()
        await listener.close()
        assert listener.unfinished == 0
        assert len(told) == 1, "those whose listener is closed are turned away by nobody"
        for one in waiting:
            one.close()
        await asyncio.sleep(0)

    asyncio.run(main())


@pytest.mark.parametrize("scheme", [Scheme.TLS, Scheme.WS])
@pytest.mark.parametrize("origins", [1, 3, 4, 8])
def test_a_flood_of_handshakes_from_any_number_of_origins_keeps_no_newcomer_out(
    server: TlsServer, scheme: Scheme, origins: int
) -> None:
    async def main() -> None:
        told: list[Turned] = []
        tls = server if scheme is Scheme.TLS else None
        listener = await listen(
            Address(scheme=scheme, host="127.0.0.1", port=0),
            _ignore,
            tls=tls,
            handshakes=Handshakes(count_max=8, count_per_origin_max=4),
            refused=lambda reason, _: told.append(reason),
        )
        assert isinstance(listener, SocketListener)
        where = listener.address.host, listener.address.port_number
        flood = []
        for number in range(origins):
            for _ in range(6):
                flood.append(socket.create_connection(where, source_address=(f"127.0.0.{number + 2}", 0)))
                await asyncio.sleep(0)
        kept = min(4 * origins, 8)
        await _until(lambda: len(told) == len(flood) - kept)
        assert listener.unfinished == kept
        stream = await dial(listener.address, tls=TlsClient(unverified=True) if tls else None)
        stream.abort()
        assert set(told) == {Turned.TOO_MANY}
        assert listener.unfinished <= 8
        for one in flood:
            one.close()
        await listener.close()

    asyncio.run(main())


def test_where_there_is_no_handshake_none_is_refused() -> None:
    async def main() -> None:
        taken: list[ByteStream] = []

        async def accept(stream: ByteStream) -> None:
            taken.append(stream)

        listener = await listen(_ANY, accept, handshakes=Handshakes(count_max=1))
        assert isinstance(listener, SocketListener)
        clients = [_connect(listener) for _ in range(40)]
        await _until(lambda: len(taken) == 40)
        for one in clients:
            one.close()
        for stream in taken:
            assert await stream.read() == b""
            await stream.close()
        await listener.close()

    asyncio.run(main())


def test_beyond_the_bound_for_all_the_busiest_origin_gives_way() -> None:
    async def main() -> None:
        told: list[str] = []
        wanted = Address(scheme=Scheme.WS, host="127.0.0.1", port=0)
        listener = await listen(
            wanted, _ignore, handshakes=Handshakes(count_max=3), refused=lambda _, remote: told.append(remote)
        )
        assert isinstance(listener, SocketListener)
        where = listener.address.host, listener.address.port_number
        clients = []
        for count, host in enumerate(("127.0.0.2", "127.0.0.3", "127.0.0.3", "127.0.0.4", "127.0.0.5"), start=1):
            clients.append(socket.create_connection(where, source_address=(host, 0)))
            await _until(lambda count=count: listener.unfinished + len(told) == count)  # type: ignore[misc]
        names = ["{}:{}".format(*one.getsockname()) for one in clients]
        assert told == [names[1], names[0]], "the older one of two; then, of equals, the oldest"
        for one in clients:
            one.close()
        await listener.close()

    asyncio.run(main())


@pytest.mark.parametrize("scheme", [Scheme.TLS, Scheme.WS])
def test_a_handshake_that_takes_too_long_is_ended(server: TlsServer, scheme: Scheme) -> None:
    async def main() -> None:
        wanted = Address(scheme=scheme, host="127.0.0.1", port=0)
        tls = server if scheme is Scheme.TLS else None
        told: list[Turned] = []
        listener = await listen(
            wanted,
            _ignore,
            tls=tls,
            handshakes=Handshakes(seconds=0.01),
            refused=lambda reason, _: told.append(reason),
        )
        assert isinstance(listener, SocketListener)
        with _connect(listener) as slow:
            slow.settimeout(0)
            heard = await asyncio.get_running_loop().sock_recv(slow, 1)
            assert heard == b""
        await _until(lambda: bool(told))
        assert told == [Turned.TIMEOUT]
        assert listener.unfinished == 0
        await listener.close()

    asyncio.run(main())


def test_garbage_instead_of_a_handshake_disturbs_nobody(server: TlsServer) -> None:
    async def main() -> None:
        wanted = Address(scheme=Scheme.TLS, host="127.0.0.1", port=0)
        taken: asyncio.Queue[ByteStream] = asyncio.Queue()
        told: list[Turned] = []
        listener = await listen(wanted, taken.put, tls=server, refused=lambda reason, _: told.append(reason))
        assert isinstance(listener, SocketListener)
        with _connect(listener) as client:
            client.sendall(b"GET / HTTP/1.1\r\n\r\n" * 100)
            await _until(lambda: told == [Turned.FAILED])
        assert listener.unfinished == 0
        stream = await dial(listener.address, tls=TlsClient(unverified=True))
        other = await taken.get()
        assert taken.empty()
        await asyncio.gather(stream.close(), other.close())
        await listener.close()

    asyncio.run(main())


def test_a_system_without_sockets_to_give_is_asked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_EXHAUSTED_SECONDS", 0.0)

    class Exhausted:
        """A socket that fails once, and then is the real one."""

        def __init__(self, under: socket.socket) -> None:
            self._under = under
            self.failed = 0

        def fileno(self) -> int:
            return self._under.fileno()

        def accept(self) -> tuple[socket.socket, object]:
            if not self.failed:
                self.failed += 1
                raise OSError(errno.EMFILE, "Too many open files")
            return self._under.accept()

        def close(self) -> None:
            self._under.close()

    async def main() -> None:
        made: list[Exhausted] = []
        real = tcp.bind

        def bind(host: str, port: int, *, backlog: int) -> list[socket.socket]:
            (under,) = real(host, port, backlog=backlog)
            made.append(Exhausted(under))
            return made  # type: ignore[return-value]

        monkeypatch.setattr(tcp, "bind", bind)
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        listener = await listen(Address(scheme=Scheme.TCP, host="127.0.0.1", port=port), _ignore)
        stream = await dial(listener.address)
        await stream.write(b"x")
        assert await stream.read() == b""
        assert made[0].failed == 1
        await stream.close()
        await listener.close()

    asyncio.run(main())


def test_the_standard_streams_are_one_link() -> None:
    program = """
import asyncio
from bobbin.transport.listen import listen
from bobbin.wire.address import parse

async def main():
    done = asyncio.Event()
    async def accept(stream):
        while data := await stream.read():
            await stream.write(data[::-1])
        await stream.close()
        done.set()
    listener = await listen(parse("stdio"), accept)
    assert str(listener.address) == "stdio"
    await done.wait()
    await listener.close()

asyncio.run(main())
"""
    found = subprocess.run([sys.executable, "-c", program], input=b"abc", capture_output=True, check=True)
    assert found.stdout == b"cba"
