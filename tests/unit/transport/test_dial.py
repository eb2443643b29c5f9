"""Dialling: what is refused, in which words, and whether another try makes sense."""

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path

import msgspec
import pytest
from msgspec import structs

from bobbin.errors import UsageError
from bobbin.transport import certificate, tcp
from bobbin.transport.base import ByteStream, Listener, Route, TransportError, WrongCertificate
from bobbin.transport.dial import InsecureRoute, dial
from bobbin.transport.listen import listen
from bobbin.transport.tls import TlsClient, TlsServer
from bobbin.wire import address
from bobbin.wire.address import Address, Scheme

_LONG_AGO = datetime(2001, 1, 1, tzinfo=UTC)


@pytest.fixture
def server(tmp_path: Path) -> TlsServer:
    files = TlsServer(certificate=tmp_path / "certificate.pem", key=tmp_path / "key.pem")
    certificate.create(files.certificate, files.key, names=["127.0.0.1", "node.example"])
    return files


@asynccontextmanager
async def _listening(scheme: Scheme, tls: TlsServer | None = None) -> AsyncIterator[Listener]:
    async def accept(stream: ByteStream) -> None:
        while await stream.read():
            pass
        await stream.close()

    listener = await listen(Address(scheme=scheme, host="127.0.0.1", port=0), accept, tls=tls)
    try:
        yield listener
    finally:
        await listener.close()


@asynccontextmanager
async def _silent() -> AsyncIterator[int]:
    """A port where connections are taken by the system and nobody answers."""
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        listening.listen(1)
        yield listening.getsockname()[1]
        await asyncio.sleep(0)


def _fail(found: Address, *, tls: TlsClient | None = None, seconds: float = 10.0) -> TransportError:
    async def main() -> TransportError:
        with pytest.raises(TransportError) as error:
            await dial(found, tls=tls, timeout_seconds=seconds)
        return error.value

    return asyncio.run(main())


def _dial_tls(server: TlsServer, demands: TlsClient, *, scheme: Scheme = Scheme.TLS) -> Route:
    async def main() -> Route:
        async with _listening(scheme, server) as listener:
            stream = await dial(listener.address, tls=demands)
            await stream.close()
            return stream.route

    return asyncio.run(main())


def _fail_tls(server: TlsServer, demands: TlsClient) -> TransportError:
    with pytest.raises(TransportError) as error:
        _dial_tls(server, demands)
    return error.value


def test_where_nothing_listens_is_refused() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        error = _fail(address.parse(f"tcp:127.0.0.1:{free.getsockname()[1]}"))
    assert "refused; nothing listens there" in str(error)
    assert error.retry


def test_a_name_with_several_addresses_that_all_refuse() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        error = _fail(address.parse(f"tcp:localhost:{free.getsockname()[1]}"))
    assert error.retry


def test_a_host_that_does_not_exist(monkeypatch: pytest.MonkeyPatch) -> None:
    def getaddrinfo(*_: object, **__: object) -> None:
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    monkeypatch.setattr(socket, "getaddrinfo", getaddrinfo)
    error = _fail(address.parse("tcp:nowhere.example"))
    assert str(error) == "tcp:nowhere.example: there is no host called nowhere.example"
    assert not error.retry


def test_a_socket_file_that_is_not_there(tmp_path: Path) -> None:
    error = _fail(address.parse(f"unix:{tmp_path}/node.sock"))
    assert "no such socket" in str(error)
    assert error.retry


@pytest.mark.parametrize("scheme", [Scheme.TLS, Scheme.WS, Scheme.WSS])
def test_a_server_that_never_answers_is_given_up(scheme: Scheme) -> None:
    async def main() -> None:
        async with _silent() as port:
            silent = Address(scheme=scheme, host="127.0.0.1", port=port)
            demands = None if scheme is Scheme.WS else TlsClient(unverified=True)
            with pytest.raises(TransportError, match="no answer within") as error:
                await dial(silent, tls=demands, timeout_seconds=0.1)
            assert error.value.retry

    asyncio.run(main())


