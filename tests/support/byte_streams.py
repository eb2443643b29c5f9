"""Byte streams in memory for tests: bytes are cut anywhere, may stall, may be dropped, and are all kept to look at."""

import asyncio
from collections.abc import Awaitable, Callable
from random import Random
from typing import Final, TypeVar

from msgspec import structs

from bobbin.transport.base import Route, TransportError
from bobbin.wire import address

T = TypeVar("T")

LOOPBACK: Final = Route(
    address=address.parse("tcp:127.0.0.1:4790"), remote="127.0.0.1:40000", origin="127.0.0.1", loopback=True
)
FAR: Final = Route(
    address=address.parse("tcp:lace.example:4790"), remote="192.0.2.7:40000", origin="192.0.2.7", loopback=False
)
BINDING: Final = b"\x11" * 32
TLS: Final = structs.replace(FAR, address=address.parse("tls:lace.example:4791"), binding=BINDING)
"""As a server sees it, or a client that has not checked the certificate."""
VERIFIED: Final = structs.replace(TLS, verified=True)

_ROOM_BYTES: Final = 256 * 1024


class Way:
    """One direction of bytes."""

    def __init__(self, cut: Callable[[int], int], room_bytes: int) -> None:
        self.written: Final = bytearray()
        """Everything that was ever sent this way."""
        self.is_stalled = False
        """Nothing arrives while this is so."""
        self.drop_after: int | None = None
        """The stream breaks for both ends once so many bytes were written this way."""
        self._cut_at: int | None = None
        self._cut: Final = cut
        self._room_bytes: Final = room_bytes
        self._read = 0
        self._closed = False
        self._broken = False
        self._news: Final = asyncio.Event()

    @property
    def _waiting(self) -> int:
        return len(self.written) - self._read

    async def read(self) -> bytes:
        while self.is_stalled or self._is_held or not (self._waiting or self._closed):
            await self._wait()
        size = min(self._cut(self._waiting), self._waiting) if self._waiting else 0
        if self._cut_at is not None:
            size = min(size, self._cut_at - self._read)
        data = bytes(self.written[self._read : self._read + size])
        self._read += size
        self._tell()
        if not data and self._broken:
            raise TransportError("the link broke", retry=True)
        return data

    async def write(self, data: bytes) -> None:
        if self._closed:
            raise TransportError("the other end has gone", retry=True)
        if self.drop_after is not None and len(self.written) + len(data) > self.drop_after:
            self.written.extend(data[: max(self.drop_after - len(self.written), 0)])
            self.end(broken=True)
            raise TransportError("the link broke", retry=True)
        self.written.extend(data)
        self._tell()
        while self._waiting > self._room_bytes and not self._closed:
            await self._wait()

    def stall(self, *, stalled: bool) -> None:
        """Hold what is on its way, or let it go on."""
        self.is_stalled = stalled
        self._tell()

    def cut_at(self, at: int | None) -> None:
        """Let the first so many bytes of this way arrive and hold the others; with None, let all go on."""
        self._cut_at = at
        self._tell()

    @property
    def _is_held(self) -> bool:
        return self._cut_at is not None and self._read >= self._cut_at

    def end(self, *, broken: bool = False) -> None:
        """Nothing more comes this way."""
        self._closed = True
        self._broken = self._broken or broken
        self._tell()

    def _tell(self) -> None:
        self._news.set()

    async def _wait(self) -> None:
        self._news.clear()
        await self._news.wait()


class MemoryStream:
    """One end."""

    def __init__(self, route: Route, incoming: Way, outgoing: Way) -> None:
        self.incoming: Final = incoming
        self.outgoing: Final = outgoing
        self.is_closed = False
        self.was_aborted = False
        self._route = route

    @property
    def route(self) -> Route:
        return self._route

    async def read(self) -> bytes:
        return await self.incoming.read()

    async def write(self, data: bytes) -> None:
        await self.outgoing.write(data)

    async def close(self) -> None:
        self.is_closed = True
        self.outgoing.end()
        self.incoming.end()

    def abort(self) -> None:
        self.was_aborted = self.is_closed = True
        self.outgoing.end(broken=True)
        self.incoming.end()

    def lose(self) -> None:
        """Both directions break, as if somebody had pulled the cable and it was noticed."""
        self.outgoing.end(broken=True)
        self.incoming.end(broken=True)


def whole(waiting: int) -> int:
    """Everything that waits, at once."""
    return waiting


def drip(waiting: int) -> int:
    """One byte at a time."""
    del waiting
    return 1


def seeded(seed: int) -> Callable[[int], int]:
    """Cut anywhere, by a seed; often after very few bytes."""
    random = Random(seed)
    return lambda waiting: random.choice((1, 2, 7, random.randint(1, max(waiting, 1)), waiting))


def stream_pair(
    ours: Route = LOOPBACK,
    theirs: Route | None = None,
    *,
    cut: Callable[[int], int] = whole,
    room_bytes: int = _ROOM_BYTES,
) -> tuple[MemoryStream, MemoryStream]:
    """Both ends of a stream: the initiator's and the responder's, each with what its transport knows."""
    there, back = Way(cut, room_bytes), Way(cut, room_bytes)
    return MemoryStream(ours, back, there), MemoryStream(ours if theirs is None else theirs, there, back)


async def until(condition: Callable[[], bool], turns_max: int = 200_000) -> None:
    """Let everybody else run until it is so."""
    for _ in range(turns_max):
        if condition():
            return
        await asyncio.sleep(0)
    raise AssertionError("it never came")


def run_story(work: Callable[[], Awaitable[T]]) -> T:
    """Run something to its end, which must not take for ever."""

    async def run() -> T:
        async with asyncio.timeout(60):
            return await work()

    return asyncio.run(run())
