"""Calls to a PZP peer and from it, over one stream of bytes: muxrpc, driven.

``Link.run`` reads until one side has had enough, and hands what comes to the call it belongs to. There is no flow
control inside muxrpc: when a call has more waiting than it should, the link is not read until its owner has caught up.
So whoever owns a call reads it, whatever else it does, and does not wait for its own writes before it reads on.

As long as no call is open, all that can come is a question, so no longer frame is waited for. What goes wrong on this
side while a call is answered is not the other side's business: it hears that something did, and only what it did wrong
itself is told in full.
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Mapping
from types import MappingProxyType
from typing import Final, TypeAlias

from msgspec import Struct

from bobbin.errors import BobbinError, PeerError
from bobbin.transport.base import ByteStream, TransportError
from bobbin.transport.flow import CLOSE_SECONDS
from bobbin.wire.pzp import frames, manifest
from bobbin.wire.pzp.calls import CALL_BYTES_MAX, OPEN_CALLS_MAX, Called, Calls, Data, Ended, Left, Way, not_served
from bobbin.wire.pzp.faults import WireFault
from bobbin.wire.pzp.frames import BODY_BYTES_MAX, Decoder, Goodbye, Kind, Packet

INBOX_BYTES_MAX: Final = 8 * 1024 * 1024
"""What may wait for the owner of a call before the link is no longer read."""
INBOX_FRAMES_MAX: Final = 1024

CALL_FAILED: Final = "call-failed"
FAILED_HERE: Final = "this side cannot go on with the call"
"""What the other side hears when something of ours failed."""


class CallFailed(PeerError):
    """The other side has ended a call with an error. The link goes on."""

    def __init__(self, detail: str) -> None:
        super().__init__(CALL_FAILED, detail)


class Body(Struct, frozen=True):
    """One thing that was said on a call."""

    kind: Kind
    data: bytes


class Duplex:
    """One call, seen from one side: a stream of bodies both ways. Made by a ``Link``."""

    def __init__(self, link: "Link", call: int, arguments: tuple[bytes, ...] = ()) -> None:
        self.call: Final = call
        self.arguments: Final = arguments
        """What came with the question, each as JSON."""
        self._link: Final = link
        self._inbox: Final[deque[Body]] = deque()
        self._held = 0
        self._end: BobbinError | None = None
        self._ended = False
        self._news: Final = asyncio.Event()
        self._room: Final = asyncio.Event()
        self._room.set()

    async def receive(self) -> Body | None:
        """The next body; None when the other side has ended the call.

        Raises ``CallFailed`` where it ended with an error, ``TransportError`` or ``WireFault`` where the link is lost.
        """
        while not self._inbox:
            if self._end is not None:
                raise _again(self._end)
            if self._ended:
                return None
            self._news.clear()
            await self._news.wait()
        body = self._inbox.popleft()
        self._held -= len(body.data)
        if self._held < INBOX_BYTES_MAX and len(self._inbox) < INBOX_FRAMES_MAX:
            self._room.set()
        return body

    async def send(self, data: bytes, kind: Kind = Kind.JSON) -> None:
        """Say something. Returns when there is room for more. Raises ``TransportError``."""
        await self._link.send(self.call, data, kind)

    async def end(self, error: str | None = None) -> None:
        """Say no more. May be called again."""
        await self._link.end(self.call, error)

    # What the link calls.

    async def take(self, body: Body) -> None:
        """Hand over a body; returns when there is room for the next one."""
        if self._ended:
            return
        self._inbox.append(body)
        self._held += len(body.data)
        self._news.set()
        if self._held >= INBOX_BYTES_MAX or len(self._inbox) >= INBOX_FRAMES_MAX:
            self._room.clear()
            await self._room.wait()

    def finish(self, error: BobbinError | None) -> None:
        """Nothing more comes."""
        if not self._ended:
            self._ended = True
            self._end = error
        self._news.set()

    def leave(self) -> None:
        """Its owner reads no more: what waits and what comes is dropped."""
        self.finish(None)
        self._inbox.clear()
        self._held = 0
        self._room.set()


Serve: TypeAlias = Callable[[Duplex], Awaitable[None]]
"""Answers one call. It runs as a task of its own, and the call is ended after it."""
Failed: TypeAlias = Callable[[Exception], None]
"""Hears what went wrong on this side while a call was answered. The link goes on."""


class Link:
    """The calls over one stream."""

    def __init__(
        self,
        stream: ByteStream,
        *,
        serves: Mapping[tuple[str, ...], Serve] = MappingProxyType({}),
        failed: Failed = lambda error: None,  # noqa: ARG005 - nobody wants to hear it
        grew: Callable[[], None] = lambda: None,
        body_bytes_max: int = BODY_BYTES_MAX,
        open_calls_max: int = OPEN_CALLS_MAX,
    ) -> None:
        """``serves``: the streams that the other side may open, by name; the manifest says which they are.

        ``grew`` is told when there is more of a frame that is not whole; it may abort the link. ``body_bytes_max``: of
        one frame, while a call is open. ``open_calls_max``: of the other side's calls.
        """
        self.bytes_in = 0
        """Read from the stream, as it was before it was encrypted."""
        self.bytes_out = 0
        self._stream: Final = stream
        self._serves: Final = serves
        self._failed: Final = failed
        self._grew: Final = grew
        self._body_bytes_max: Final = body_bytes_max
        self._calls: Final = Calls(open_calls_max=open_calls_max)
        self._decoder: Final = Decoder()
        self._duplexes: Final[dict[int, Duplex]] = {}
        self._answering: Final[set[asyncio.Task[None]]] = set()
        self._writing: Final = asyncio.Lock()
        self._said_goodbye = False
        self._over: BobbinError | None = None
        """Why nothing more can be said or heard; set once."""
        self._heard_goodbye: Final = asyncio.Event()
        self._waiting_since: float | None = None
        """By the clock of the event loop; None while nobody waits for the other side."""

    @property
    def is_answering(self) -> bool:
        """Whether a call of the other side is being answered."""
        return bool(self._answering)

    @property
    def silent_seconds(self) -> float:
        """How long the other side has been waited for. What waits for this side does not count."""
        since = self._waiting_since
        return 0.0 if since is None else asyncio.get_running_loop().time() - since

    @property
    def unfinished_bytes(self) -> int:
        """What has come of frames that nobody has taken yet."""
        return self._decoder.buffered

    @property
    def is_over(self) -> bool:
        """Whether the link has ended, by whoever's doing."""
        return self._over is not None

    # ---- calls of ours --------------------------------------------------------------------------------------------

    async def open(self, name: tuple[str, ...]) -> Duplex:
        """Open a stream both ways. Whether the other side serves it is seen when something is received."""
        self._check()
        call, frame = self._calls.ask(name, Way.DUPLEX)
        duplex = self._duplexes[call] = Duplex(self, call)
        await self._write(frame)
        return duplex

    async def ask(self, name: tuple[str, ...], *arguments: bytes) -> bytes:
        """Ask one question, and give its answer as JSON. Raises ``CallFailed`` and what ``receive`` raises."""
        self._check()
        call, frame = self._calls.ask(name, Way.ASYNC, arguments)
        duplex = self._duplexes[call] = Duplex(self, call)
        try:
            await self._write(frame)
            answer = await duplex.receive()
        finally:
            self._duplexes.pop(call, None)
        if answer is None:
            raise CallFailed("the question has ended without an answer")
        return answer.data

    # ---- what a call says -----------------------------------------------------------------------------------------

    async def send(self, call: int, data: bytes, kind: Kind) -> None:
        """Say something on a call."""
        self._check()
        if not self._calls.may_send(call):
            raise TransportError("this side has ended the call", retry=False)
        await self._write(self._calls.send(call, data, kind))

    async def end(self, call: int, error: str | None = None) -> None:
        """End a call on this side."""
        if self._over is None and self._calls.may_send(call):
            await self._write(self._calls.end(call, error))

    # ---- life -----------------------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Read until the other side has said goodbye, or this side has closed.

        Raises ``TransportError`` and ``WireFault`` where the link was lost or its bytes were wrong. Every call learns
        of the end, and whoever answers one is waited for.
        """
        failure: BobbinError | None = None
        try:
            await self._read_all()
        except (PeerError, TransportError) as error:
            failure = error
        finally:
            self._finish(failure or TransportError("the other side has said goodbye", retry=True))
            await self._wait_for_answers()
        closed_here = self._said_goodbye
        if failure is None:
            await self._say_goodbye()
            await self._stream.close()
        elif not closed_here:
            self._stream.abort()
            raise failure

    async def close(self) -> None:
        """Say goodbye, give the other side a moment to do so too, and let go. ``run`` hears its goodbye."""
        await self._say_goodbye()
        if not self._heard_goodbye.is_set() and self._over is None:
            try:
                async with asyncio.timeout(CLOSE_SECONDS):
                    await self._heard_goodbye.wait()
            except TimeoutError:
                pass
        self._finish(TransportError("this side has closed the link", retry=False))
        await self._stream.close()

    def abort(self) -> None:
        """Let go at once."""
        self._finish(TransportError("this side has closed the link", retry=False))
        self._stream.abort()

    # ---- inside ---------------------------------------------------------------------------------------------------

    async def _read_all(self) -> None:
        while self._over is None:
            data = await self._read()
            if not data:
                self._decoder.finish()
                return
            self.bytes_in += len(data)
            self._decoder.feed(data)
            while (packet := self._next()) is not None:
                event, answer = self._calls.take(packet)
                if answer is not None:
                    await self._write(answer)
                if isinstance(event, Left):
                    self._heard_goodbye.set()
                    return
                if event is not None:
                    await self._hand_over(event)
            if self._decoder.buffered:
                self._grew()

    async def _read(self) -> bytes:
        self._waiting_since = asyncio.get_running_loop().time()
        try:
            return await self._stream.read()
        finally:
            self._waiting_since = None

    def _next(self) -> Packet | None:
        longest = self._body_bytes_max
        self._decoder.body_bytes_max = longest if self._calls.open else min(longest, CALL_BYTES_MAX)
        return self._decoder.next()

    async def _hand_over(self, event: Called | Data | Ended) -> None:
        match event:
            case Called():
                await self._take_call(event)
            case Data():
                if (duplex := self._duplexes.get(event.call)) is not None:
                    await duplex.take(Body(event.kind, event.body))
            case Ended():
                if (duplex := self._duplexes.pop(event.call, None)) is not None:
                    duplex.finish(None if event.error is None else CallFailed(event.error))

    async def _take_call(self, event: Called) -> None:
        if event.name == manifest.NAME and event.way is Way.ASYNC:
            await self._write(self._calls.send(event.call, manifest.encode(self._serves)))
            return
        serve = self._serves.get(event.name) if event.way is Way.DUPLEX else None
        if serve is None:
            await self._write(self._calls.end(event.call, not_served(event.name)))
            return
        duplex = self._duplexes[event.call] = Duplex(self, event.call, event.arguments)
        task = asyncio.create_task(self._answer(serve, duplex))
        self._answering.add(task)
        task.add_done_callback(self._answering.discard)

    async def _answer(self, serve: Serve, duplex: Duplex) -> None:
        error: str | None = None
        try:
            await serve(duplex)
        except PeerError as failure:
            error = str(failure)
        except TransportError:
            # Whoever runs the link hears of it.
            error = FAILED_HERE
        except Exception as failure:  # noqa: BLE001 - whatever it is, the call has to end, and somebody has to hear of it
            error = FAILED_HERE
            self._failed(failure)
        finally:
            duplex.leave()
        try:
            await duplex.end(error)
        except TransportError:
            # The link is over, and so is the call.
            return

    async def _wait_for_answers(self) -> None:
        while self._answering:
            await asyncio.wait(self._answering)

    async def _write(self, packet: Packet) -> None:
        writes = frames.encode(packet)
        async with self._writing:
            try:
                for write in writes:
                    await self._stream.write(write)
                    self.bytes_out += len(write)
            except BaseException:
                # Whoever wrote was stopped inside a frame, and nothing can be understood behind a part of one.
                self._finish(TransportError("a frame was broken off", retry=True))
                self._stream.abort()
                raise

    async def _say_goodbye(self) -> None:
        if self._said_goodbye:
            return
        self._said_goodbye = True
        try:
            async with asyncio.timeout(CLOSE_SECONDS):
                await self._write(Goodbye())
        except (TransportError, TimeoutError):
            # Nobody is there to hear it.
            return

    def _check(self) -> None:
        if self._over is not None:
            raise _again(self._over)
        if self._said_goodbye:
            raise TransportError("this side has said goodbye", retry=False)

    def _finish(self, why: BobbinError) -> None:
        if self._over is None:
            self._over = why
        self._heard_goodbye.set()
        for duplex in self._duplexes.values():
            duplex.finish(why)
        self._duplexes.clear()
        self._decoder.drop()


def _again(error: BobbinError) -> BobbinError:
    """The same error, without the way that it came: one that is raised twice would keep both."""
    match error:
        case WireFault():
            return WireFault(error.fault, str(error))
        case TransportError():
            return TransportError(str(error), retry=error.retry)
        case _:
            return CallFailed(str(error))
