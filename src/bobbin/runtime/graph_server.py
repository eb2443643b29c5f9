"""Serving a graph to many observers: over sockets of all kinds, stdio and data channels, all by the same rules.

Nobody sees anything that was not allowed to it (``GraphHost``), and who somebody is follows from what was proven on its
connection (``graph_peers``). Off this machine a link must be encrypted, unless the settings say that it need not be.

Everything has a bound: links in all, of one address and of one peer, frames, what waits for an observer, and the time
until it has said who it is. Who is beyond one is let go, and nobody else notices.

At an address of its own a server keeps replicated cells in step instead: whoever comes there is another replica, known
in the same way.
"""

import asyncio
from collections import Counter
from typing import TYPE_CHECKING, Final

from msgspec import Struct
from websockets.asyncio.server import ServerConnection
from websockets.frames import CloseCode

from bobbin.errors import PeerError, UsageError
from bobbin.reactive.messages import PeerId
from bobbin.records.signing import SigningKey
from bobbin.runtime.graph_channel import Channel, SocketChannel, StreamChannel
from bobbin.runtime.graph_greeting import NOT_KNOWN, identify
from bobbin.runtime.graph_host import GraphHost
from bobbin.runtime.graph_link import LinkSettings, ServedLink
from bobbin.runtime.graph_peers import ANYONE, Identities
from bobbin.runtime.graph_web import INSECURE, TOO_MANY, WebListener, WebSettings
from bobbin.runtime.guesses import Guesses, in_room
from bobbin.runtime.replication import Replication
from bobbin.transport import tcp
from bobbin.transport.base import ByteStream, Listener, Route, TransportError
from bobbin.transport.listen import Handshakes, Secure, Shown, Turned, listen
from bobbin.transport.tls import TlsServer
from bobbin.wire.address import Address, Scheme

if TYPE_CHECKING:
    from bobbin.runtime.webrtc import RtcHub, RtcLink

_WEB: Final = frozenset({Scheme.WS, Scheme.WSS})
_TLS: Final = frozenset({Scheme.TLS, Scheme.WSS})
_PLAIN: Final = frozenset({Scheme.TCP, Scheme.WS})


class ServerSettings(Struct, frozen=True, kw_only=True):
    """Who is served, and how."""

    identities: Identities = Identities()
    key: SigningKey | None = None
    """What this side proves to observers that prove a key."""
    origins: frozenset[str] = frozenset()
    """Pages whose browsers are taken, besides those of the host and port that they ask."""
    tls: TlsServer | None = None
    allow_insecure: bool = False
    """Let links off this machine be unencrypted."""
    link: LinkSettings = LinkSettings()
    links_max: int = 256
    links_per_origin_max: int = 128
    links_per_peer_max: int = 64
    """Whoever has not said who it is counts as a peer of its own for each address."""


