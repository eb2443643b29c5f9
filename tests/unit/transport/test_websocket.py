"""The handshake, the frames and their bounds, against raw bytes and against the library's own rules."""

import asyncio
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest
from msgspec import structs
from websockets.frames import Frame, Opcode

from bobbin.transport import websocket
from bobbin.transport.base import READ_BYTES_MAX, Route, TransportError
from bobbin.transport.flow import Flow, FlowStream
from bobbin.transport.websocket import (
    FRAME_COST_BYTES,
    HEAD_BYTES_MAX,
    PARSED_AT_ONCE_BYTES,
    SMALL_FRAMES_MAX,
    SMALL_FRAMES_PER_SECOND,
    FrameCredit,
    WebSocketStream,
)
from bobbin.wire import address

_ADDRESS = address.parse("ws:127.0.0.1:4790")
_ROUTE = Route(address=_ADDRESS, remote="test", origin="local", loopback=True)
_REQUEST = (
    b"GET /interlace HTTP/1.1\r\nHost: 127.0.0.1:4790\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
    b"Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\nSec-WebSocket-Version: 13\r\n"
)


@asynccontextmanager
async def _flows() -> AsyncIterator[tuple[Flow, Flow]]:
    flows: list[Flow] = []
    for one in socket.socketpair():
        one.settimeout(0)
        _, flow = await asyncio.get_running_loop().create_connection(Flow, sock=one)
        flows.append(flow)
    try:
        yield flows[0], flows[1]
    finally:
        for flow in flows:
            flow.abort()
        for _ in range(3):
            await asyncio.sleep(0)


@asynccontextmanager
async def _open() -> AsyncIterator[tuple[WebSocketStream, WebSocketStream]]:
    """A client and a server that have shaken hands."""
    async with _flows() as (here, there):
        client, server = await asyncio.gather(websocket.ask(here, _ADDRESS, _ROUTE), websocket.take(there, _ROUTE))
        try:
            yield client, server
        finally:
            client.abort()
            server.abort()


def _run(test: Callable[[], Awaitable[None]]) -> None:
    async def main() -> None:
        await test()

    asyncio.run(main())


async def _answer(request: bytes) -> tuple[bytes, TransportError]:
    """What a server answers to raw bytes that open no link, and the error it ends in."""
    async with _flows() as (here, there):
        raw = FlowStream(here, _ROUTE)
        await raw.write(request)

        async def hear() -> bytes:
            heard = b""
            while data := await raw.read():
                heard += data
            await raw.close()
            return heard

        async def take() -> TransportError:
            with pytest.raises(TransportError) as found:
                await websocket.take(there, _ROUTE)
            there.abort()
            return found.value

        heard, error = await asyncio.gather(hear(), take())
        return heard, error


async def _ask(answer: bytes) -> TransportError:
    """The error of a client that gets raw bytes as the answer."""
    async with _flows() as (here, there):
        await FlowStream(there, _ROUTE).write(answer)
        with pytest.raises(TransportError) as found:
            await websocket.ask(here, _ADDRESS, _ROUTE)
        return found.value


@pytest.mark.parametrize(
    ("request_bytes", "status"),
    [
        (_REQUEST.replace(b"/interlace", b"/") + b"\r\n", b"404"),
        (_REQUEST.replace(b"/interlace", b"/interlace?x=1") + b"\r\n", b"404"),
        (_REQUEST.replace(b"/interlace", b"/interlace/") + b"\r\n", b"404"),
        (_REQUEST + b"Origin: http://127.0.0.1:4790\r\n\r\n", b"403"),
        (_REQUEST.replace(b"Version: 13", b"Version: 8") + b"\r\n", b"4"),
        (b"GET /interlace HTTP/1.1\r\nHost: x\r\n\r\n", b"426"),
    ],
)
def test_what_does_not_ask_for_a_link_is_answered_and_let_go(request_bytes: bytes, status: bytes) -> None:
    async def test() -> None:
        heard, error = await _answer(request_bytes)
        assert heard.startswith(b"HTTP/1.1 " + status)
        assert "did not ask for a link" in str(error)
        assert not error.retry

    _run(test)


