import pytest
from websockets.asyncio.client import connect
from websockets.asyncio.server import ServerConnection, serve

from bobbin.runtime.socket_stream import SocketStream
from bobbin.transport.base import TransportError
from tests.support.byte_streams import LOOPBACK
from tests.support.signal_rooms import run


def test_bytes_go_in_binary_frames_and_text_is_an_error() -> None:
    async def main() -> None:
        async def speak(socket: ServerConnection) -> None:
            assert await socket.recv() == b"hello"
            await socket.send(b"")
            await socket.send(b"world")
            await socket.send("text")
            await socket.wait_closed()

        async with (
            serve(speak, "127.0.0.1", 0) as server,
            connect(f"ws://127.0.0.1:{server.sockets[0].getsockname()[1]}", proxy=None) as socket,
        ):
            stream = SocketStream(socket, LOOPBACK)
            assert stream.route is LOOPBACK
            await stream.write(b"hello")
            assert await stream.read() == b"world", "an empty frame is no end"
            with pytest.raises(TransportError, match="introduced"):
                await stream.read()
            await stream.close()
            assert await stream.read() == b""
            with pytest.raises(TransportError):
                await stream.write(b"late")

    run(main())


def test_a_stream_that_is_let_go_is_over_at_the_other_end() -> None:
    async def main() -> None:
        ended: list[bytes] = []

        async def hear(socket: ServerConnection) -> None:
            ended.append(await SocketStream(socket, LOOPBACK).read())

        async with serve(hear, "127.0.0.1", 0) as server:
            async with connect(f"ws://127.0.0.1:{server.sockets[0].getsockname()[1]}", proxy=None) as socket:
                SocketStream(socket, LOOPBACK).abort()
                await socket.wait_closed()
            server.close()
            await server.wait_closed()
        assert ended == [b""]

    run(main())
