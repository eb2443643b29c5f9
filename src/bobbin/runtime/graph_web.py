"""Listening for observers that come over WebSocket: at ``/graph``, one frame in each message.

An observer is known by a token (see ``web_sockets``), or by a proof of its key, for which it asks with the subprotocol
``bobbin-knot-proof``; then the introduction that links begin with goes first. With neither it is anyone. Who shows many
tokens that are none is told to come later (``guesses``).
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from http import HTTPStatus
from typing import Final, Protocol, TypeAlias

from msgspec import Struct, structs
from websockets.asyncio.server import Server, ServerConnection, serve
from websockets.frames import CloseCode
from websockets.http11 import Request, Response
from websockets.typing import Subprotocol

from bobbin.errors import PeerError
from bobbin.reactive.messages import PeerId
from bobbin.records.signing import SigningKey
from bobbin.runtime import web_sockets
from bobbin.runtime.arrivals import Arrivals, Turn
from bobbin.runtime.graph_greeting import prove_to
from bobbin.runtime.graph_peers import ANYONE, Identities
from bobbin.runtime.guesses import Guesses
from bobbin.runtime.socket_stream import SocketStream
from bobbin.runtime.web_sockets import PROOF_PROTOCOL
from bobbin.transport import failures, tcp
from bobbin.transport.base import Route
from bobbin.transport.listen import BACKLOG, Handshakes, Secure
from bobbin.transport.websocket import is_passed_on
from bobbin.wire.address import Address
from bobbin.wire.lazily.handshake import HANDSHAKE_BYTES_MAX

PATH: Final = "/graph"
PROTOCOL: Final = Subprotocol("lazily-ipc")
"""What is answered to a browser that sends its token as a subprotocol: one of those it offered must be chosen."""

_PING_SECONDS: Final = 20.0
_WAITING_FRAMES_MAX: Final = 2
"""Of one observer that were received and not yet looked at. Each may be as long as a frame may be."""

Take: TypeAlias = Callable[[ServerConnection, Route, PeerId], Awaitable[None]]
"""What becomes of an observer that is known."""
INSECURE: Final = "insecure"
TOO_MANY: Final = "too-many-links"


class Gate(Protocol):
    """Counts whoever has connected, known or not, and says who is one too many."""

    def begin(self, route: Route) -> str | None:
        """Somebody has connected. Returns why it cannot stay; None if it can, and is counted until ``end``."""
        ...

    def end(self, route: Route) -> None:
        """Somebody who was counted is gone."""
        ...


class WebSettings(Struct, frozen=True, kw_only=True):
    """Who is taken, and the bounds until then."""

    identities: Identities
    key: SigningKey | None = None
    """What this side proves to who proves a key."""
    origins: frozenset[str] = frozenset()
    """Pages whose browsers are taken, as in ``https://example.org``, besides those of this very host and port."""
    frame_bytes_max: int
    handshake_seconds: float
    handshakes: Handshakes = Handshakes()
    """Bounds on connections whose request has not come."""


