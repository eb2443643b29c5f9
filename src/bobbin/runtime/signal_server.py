"""The signaling server: rooms at ``/session/{id}``, one WebSocket for each client, one text frame for each message.

A client is known by a token, by a proof of its key, or not at all; which id it may have follows from that.

=========  ============================================================================================================
way        how
=========  ============================================================================================================
token      ``Authorization: Bearer TOKEN``, or, since a browser cannot set headers, the subprotocol ``bearer.TOKEN``
proof      the subprotocol ``bobbin-knot-proof``: the introduction that links begin with, in binary frames, goes first
=========  ============================================================================================================

Browsers say which page they come from. None is taken unless its origin was listed; otherwise any page that somebody
looks at could speak to a server on the same machine. Tokens are kept as digests, and a wrong one ends the handshake.

Everything has a bound: frames, what waits to be sent to a client that does not read, rooms, connections in all and of
one address, the time until a connection has joined, and wrong tokens. Who is beyond one is let go, and nobody else
notices.
"""

import asyncio
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from hashlib import sha256
from http import HTTPStatus
from ipaddress import ip_address
from time import monotonic_ns
from types import MappingProxyType
from typing import Final, TypeAlias

from msgspec import Struct, structs
from websockets.asyncio.server import Server, ServerConnection, serve
from websockets.exceptions import ConnectionClosed
from websockets.frames import CloseCode
from websockets.http11 import Request, Response
from websockets.typing import Subprotocol

from bobbin.errors import BobbinError, PeerError, ResourceError, UsageError
from bobbin.reactive.messages import PeerId
from bobbin.reactive.signaling import (
    Access,
    ConnectionId,
    Drop,
    Effect,
    Event,
    Garbled,
    Heard,
    Limits,
    Lost,
    Opened,
    Room,
    Tell,
)
from bobbin.reactive.signaling_frames import FORWARDED_BYTES_MORE, ServerFrame
from bobbin.records.ids import Verifier
from bobbin.runtime import web_sockets
from bobbin.runtime.arrivals import Arrivals
from bobbin.runtime.guesses import Guesses
from bobbin.runtime.introduction import Introduction, NotAdmitted, introduce
from bobbin.runtime.socket_stream import SocketStream
from bobbin.runtime.web_sockets import CLOSE_SECONDS, PROOF_PROTOCOL
from bobbin.transport import tcp
from bobbin.transport.base import Route
from bobbin.transport.listen import Handshakes, Secure
from bobbin.transport.tls import TlsServer
from bobbin.transport.websocket import is_passed_on
from bobbin.wire.address import Address, Scheme
from bobbin.wire.lazily import signaling as codec
from bobbin.wire.proof import Role

SESSION: Final = re.compile(r"/session/([A-Za-z0-9._~-]{1,128})", re.ASCII)
SIGNAL_PROTOCOL: Final = Subprotocol("lazily-signal")
"""What is answered to a browser that sends its token as a subprotocol: one of those it offered must be chosen."""

_PING_SECONDS: Final = 20.0

Tells: TypeAlias = Callable[[str, Mapping[str, str | int]], None]
"""Hears what happens: a word for it, and what belongs to it. Nothing that a client chose is in the word."""


class ServerLimits(Struct, frozen=True, kw_only=True):
    """Bounds of a server."""

    room: Limits = Limits()
    rooms_max: int = 1_024
    connections_max: int = 4_096
    connections_per_address_max: int = 256
    waiting_frames_max: int = 1_024
    """For one client that does not read."""
    waiting_bytes_max: int = 1024 * 1024
    """The same, for what these frames are. One frame may always wait, however long."""
    handshake_seconds: float = 10.0
    handshakes: Handshakes = Handshakes()
    """Bounds on connections whose request has not come."""
    join_seconds: float = 30.0


