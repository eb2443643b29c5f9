"""A WebSocket of the library ``websockets`` as a stream of bytes, for the introduction that goes before its messages.

Binary frames carry the bytes. Text is what comes after the introduction, so it ends the stream with an error.
"""

from typing import Final

from websockets.asyncio.connection import Connection
from websockets.exceptions import ConnectionClosed

from bobbin.transport.base import READ_BYTES_MAX, Route, TransportError


class SocketStream:
    """The first part of a connection. Closing it closes the connection."""

    def __init__(self, socket: Connection, route: Route) -> None:
        self._socket: Final = socket
        self._route: Final = route

    @property
    def route(self) -> Route:
        return self._route

    async def read(self) -> bytes:
        try:
            data = await self._socket.recv()
        except ConnectionClosed:
            return b""
        if isinstance(data, str) or len(data) > READ_BYTES_MAX:
            raise TransportError("the peer speaks before it has introduced itself", retry=False)
        # An empty frame is no end.
        return data or await self.read()

    async def write(self, data: bytes) -> None:
        try:
            await self._socket.send(data)
        except ConnectionClosed as error:
            raise TransportError("the other end has closed the link", retry=True) from error

    async def close(self) -> None:
        await self._socket.close()

    def abort(self) -> None:
        self._socket.transport.abort()