def test_a_server_that_hangs_up_may_be_tried_again() -> None:
    async def main() -> None:
        async def hang_up(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            writer.close()

        hanging = await asyncio.start_server(hang_up, "127.0.0.1", 0)
        port = hanging.sockets[0].getsockname()[1]
        for scheme in (Scheme.TLS, Scheme.WS):
            with pytest.raises(TransportError, match=r"closed by the other end|the link broke") as error:
                await dial(Address(scheme=scheme, host="127.0.0.1", port=port))
            assert error.value.retry
        hanging.close()
        await hanging.wait_closed()

    asyncio.run(main())


@pytest.mark.parametrize("scheme", [Scheme.TLS, Scheme.WSS])
def test_each_way_of_trust(server: TlsServer, scheme: Scheme) -> None:
    pin = certificate.fingerprint(server.certificate)
    by_pin = _dial_tls(server, TlsClient(pin=pin), scheme=scheme)
    by_authority = _dial_tls(server, TlsClient(authorities=server.certificate), scheme=scheme)
    unseen = _dial_tls(server, TlsClient(unverified=True), scheme=scheme)
    assert [route.binding for route in (by_pin, by_authority, unseen)] == [pin] * 3
    assert [route.verified for route in (by_pin, by_authority, unseen)] == [True, True, False]


def test_a_certificate_for_another_name(server: TlsServer) -> None:
    demands = TlsClient(authorities=server.certificate, server_name="other.example")
    error = _fail_tls(server, demands)
    assert "for another name" in str(error)
    assert not error.retry
    assert _dial_tls(server, msgspec.structs.replace(demands, server_name="node.example")).verified


def test_a_certificate_that_nobody_vouches_for(server: TlsServer) -> None:
    error = _fail_tls(server, TlsClient())
    assert "no known authority vouches for it" in str(error)
    assert not error.retry


def test_a_certificate_that_is_not_the_pinned_one(server: TlsServer) -> None:
    error = _fail_tls(server, TlsClient(pin=bytes(32)))
    assert isinstance(error, WrongCertificate)
    assert "does not match the pin" in str(error)
    assert not error.retry


def test_the_dates_of_a_certificate_matter_to_authorities_only(tmp_path: Path) -> None:
    old = TlsServer(certificate=tmp_path / "old.pem", key=tmp_path / "old-key.pem")
    pin = certificate.create(old.certificate, old.key, names=["127.0.0.1"], now=_LONG_AGO)
    error = _fail_tls(old, TlsClient(authorities=old.certificate))
    assert "has expired" in str(error)
    assert not error.retry
    assert _dial_tls(old, TlsClient(pin=pin)).verified


def test_a_server_without_tls_is_told_from_a_broken_one() -> None:
    async def main() -> None:
        async def greet(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            writer.write(b"220 at your service\r\n")
            writer.close()

        greeting = await asyncio.start_server(greet, "127.0.0.1", 0)
        port = greeting.sockets[0].getsockname()[1]
        with pytest.raises(TransportError, match="does not speak TLS") as error:
            await dial(Address(scheme=Scheme.TLS, host="127.0.0.1", port=port), tls=TlsClient(unverified=True))
        assert not error.value.retry
        greeting.close()
        await greeting.wait_closed()

    asyncio.run(main())


def test_demands_on_a_certificate_need_one() -> None:
    async def main() -> None:
        with pytest.raises(UsageError, match="is not encrypted"):
            await dial(address.parse("tcp:127.0.0.1"), tls=TlsClient(unverified=True))

    asyncio.run(main())


def test_a_connection_sends_at_once_and_notices_a_dead_peer() -> None:
    async def main() -> None:
        async with _listening(Scheme.TCP) as listener:
            stream = await dial(listener.address)
            under = stream._incoming.transport.get_extra_info("socket")  # type: ignore[attr-defined]
            assert under.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
            assert under.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
            await stream.close()

    asyncio.run(main())


@pytest.mark.parametrize("text", ["tcp:192.0.2.1:4790", "ws:192.0.2.1:80", "tcp:[2001:db8::1]:4790"])
def test_an_open_way_off_this_machine_is_not_even_connected(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    async def connect(*_: object, **__: object) -> None:
        raise AssertionError("something was connected")

    monkeypatch.setattr(asyncio.BaseEventLoop, "create_connection", connect)

    async def main() -> None:
        with pytest.raises(InsecureRoute, match="not on this machine"):
            await dial(address.parse(text), allow_insecure=False)
        with pytest.raises(AssertionError):
            await dial(address.parse(text), allow_insecure=True)

    asyncio.run(main())


@pytest.mark.parametrize("scheme", [Scheme.TCP, Scheme.WS])
def test_a_name_that_leads_off_this_machine_hears_not_a_byte(scheme: Scheme, monkeypatch: pytest.MonkeyPatch) -> None:
    describe = tcp.describe
    monkeypatch.setattr(tcp, "describe", lambda name: structs.replace(describe(name), loopback=False))

    async def main() -> None:
        heard: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()

        async def take(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            heard.set_result(await reader.read())
            writer.close()

        server = await asyncio.start_server(take, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        with pytest.raises(InsecureRoute):
            await dial(Address(scheme=scheme, host="localhost", port=port), allow_insecure=False)
        assert await heard == b""
        server.close()
        await server.wait_closed()

    asyncio.run(main())


@pytest.mark.parametrize("scheme", [Scheme.TCP, Scheme.WS])
def test_an_open_way_on_this_machine_is_dialled(scheme: Scheme) -> None:
    async def main() -> None:
        async with _listening(scheme) as listener:
            for host in ("127.0.0.1", "localhost"):
                stream = await dial(structs.replace(listener.address, host=host), allow_insecure=False)
                assert stream.route.loopback
                await stream.close()

    asyncio.run(main())
