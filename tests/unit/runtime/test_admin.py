"""What operators read: three pages, on a private socket and on loopback."""

import asyncio
import signal
import socket
import stat
from contextlib import suppress
from pathlib import Path

import pytest

from bobbin.runtime import admin as module
from bobbin.runtime.admin import Admin, AdminError, LocalNamesOnly, make_app
from bobbin.runtime.health import Condition, Health
from bobbin.runtime.metrics import Meter
from bobbin.runtime.node_settings import Metrics
from bobbin.runtime.status import NodeStatus, decode_status
from bobbin.wire.address import Address, Scheme

_STATUS = NodeStatus(
    version="0",
    verifier=None,
    at="1640995200:000000000",
    since="1640995200:000000000",
    age_seconds=0.0,
    stopping=False,
    health="ok",
    listening=(),
    records=0,
    peers=0,
    links=(),
    past=(),
    ended={},
    refused={},
)
_LOOPBACK = Metrics(listen=Address(scheme=Scheme.TCP, host="127.0.0.1", port=0))


class _Node:
    def __init__(self) -> None:
        self.health = Health(condition=Condition.OK)
        self.reload_failure: str | None = None
        self.refreshed = 0

    async def refresh(self) -> None:
        self.refreshed += 1

    async def status(self) -> NodeStatus:
        return _STATUS


async def _ask(where: Path | tuple[str, int], page: str, host: str = "node", method: str = "GET") -> tuple[int, bytes]:
    if isinstance(where, Path):
        reader, writer = await asyncio.open_unix_connection(str(where))
    else:
        reader, writer = await asyncio.open_connection(*where)
    writer.write(f"{method} {page} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n".encode())
    await writer.drain()
    answer = await reader.read()
    writer.close()
    await writer.wait_closed()
    head, _, body = answer.partition(b"\r\n\r\n")
    return int(head.split()[1]), body


def test_the_socket_has_all_three_pages_and_is_its_owners_alone(tmp_path: Path) -> None:
    async def run() -> None:
        node, meter, path = _Node(), Meter(), tmp_path / "node.sock"
        admin = Admin(node, meter, Metrics(), path)
        await admin.start()
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        assert await _ask(path, "/healthz") == (200, b'{"status":"ok"}')
        assert await _ask(path, "/readyz") == (200, b'{"status":"ok"}')
        node.reload_failure = "peers.toml: it is wrong"
        node.health = Health(condition=Condition.DEGRADED, reasons=("one", "two"))
        degraded = b'{"status":"degraded","reasons":["one","two"],"reload":"failed"}'
        assert await _ask(path, "/healthz") == (200, degraded), "nobody restarts a node because a peer is down"
        assert await _ask(path, "/readyz") == (503, degraded)
        node.reload_failure = None
        for condition in (Condition.STOPPING, Condition.FAILING):
            node.health = Health(condition=condition)
            answer = 503, f'{{"status":"{condition.value}"}}'.encode()
            assert await _ask(path, "/healthz") == await _ask(path, "/readyz") == answer
        code, text = await _ask(path, "/metrics")
        assert code == 200
        assert b"bobbin_links_open" in text
        assert node.refreshed == 1
        code, raw = await _ask(path, "/links")
        assert code == 200
        assert decode_status(raw) == _STATUS
        assert (await _ask(path, "/elsewhere"))[0] == 404
        assert (await _ask(path, "/links", method="POST"))[0] == 405
        await admin.stop()
        assert not path.exists()

    asyncio.run(run())


def test_over_tcp_links_are_shown_only_if_that_is_asked_for() -> None:
    async def run() -> None:
        for shown, code in ((False, 404), (True, 200)):
            settings = Metrics(listen=_LOOPBACK.listen, links=shown)
            admin = Admin(_Node(), Meter(), settings, None)
            await admin.start()
            assert admin.address is not None
            assert (await _ask(admin.address, "/links", host="127.0.0.1"))[0] == code
            assert (await _ask(admin.address, "/metrics", host="localhost:9790"))[0] == 200
            await admin.stop()

    asyncio.run(run())


@pytest.mark.parametrize(
    ("host", "code"), [("127.0.0.1", 200), ("[::1]:80", 200), ("LOCALHOST", 200), ("evil.example", 421), ("", 421)]
)
def test_a_page_under_another_name_gets_nothing(host: str, code: int) -> None:
    async def run() -> None:
        admin = Admin(_Node(), Meter(), _LOOPBACK, None)
        await admin.start()
        assert admin.address is not None
        assert (await _ask(admin.address, "/metrics", host=host))[0] == code
        await admin.stop()

    asyncio.run(run())


def test_an_address_that_others_can_reach_must_be_meant(tmp_path: Path) -> None:
    async def run() -> None:
        everywhere = Address(scheme=Scheme.TCP, host="0.0.0.0", port=0)
        path = tmp_path / "node.sock"
        admin = Admin(_Node(), Meter(), Metrics(listen=everywhere), path)
        with pytest.raises(AdminError, match="other machines"):
            await admin.start()
        assert not path.exists(), "nothing is left"
        meant = Admin(_Node(), Meter(), Metrics(listen=everywhere, off_loopback=True), None)
        await meant.start()
        await meant.stop()

    asyncio.run(run())


