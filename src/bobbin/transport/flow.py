"""Bytes in and out of one socket or pipe, with bounds on what is held in between.

asyncio hands over what the socket gave, one ``bytes`` object at a time, and it goes to the reader as it is: nothing is
copied on the way in. While the reader is behind, the socket is not read, so the peer's own writes come to a stop. In
the other direction a writer waits while the socket does not take what was written.

Two kinds of stream stand on this: plain ones, and those that put frames around the bytes.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Final

from bobbin.transport.base import READ_BYTES_MAX, WRITE_BYTES_MAX, EndedByPeer, Route, TransportError

CLOSE_SECONDS: Final = 5.0
"""How long the last bytes may take to get out."""
LINGER_SECONDS: Final = 1.0
"""How long the other end may take to answer our end with its own. A socket that is let go with unread bytes in it
takes back what the peer has not read yet; so what still comes is read and dropped for a while."""

_CHUNKS_MAX: Final = 64
"""What may wait for the reader, in pieces. A peer that sends single bytes would else cost many times their size."""
_SLICE_BYTES: Final = 256 * 1024
"""What is handed to the socket at once. Of more, asyncio would copy what the socket does not take."""


class Flow(asyncio.Protocol):
    """One open socket or pipe. Of a pipe that goes one way only, half of this is used."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.BaseTransport | None = None
        self._chunks: deque[bytes] = deque()
        self._held = 0
        """Bytes in ``_chunks``."""
        self._paused = False
        """The socket is not read, because enough is held."""
        self._full = False
        """The socket does not take what was written."""
        self._ended = False
        """The other end sends no more."""
        self._closing = False
        """This side has let go, or is about to."""
        self._aborted = False
        self._broken: Exception | None = None
        """Why the other end is gone, if not in order."""
        self._keeps_open = True
        """Whether the other end may stop sending and still read. Not so under TLS."""
        self._reader: asyncio.Future[None] | None = None
        self._writer: asyncio.Future[None] | None = None
        self._sink: Callable[[bytes], None] | None = None
        """Takes what comes, while somebody pours."""
        self._lost: Final[asyncio.Future[None]] = self._loop.create_future()
        """Done when asyncio has let the socket go."""
        self._over: Final[asyncio.Future[None]] = self._loop.create_future()
        """Done when nothing more can come."""

    @property
    def transport(self) -> asyncio.BaseTransport:
        """What asyncio calls the socket."""
        assert self._transport is not None, "a flow is used when it is connected"
        return self._transport

    @property
    def is_full(self) -> bool:
        """Whether a writer should wait."""
        return self._full

    @property
    def is_over(self) -> bool:
        """Whether writing has become pointless."""
        return self._closing or self._lost.done()

    # What asyncio calls.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport
        self._keeps_open = transport.get_extra_info("sslcontext") is None
        if isinstance(transport, asyncio.WriteTransport):
            transport.set_write_buffer_limits(high=WRITE_BYTES_MAX)

    def data_received(self, data: bytes) -> None:
        if self._closing:
            return
        if self._sink is not None:
            self._give(self._sink, data)
            return
        self._chunks.append(data)
        self._held += len(data)
        if not self._paused and (self._held >= READ_BYTES_MAX or len(self._chunks) >= _CHUNKS_MAX):
            self._paused = True
            self._reading().pause_reading()
        _wake(self._reader)

    def eof_received(self) -> bool:
        self._ended = True
        _wake(self._reader)
        _wake(self._over)
        # Whoever owns the stream closes it; until then it may still write.
        return self._keeps_open

    def connection_lost(self, exc: Exception | None) -> None:
        if exc is not None and not self._closing:
            self._broken = exc
        self._ended = True
        for waiting in (self._reader, self._writer, self._lost, self._over):
            _wake(waiting)

    def pause_writing(self) -> None:
        self._full = True

    def resume_writing(self) -> None:
        self._full = False
        _wake(self._writer)

    # What a stream calls.

    async def read(self) -> bytes:
        """Some bytes; none at the end."""
        while not self._chunks:
            if self._closing:
                raise TransportError("this side has closed the link", retry=False)
            if self._broken is not None:
                raise _failure(self._broken)
            if self._ended:
                return b""
            self._reader = self._loop.create_future()
            await self._reader
        data = self._chunks.popleft()
        if len(data) > READ_BYTES_MAX:
            # TLS may give a little more than was asked of the socket.
            self._chunks.appendleft(data[READ_BYTES_MAX:])
            data = data[:READ_BYTES_MAX]
        self._held -= len(data)
        if self._paused and self._held < READ_BYTES_MAX and len(self._chunks) < _CHUNKS_MAX:
            self._paused = False
            if not self._lost.done():
                self._reading().resume_reading()
        return data

    async def pour(self, sink: Callable[[bytes], None]) -> None:
        """Give everything to ``sink`` as it comes, without a turn of the event loop in between, until the end.

        For what is quickly taken: nothing is held back meanwhile. Raises what ``read`` does, and what ``sink`` does.
        """
        while True:
            while self._chunks:
                sink(await self.read())
            if self._closing or self._broken is not None or self._ended:
                await self.read()
                return
            self._sink, self._reader = sink, self._loop.create_future()
            try:
                await self._reader
            finally:
                self._sink = None

    def _give(self, sink: Callable[[bytes], None], data: bytes) -> None:
        try:
            sink(data)
        except Exception as error:  # noqa: BLE001 -- whoever pours hears of it
            self._sink = None
            if self._reader is not None and not self._reader.done():
                self._reader.set_exception(error)

    async def write(self, data: bytes) -> None:
        """Send bytes, in slices that the socket takes as they are."""
        view = memoryview(data)
        for start in range(0, len(data), _SLICE_BYTES):
            self.put(view[start : start + _SLICE_BYTES])
            await self.room()
        if not data:
            await self.room()

    def put(self, data: bytes | memoryview) -> None:
        """Hand bytes over at once, room or not. Whoever calls it looks at ``is_full`` or waits for ``room``."""
        self._check_writable()
        self._writing().write(data)

    async def room(self) -> None:
        """Wait until the socket takes more."""
        while self._full and not self.is_over:
            self._writer = self._loop.create_future()
            await self._writer
        self._check_writable()

    async def close(self) -> None:
        """Send what was written, say that it was all, and let go; all of it in bounded time."""
        if self._transport is None:
            return
        try:
            async with asyncio.timeout(CLOSE_SECONDS):
                if not self._closing:
                    self._let_go()
                    if self._keeps_open:
                        await self._finish()
                    self._transport.close()
                await asyncio.shield(self._lost)
        except TimeoutError:
            self.abort()
        except asyncio.CancelledError:
            self.abort()
            raise

    def abort(self) -> None:
        """Let go now."""
        self._let_go()
        if self._aborted or self._lost.done():
            # A pipe of asyncio does not bear being let go twice.
            return
        self._aborted = True
        match self._transport:
            case asyncio.WriteTransport() as transport:
                transport.abort()
            case asyncio.BaseTransport() as transport:
                transport.close()
            case _:
                pass

    async def _finish(self) -> None:
        """Get everything out, and give the other end a moment to do the same."""
        if self._lost.done() or not isinstance(self._transport, asyncio.WriteTransport):
            return
        # With these limits, full means that anything is left at all.
        self._transport.set_write_buffer_limits(high=0)
        while self._full and not self._lost.done():
            self._writer = self._loop.create_future()
            await self._writer
        if not self._lost.done() and isinstance(self._transport, asyncio.Transport):
            try:
                self._transport.write_eof()
            except OSError:
                # The peer was faster, and this socket knows it already.
                return
            await asyncio.wait((self._over,), timeout=LINGER_SECONDS)

    def _let_go(self) -> None:
        self._closing = True
        self._chunks.clear()
        self._held = 0
        if self._paused:
            self._paused = False
            if not self._lost.done():
                self._reading().resume_reading()
        _wake(self._reader)
        _wake(self._writer)

    def _check_writable(self) -> None:
        if self._closing:
            raise TransportError("this side has closed the link", retry=False)
        if self._lost.done():
            raise EndedByPeer() if self._broken is None else _failure(self._broken)

    def _reading(self) -> asyncio.ReadTransport:
        assert isinstance(self._transport, asyncio.ReadTransport)
        return self._transport

    def _writing(self) -> asyncio.WriteTransport:
        assert isinstance(self._transport, asyncio.WriteTransport)
        return self._transport


