"""Channels between the nodes of a cluster, and from its clients: mutual TLS, and nothing else over a network.

Each node dials every other one and only speaks on that channel; what it hears comes on the channels that the others
have dialled. So there is nothing to agree on when two dial at the same moment, and a channel that broke in one
direction is noticed by whoever needs it.

A channel to a peer has one queue, in order, with a bound. What has no room, or no channel, is dropped and counted: raft
and gossip bear the loss of any message, and a message that waited for long is of no use to anybody.
"""

import asyncio
import os
import ssl
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from enum import StrEnum
from pathlib import Path
from random import Random
from typing import Final, TypeAlias, cast

from msgspec import Struct

from bobbin.cluster.names import NodeId
from bobbin.errors import BobbinError
from bobbin.runtime import cluster_certificate
from bobbin.runtime.cluster_certificate import Credentials, LeftOut
from bobbin.runtime.cluster_members import Directory
from bobbin.runtime.reconnect import Backoff
from bobbin.transport import failures, tcp
from bobbin.transport.base import Accept, ByteStream, Listener, Route, TransportError
from bobbin.transport.certificate import fingerprint_of
from bobbin.transport.flow import CLOSE_SECONDS, Flow, FlowStream
from bobbin.transport.listen import BACKLOG, Handshakes, Refused, Secure, Shown, SocketListener
from bobbin.wire import address as addresses
from bobbin.wire.address import Address, Scheme

QUEUE_BYTES_MAX: Final = 16 * 1024 * 1024
"""What may wait for one peer."""
DIAL_SECONDS: Final = 5.0
FIRST_WAIT_SECONDS: Final = 0.1
LONGEST_WAIT_SECONDS: Final = 2.0
"""Between two attempts to reach a peer. It is short: an election waits for it."""
UNACKNOWLEDGED_MS: Final = 3_000
"""After so long without a sign of the peer's machine a channel to it is given up, and it is dialled anew. Else the
system would repeat what is of no use to anybody any more, at ever longer intervals, long after a cut has healed."""
PEER_PATIENCE: Final = tcp.Patience(idle_seconds=3, probe_seconds=1, probes=3, unacknowledged_ms=UNACKNOWLEDGED_MS)


class Purpose(StrEnum):
    """What a channel is for; settled in the handshake (ALPN)."""

    PEER = "bobbin-cluster-peer/1"
    """Signed envelopes of a node."""
    CLIENT = "bobbin-cluster-client/2"
    """Requests and their answers."""


class _Certificates(Shown):
    """What a node shows, and whom it lets in, from the next handshake on."""

    def __init__(self, own: Credentials, known: Directory, left_out: LeftOut) -> None:
        self._own: Final = own
        self._left_out: Final = left_out
        self.know(known)

    def know(self, known: Directory) -> None:
        context = cluster_certificate.server_context(self._own, known.certificates, left_out=self._left_out)
        context.set_alpn_protocols([purpose.value for purpose in Purpose])
        self.secure = Secure(context=context, binding=fingerprint_of(self._own.certificate))


class Door:
    """Listens for nodes and clients that are known."""

    def __init__(self, own: Credentials, known: Directory, *, left_out: LeftOut = lambda _, __: None) -> None:
        """``left_out`` hears of a certificate that cannot be used; whoever holds it is not let in."""
        self._certificates: Final = _Certificates(own, known, left_out)
        self._listener: Listener | None = None

    async def open(self, address: Address, accept: Accept, *, refused: Refused) -> Address:
        """Take streams at an address; returns the one that it is really at. Raises ``TransportError``."""
        try:
            sockets = await asyncio.to_thread(tcp.bind, address.host, address.port_number, backlog=BACKLOG)
        except OSError as error:
            raise failures.explain(address, error) from error
        port = sockets[0].getsockname()[1]
        place = Address(scheme=address.scheme, host=address.host, port=port)
        self._listener = SocketListener(
            place, sockets, accept, handshakes=Handshakes(), refused=refused, shown=self._certificates
        )
        return place

    def know(self, known: Directory) -> None:
        """Others are known from now on. Who was let in already is not thrown out by this."""
        self._certificates.know(known)

    async def close(self) -> None:
        """Let nobody in any more."""
        if self._listener is not None:
            await self._listener.close()


def shown_by(stream: ByteStream) -> tuple[bytes, Purpose] | None:
    """The certificate of the other end, which the handshake has verified, and what it wants the channel for."""
    assert isinstance(stream, FlowStream), "streams of a network are these"
    channel = cast(ssl.SSLObject | None, stream.outgoing.transport.get_extra_info("ssl_object"))
    if channel is None or not (certificate := channel.getpeercert(binary_form=True)):
        return None
    chosen = channel.selected_alpn_protocol()
    return (certificate, Purpose(chosen)) if chosen in set(Purpose) else None


async def dial(own: Credentials, address: str, expected: Sequence[bytes], purpose: Purpose) -> FlowStream:
    """A channel to whoever shows one of these certificates at an address. ``TransportError`` where there is none."""
    place = addresses.parse(address)
    context = cluster_certificate.client_context(own, expected)
    context.set_alpn_protocols([purpose.value])
    flow = Flow()
    try:
        async with asyncio.timeout(DIAL_SECONDS):
            transport, _ = await asyncio.get_running_loop().create_connection(
                lambda: flow,
                place.host,
                place.port_number,
                ssl=context,
                server_hostname="",
                ssl_shutdown_timeout=CLOSE_SECONDS,
            )
    except (OSError, TransportError) as error:
        flow.abort()
        raise failures.explain(place, error, seconds=DIAL_SECONDS) from error
    except BaseException:
        flow.abort()
        raise
    tcp.prepare(transport.get_extra_info("socket"), PEER_PATIENCE if purpose is Purpose.PEER else tcp.PATIENT)
    remote = tcp.describe(transport.get_extra_info("peername"))
    route = Route(
        address=place,
        remote=remote.text,
        origin=remote.origin,
        loopback=remote.loopback,
        verified=True,
    )
    return FlowStream(flow, route)


