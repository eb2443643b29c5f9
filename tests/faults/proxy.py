"""A proxy on loopback that breaks links on purpose: at a chosen byte of a chosen direction, in a chosen way.

It runs in a thread of its own, so that tests and the processes on both sides of it need not know of it. Everything that
passes may be kept, to be looked at or sent again.
"""

import asyncio
import socket
import struct
import threading
from collections.abc import Callable
from contextlib import suppress
from enum import StrEnum
from types import TracebackType
from typing import Final, Self

from msgspec import Struct

_PIECE_BYTES: Final = 64 * 1024
_START_SECONDS: Final = 60.0


class Way(StrEnum):
    """A direction."""

    TO_SERVER = "to server"
    TO_CLIENT = "to client"


class Act(StrEnum):
    """What the proxy does where the fault is."""

    CUT = "cut"
    """Both ends are told that the other one has closed."""
    RESET = "reset"
    """Both ends are told that the connection is void."""
    STALL = "stall"
    """Nothing passes any more, either way, and nobody is told."""
    HALF_CLOSE = "half-close"
    """The rest of this direction is dropped and its end told; the other direction goes on."""
    FLIP = "flip"
    """One bit of one byte is another; everything goes on."""
    THROTTLE = "throttle"
    """From here on, one byte at a time with a pause after each."""
    FLOOD = "flood"
    """Instead of the rest, one piece is sent again and again, without end."""
    CALL = "call"
    """Something else is done, and everything goes on."""


class Fault(Struct, frozen=True, kw_only=True):
    """Where and how a link breaks."""

    act: Act
    way: Way = Way.TO_SERVER
    mark: bytes = b""
    """Counting begins at the first place where this stands; at the beginning of the stream without it."""
    after: int = 0
    """Bytes that still pass."""
    piece: bytes = b"A" * _PIECE_BYTES
    """What a flood consists of."""
    pause_seconds: float = 0.05
    call: Callable[[], None] = lambda: None


class Proxy:
    """Takes connections at ``port`` and passes them on to a server, with a fault on each of them if there is one."""

    def __init__(self, port: int, fault: Fault | None = None) -> None:
        self.fault = fault
        """May be changed; it holds for connections that come after."""
        self.port = 0
        self.struck: Final = threading.Event()
        """Set when a fault has happened."""
        self.passed: Final = {way: bytearray() for way in Way}
        """Everything that was sent on, of all connections together, but for floods."""
        self.flooded = 0
        """Bytes of floods that the other end took."""
        self._server_port: Final = port
        self._loop: Final = asyncio.new_event_loop()
        self._ready: Final = threading.Event()
        self._over: Final = asyncio.Event()
        self._thread: Final = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        assert self._ready.wait(_START_SECONDS)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._loop.call_soon_threadsafe(self._over.set)
        self._thread.join(_START_SECONDS)

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        try:
            self._loop.run_until_complete(self._serve())
        finally:
            self._loop.close()

    async def _serve(self) -> None:
        links: set[asyncio.Task[None]] = set()

        async def take(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            task = asyncio.current_task()
            assert task is not None
            links.add(task)
            task.add_done_callback(links.discard)
            with suppress(asyncio.CancelledError):
                await self._pass_on(reader, writer)

        server = await asyncio.start_server(take, "127.0.0.1", 0)
        self.port = server.sockets[0].getsockname()[1]
        self._ready.set()
        await self._over.wait()
        server.close()
        for task in links:
            task.cancel()
        await asyncio.gather(*links, return_exceptions=True)
        await server.wait_closed()

    async def _pass_on(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            there, back = await asyncio.open_connection("127.0.0.1", self._server_port)
        except OSError:
            writer.transport.abort()
            return
        link = _Passing(self, self.fault, (writer, back))
        ways = [link.pump(Way.TO_SERVER, reader, back), link.pump(Way.TO_CLIENT, there, writer)]
        try:
            await asyncio.gather(*ways)
        finally:
            for one in (writer, back):
                one.transport.abort()


class _Passing:
    """One connection."""

    def __init__(
        self, proxy: Proxy, fault: Fault | None, ends: tuple[asyncio.StreamWriter, asyncio.StreamWriter]
    ) -> None:
        self._proxy = proxy
        self._fault = fault
        self._ends = ends
        self._may_pass = asyncio.Event()
        self._may_pass.set()

    async def pump(self, way: Way, source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
        fault = self._fault if self._fault is not None and self._fault.way is way else None
        counter = None if fault is None else _Counter(fault)
        try:
            while data := await source.read(_PIECE_BYTES):
                await self._may_pass.wait()
                at = None if counter is None else counter.feed(data)
                if at is None or fault is None:
                    await self._send(way, sink, data)
                    continue
                counter = None
                await self._send(way, sink, data[:at])
                self._proxy.struck.set()
                if await self._strike(fault, way, source, sink, data[at:]):
                    return
            sink.write_eof()
        except OSError:
            # One end is gone without a farewell, so the other end gets none either.
            for end in self._ends:
                end.transport.abort()

    async def _send(self, way: Way, sink: asyncio.StreamWriter, data: bytes) -> None:
        self._proxy.passed[way] += data
        sink.write(data)
        await sink.drain()

    async def _strike(
        self, fault: Fault, way: Way, source: asyncio.StreamReader, sink: asyncio.StreamWriter, rest: bytes
    ) -> bool:
        """Whether this direction is done."""
        match fault.act:
            case Act.CUT | Act.RESET:
                for end in self._ends:
                    if fault.act is Act.RESET:
                        under: socket.socket = end.get_extra_info("socket")
                        under.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                    end.transport.abort()
                return True
            case Act.STALL:
                self._may_pass.clear()
                await self._may_pass.wait()
                return True
            case Act.HALF_CLOSE:
                sink.write_eof()
                while await source.read(_PIECE_BYTES):
                    pass
                return True
            case Act.FLOOD:
                while True:
                    sink.write(fault.piece)
                    await sink.drain()
                    self._proxy.flooded += len(fault.piece)
            case Act.THROTTLE:
                while rest:
                    for at in range(len(rest)):
                        await self._send(way, sink, rest[at : at + 1])
                        await asyncio.sleep(fault.pause_seconds)
                    rest = await source.read(_PIECE_BYTES)
                return False
            case Act.FLIP:
                await self._send(way, sink, bytes([rest[0] ^ 1]) + rest[1:])
                return False
            case Act.CALL:
                await asyncio.get_running_loop().run_in_executor(None, fault.call)
                await self._send(way, sink, rest)
                return False


class _Counter:
    """Finds the place of a fault in a stream that comes in pieces."""

    def __init__(self, fault: Fault) -> None:
        self._mark = fault.mark
        self._left: int | None = None if fault.mark else fault.after
        """Bytes that still pass; None as long as the mark has not come."""
        self._after = fault.after
        self._tail = b""

    def feed(self, data: bytes) -> int | None:
        """Where in this piece the fault is; None if it is not in it."""
        start = 0
        if self._left is None:
            seen = self._tail + data
            found = seen.find(self._mark)
            if found < 0:
                self._tail = seen[-len(self._mark) :]
                return None
            start = max(found - len(self._tail), 0)
            self._left = self._after
        if self._left < len(data) - start:
            return start + self._left
        self._left -= len(data) - start
        return None