class GraphServer:
    """A graph, served."""

    def __init__(self, host: GraphHost, settings: ServerSettings) -> None:
        self._host: Final = host
        self._settings: Final = settings
        self._secure: Secure | None = None
        self._listeners: Final[list[Listener]] = []
        self._replications: Final[dict[Address, Replication]] = {}
        """Of the addresses at which replicas come."""
        self._tasks: Final[set[asyncio.Task[None]]] = set()
        self._origins: Final[Counter[str]] = Counter()
        self._guesses: Final = Guesses()
        """Wrong tokens on streams; ports of WebSockets count their own."""
        self._call_guesses: Final = in_room()
        """Wrong tokens on data channels."""
        self._calls = 0
        """Data channels: they come from ids that anybody can have, so all of them have the bound of one address."""
        self._peers: Final[Counter[tuple[PeerId, str]]] = Counter()
        self.is_idle: Final = asyncio.Event()
        """Set whenever the last link is over: of interest where there is one only, on stdio."""

    @property
    def addresses(self) -> tuple[Address, ...]:
        """Where it really listens."""
        return tuple(listener.address for listener in self._listeners)

    async def start(self, address: Address, *, replication: Replication | None = None) -> Address:
        """Listen at an address; returns it, with the port that the system chose.

        ``replication``: whoever comes there has no link to the graph, but is kept in step with these cells.

        Raises ``UsageError`` for one that would not be safe, and ``TransportError``.
        """
        if replication is not None:
            # Before anybody can come. Where the system chooses the port, nobody knows it before this returns.
            self._replications[address] = replication
        settings = self._settings
        if address.scheme in _PLAIN and not settings.allow_insecure:
            await self._check_here(address)
        if (address.scheme in _TLS) and settings.tls is None:
            raise UsageError(f"{address} needs a certificate and its key")
        if settings.tls is not None and self._secure is None and address.scheme in _TLS:
            self._secure = await asyncio.to_thread(Secure.load, settings.tls)
        listener = await (self._listen_web(address) if address.scheme in _WEB else self._listen(address))
        self._listeners.append(listener)
        if replication is not None:
            self._replications[listener.address] = replication
        return listener.address

    async def take_calls(self, hub: "RtcHub") -> None:
        """Serve whoever opens a data channel, until the signaling server is gone. Raises ``TransportError`` then.

        Links that were made outlive this.
        """
        while True:
            task = asyncio.create_task(self._take_call(await hub.accept()))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def close(self) -> None:
        """Let everybody go."""
        for listener in self._listeners:
            await listener.close()
        self._listeners.clear()
        for task in tuple(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _check_here(self, address: Address) -> None:
        try:
            found = await asyncio.get_running_loop().getaddrinfo(address.host, None)
        except OSError:
            # Whoever listens there will say what is wrong with it.
            return
        if not all(tcp.describe(place).loopback for *_, place in found):
            raise UsageError(f"{address} can be reached from other machines, and nothing is encrypted")

    async def _listen(self, address: Address) -> Listener:
        settings = self._settings

        def turned(reason: Turned, remote: str) -> None:
            self._turn(reason.value, remote)

        return await listen(
            address,
            self._take_stream,
            tls=Shown(settings.tls) if settings.tls is not None and address.scheme in _TLS else None,
            handshakes=Handshakes(seconds=settings.link.handshake_seconds),
            refused=turned,
        )

    async def _listen_web(self, address: Address) -> Listener:
        settings = self._settings
        web = WebSettings(
            identities=settings.identities,
            key=settings.key,
            origins=settings.origins,
            frame_bytes_max=settings.link.frame_bytes_max,
            handshake_seconds=settings.link.handshake_seconds,
        )
        secure = self._secure if address.scheme is Scheme.WSS else None
        listener = WebListener(address, web, self, self._take_socket, self._turn, secure)
        await listener.start()
        return listener

    # ---- links ----------------------------------------------------------------------------------------------------

    def begin(self, route: Route) -> str | None:
        """Somebody has connected. Returns why it cannot stay; None if it can, and is counted until ``end``."""
        settings = self._settings
        if not (route.loopback or route.binding is not None or settings.allow_insecure):
            # A request that a proxy has passed on counts as one from afar.
            return INSECURE
        if self._origins.total() >= settings.links_max or self._origins[route.origin] >= settings.links_per_origin_max:
            return TOO_MANY
        self._origins[route.origin] += 1
        return None

    def end(self, route: Route) -> None:
        """Somebody who was counted is gone."""
        self._origins[route.origin] -= 1
        if not self._origins[route.origin]:
            del self._origins[route.origin]
        if not self._origins:
            self.is_idle.set()

    async def _take_stream(self, stream: ByteStream) -> None:
        """What a listener does with a stream."""
        self._note_task()
        route, settings = stream.route, self._settings
        refused = self.begin(route)
        if refused is not None:
            self._turn(refused, route.remote)
            await stream.close()
            return
        try:
            seconds = settings.link.handshake_seconds
            peer, rest = await identify(
                stream, settings.identities, guesses=self._guesses, timeout_seconds=seconds, key=settings.key
            )
            await self._serve(StreamChannel(rest, frame_bytes_max=settings.link.frame_bytes_max), route, peer)
        except PeerError as error:
            self._turn(error.code, route.remote)
            await stream.close()
        except TransportError:
            stream.abort()
        finally:
            self.end(route)

    async def _take_call(self, link: "RtcLink") -> None:
        """What becomes of a data channel. Who is at its other end, it says there."""
        settings, route = self._settings, link.route
        refused = TOO_MANY if self._calls >= settings.links_per_origin_max else self.begin(route)
        if refused is not None:
            self._turn(refused, route.remote)
            await link.close()
            return
        self._calls += 1
        try:
            seconds = settings.link.handshake_seconds
            peer, channel = await link.identify(
                settings.identities, guesses=self._call_guesses, timeout_seconds=seconds, key=settings.key
            )
            await self._serve(channel, route, peer, web=True)
        except PeerError as error:
            self._turn(error.code, route.remote)
        except TransportError:
            link.abort()
        finally:
            self._calls -= 1
            self.end(route)

    async def _take_socket(self, socket: ServerConnection, route: Route, peer: PeerId) -> None:
        self._note_task()
        channel = SocketChannel(socket, frame_bytes_max=self._settings.link.frame_bytes_max)
        await self._serve(channel, route, peer, web=True)

    async def _serve(self, channel: Channel, route: Route, peer: PeerId, *, web: bool = False) -> None:
        replication = self._replications.get(route.address)
        if replication is not None and peer == ANYONE:
            self._turn(NOT_KNOWN, route.remote)
            await channel.close()
            return
        # Else one address could shut out all that come without a name.
        counted = (peer, route.origin if peer == ANYONE else "")
        if self._peers[counted] >= self._settings.links_per_peer_max:
            self._turn(TOO_MANY, route.remote)
            if isinstance(channel, SocketChannel):
                channel.explain(CloseCode.TRY_AGAIN_LATER, TOO_MANY)
            await channel.close()
            return
        self._peers[counted] += 1
        self._host.tell("linked", {"peer": peer, "remote": route.remote, "address": str(route.address)})
        try:
            if replication is not None:
                why = await replication.run(channel, peer, answers=True)
            else:
                shares = route.address.scheme is Scheme.UNIX
                link = ServedLink(
                    self._host, channel, peer, self._settings.link, holds_doubles=web, shares_memory=shares
                )
                why = await link.run()
        finally:
            self._peers[counted] -= 1
            if not self._peers[counted]:
                del self._peers[counted]
        self._host.tell("ended", {"peer": peer, "remote": route.remote, "reason": why})

    def _turn(self, reason: str, remote: str) -> None:
        self._host.tell("turned-away", {"reason": reason, "remote": remote})

    def _note_task(self) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
