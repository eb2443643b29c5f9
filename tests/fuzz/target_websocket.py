"""WebSocket: any bytes at a server are the same stream whole and byte by byte, or are refused as a broken transport.

The first byte says whether a good handshake comes before the rest, so that the fuzzer need not find one. Whatever a
peer sends, what comes out of it is never more than what went in: nothing is unpacked.
"""

import asyncio

from bobbin.transport import websocket
from bobbin.transport.base import READ_BYTES_MAX, Route, TransportError
from bobbin.transport.flow import Flow
from bobbin.wire import address

_ROUTE = Route(address=address.parse("ws:127.0.0.1:4790"), remote="fuzz", origin="local", loopback=True)
REQUEST = (
    b"GET /interlace HTTP/1.1\r\nHost: 127.0.0.1:4790\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
    b"Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\nSec-WebSocket-Version: 13\r\n"
    b"Sec-WebSocket-Extensions: permessage-deflate; client_max_window_bits\r\n\r\n"
)
_ROOM = 4_096
"""What a server may say by itself: an answer to the handshake, pongs, a farewell. Pongs repeat what the pings had."""


class _Socket(asyncio.Transport):
    """What asyncio would be to a flow, with nothing behind it."""

    def __init__(self, flow: Flow) -> None:
        super().__init__()
        self.written = 0
        self._flow = flow

    def pause_reading(self) -> None:
        pass

    def resume_reading(self) -> None:
        pass

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        del high, low

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self.written += len(data)

    def write_eof(self) -> None:
        pass

    def close(self) -> None:
        asyncio.get_running_loop().call_soon(self._flow.connection_lost, None)

    def abort(self) -> None:
        self.close()


def one_input(data: bytes) -> None:
    raw = REQUEST + data[1:] if data[:1] > b"\x7f" else data[1:]
    found = asyncio.run(_read([raw]))
    assert asyncio.run(_read([raw[at : at + 1] for at in range(len(raw))])) == found


async def _read(parts: list[bytes]) -> tuple[bytes, bool]:
    """What came out, and whether it ended well."""
    flow = Flow()
    under = _Socket(flow)
    flow.connection_made(under)
    for part in parts:
        if part:
            flow.data_received(part)
    flow.eof_received()
    heard = bytearray()
    try:
        stream = await websocket.take(flow, _ROUTE)
        try:
            while data := await stream.read():
                assert len(data) <= READ_BYTES_MAX
                heard += data
        finally:
            stream.abort()
    except TransportError:
        return bytes(heard), False
    finally:
        flow.abort()
        size = sum(map(len, parts))
        assert len(heard) <= size
        assert under.written <= size + _ROOM
    return bytes(heard), True
