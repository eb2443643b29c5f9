"""Data channels between two peers that found each other through a signaling server.

The side that dials sends an offer, the other one an answer, both through the server; ways that come later, as browsers
send them, are added as they come. Then one data channel, reliable and in order, carries frames: one message of the
channel is one frame. A channel that may lose or reorder messages is refused, since a mirror would ask for snapshots
without end.

What is not sent yet is bounded by waiting; what is received and not taken is bounded by ending the link, since the
library cannot make the other side wait. Whoever mirrors comes back and gets a snapshot.

Who is at the other end does not follow from any of this. In a room everybody has the id that it asked for, and the
certificates of both ends go through the signaling server, which could put its own in their place. So an observer says
who it is on the channel itself, before the first frame, as on a stream of bytes (``graph_greeting``): ``show`` and
``identify``. A proof is bound to the certificates of both ends, so nobody between them can pass it on. A token is not:
whoever runs the signaling server could read it.

Needs the extra ``webrtc``.
"""

import asyncio
import re
from collections.abc import Callable, Coroutine, Iterable
from contextlib import suppress
from hashlib import sha256
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
from bobbin.records.signing import SigningKey
from bobbin.runtime import graph_greeting
from bobbin.runtime.graph_channel import Channel
from bobbin.runtime.graph_greeting import NOT_KNOWN, Unread
from bobbin.runtime.graph_peers import ANYONE, SIGNER_PEER_MIN, TOKEN_PEER_MIN, Credentials, Identities
from bobbin.runtime.guesses import Guesses
from bobbin.runtime.signal_client import SignalClient
from bobbin.transport.base import READ_BYTES_MAX, Route, TransportError
from bobbin.wire.address import Address, Scheme

LABEL: Final = "lazily-ipc"
UNSUITABLE_CHANNEL: Final = "unsuitable-channel"
BAD_DESCRIPTION: Final = "bad-description"

_CANDIDATE: Final = "candidate:"
_WAYS_MAX: Final = 64
"""Of one attempt. Looking for where one leads may take seconds."""
_FINGERPRINT: Final = re.compile(r"^a=fingerprint:sha-256 ([0-9a-f:]+)\s*$", re.ASCII | re.IGNORECASE | re.MULTILINE)
_NUMBER: Final = re.compile(r"[0-9]{1,20}", re.ASCII)
_BOUND: Final = b"bobbin data channel\n"
_PLACE: Final = Address(scheme=Scheme.WSS, host="data-channel")
"""There is no address that leads here; the channel is encrypted, as this one's would be."""


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


def is_reserved(peer: PeerId) -> bool:
    """Whether an id has a meaning at a graph that nobody can have by asking for it: the owner's, or that of a key."""
    return not TOKEN_PEER_MIN <= peer < SIGNER_PEER_MIN


class RtcLink:
    """An open data channel to somebody. Whom, only ``identify`` tells."""

    def __init__(
        self,
        claimed: PeerId,
        connection: RTCPeerConnection,
        limits: RtcLimits,
        *,
        ended: Callable[[], None] = lambda: None,
    ) -> None:
        """``ended`` is called once, when the link is over."""
        self.claimed: Final[int] = claimed
        """The id in the room, which the other end has chosen. It is not that of a peer of a graph."""
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
        self._closing: asyncio.Task[None] | None = None
        connection.on("connectionstatechange", self._look)

    @property
    def route(self) -> Route:
        """How it goes."""
        return RtcStream(self).route

    async def identify(
        self, identities: Identities, *, guesses: Guesses, timeout_seconds: float, key: SigningKey | None = None
    ) -> tuple[PeerId, Channel]:
        """See the function of this name."""
        return await identify(self, identities, guesses=guesses, timeout_seconds=timeout_seconds, key=key)

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
        self.abort()
        assert self._closing is not None, "it was begun just now, or earlier"
        # The library's own closing cannot stand to be given up half-way, nor to be asked for twice.
        await asyncio.shield(self._closing)

    def abort(self) -> None:
        """End the link, and let go of what it had later."""
        self._end("this side has closed the link")
        if self._closing is None:
            self._closing = asyncio.create_task(self._connection.close())

    @property
    def binding(self) -> bytes | None:
        """32 bytes that only the two ends of this very channel share; None if they cannot be told for certain."""
        local, remote = self._connection.localDescription, self._connection.remoteDescription
        own, other = _fingerprint(local), _fingerprint(remote)
        if own is None or other is None:
            return None
        first, second = (own, other) if local.type == "offer" else (other, own)
        return sha256(_BOUND + first + b"\n" + second).digest()

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