def test_a_socket_of_a_living_node_is_left_alone_and_that_of_a_dead_one_replaced(tmp_path: Path) -> None:
    async def run() -> None:
        path = tmp_path / "node.sock"
        first = Admin(_Node(), Meter(), Metrics(), path)
        await first.start()
        with pytest.raises(AdminError, match="another node"):
            await Admin(_Node(), Meter(), Metrics(), path).start()
        assert (await _ask(path, "/healthz"))[0] == 200
        await first.stop()
        dead = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        dead.bind(str(path))
        dead.close()
        second = Admin(_Node(), Meter(), Metrics(), path)
        await second.start()
        assert (await _ask(path, "/healthz"))[0] == 200
        await second.stop()

    asyncio.run(run())


def test_a_path_that_is_too_long_for_a_socket_is_no_hindrance(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / ("x" * 120)
    folder.mkdir()

    async def run() -> None:
        admin = Admin(_Node(), Meter(), Metrics(), folder / "node.sock")
        await admin.start()
        assert stat.S_IMODE((folder / "node.sock").stat().st_mode) == 0o600
        monkeypatch.chdir(folder)
        assert (await _ask(Path("node.sock"), "/healthz"))[0] == 200
        await admin.stop()
        assert list(folder.iterdir()) == []

    asyncio.run(run())


def test_a_folder_that_is_not_there_is_an_error_that_says_so(tmp_path: Path) -> None:
    for folder in (tmp_path / "nowhere", tmp_path / ("x" * 120)):
        with pytest.raises(AdminError, match="cannot listen"):
            asyncio.run(Admin(_Node(), Meter(), Metrics(), folder / "node.sock").start())


def test_a_port_that_is_taken_is_an_error_that_says_so() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        where = Address(scheme=Scheme.TCP, host="127.0.0.1", port=taken.getsockname()[1])
        with pytest.raises(AdminError, match="in use"):
            asyncio.run(Admin(_Node(), Meter(), Metrics(listen=where), None).start())


def test_a_client_that_never_finishes_its_request_holds_nobody_up(tmp_path: Path) -> None:
    async def run() -> None:
        path = tmp_path / "node.sock"
        admin = Admin(_Node(), Meter(), Metrics(), path)
        await admin.start()
        slow = [await asyncio.open_unix_connection(str(path)) for _ in range(20)]
        for _, writer in slow:
            writer.write(b"GET /met")
            await writer.drain()
        assert (await _ask(path, "/healthz"))[0] == 200
        for _, writer in slow:
            writer.write(b"x" * 100_000)
        for reader, writer in slow:
            assert b"400" in await reader.read()
            writer.close()
        await admin.stop()

    asyncio.run(run())


@pytest.mark.parametrize("origins", [1, 2, 3, 40])
def test_silent_connections_from_any_number_of_addresses_keep_nobody_out(origins: int) -> None:
    async def run() -> None:
        admin = Admin(_Node(), Meter(), _LOOPBACK, None)
        await admin.start()
        assert admin.address is not None
        silent = [
            await asyncio.open_connection(*admin.address, local_addr=(f"127.0.0.{2 + number % origins}", 0))
            for number in range(150)
        ]
        assert (await _ask(admin.address, "/healthz", host="127.0.0.1"))[0] == 200
        # The oldest have gone.
        assert await silent[0][0].read() == b""
        for _, writer in silent:
            writer.close()
        await admin.stop()

    asyncio.run(run())


@pytest.mark.parametrize(
    "said", [b"", b"G", b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 100\r\n\r\n"]
)
def test_a_request_has_its_time_however_it_comes(said: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_REQUEST_SECONDS", 0.05)

    async def run() -> None:
        admin = Admin(_Node(), Meter(), _LOOPBACK, None)
        await admin.start()
        assert admin.address is not None
        reader, writer = await asyncio.open_connection(*admin.address)
        writer.write(said)
        ended = asyncio.create_task(reader.read())
        while said and not ended.done():
            writer.write(b"x")
            await asyncio.sleep(0.001)
        with suppress(ConnectionResetError):
            assert (await ended).count(b"HTTP/1.1 200 OK") == (len(said) > 1)
        writer.close()
        await admin.stop()

    asyncio.run(run())


def test_an_answer_that_nobody_takes_is_let_go(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_ANSWER_SECONDS", 0.05)

    class Stuck(_Node):
        async def refresh(self) -> None:
            await asyncio.Event().wait()

    async def run() -> None:
        admin = Admin(Stuck(), Meter(), _LOOPBACK, None)
        await admin.start()
        assert admin.address is not None
        reader, writer = await asyncio.open_connection(*admin.address)
        writer.write(b"GET /metrics HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
        with suppress(ConnectionResetError):
            assert await reader.read() == b""
        writer.close()
        await admin.stop()

    asyncio.run(run())


def test_a_connection_is_kept_for_the_next_request() -> None:
    async def run() -> None:
        admin = Admin(_Node(), Meter(), _LOOPBACK, None)
        await admin.start()
        assert admin.address is not None
        reader, writer = await asyncio.open_connection(*admin.address)
        for _ in range(3):
            writer.write(b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n" * 2)
            for _ in range(2):
                await reader.readuntil(b'{"status":"ok"}')
        writer.close()
        await admin.stop()

    asyncio.run(run())


def test_the_pages_leave_signals_to_others(tmp_path: Path) -> None:
    async def run() -> None:
        before = [signal.getsignal(one) for one in (signal.SIGINT, signal.SIGTERM)]
        admin = Admin(_Node(), Meter(), Metrics(), tmp_path / "node.sock")
        await admin.start()
        assert [signal.getsignal(one) for one in (signal.SIGINT, signal.SIGTERM)] == before
        await admin.stop()

    asyncio.run(run())


def test_the_configured_name_may_be_used() -> None:
    assert LocalNamesOnly(make_app(_Node(), Meter(), links=False), "x")._is_allowed(b"x:80")
