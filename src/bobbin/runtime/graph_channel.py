"""Frames to and from one peer, whatever carries them.

A stream of bytes has a length before each frame; a WebSocket keeps messages apart by itself, and one of them is one
frame. A data channel (``webrtc.RtcLink``) fits as it is. Nothing here knows what a frame says.
"""

from contextlib import suppress
from typing import Final, Protocol

from websockets.asyncio.connection import Connection
from websockets.exceptions import ConnectionClosed
from websockets.frames import CloseCode

from bobbin.transport.base import ByteStream, TransportError
from bobbin.wire.lazily.faults import FRAME_BYTES_MAX
from bobbin.wire.lazily.framing import Deframer, frame
from bobbin.wire.lazily.handshake import HANDSHAKE_BYTES_MAX

_JSON: Final = b"{"
_REASON_BYTES_MAX: Final = 100
"""Of the 123 that a closing frame has room for."""


class Channel(Protocol):
    """A way for frames. One reader and one writer at the same time."""

    async def send(self, frame: bytes) -> None:
        """Send a frame; returns when there is room for more. Raises ``TransportError``."""
        ...

    async def receive(self) -> bytes:
        """The next frame. Raises ``TransportError`` at the end, ``FrameFault`` for what cannot be one."""
        ...

    async def close(self) -> None:
        """Let go, in bounded time. May be called again."""
        ...


class StreamChannel:
    """Frames on a stream of bytes. The first that comes, the handshake, has a smaller bound than those behind it."""

    def __init__(self, stream: ByteStream, *, frame_bytes_max: int = FRAME_BYTES_MAX) -> None:
        self._stream: Final = stream
        self._frame_bytes_max: Final = frame_bytes_max
        self._frames: Final = Deframer(frame_bytes_max=min(HANDSHAKE_BYTES_MAX, frame_bytes_max))

    async def send(self, raw: bytes) -> None:
        await self._stream.write(frame(raw, frame_bytes_max=self._frame_bytes_max))

    async def receive(self) -> bytes:
        while (raw := self._frames.next()) is None:
            data = await self._stream.read()
            if not data:
                self._frames.finish()
                raise TransportError("the other end has closed the link", retry=True)
            self._frames.feed(data)
        self._frames.frame_bytes_max = self._frame_bytes_max
        return raw

    async def close(self) -> None:
        await self._stream.close()


class SocketChannel:
    """Frames as the messages of a WebSocket: JSON as text, as browsers like it, all else as bytes."""

    def __init__(self, socket: Connection, *, frame_bytes_max: int | None = None) -> None:
        """``frame_bytes_max``: of frames behind the first, where the socket was opened for a smaller one only."""
        self._socket: Final = socket
        self._frame_bytes_max: Final = frame_bytes_max
        self._code: CloseCode = CloseCode.NORMAL_CLOSURE
        self._reason = ""

    def explain(self, code: CloseCode, reason: str) -> None:
        """What to say when closing."""
        self._code, self._reason = code, reason[:_REASON_BYTES_MAX]

    async def send(self, raw: bytes) -> None:
        try:
            await self._socket.send(raw.decode() if raw.startswith(_JSON) else raw)
        except ConnectionClosed as error:
            raise self._ended() from error

    async def receive(self) -> bytes:
        try:
            # Text stays as it came: whoever reads the frame says whether it is any.
            raw = await self._socket.recv(decode=False)
        except ConnectionClosed as error:
            raise self._ended() from error
        if self._frame_bytes_max is not None:
            self._socket.protocol.max_message_size = self._frame_bytes_max
        return raw

    async def close(self) -> None:
        with suppress(ConnectionClosed):
            await self._socket.close(self._code, self._reason)

    def _ended(self) -> TransportError:
        said = self._socket.close_reason
        why = f": {said[:_REASON_BYTES_MAX]}" if said else ""
        return TransportError(f"the other end has closed the link{why}", retry=True)