class RtcStream:
    """A link as a stream of bytes, for what goes before the first frame."""

    def __init__(self, link: RtcLink) -> None:
        self._link: Final = link
        # By its id in the room: else one member could use up what all have together.
        self._route: Final = Route(
            address=_PLACE,
            remote=f"data channel of {link.claimed}",
            origin=f"data-channel {link.claimed}",
            loopback=False,
            binding=link.binding,
        )

    @property
    def route(self) -> Route:
        return self._route

    async def read(self) -> bytes:
        data = b""
        while not data:
            try:
                data = await self._link.receive()
            except TransportError:
                return b""
        if len(data) > READ_BYTES_MAX:
            raise TransportError("the peer speaks before it has said who it is", retry=False)
        return data

    async def write(self, data: bytes) -> None:
        await self._link.send(data)

    async def close(self) -> None:
        await self._link.close()

    def abort(self) -> None:
        self._link.abort()


class _Begun:
    """A channel of which the first frame was read already."""

    def __init__(self, link: RtcLink, first: bytes) -> None:
        self._link: Final = link
        self._first: bytes | None = first

    async def send(self, frame: bytes) -> None:
        await self._link.send(frame)

    async def receive(self) -> bytes:
        first, self._first = self._first, None
        return await self._link.receive() if first is None else first

    async def close(self) -> None:
        await self._link.close()


async def show(link: RtcLink, credentials: Credentials) -> None:
    """The observer's side: say who it is. Frames may go next. Raises ``PeerError`` or ``TransportError``."""
    await graph_greeting.present(RtcStream(link), credentials)