class WebListener:
    """One address at which observers are taken."""

    def __init__(
        self, address: Address, settings: WebSettings, gate: Gate, take: Take, turn: Turn, secure: Secure | None
    ) -> None:
        self.address = address
        self._settings: Final = settings
        self._gate: Final = gate
        self._take: Final = take
        self._turn: Final = turn
        self._secure: Final = secure
        bounds = structs.replace(settings.handshakes, seconds=settings.handshake_seconds)
        self._arrivals: Final = Arrivals(bounds, turn, None if secure is None else secure.context)
        self._guesses: Final = Guesses()
        self._servers: Final[list[Server]] = []

    async def start(self) -> None:
        """Listen. Raises ``TransportError``."""
        address = self.address
        try:
            sockets = await asyncio.to_thread(tcp.bind, address.host, address.port_number, backlog=BACKLOG)
        except OSError as error:
            raise failures.explain(address, error) from error
        if address.port == 0:
            port = sockets[0].getsockname()[1]
            self.address = Address(scheme=address.scheme, host=address.host, port=port, path=address.path)
        for one in sockets:
            server = await serve(
                self._run,
                sock=one,
                create_connection=self._arrivals.connection(),
                process_request=self._answer,
                select_subprotocol=self._choose,
                compression=None,
                server_header=None,
                open_timeout=self._settings.handshake_seconds,
                ping_interval=_PING_SECONDS,
                ping_timeout=_PING_SECONDS,
                close_timeout=web_sockets.CLOSE_SECONDS,
                # Of the handshake. Whoever takes the socket allows more, once it has come.
                max_size=min(HANDSHAKE_BYTES_MAX, self._settings.frame_bytes_max),
                max_queue=_WAITING_FRAMES_MAX,
                logger=web_sockets.silent_log(),
            )
            self._servers.append(server)

    async def close(self) -> None:
        """Take no more, and let those go that were taken."""
        for server in self._servers:
            server.close()
        await self._arrivals.close()
        for server in self._servers:
            await server.wait_closed()

    def _answer(self, socket: ServerConnection, request: Request) -> Response | None:
        """None for a request that is taken."""
        remote = tcp.describe(socket.remote_address)
        refused = self._judge(request, remote.origin)
        if refused is None:
            return None
        status, why = refused
        self._turn(str(status.value), remote.text)
        return socket.respond(status, f"{why}\n")

    def _judge(self, request: Request, origin: str) -> tuple[HTTPStatus, str] | None:
        settings = self._settings
        if request.path != PATH:
            return HTTPStatus.NOT_FOUND, f"there is nothing here; the graph is at {PATH}"
        if not web_sockets.takes_origin(request, origins=settings.origins, host=self.address.host):
            return HTTPStatus.FORBIDDEN, "pages of this origin are not served"
        tokens = web_sockets.tokens_of(request)
        if len(tokens) > 1:
            return HTTPStatus.BAD_REQUEST, "one token is enough"
        if tokens:
            now = asyncio.get_running_loop().time()
            if not self._guesses.may_try(origin, now):
                return HTTPStatus.TOO_MANY_REQUESTS, "too many wrong tokens came from there"
            is_known = settings.identities.of_token(tokens[0]) is not None
            if not is_known:
                self._guesses.note_wrong(origin, now)
        else:
            is_known = settings.identities.anyone or self._takes_proof(web_sockets.offered(request))
        return None if is_known else (HTTPStatus.UNAUTHORIZED, "this token is not known, or one is needed")

    def _choose(self, socket: ServerConnection, offered: Sequence[Subprotocol]) -> Subprotocol | None:
        del socket
        if self._takes_proof(offered):
            return PROOF_PROTOCOL
        return PROTOCOL if PROTOCOL in offered else None

    def _takes_proof(self, offered: Sequence[str]) -> bool:
        return PROOF_PROTOCOL in offered and bool(self._settings.identities.signers)

    async def _run(self, socket: ServerConnection) -> None:
        self._arrivals.release(socket)
        request = socket.request
        assert request is not None, "a handler is called after the handshake"
        remote = tcp.describe(socket.remote_address)
        route = Route(
            address=self.address,
            remote=remote.text,
            origin=remote.origin,
            loopback=remote.loopback and not is_passed_on(request),
            binding=None if self._secure is None else self._secure.binding,
        )
        refused = self._gate.begin(route)
        if refused is not None:
            self._turn(refused, route.remote)
            code = CloseCode.POLICY_VIOLATION if refused == INSECURE else CloseCode.TRY_AGAIN_LATER
            await socket.close(code, refused)
            return
        try:
            await self._take(socket, route, await self._identify(socket, request, route))
        except PeerError as error:
            self._turn(error.code, remote.text)
        finally:
            self._gate.end(route)

    async def _identify(self, socket: ServerConnection, request: Request, route: Route) -> PeerId:
        identities = self._settings.identities
        if tokens := web_sockets.tokens_of(request):
            peer = identities.of_token(tokens[0])
            assert peer is not None, "a request with another token was answered"
            return peer
        if socket.subprotocol == PROOF_PROTOCOL:
            return await prove_to(SocketStream(socket, route), identities, key=self._settings.key)
        return ANYONE