class FlowStream:
    """A stream whose bytes travel as they are."""

    def __init__(self, flow: Flow, route: Route, *, writing: Flow | None = None) -> None:
        """``writing`` is given where the two directions are two pipes."""
        self._incoming = flow
        self._outgoing = flow if writing is None else writing
        self._route = route

    @property
    def route(self) -> Route:
        return self._route

    @property
    def outgoing(self) -> Flow:
        """What is written to, for whoever does not wait: ``put``, ``is_full``."""
        return self._outgoing

    async def read(self) -> bytes:
        return await self._incoming.read()

    async def pour(self, sink: Callable[[bytes], None]) -> None:
        """Give everything to ``sink`` as it comes, until the end."""
        await self._incoming.pour(sink)

    async def write(self, data: bytes) -> None:
        await self._outgoing.write(data)

    async def close(self) -> None:
        await self._outgoing.close()
        if self._incoming is not self._outgoing:
            await self._incoming.close()

    def abort(self) -> None:
        self._outgoing.abort()
        self._incoming.abort()


def _failure(why: Exception) -> TransportError:
    text = f"the link broke: {why}"
    # A pipe is broken where the reset came before this side wrote.
    is_peers = isinstance(why, ConnectionResetError | BrokenPipeError)
    return EndedByPeer(text) if is_peers else TransportError(text, retry=True)


def _wake(waiting: asyncio.Future[None] | None) -> None:
    if waiting is not None and not waiting.done():
        waiting.set_result(None)