class SignalSettings(Struct, frozen=True, kw_only=True):
    """Who is served, and how."""

    access: Access
    tokens: Mapping[bytes, PeerId] = MappingProxyType({})
    """By the SHA-256 of the token."""
    signers: Mapping[Verifier, PeerId] = MappingProxyType({})
    origins: frozenset[str] = frozenset()
    """Pages whose browsers are taken, as in ``https://example.org``."""
    tls: TlsServer | None = None
    allow_insecure: bool = False
    """Listen off this machine without encryption."""
    limits: ServerLimits = ServerLimits()


class _Refused(PeerError):
    """A request that becomes no connection."""

    def __init__(self, status: HTTPStatus, why: str) -> None:
        super().__init__(str(status.value), why)
        self.status = status


class _Link:
    """One client, and what waits to be sent to it."""

    def __init__(self, number: ConnectionId, socket: ServerConnection, room: Room, limits: ServerLimits) -> None:
        self.number: Final = number
        self.socket: Final = socket
        self.room: Final = room
        self._bytes_max: Final = limits.waiting_bytes_max
        self._waiting: Final[asyncio.Queue[bytes | None]] = asyncio.Queue(limits.waiting_frames_max)
        """None is the end."""
        self.held = 0
        """Bytes that wait, with those that are being sent."""

    def put(self, frame: ServerFrame) -> bool:
        """Returns whether there was room."""
        raw = codec.encode_server(frame, frame_bytes_max=self.room.limits.frame_bytes_max + FORWARDED_BYTES_MORE)
        if self._waiting.full() or (self.held and self.held + len(raw) > self._bytes_max):
            return False
        self.held += len(raw)
        self._waiting.put_nowait(raw)
        return True

    def end(self) -> bool:
        """Let the writer stop after what waits. Returns whether it will hear of it."""
        try:
            self._waiting.put_nowait(None)
        except asyncio.QueueFull:
            return False
        return True

    async def write(self) -> None:
        """Send what comes, until the end."""
        with suppress(ConnectionClosed):
            while (raw := await self._waiting.get()) is not None:
                await self.socket.send(raw.decode())
                self.held -= len(raw)
            await self.socket.close()