async def dial_socket(path: Path) -> FlowStream:
    """A channel to a node of this machine, as its operator. ``TransportError`` where none answers."""
    flow = Flow()
    try:
        folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            # By way of its folder: the path of a socket may have about a hundred bytes only.
            short = f"/proc/self/fd/{folder}/{path.name}"
            await asyncio.get_running_loop().create_unix_connection(lambda: flow, short)
        finally:
            os.close(folder)
    except OSError as error:
        raise TransportError(f"no node answers at {path}: {error.strerror or error}", retry=True) from error
    address = Address(scheme=Scheme.UNIX, path=str(path))
    return FlowStream(flow, Route(address=address, remote="this machine", origin="local", loopback=True))


class LinkCounts(Struct, kw_only=True):
    """What one link has seen."""

    sent: int = 0
    sent_bytes: int = 0
    dropped: int = 0
    dials: int = 0
    dials_failed: int = 0


Told: TypeAlias = Callable[[str | None], None]
"""Hears that a link is up (None), or why it is down."""


class PeerLink:
    """The channel on which one peer is spoken to. It is kept up by a task of its own."""

    def __init__(
        self,
        node: NodeId,
        address: str,
        certificates: Sequence[bytes],
        own: Credentials,
        *,
        greet: Callable[[], bytes],
        tell: Told = lambda _: None,
        random: Random | None = None,
    ) -> None:
        """``greet`` makes the first frame of each channel."""
        self.node: Final = node
        self.address: Final = address
        self.certificates: Final = tuple(certificates)
        self.counts: Final = LinkCounts()
        self.why_down: str | None = "not dialled yet"
        """None while the channel is up."""
        self._own: Final = own
        self._greet: Final = greet
        self._tell: Final = tell
        self._backoff: Final = Backoff(
            first_seconds=FIRST_WAIT_SECONDS, longest_seconds=LONGEST_WAIT_SECONDS, random=random
        )
        self._flow: Flow | None = None
        self._queue: Final[deque[bytes]] = deque()
        self._queued_bytes = 0
        self._wake: Final = asyncio.Event()
        self._hurry: Final = asyncio.Event()
        self._task: Final = asyncio.get_running_loop().create_task(self._run())

    @property
    def is_up(self) -> bool:
        return self._flow is not None

    def send(self, frame: bytes) -> None:
        """Send, or drop."""
        flow = self._flow
        if flow is None or flow.is_over:
            self.counts.dropped += 1
            return
        if not self._queue and not flow.is_full:
            self._put(flow, frame)
        elif self._queued_bytes + len(frame) > QUEUE_BYTES_MAX:
            self.counts.dropped += 1
        else:
            self._queue.append(frame)
            self._queued_bytes += len(frame)
            self._wake.set()

    def hurry(self) -> None:
        """The peer is there, as its own channel to us shows: dial it without waiting."""
        self._hurry.set()

    async def close(self) -> None:
        """Let go."""
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)

    def _put(self, flow: Flow, frame: bytes) -> None:
        try:
            flow.put(frame)
        except TransportError:
            self.counts.dropped += 1
            return
        self.counts.sent += 1
        self.counts.sent_bytes += len(frame)

    async def _run(self) -> None:
        while True:
            self.counts.dials += 1
            self._hurry.clear()
            try:
                stream = await dial(self._own, self.address, self.certificates, Purpose.PEER)
            except BobbinError as error:
                self.counts.dials_failed += 1
                self._down(str(error))
            else:
                await self._speak(stream)
                self._hurry.clear()  # what was said while it was up is over
            with suppress(TimeoutError):
                async with asyncio.timeout(self._backoff.wait_seconds()):
                    await self._hurry.wait()

    async def _speak(self, stream: FlowStream) -> None:
        self._flow = stream.outgoing
        self.why_down = None
        self._put(stream.outgoing, self._greet())
        self._tell(None)
        began = asyncio.get_running_loop().time()
        writing = asyncio.create_task(self._drain(stream.outgoing))
        try:
            # The peer says nothing here; what is read is the end.
            await stream.read()
            why = "the peer has closed the channel"
        except TransportError as error:
            why = str(error)
        finally:
            self._flow = None
            writing.cancel()
            self.counts.dropped += len(self._queue)
            self._queue.clear()
            self._queued_bytes = 0
            stream.abort()
        self._backoff.settle(was_good=True, seconds=asyncio.get_running_loop().time() - began)
        self._down(why)

    async def _drain(self, flow: Flow) -> None:
        """Hand over what had no room, when there is."""
        while True:
            await self._wake.wait()
            self._wake.clear()
            while self._queue:
                try:
                    await flow.room()
                except TransportError:
                    return
                frame = self._queue.popleft()
                self._queued_bytes -= len(frame)
                self._put(flow, frame)

    def _down(self, why: str) -> None:
        if self.why_down != why:
            self._tell(why)
        self.why_down = why
