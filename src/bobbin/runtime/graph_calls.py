"""Graphs over data channels: a server that waits in a room of a signaling server, and an observer that calls it there.

Everybody in a room has an id. A server has ``GRAPH_PEER`` unless the signaling server knows it under another one, so
whoever calls need not be told. Ids in a room say nothing of who somebody is: that is shown on the channel itself, as on
any other link (``webrtc``). A token would be read by whoever holds the id that is called, and is shown only where the
signaling server knows its members.

A link needs the signaling server only until it is up. A server that has lost its room comes back to it, and the links
that it has stay. Needs the extra ``webrtc``.
"""

import asyncio
import secrets
from contextlib import suppress
from typing import Final

from msgspec import Struct

from bobbin.errors import IntegrityError, PeerError, ResourceError, UsageError
from bobbin.reactive.messages import PeerId
from bobbin.reactive.signaling_frames import Code
from bobbin.reactive.type_tags import TypeTags
from bobbin.runtime import reconnect, signal_client
from bobbin.runtime.graph_client import LONGEST_SECONDS, GraphMirror, TellLost
from bobbin.runtime.graph_dial import ClientSettings
from bobbin.runtime.graph_host import Tell
from bobbin.runtime.graph_peers import SIGNER_PEER_MIN, TOKEN_PEER_MIN, Credentials
from bobbin.runtime.graph_server import GraphServer
from bobbin.runtime.reconnect import Backoff, Once
from bobbin.runtime.signal_client import SignalClient
from bobbin.runtime.webrtc import RtcHub, RtcLimits, RtcLink, show
from bobbin.transport.base import TransportError
from bobbin.transport.tls import TlsClient
from bobbin.wire.address import Address

GRAPH_PEER: Final = PeerId(TOKEN_PEER_MIN)
"""The id in its room of whoever serves a graph there, by default: the first that is no owner's."""


class Room(Struct, frozen=True, kw_only=True):
    """A room of a signaling server, and who we are in it."""

    address: Address
    name: str
    peer: PeerId | None = None
    """None: one that is drawn, as often as the room is entered."""
    token: str | None = None
    tls: TlsClient | None = None
    allow_insecure: bool = False

    def __str__(self) -> str:
        return f"{self.name} at {self.address}"

    async def join(self) -> SignalClient:
        """Enter it. Raises ``TransportError``, ``PeerError`` or ``UsageError``."""
        drawn = TOKEN_PEER_MIN + 1 + secrets.randbelow(SIGNER_PEER_MIN - TOKEN_PEER_MIN - 1)
        return await signal_client.join(
            self.address,
            self.name,
            PeerId(drawn) if self.peer is None else self.peer,
            credentials=signal_client.Credentials(token=self.token),
            tls_demands=self.tls,
            allow_insecure=self.allow_insecure,
        )


class Calls:
    """Serving a graph to whoever calls in a room."""

    def __init__(self, server: GraphServer, room: Room, tell: Tell, *, backoff: Backoff | None = None) -> None:
        self._server: Final = server
        self._room: Final = room
        self._tell: Final = tell
        self._backoff: Final = backoff or Backoff(longest_seconds=LONGEST_SECONDS)
        self._hubs: Final[list[RtcHub]] = []
        """The last is of the room as it is now; those before have links that outlive it."""
        self._client: SignalClient | None = None

    async def start(self) -> None:
        """Enter the room for the first time. Raises what keeps us from it."""
        self._client = await self._room.join()

    async def run(self) -> None:
        """Take calls until cancelled. A room that does not let us in is tried again, whatever its reasons."""

        def tell(lost: reconnect.Lost) -> None:
            self._tell("room-lost", {"room": str(self._room), "why": lost.why})

        try:
            await reconnect.keep(self._once, backoff=self._backoff, tell=tell)
        finally:
            for hub in self._hubs:
                await hub.close()
            if self._client is not None:
                await self._client.leave()

    async def _once(self) -> Once:
        loop = asyncio.get_running_loop()
        if self._client is None:
            try:
                self._client = await self._room.join()
            except (PeerError, IntegrityError, ResourceError) as error:
                # Whatever answers there now: by all other ways the graph is served meanwhile.
                return Once(was_good=False, why=str(error))
        await self._let_go()
        hub = RtcHub(self._client, accepts=_everybody)
        self._hubs.append(await hub.__aenter__())
        self._tell("in-room", {"room": str(self._room), "id": self._client.peer})
        since, why = loop.time(), ""
        try:
            await self._server.take_calls(hub)
        except TransportError as error:
            why = str(error)
        client, self._client = self._client, None
        await client.leave()
        return Once(was_good=True, why=why, seconds=loop.time() - since)

    async def _let_go(self) -> None:
        for hub in [hub for hub in self._hubs if not hub.links]:
            self._hubs.remove(hub)
            await hub.close()


class _Call:
    """A channel with all that it hangs on."""

    def __init__(self, link: RtcLink, hub: RtcHub, client: SignalClient) -> None:
        self._link: Final = link
        self._hub: Final = hub
        self._client: Final = client

    async def send(self, frame: bytes) -> None:
        await self._link.send(frame)

    async def receive(self) -> bytes:
        return await self._link.receive()

    async def close(self) -> None:
        await self._link.close()
        await self._hub.close()
        with suppress(TransportError):
            await self._client.leave()


def call_graph(
    room: Room,
    *,
    callee: PeerId = GRAPH_PEER,
    credentials: Credentials = Credentials(),  # noqa: B008 (a frozen value)
    settings: ClientSettings = ClientSettings(),  # noqa: B008 (a frozen value)
    backoff: Backoff | None = None,
    lost: TellLost = lambda _: None,
) -> GraphMirror:
    """A mirror of the graph that is served in a room, for ``async with``; as ``connect_graph`` is for an address.

    Raises ``UsageError`` for a token in a room that lets everybody have any id: it would be told to anybody.
    """
    if credentials.token is not None and room.token is None:
        raise UsageError(
            f"anybody in the room {room.name} can be {callee} and would read the token: prove a key instead "
            "(--key-of), to a server that proves its own (--verifier), or enter a room that knows its members "
            "(--signal-token)"
        )

    async def dial() -> _Call:
        client = await room.join()
        hub = RtcHub(client, limits=RtcLimits(connect_seconds=settings.dial_seconds))
        try:
            await hub.__aenter__()
            link = await hub.dial(callee)
            await show(link, credentials)
        except BaseException as error:
            await hub.close()
            await client.leave()
            if isinstance(error, PeerError) and error.code == Code.UNKNOWN_TARGET:
                raise TransportError(f"nobody serves a graph in the room {room} as {callee}", retry=True) from error
            raise
        return _Call(link, hub, client)

    return GraphMirror(
        dial,
        credentials.claims(is_own=False),
        settings,
        tags=TypeTags.standard(),
        backoff=backoff or Backoff(longest_seconds=LONGEST_SECONDS),
        lost=lost,
    )


def _everybody(peer: PeerId) -> bool:
    """Who may enter the room, the signaling server says; who may see what, the graph."""
    del peer
    return True
