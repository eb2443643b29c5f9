"""Channels between the nodes of a cluster."""

import asyncio
import socket
from pathlib import Path
from random import Random

import pytest

from bobbin.cluster.identity import Identity
from bobbin.runtime import cluster_links
from bobbin.runtime.cluster_certificate import Credentials, LeftOut, make
from bobbin.runtime.cluster_links import UNACKNOWLEDGED_MS, Door, PeerLink, Purpose, shown_by
from bobbin.runtime.cluster_members import Directory, Member
from bobbin.transport.base import ByteStream, TransportError
from bobbin.transport.listen import Turned
from bobbin.wire import address
from tests.support.clusters import until

_ONE, _TWO, _THREE = (make(Identity(bytes([number]) * 32)) for number in (1, 2, 3))
_HERE = address.parse("tls:127.0.0.1:0", to_listen=True)


def _known(*certificates: bytes) -> Directory:
    return Directory([Member(certificate=one, address="tls:127.0.0.1:1") for one in certificates])


class _Server:
    """Takes channels, and keeps what they say."""

    def __init__(self, known: Directory, *, left_out: LeftOut = lambda _, __: None) -> None:
        self.door = Door(_ONE, known, left_out=left_out)
        self.heard: list[bytes] = []
        self.shown: list[tuple[bytes, Purpose] | None] = []
        self.turned: list[Turned] = []
        self.streams: list[ByteStream] = []
        self.is_reading = True

    async def accept(self, stream: ByteStream) -> None:
        self.streams.append(stream)
        self.shown.append(shown_by(stream))
        while self.is_reading and (data := await stream.read()):
            self.heard.append(data)

    async def open(self) -> str:
        place = await self.door.open(_HERE, self.accept, refused=lambda reason, _: self.turned.append(reason))
        return str(place)

    async def close(self) -> None:
        await self.door.close()
        for stream in self.streams:
            stream.abort()


async def _is_refused(own: Credentials, place: str) -> bool:
    """Under TLS 1.3 a client hears of it by what it reads next."""
    try:
        stream = await cluster_links.dial(own, place, [_ONE.certificate], Purpose.PEER)
        return await stream.read() == b""
    except TransportError:
        return True


def test_a_channel_shows_who_dials_and_what_for() -> None:
    async def run() -> None:
        server = _Server(_known(_TWO.certificate))
        place = await server.open()
        stream = await cluster_links.dial(_TWO, place, [_ONE.certificate], Purpose.CLIENT)
        await stream.write(b"hello")
        await until(lambda: server.heard == [b"hello"])
        assert server.shown == [(_TWO.certificate, Purpose.CLIENT)]
        await stream.close()
        await server.close()

    asyncio.run(run())


@pytest.mark.parametrize("purpose", Purpose)
def test_a_channel_to_a_peer_is_given_up_soon_after_its_machine_is_silent(purpose: Purpose) -> None:
    async def run() -> None:
        server = _Server(_known(_TWO.certificate))
        stream = await cluster_links.dial(_TWO, await server.open(), [_ONE.certificate], purpose)
        connection = stream.outgoing.transport.get_extra_info("socket")
        waits_ms = connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT)
        assert (waits_ms == UNACKNOWLEDGED_MS) is (purpose is Purpose.PEER)
        await stream.close()
        await server.close()

    asyncio.run(run())


def test_a_certificate_that_cannot_be_used_keeps_nobody_else_out() -> None:
    bad = _THREE.certificate.replace(_THREE.identity.public.hex().encode(), b"\xff" * 64)
    left_out: list[bytes] = []

    async def run() -> None:
        # Given with its seat, nothing is read from the certificate before OpenSSL does.
        known = Directory(
            [
                Member(certificate=bad, address="tls:127.0.0.1:1", seat=_THREE.identity.node),
                Member(certificate=_TWO.certificate, address="tls:127.0.0.1:1"),
            ]
        )
        server = _Server(Directory(), left_out=lambda certificate, _: left_out.append(certificate))
        place = await server.open()
        server.door.know(known)
        stream = await cluster_links.dial(_TWO, place, [_ONE.certificate], Purpose.PEER)
        await stream.write(b"hello")
        await until(lambda: server.heard == [b"hello"])
        await stream.close()
        await server.close()

    asyncio.run(run())
    assert left_out == [bad]