@pytest.mark.parametrize(
    "said",
    [
        b"no HTTP at all\r\n\r\n",
        b"GET /interlace HTTP/1.1\r\n" + b"X: y\r\n" * 200 + b"\r\n",
        b"GET /" + b"a" * 20_000,
        b"GET /interlace HTTP/1.1\r\n" + b"".join(b"X%d: %s\r\n" % (n, b"y" * 4000) for n in range(30)),
    ],
)
def test_a_request_that_is_none_or_too_long_ends_in_an_error(said: bytes) -> None:
    async def test() -> None:
        heard, error = await _answer(said)
        assert b"101" not in heard
        assert "no WebSocket" in str(error)

    _run(test)
    assert len(said) < HEAD_BYTES_MAX * 5


def test_a_client_that_leaves_during_the_handshake_is_an_error() -> None:
    async def test() -> None:
        async with _flows() as (here, there):
            await FlowStream(here, _ROUTE).write(b"GET /inter")
            here.abort()
            with pytest.raises(TransportError, match="closed by the other end"):
                await websocket.take(there, _ROUTE)

    _run(test)


@pytest.mark.parametrize(
    ("answer", "words", "retry"),
    [
        (b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n", "404", False),
        (b"HTTP/1.1 503 Busy\r\nContent-Length: 0\r\n\r\n", "503", True),
        (b"HTTP/1.1 429 Slowly\r\nContent-Length: 0\r\n\r\n", "429", True),
        (b"HTTP/1.1 101 Fine\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n", "is no WebSocket", False),
        (b"SSH-2.0-server\r\n\r\n", "no WebSocket", False),
        (b"HTTP/1.1 200 Long\r\nContent-Length: 900000\r\n\r\n" + bytes(100_000), "more than", False),
    ],
)
def test_an_answer_that_opens_no_link_is_told_in_words(answer: bytes, words: str, retry: bool) -> None:  # noqa: FBT001
    async def test() -> None:
        error = await _ask(answer)
        assert words in str(error)
        assert error.retry is retry

    _run(test)


@pytest.mark.parametrize(
    ("header", "loopback"),
    [
        (b"Forwarded: for=192.0.2.7", False),
        (b"X-Forwarded-For: 192.0.2.7", False),
        (b"x-forwarded-proto: https", False),
        (b"X-Real-IP: 127.0.0.1", False),
        (b"Via: 1.1 proxy\r\nVia: 1.1 other", False),
        (b"User-Agent: via, forwarded", True),
    ],
)
def test_what_a_proxy_passes_on_is_not_of_this_machine(header: bytes, loopback: bool) -> None:  # noqa: FBT001
    async def test() -> None:
        async with _flows() as (here, there):
            await FlowStream(here, _ROUTE).write(_REQUEST + header + b"\r\n\r\n")
            server = await websocket.take(there, _ROUTE)
            assert server.route == structs.replace(_ROUTE, loopback=loopback)
            server.abort()

    _run(test)


def test_nothing_is_compressed_even_if_asked_for() -> None:
    async def test() -> None:
        async with _flows() as (here, there):
            raw = FlowStream(here, _ROUTE)
            await raw.write(_REQUEST + b"Sec-WebSocket-Extensions: permessage-deflate\r\n\r\n")
            server = await websocket.take(there, _ROUTE)
            answer = await raw.read()
            assert b" 101 " in answer
            assert b"extensions" not in answer.lower()
            plain = Frame(Opcode.BINARY, b"x").serialize(mask=True)
            await raw.write(bytes([plain[0] | 0x40]) + plain[1:])
            with pytest.raises(TransportError, match="broke the rules"):
                await server.read()
            server.abort()

    _run(test)


async def _say_raw(client: WebSocketStream, *frames: Frame) -> None:
    """Send frames that a stream of ours would never send."""
    await client._flow.write(b"".join(frame.serialize(mask=True) for frame in frames))


def test_a_text_frame_is_refused() -> None:
    async def test() -> None:
        async with _open() as (client, server):
            await _say_raw(client, Frame(Opcode.BINARY, b"fine"), Frame(Opcode.TEXT, b"words"))
            assert await server.read() == b"fine"
            for _ in range(2):
                with pytest.raises(TransportError, match="only binary frames") as found:
                    await server.read()
                assert not found.value.retry
            with pytest.raises(TransportError, match="only binary frames"):
                await server.write(b"answer")
            # The client learns of it too: as an end.
            assert await client.read() == b""

    _run(test)


def test_a_frame_that_is_too_large_is_refused_by_its_head_alone() -> None:
    async def test() -> None:
        async with _open() as (client, server):
            head = Frame(Opcode.BINARY, bytes(READ_BYTES_MAX + 1)).serialize(mask=True)[:20]
            await client._flow.write(head)
            with pytest.raises(TransportError, match="broke the rules"):
                await server.read()

    _run(test)


def test_a_frame_without_a_mask_is_refused() -> None:
    async def test() -> None:
        async with _open() as (client, server):
            await client._flow.write(Frame(Opcode.BINARY, b"bare").serialize(mask=False))
            with pytest.raises(TransportError, match="broke the rules"):
                await server.read()

    _run(test)


def test_fragments_and_empty_frames_are_one_stream() -> None:
    async def test() -> None:
        async with _open() as (client, server):
            await _say_raw(
                client,
                Frame(Opcode.BINARY, b"a", fin=False),
                Frame(Opcode.CONT, b"", fin=False),
                Frame(Opcode.PING, b"?"),
                Frame(Opcode.CONT, b"b"),
                Frame(Opcode.BINARY, b""),
                Frame(Opcode.BINARY, b"c"),
            )
            heard = b""
            while len(heard) < len(b"abc"):
                heard += await server.read()
            assert heard == b"abc"

    _run(test)


# ---- many small frames ----------------------------------------------------------------------------------------------


def _spent(credit: FrameCredit, frame_bytes: int, now: float = 0.0, *, up_to: int = 2 * SMALL_FRAMES_MAX) -> int:
    """How many frames of a size are taken at one moment."""
    return next((count for count in range(up_to) if not credit.spend(frame_bytes, now)), up_to)


def test_each_frame_costs_and_what_is_in_it_earns() -> None:
    assert _spent(FrameCredit(0.0), 0) == SMALL_FRAMES_MAX
    assert _spent(FrameCredit(0.0), FRAME_COST_BYTES // 2) == 2 * SMALL_FRAMES_MAX
    assert _spent(FrameCredit(0.0), FRAME_COST_BYTES, up_to=10 * SMALL_FRAMES_MAX) == 10 * SMALL_FRAMES_MAX


def test_large_frames_pay_for_no_more_small_ones_than_there_were_at_first() -> None:
    credit = FrameCredit(0.0)
    assert _spent(credit, READ_BYTES_MAX, up_to=100) == 100
    assert _spent(credit, 0) == SMALL_FRAMES_MAX


def test_time_makes_up_for_the_frames_of_a_quiet_link() -> None:
    credit = FrameCredit(0.0)
    for second in range(10 * SMALL_FRAMES_MAX):
        assert credit.spend(0, float(second)), "a ping a second is no burden"
    assert _spent(credit, 0, float(second)) == SMALL_FRAMES_MAX
    assert _spent(credit, 0, float(second + 10)) == 10 * SMALL_FRAMES_PER_SECOND - 1


@pytest.mark.parametrize("opcode", [Opcode.BINARY, Opcode.PING, Opcode.PONG])
def test_who_cuts_a_stream_into_single_bytes_is_refused_after_a_bounded_number(
    opcode: Opcode, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def test() -> None:
        async with _open() as (client, server):
            taken, events = 0, server._rules.events_received

            def count() -> list[object]:
                nonlocal taken
                found = events()
                taken += len(found)
                return list(found)

            server._rules.events_received = count  # type: ignore[method-assign, assignment]
            frame = Frame(opcode, b"x").serialize(mask=True)
            sending = asyncio.create_task(client._flow.write(frame * (20 * SMALL_FRAMES_MAX)))
            # For the credit, no time passes.
            monkeypatch.setattr(server._loop, "time", lambda: server._credit._now)
            heard = 0

            async def read_all() -> None:
                nonlocal heard
                while data := await server.read():
                    heard += len(data)

            with pytest.raises(TransportError, match="too many small frames") as found:
                await read_all()
            assert not found.value.retry
            most = SMALL_FRAMES_MAX * FRAME_COST_BYTES / (FRAME_COST_BYTES - 1)
            assert SMALL_FRAMES_MAX <= taken <= most + PARSED_AT_ONCE_BYTES / len(frame) + 1
            assert heard <= (most if opcode is Opcode.BINARY else 0)
            monkeypatch.undo()
            server.abort()
            sending.cancel()
            await asyncio.wait({sending})

    _run(test)


def test_small_frames_that_came_together_are_read_together() -> None:
    async def test() -> None:
        async with _open() as (client, server):
            await _say_raw(client, *(Frame(Opcode.BINARY, b"x") for _ in range(1_000)))
            reads, heard = 0, b""
            while len(heard) < 1_000:
                heard += await server.read()
                reads += 1
            assert heard == b"x" * 1_000
            assert reads < 100, "each read is work for whoever reads"

    _run(test)


def test_frames_are_joined_up_to_the_bound_of_a_read() -> None:
    async def test() -> None:
        async with _open() as (client, server):
            size = READ_BYTES_MAX // 3 * 2
            server._frames.extend([bytes(size), bytes(size), b"end"])
            assert [len(await server.read()) for _ in range(2)] == [size, size + 3]
            del client

    _run(test)


def test_a_ping_is_answered_unless_there_is_no_room() -> None:
    async def test() -> None:
        async with _open() as (client, server):
            await _say_raw(client, Frame(Opcode.PING, b"1"), Frame(Opcode.BINARY, b"x"))
            await server.read()
            server._flow.pause_writing()
            await _say_raw(client, Frame(Opcode.PING, b"2"), Frame(Opcode.BINARY, b"y"))
            await server.read()
            server._flow.resume_writing()
            await server.write(b"z")
            raw = b""
            while not raw.endswith(b"z"):
                raw += await client._flow.read()
            assert raw == b"".join(
                frame.serialize(mask=False) for frame in (Frame(Opcode.PONG, b"1"), Frame(Opcode.BINARY, b"z"))
            )

    _run(test)


def test_a_silent_link_is_kept_awake_until_it_is_closed() -> None:
    async def test() -> None:
        async with _open() as (client, server):
            client._ping()
            await client.write(b"x")
            assert await server.read() == b"x"
            # The pong has come along with this, and is nothing to read.
            await server.write(b"y")
            assert await client.read() == b"y"
            client._flow.pause_writing()
            before = client._ping_timer
            client._ping()
            assert client._ping_timer is not before
            client.abort()
            assert client._ping_timer.cancelled()
            last = client._ping_timer
            client._ping()
            assert client._ping_timer is last

    _run(test)


def test_writing_after_the_farewell_of_the_peer_fails() -> None:
    async def test() -> None:
        async with _open() as (client, server):
            closing = asyncio.create_task(client.close())
            assert await server.read() == b""
            with pytest.raises(TransportError, match="the other end has closed") as found:
                await server.write(b"late")
            assert found.value.retry
            await server.close()
            await closing

    _run(test)


@pytest.mark.parametrize(
    ("path", "early", "words"),
    [
        (b"/interlace", b"\x82\x01x", "broke the rules of WebSocket"),
        (b"/interlace", b"\xf2\x81\x00\x00\x00\x00x", "broke the rules of WebSocket"),
        (b"/interlace", b"\x88\x81\x00\x00\x00\x00x", "broke the rules of WebSocket"),
        (b"/other", b"\x82\x01x", "did not ask for a link"),
        (b"/other", b"\x88\x80\x00\x00\x00\x00", "did not ask for a link"),
    ],
)
def test_frames_that_come_before_the_answer_break_nothing(path: bytes, early: bytes, words: str) -> None:
    async def test() -> None:
        async with _flows() as (here, there):
            await FlowStream(here, _ROUTE).write(_REQUEST.replace(b"/interlace", path) + b"\r\n" + early)

            async def hear() -> None:
                while await here.read():
                    pass
                await here.close()

            async def take() -> None:
                with pytest.raises(TransportError, match=words):
                    await (await websocket.take(there, _ROUTE)).read()
                there.abort()

            await asyncio.gather(hear(), take())

    _run(test)
