"""Data channels between two peers that found each other through a signaling server.

The side that dials sends an offer, the other one an answer, both through the server; ways that come later, as browsers
send them, are added as they come. Then one data channel, reliable and in order, carries frames: one message of the
channel is one frame. A channel that may lose or reorder messages is refused, since a mirror would ask for snapshots
without end.

What is not sent yet is bounded by waiting; what is received and not taken is bounded by ending the link, since the
library cannot make the other side wait. Whoever mirrors comes back and gets a snapshot.

Needs the extra ``webrtc``.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from contextlib import suppress
from types import TracebackType
from typing import Final, Self

from aiortc import RTCConfiguration, RTCDataChannel, RTCIceServer, RTCPeerConnection, RTCSessionDescription
from aiortc.exceptions import InvalidAccessError, InvalidStateError
from aiortc.sdp import candidate_from_sdp
from msgspec import Struct

from bobbin.errors import PeerError, UsageError
from bobbin.reactive.messages import PeerId
from bobbin.reactive.signaling_frames import (
    Answer,
    ForwardedAnswer,
    ForwardedIce,
    ForwardedOffer,
    Offer,
    PeerLeft,
    Refusal,
    ServerFrame,
)
from bobbin.runtime.signal_client import SignalClient
from bobbin.transport.base import TransportError

LABEL: Final = "lazily-ipc"
UNSUITABLE_CHANNEL: Final = "unsuitable-channel"
BAD_DESCRIPTION: Final = "bad-description"

_CANDIDATE: Final = "candidate:"


class RtcLimits(Struct, frozen=True, kw_only=True):
    """Bounds of one link, and of a hub."""

    frame_bytes_max: int = 4 * 1024 * 1024
    unsent_bytes_max: int = 4 * 1024 * 1024
    """A sender waits while more than this is on its way."""
    received_frames_max: int = 1_024
    received_bytes_max: int = 16 * 1024 * 1024
    connect_seconds: float = 30.0
    links_max: int = 64
    waiting_links_max: int = 16
    """Links that others opened and nobody has taken."""


class RtcLink:
    """An open data channel to one peer."""

    def __init__(
        self,
        peer: PeerId,
        connection: RTCPeerConnection,
        limits: RtcLimits,
        *,
        ended: Callable[[], None] = lambda: None,
    ) -> None:
        """``ended`` is called once, when the link is over."""
        self.peer: Final = peer
        self._ended: Final = ended
        self._connection: Final = connection
        self._limits: Final = limits
        self._channel: RTCDataChannel | None = None
        self._opened: Final[asyncio.Future[None]] = asyncio.get_running_loop().create_future()
        self._frames: Final[asyncio.Queue[bytes | None]] = asyncio.Queue()
        """None is the end. Its bound is kept by ``_take``."""
        self._held = 0
        """Bytes in it."""
        self._room: Final = asyncio.Event()
        self._why: str | None = None
        """It has ended, and this is why."""
        connection.on("connectionstatechange", self._look)

    @property
    def is_over(self) -> bool:
        """Whether it has ended. Frames that came before may be left to be taken."""
        return self._why is not None

    @property
    def unsent_bytes(self) -> int:
        """What is on its way."""
        return 0 if self._channel is None else self._channel.bufferedAmount

    async def send(self, frame: bytes) -> None:
        """Send a frame; returns when there is room for more. Raises ``TransportError``."""
        if len(frame) > self._limits.frame_bytes_max:
            raise UsageError(f"a frame has at most {self._limits.frame_bytes_max} bytes, not {len(frame)}")
        channel = self._channel
        if self._why is not None or channel is None:
            raise TransportError(self._why or "the data channel is not open", retry=True)
        try:
            channel.send(frame)
        except InvalidStateError as error:
            raise TransportError("the data channel is closed", retry=True) from error
        while channel.bufferedAmount > self._limits.unsent_bytes_max and self._why is None:
            self._room.clear()
            await self._room.wait()

    async def receive(self) -> bytes:
        """The next frame. Raises ``TransportError`` at the end."""
        frame = await self._frames.get()
        if frame is None:
            self._frames.put_nowait(None)
            raise TransportError(self._why or "the link is over", retry=True)
        self._held -= len(frame)
        return frame

    async def close(self) -> None:
        """End the link. May be called again."""
        self._end("this side has closed the link")
        await self._connection.close()

    async def opened(self) -> None:
        """Wait until frames can go. Raises ``PeerError`` or ``TransportError``."""
        await asyncio.shield(self._opened)

    def use(self, channel: RTCDataChannel) -> None:
        """Take a channel, if it is one that carries frames."""
        if not channel.ordered or channel.maxRetransmits is not None or channel.maxPacketLifeTime is not None:
            channel.close()
            self._fail(PeerError(UNSUITABLE_CHANNEL, "the channel may lose or reorder messages"))
            return
        if self._channel is not None:
            # A second one would be a second order of frames.
            channel.close()
            return
        self._channel = channel
        channel.bufferedAmountLowThreshold = self._limits.unsent_bytes_max // 2
        channel.on("bufferedamountlow", self._room.set)
        channel.on("message", self._take)
        channel.on("close", lambda: self._end("the other end has closed the link"))
        if channel.readyState == "open":
            self._open()
        else:
            channel.on("open", self._open)

    def _open(self) -> None:
        if not self._opened.done():
            self._opened.set_result(None)

    def _take(self, message: bytes | str) -> None:
        frame = message.encode() if isinstance(message, str) else message
        limits = self._limits
        if self._why is not None:
            return
        if len(frame) > limits.frame_bytes_max:
            self._end(f"the peer sent a frame of {len(frame)} bytes; {limits.frame_bytes_max} are taken")
        elif self._frames.qsize() >= limits.received_frames_max or self._held + len(frame) > limits.received_bytes_max:
            self._end("frames come faster than they are taken")
        else:
            self._held += len(frame)
            self._frames.put_nowait(frame)
            return
        if self._channel is not None:
            self._channel.close()

    def _look(self) -> None:
        if self._connection.connectionState in ("failed", "closed"):
            self._end("no way leads to the peer any more")

    def _fail(self, error: PeerError | TransportError) -> None:
        if not self._opened.done():
            self._opened.set_exception(error)
            # Nobody may be waiting for it.
            self._opened.exception()
        self._end(str(error))

    def _end(self, why: str) -> None:
        if self._why is not None:
            return
        self._why = why
        self._frames.put_nowait(None)
        self._room.set()
        if not self._opened.done():
            self._fail(TransportError(why, retry=True))
        self._ended()


class RtcHub:
    """All data channels of one client of a signaling server. It reads everything that the server says.

    ::

        async with RtcHub(client) as hub:
            link = await hub.dial(peer)
    """

    def __init__(
        self,
        client: SignalClient,
        *,
        accepts: Callable[[PeerId], bool] = lambda peer: False,  # noqa: ARG005 (nobody is taken unless somebody says so)
        ice_servers: Iterable[str] = (),
        limits: RtcLimits = RtcLimits(),  # noqa: B008 (a frozen value)
    ) -> None:
        """``ice_servers`` are asked where this machine can be reached; none are needed within one network."""
        self._client: Final = client
        self._accepts: Final = accepts
        self._servers: Final = [RTCIceServer(urls=url) for url in ice_servers]
        self._limits: Final = limits
        self._links: Final[dict[PeerId, RtcLink]] = {}
        self._connections: Final[dict[PeerId, RTCPeerConnection]] = {}
        self._answers: Final[dict[PeerId, asyncio.Future[str]]] = {}
        self._incoming: Final[asyncio.Queue[RtcLink]] = asyncio.Queue(limits.waiting_links_max)
        self._tasks: Final[set[asyncio.Task[None]]] = set()
        self._reader: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        self._reader = asyncio.create_task(self._read())
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        del kind, error, trace
        await self.close()

    @property
    def links(self) -> frozenset[PeerId]:
        """The peers to which there are links, or attempts at one."""
        return frozenset(self._links)

    async def close(self) -> None:
        """End every link. The client stays."""
        for link in tuple(self._links.values()):
            await self._forget(link)
        tasks = [*self._tasks, *(() if self._reader is None else (self._reader,))]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def dial(self, peer: PeerId) -> RtcLink:
        """Open a channel to a peer. Raises ``PeerError``, ``TransportError`` or ``UsageError``."""
        link, connection = self._begin(peer)
        answered = self._answers[peer] = asyncio.get_running_loop().create_future()
        try:
            async with asyncio.timeout(self._limits.connect_seconds):
                link.use(connection.createDataChannel(LABEL, ordered=True))
                await connection.setLocalDescription(await connection.createOffer())
                await self._client.send(Offer(to=peer, sdp=connection.localDescription.sdp))
                await _describe(connection, "answer", await answered)
                await link.opened()
        except TimeoutError as error:
            await self._forget(link)
            seconds = self._limits.connect_seconds
            raise TransportError(f"peer {peer} was not reached within {seconds:g} seconds", retry=True) from error
        except BaseException:
            await self._forget(link)
            raise
        finally:
            if self._answers.get(peer) is answered:
                del self._answers[peer]
        return link

    async def accept(self) -> RtcLink:
        """The next link that a peer has opened. Raises ``TransportError`` when the server is gone."""
        taking = asyncio.create_task(self._incoming.get())
        assert self._reader is not None, "a hub is entered first"
        await asyncio.wait({taking, self._reader}, return_when=asyncio.FIRST_COMPLETED)
        if taking.done():
            return taking.result()
        taking.cancel()
        raise TransportError("the signaling server is gone", retry=True)

    # ---- what the server says ----------------------------------------------------------------------------------------

    async def _read(self) -> None:
        try:
            while True:
                await self._hear(await self._client.receive())
        except (TransportError, PeerError) as error:
            for answered in self._answers.values():
                _fail(answered, TransportError(f"the signaling server is gone: {error}", retry=True))

    async def _hear(self, frame: ServerFrame) -> None:
        match frame:
            case ForwardedOffer():
                self._spawn(self._answer(frame.sender, frame.sdp))
            case ForwardedAnswer():
                answered = self._answers.get(frame.sender)
                if answered is not None and not answered.done():
                    answered.set_result(frame.sdp)
            case ForwardedIce():
                await self._add_way(frame.sender, frame.candidate)
            case PeerLeft():
                # A link that is up needs the server no more.
                _fail(self._answers.get(frame.peer), TransportError(f"peer {frame.peer} has left", retry=True))
            case Refusal():
                for answered in self._answers.values():
                    _fail(answered, PeerError(frame.code, f"the signaling server refuses: {frame.message[:200]}"))
            case _:
                pass

    async def _answer(self, peer: PeerId, sdp: str) -> None:
        if not self._accepts(peer):
            return
        if peer in self._answers and self._client.peer > peer:
            # Both have dialled. The offer of the lesser id stands; the other side does the same.
            _fail(self._answers.pop(peer), TransportError(f"peer {peer} has dialled at the same time", retry=True))
            await self._forget(self._links[peer])
        if peer in self._links or len(self._links) >= self._limits.links_max:
            return
        link, connection = self._begin(peer)
        connection.on("datachannel", link.use)
        try:
            async with asyncio.timeout(self._limits.connect_seconds):
                await _describe(connection, "offer", sdp)
                await connection.setLocalDescription(await connection.createAnswer())
                await self._client.send(Answer(to=peer, sdp=connection.localDescription.sdp))
                await link.opened()
            self._incoming.put_nowait(link)
        except (PeerError, TransportError, TimeoutError, asyncio.QueueFull):
            await self._forget(link)

    async def _add_way(self, peer: PeerId, text: str) -> None:
        connection = self._connections.get(peer)
        if connection is None or not text.startswith(_CANDIDATE):
            return
        # A way that cannot be read is one way less.
        with suppress(ValueError, AssertionError, IndexError, InvalidStateError, InvalidAccessError):
            candidate = candidate_from_sdp(text.removeprefix(_CANDIDATE))
            candidate.sdpMLineIndex = 0
            await connection.addIceCandidate(candidate)

    # ---- links -------------------------------------------------------------------------------------------------------

    def _begin(self, peer: PeerId) -> tuple[RtcLink, RTCPeerConnection]:
        if peer in self._links:
            raise UsageError(f"there is a link to peer {peer} already")
        if len(self._links) >= self._limits.links_max:
            raise UsageError(f"there are {len(self._links)} links already")
        connection = RTCPeerConnection(RTCConfiguration(iceServers=self._servers))
        link = RtcLink(peer, connection, self._limits, ended=lambda: self._spawn(self._forget(link)))
        self._links[peer], self._connections[peer] = link, connection
        return link, connection

    async def _forget(self, link: RtcLink) -> None:
        if self._links.get(link.peer) is link:
            del self._links[link.peer], self._connections[link.peer]
        await link.close()

    def _spawn(self, work: Awaitable[None]) -> None:
        async def run() -> None:
            await work

        task = asyncio.create_task(run())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


async def _describe(connection: RTCPeerConnection, kind: str, sdp: str) -> None:
    """Take what the other side says of itself. The library raises all kinds of errors for a text that is none."""
    try:
        await connection.setRemoteDescription(RTCSessionDescription(sdp=sdp, type=kind))
    except Exception as error:
        raise PeerError(BAD_DESCRIPTION, f"the peer's {kind} cannot be used: {type(error).__name__}") from error


def _fail(waiting: asyncio.Future[str] | None, error: PeerError | TransportError) -> None:
    if waiting is not None and not waiting.done():
        waiting.set_exception(error)