class SignalServer:
    """Rooms, served."""

    def __init__(
        self,
        settings: SignalSettings,
        *,
        tell: Tells = lambda word, values: None,  # noqa: ARG005 (nobody wants to hear it)
        clock_ns: Callable[[], int] = monotonic_ns,
    ) -> None:
        self._settings: Final = settings
        known = frozenset(settings.tokens.values()) | frozenset(settings.signers.values())
        self._access: Final = structs.replace(settings.access, reserved=settings.access.reserved | known)
        """An id that follows from a token or a key is nobody else's, whether or not the caller has said so."""
        self._tell: Final = tell
        self._clock_ns: Final = clock_ns
        self._rooms: Final[dict[str, Room]] = {}
        self._links: Final[dict[ConnectionId, _Link]] = {}
        self._addresses: Final[Counter[str]] = Counter()
        self._numbers = 0
        self._server: Server | None = None
        self._arrivals: Arrivals | None = None
        self._guesses: Final = Guesses()
        self._secure: Secure | None = None
        self.address: Address | None = None
        """Where it really listens."""

    @property
    def rooms(self) -> Mapping[str, Room]:
        """By session."""
        return self._rooms

    async def start(self, host: str, port: int) -> Address:
        """Listen; port 0 lets the system choose. Raises ``UsageError`` or ``ResourceError``."""
        settings = self._settings
        if settings.tls is not None:
            self._secure = await asyncio.to_thread(Secure.load, settings.tls)
        context = None if self._secure is None else self._secure.context
        bounds = structs.replace(settings.limits.handshakes, seconds=settings.limits.handshake_seconds)
        self._arrivals = Arrivals(bounds, self._turn, context)
        try:
            self._server = await serve(
                self._run,
                host,
                port,
                create_connection=self._arrivals.connection(),
                process_request=self._answer,
                select_subprotocol=self._choose,
                compression=None,
                server_header=None,
                open_timeout=settings.limits.handshake_seconds,
                ping_interval=_PING_SECONDS,
                ping_timeout=_PING_SECONDS,
                close_timeout=CLOSE_SECONDS,
                max_size=settings.limits.room.frame_bytes_max,
                logger=web_sockets.silent_log(),
            )
        except OSError as error:
            raise ResourceError(
                f"cannot listen at {host}, port {port}: {error.strerror or error}", retry=True
            ) from error
        names = [one.getsockname() for one in self._server.sockets]
        if (
            context is None
            and not settings.allow_insecure
            and not all(ip_address(name[0]).is_loopback for name in names)
        ):
            await self.close()
            raise UsageError(f"{host} can be reached from other machines, and nothing is encrypted")
        scheme = Scheme.WS if context is None else Scheme.WSS
        self.address = Address(scheme=scheme, host=host, port=names[0][1])
        return self.address

    async def close(self) -> None:
        """Let everybody go."""
        if self._server is not None:
            self._server.close()
            if self._arrivals is not None:
                await self._arrivals.close()
            await self._server.wait_closed()
            self._server = None

    # ---- the handshake ----------------------------------------------------------------------------------------------

    def _answer(self, socket: ServerConnection, request: Request) -> Response | None:
        """None for a request that is taken."""
        remote = _remote(socket)
        try:
            self._look_at_token(request, remote.origin)
            self._judge(request)
        except _Refused as refused:
            self._tell("refused", {"status": refused.status.value, "remote": remote.text})
            return socket.respond(refused.status, f"{refused}\n")
        return None

    def _turn(self, reason: str, remote: str) -> None:
        self._tell("turned-away", {"reason": reason, "remote": remote})

    def _look_at_token(self, request: Request, origin: str) -> None:
        """Count wrong ones. Raises ``_Refused`` where there were too many."""
        tokens, now = web_sockets.tokens_of(request), self._clock_ns() / 1e9
        if tokens and not self._guesses.may_try(origin, now):
            raise _Refused(HTTPStatus.TOO_MANY_REQUESTS, "too many wrong tokens came from there")
        if any(self._bound_to(token) is None for token in tokens):
            self._guesses.note_wrong(origin, now)

    def _bound_to(self, token: str) -> PeerId | None:
        return self._settings.tokens.get(sha256(token.encode()).digest())

    def _judge(self, request: Request) -> tuple[str, PeerId | None]:
        """The session that is asked for, and the id that a token gives. Raises ``_Refused``."""
        found = SESSION.fullmatch(request.path)
        if found is None:
            raise _Refused(HTTPStatus.NOT_FOUND, "there is nothing here; a session is at /session/{id}")
        origins = request.headers.get_all("Origin")
        if any(origin not in self._settings.origins for origin in origins):
            raise _Refused(HTTPStatus.FORBIDDEN, "pages of this origin are not served")
        tokens = web_sockets.tokens_of(request)
        if len(tokens) > 1:
            raise _Refused(HTTPStatus.BAD_REQUEST, "one token is enough")
        bound = self._bound_to(tokens[0]) if tokens else None
        if tokens and bound is None:
            raise _Refused(HTTPStatus.UNAUTHORIZED, "this token is not known")
        return found.group(1), bound

    def _choose(self, socket: ServerConnection, offered: Sequence[Subprotocol]) -> Subprotocol | None:
        del socket
        for protocol in (PROOF_PROTOCOL, SIGNAL_PROTOCOL) if self._settings.signers else (SIGNAL_PROTOCOL,):
            if protocol in offered:
                return protocol
        return None

    async def _prove(self, socket: ServerConnection, request: Request) -> PeerId:
        """Who is at the other end. Raises ``PeerError``."""
        remote = _remote(socket)
        route = Route(
            address=self.address or Address(scheme=Scheme.WS),
            remote=remote.text,
            origin=remote.origin,
            # Behind a proxy this machine is only where the proxy is.
            loopback=remote.loopback and not is_passed_on(request),
            binding=None if self._secure is None else self._secure.binding,
        )

        def admit(introduction: Introduction) -> PeerId:
            known = None if introduction.peer is None else self._settings.signers.get(introduction.peer)
            if known is None:
                raise NotAdmitted("unknown-key", "nobody here knows that key, or its proof does not count")
            return known

        timeout = self._settings.limits.handshake_seconds
        _, peer = await introduce(
            SocketStream(socket, route), role=Role.RESPONDER, key=None, admit=admit, timeout_seconds=timeout
        )
        return peer

    # ---- connections ------------------------------------------------------------------------------------------------

    async def _run(self, socket: ServerConnection) -> None:
        assert socket.request is not None, "a handler is called after the handshake"
        assert self._arrivals is not None, "there is a server"
        self._arrivals.release(socket)
        address, limits = _remote(socket).origin, self._settings.limits
        session, bound = self._judge(socket.request)
        too_many = (
            self._addresses.total() >= limits.connections_max
            or self._addresses[address] >= limits.connections_per_address_max
            or (session not in self._rooms and len(self._rooms) >= limits.rooms_max)
        )
        if too_many:
            self._tell("refused", {"status": HTTPStatus.SERVICE_UNAVAILABLE.value, "remote": _remote(socket).text})
            await socket.close(CloseCode.TRY_AGAIN_LATER, "too many connections")
            return
        self._addresses[address] += 1
        try:
            if socket.subprotocol == PROOF_PROTOCOL:
                bound = await self._prove(socket, socket.request)
            await self._serve(socket, session, bound)
        except BobbinError as error:
            self._tell("failed", {"remote": _remote(socket).text, "why": type(error).__name__})
            await socket.close(CloseCode.POLICY_VIOLATION)
        finally:
            self._addresses[address] -= 1
            if not self._addresses[address]:
                del self._addresses[address]

    async def _serve(self, socket: ServerConnection, session: str, bound: PeerId | None) -> None:
        room = self._rooms.setdefault(session, Room(self._access, self._settings.limits.room))
        self._numbers += 1
        link = _Link(ConnectionId(self._numbers), socket, room, self._settings.limits)
        self._links[link.number] = link
        self._step(room, Opened(connection=link.number, bound=bound))
        writer = asyncio.create_task(link.write())
        try:
            with suppress(ConnectionClosed, TimeoutError):
                await self._read(link)
        finally:
            self._step(room, Lost(connection=link.number))
            if self._links.pop(link.number, None) is not None:
                link.end()
            if room.is_empty and self._rooms.get(session) is room:
                del self._rooms[session]
            await asyncio.wait({writer}, timeout=CLOSE_SECONDS)
            writer.cancel()

    async def _read(self, link: _Link) -> None:
        loop = asyncio.get_running_loop()
        deadline = loop.time() + self._settings.limits.join_seconds
        while link.number in self._links:
            async with asyncio.timeout_at(None if link.room.has_joined(link.number) else deadline):
                raw = await link.socket.recv()
            if link.number not in self._links:
                return
            self._step(link.room, _heard(link, raw))

    def _step(self, room: Room, event: Event) -> None:
        """Let a room decide, and do what it says. Who does not read is let go, which is an event of its own."""
        effects: list[Effect] = [*room.step(event, now_ns=self._clock_ns())]
        for effect in effects:
            match effect:
                case Tell():
                    link = self._links.get(effect.connection)
                    if link is not None and not link.put(effect.frame):
                        del self._links[effect.connection]
                        link.socket.transport.abort()
                        effects.extend(room.step(Lost(connection=effect.connection), now_ns=self._clock_ns()))
                case Drop():
                    link = self._links.pop(effect.connection, None)
                    if link is not None and not link.end():
                        link.socket.transport.abort()


def _heard(link: _Link, raw: str | bytes) -> Event:
    """What a message of a client is to its room."""
    connection = link.number
    if isinstance(raw, bytes):
        return Garbled(connection=connection, reason="frames are text", size=len(raw))
    data = raw.encode()
    try:
        frame = codec.decode_client(data, frame_bytes_max=link.room.limits.frame_bytes_max)
        return Heard(connection=connection, frame=frame, size=len(data))
    except PeerError as error:
        return Garbled(connection=connection, reason=str(error), size=len(data))


def _remote(socket: ServerConnection) -> tcp.Remote:
    return tcp.describe(socket.remote_address)