def test_whoever_is_known_from_now_on_is_let_in_and_nobody_else() -> None:
    async def run() -> None:
        server = _Server(_known(_TWO.certificate))
        place = await server.open()
        assert await _is_refused(_THREE, place)
        await until(lambda: server.turned == [Turned.FAILED])
        server.door.know(_known(_THREE.certificate))
        stream = await cluster_links.dial(_THREE, place, [_ONE.certificate], Purpose.PEER)
        await until(lambda: len(server.shown) == 1)
        await stream.close()
        assert await _is_refused(_TWO, place)
        await server.close()

    asyncio.run(run())


def test_a_server_that_is_not_the_expected_one_is_not_spoken_to() -> None:
    async def run() -> None:
        server = _Server(_known(_TWO.certificate))
        place = await server.open()
        with pytest.raises(TransportError):
            await cluster_links.dial(_TWO, place, [_THREE.certificate], Purpose.PEER)
        assert server.heard == []
        await server.close()

    asyncio.run(run())


def test_a_link_greets_sends_in_order_and_comes_back_by_itself() -> None:
    async def run() -> None:
        server = _Server(_known(_TWO.certificate))
        place = await server.open()
        told: list[str | None] = []
        link = PeerLink(
            _ONE.identity.node,
            place,
            [_ONE.certificate],
            _TWO,
            greet=lambda: b"hello ",
            tell=told.append,
            random=Random(1),
        )
        link.send(b"too early")
        assert link.counts.dropped == 1
        await until(lambda: link.is_up)
        for at in range(5):
            link.send(b"%d" % at)
        await until(lambda: b"".join(server.heard) == b"hello 01234")
        server.streams[0].abort()
        await until(lambda: link.counts.dials >= 2 and link.is_up)
        await until(lambda: b"".join(server.heard) == b"hello 01234hello ")
        assert told[0] is None
        assert link.counts.sent == 7
        await link.close()
        await server.close()

    asyncio.run(run())


def test_what_has_no_room_is_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    async def run() -> None:
        monkeypatch.setattr(cluster_links, "QUEUE_BYTES_MAX", 3_000_000)
        server = _Server(_known(_TWO.certificate))
        server.is_reading = False
        place = await server.open()
        link = PeerLink(_ONE.identity.node, place, [_ONE.certificate], _TWO, greet=lambda: b"x", random=Random(1))
        await until(lambda: link.is_up)
        for _ in range(40):
            link.send(bytes(1_000_000))
        assert link.counts.dropped > 0
        await link.close()
        await server.close()

    asyncio.run(run())


def test_a_link_to_nobody_says_why_and_hurries_when_told() -> None:
    async def run() -> None:
        told: list[str | None] = []
        link = PeerLink(
            _ONE.identity.node, "tls:127.0.0.1:1", [_ONE.certificate], _TWO, greet=lambda: b"x", tell=told.append
        )
        await until(lambda: link.counts.dials_failed >= 1)
        assert link.why_down is not None
        before = link.counts.dials
        link.hurry()
        await until(lambda: link.counts.dials > before)
        assert told
        assert None not in told
        await link.close()

    asyncio.run(run())


def test_a_node_of_this_machine_is_reached_by_a_path_of_any_length(tmp_path: Path) -> None:
    """The path of a socket has about a hundred bytes; that of a folder may have many more."""
    folder = tmp_path / ("f" * 200)
    folder.mkdir()

    async def run() -> None:
        with pytest.raises(TransportError, match="no node answers"):
            await cluster_links.dial_socket(folder / "node.sock")
        short = folder.parent / "s"
        short.symlink_to(folder)
        taken: asyncio.Queue[asyncio.StreamWriter] = asyncio.Queue()
        server = await asyncio.start_unix_server(lambda _, writer: taken.put_nowait(writer), short / "node.sock")
        stream = await cluster_links.dial_socket(folder / "node.sock")
        writer = await taken.get()
        assert stream.route.loopback
        await stream.close()
        writer.close()
        await writer.wait_closed()
        server.close()

    asyncio.run(run())