async def identify(
    link: RtcLink,
    identities: Identities,
    *,
    guesses: Guesses,
    timeout_seconds: float,
    key: SigningKey | None = None,
) -> tuple[PeerId, Channel]:
    """The side of the graph: who is at the other end, and the channel behind what it said of that.

    Raises ``PeerError`` for somebody who is not known, and ``TransportError``; the link is closed then.
    """
    try:
        try:
            async with asyncio.timeout(timeout_seconds):
                first = await link.receive()
        except TimeoutError as error:
            raise PeerError("handshake-timeout", "the observer did not say who it is") from error
        if first[:1] == b"{":
            if not identities.anyone:
                raise PeerError(NOT_KNOWN, "nothing is for those who do not say who they are")
            return ANYONE, _Begun(link, first)
        if not first.endswith(b"\n") or first.count(b"\n") > 1:
            raise PeerError(NOT_KNOWN, "the first message is neither a frame nor one line")
        stream = Unread(RtcStream(link), first)
        peer, _ = await graph_greeting.identify(
            stream, identities, guesses=guesses, timeout_seconds=timeout_seconds, key=key
        )
    except BaseException:
        link.abort()
        raise
    return peer, link


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
        """``ice_servers`` are asked where this machine can be reached; none are needed within one network.

        ``accepts`` is asked by the id in the room. That keeps the uninvited away, and says nothing of who somebody is.
        """
        self._client: Final = client
        self._accepts: Final = accepts
        self._servers: Final = [RTCIceServer(urls=url) for url in ice_servers]
        self._limits: Final = limits
        self._links: Final[dict[PeerId, RtcLink]] = {}
        self._connections: Final[dict[PeerId, RTCPeerConnection]] = {}
        self._answers: Final[dict[PeerId, asyncio.Future[str]]] = {}
        self._incoming: Final[asyncio.Queue[RtcLink]] = asyncio.Queue(limits.waiting_links_max)
        self._ways: Final[dict[PeerId, int]] = {}
        """How many were taken from each peer that there is a link to."""
        self._tasks: Final[set[asyncio.Task[None]]] = set()
        self._leaving: Final[set[asyncio.Task[None]]] = set()
        """Links that are being let go of."""
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
        tasks = [*self._tasks, *(() if self._reader is None else (self._reader,))]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for link in tuple(self._links.values()):
            await self._forget(link)
        await asyncio.gather(*self._leaving, return_exceptions=True)

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
                self._hear(await self._client.receive())
        except (TransportError, PeerError) as error:
            for answered in self._answers.values():
                _fail(answered, TransportError(f"the signaling server is gone: {error}", retry=True))

    def _refused(self, refusal: Refusal) -> asyncio.Future[str] | None:
        """The dial that a refusal is about, if it is about one: answers and ways are refused too.

        A refusal has no field for that, but the server's words name the peer. Other words could be about the only dial
        that there is. Where that is wrong, the dial is made again; where it is not recognised, it takes until its time
        is over.
        """
        named = {int(number) for number in _NUMBER.findall(refusal.message)} - {self._client.peer}
        about = [answered for peer, answered in self._answers.items() if peer in named]
        if not named:
            about = [*self._answers.values()]
        return about[0] if len(about) == 1 else None

    def _hear(self, frame: ServerFrame) -> None:
        match frame:
            case ForwardedOffer():
                self._spawn(self._answer(frame.sender, frame.sdp), self._tasks)
            case ForwardedAnswer():
                answered = self._answers.get(frame.sender)
                if answered is not None and not answered.done():
                    answered.set_result(frame.sdp)
            case ForwardedIce():
                # Beside the reading: looking for where a way leads takes a while, and others are not to wait for it.
                if self._ways.get(frame.sender, _WAYS_MAX) < _WAYS_MAX:
                    self._ways[frame.sender] += 1
                    self._spawn(self._add_way(frame.sender, frame.candidate), self._tasks)
            case PeerLeft():
                # A link that is up needs the server no more.
                _fail(self._answers.get(frame.peer), TransportError(f"peer {frame.peer} has left", retry=True))
            case Refusal():
                _fail(
                    self._refused(frame),
                    PeerError(frame.code, f"the signaling server refuses: {frame.message[:200]}"),
                )
            case _:
                pass

    async def _answer(self, peer: PeerId, sdp: str) -> None:
        if is_reserved(peer) or not self._accepts(peer):
            return
        if peer in self._answers and self._client.peer > peer:
            # Both have dialled. The offer of the lesser id stands; the other side does the same.
            _fail(self._answers.pop(peer), TransportError(f"peer {peer} has dialled at the same time", retry=True))
            if peer in self._links:
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
        if is_reserved(peer):
            raise UsageError(f"the id {peer} has a meaning at every graph, so nobody in a room is dialled under it")
        if peer in self._links:
            raise UsageError(f"there is a link to peer {peer} already")
        if len(self._links) >= self._limits.links_max:
            raise UsageError(f"there are {len(self._links)} links already")
        connection = RTCPeerConnection(RTCConfiguration(iceServers=self._servers))
        link = RtcLink(peer, connection, self._limits, ended=lambda: self._spawn(self._forget(link), self._leaving))
        self._links[peer], self._connections[peer], self._ways[peer] = link, connection, 0
        return link, connection

    async def _forget(self, link: RtcLink) -> None:
        peer = PeerId(link.claimed)
        if self._links.get(peer) is link:
            del self._links[peer], self._connections[peer], self._ways[peer]
        await link.close()

    def _spawn(self, work: Coroutine[object, None, None], tasks: set[asyncio.Task[None]]) -> None:
        task = asyncio.create_task(work)
        tasks.add(task)
        task.add_done_callback(tasks.discard)


async def _describe(connection: RTCPeerConnection, kind: str, sdp: str) -> None:
    """Take what the other side says of itself. The library raises all kinds of errors for a text that is none."""
    try:
        await connection.setRemoteDescription(RTCSessionDescription(sdp=sdp, type=kind))
    except Exception as error:
        raise PeerError(BAD_DESCRIPTION, f"the peer's {kind} cannot be used: {type(error).__name__}") from error


def _fingerprint(description: RTCSessionDescription | None) -> bytes | None:
    """The SHA-256 of the certificate in a description, which the library has checked. Two of them would be none."""
    found = set() if description is None else {one.lower() for one in _FINGERPRINT.findall(description.sdp)}
    return found.pop().encode() if len(found) == 1 else None


def _fail(waiting: asyncio.Future[str] | None, error: PeerError | TransportError) -> None:
    if waiting is not None and not waiting.done():
        waiting.set_exception(error)
