"""A client of a signaling server: joins a session, says what is for others, and hears what others say.

It believes nothing that the protocol does not allow: a frame that is none, or a roster that cannot be, ends the
connection with an error that says so. The server is asked for by an address and a session.
"""

import asyncio
from contextlib import suppress
from types import TracebackType
from typing import Final, Self

from msgspec import Struct
from websockets.asyncio.client import ClientConnection
from websockets.exceptions import ConnectionClosed

from bobbin.errors import PeerError, UsageError
from bobbin.reactive.messages import PeerId
from bobbin.reactive.signaling_frames import (
    FORWARDED_BYTES_MORE,
    FRAME_BYTES_MAX,
    ClientFrame,
    DirectedFrame,
    Join,
    Leave,
    PeerJoined,
    PeerLeft,
    Refusal,
    ServerFrame,
    Welcome,
)
from bobbin.records.signing import SigningKey
from bobbin.runtime import web_sockets
from bobbin.runtime.introduction import introduce
from bobbin.runtime.signal_server import SESSION, SIGNAL_PROTOCOL
from bobbin.runtime.socket_stream import SocketStream
from bobbin.runtime.web_sockets import PROOF_PROTOCOL
from bobbin.transport import tcp
from bobbin.transport.base import Route, TransportError
from bobbin.transport.tls import TlsClient
from bobbin.wire.address import Address, Scheme
from bobbin.wire.lazily import signaling as codec
from bobbin.wire.proof import Role

TIMEOUT_SECONDS: Final = 10.0
_HEARD_BYTES_MAX: Final = FRAME_BYTES_MAX + FORWARDED_BYTES_MORE

UNEXPECTED: Final = "unexpected-frame"


class Credentials(Struct, frozen=True, kw_only=True):
    """What a client shows of itself: a token, a key, or nothing."""

    token: str | None = None
    key: SigningKey | None = None

    def __post_init__(self) -> None:
        if self.token is not None and self.key is not None:
            raise UsageError("a client is known by a token or by a key: choose one")


class JoinRefused(PeerError):
    """The server does not let this client in. ``code`` is the reason that it gave."""


class SignalClient:
    """One connection that has joined. Use ``join`` to make one."""

    def __init__(self, socket: ClientConnection, welcome: Welcome) -> None:
        self._socket: Final = socket
        self.peer: Final = welcome.peer
        self._peers: Final = set(welcome.peers)

    @property
    def peers(self) -> frozenset[PeerId]:
        """Who else is there, as far as frames that were received say."""
        return frozenset(self._peers)

    async def send(self, frame: DirectedFrame) -> None:
        """Say something to another client. Raises ``TransportError``."""
        await _send(self._socket, frame)

    async def receive(self) -> ServerFrame:
        """What comes next. Raises ``TransportError`` at the end, ``PeerError`` for what is no frame."""
        frame = await _receive(self._socket)
        match frame:
            case PeerJoined():
                self._peers.add(frame.peer)
            case PeerLeft():
                self._peers.discard(frame.peer)
            case Welcome():
                await self._socket.close()
                raise PeerError(UNEXPECTED, "the server welcomes a client a second time")
            case _:
                pass
        return frame

    async def leave(self) -> None:
        """Say farewell, and end the connection."""
        with suppress(TransportError):
            await _send(self._socket, Leave())
        await self._socket.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        del kind, error, trace
        await self.leave()


async def join(
    address: Address,
    session: str,
    peer: PeerId,
    *,
    credentials: Credentials = Credentials(),  # noqa: B008 (a frozen value)
    capabilities: tuple[str, ...] | None = None,
    tls_demands: TlsClient | None = None,
    allow_insecure: bool = False,
    timeout_seconds: float = TIMEOUT_SECONDS,
) -> SignalClient:
    """Connect and join. Raises ``TransportError``, ``JoinRefused``, another ``PeerError``, or ``UsageError``.

    Off this machine the connection must be encrypted, unless ``allow_insecure``.
    """
    path = _path(address, session)
    try:
        async with asyncio.timeout(timeout_seconds):
            socket = await web_sockets.open_socket(
                address,
                path,
                protocols=[SIGNAL_PROTOCOL if credentials.key is None else PROOF_PROTOCOL],
                headers={} if credentials.token is None else {"Authorization": f"Bearer {credentials.token}"},
                demands=tls_demands,
                message_bytes_max=_HEARD_BYTES_MAX,
                allow_insecure=allow_insecure,
            )
            try:
                return await _introduce_and_join(socket, address, peer, credentials, capabilities, tls_demands)
            except BaseException:
                socket.transport.abort()
                raise
    except TimeoutError as error:
        raise TransportError(f"{address} did not let us join within {timeout_seconds:g} seconds", retry=True) from error


def _path(address: Address, session: str) -> str:
    if address.scheme not in (Scheme.WS, Scheme.WSS):
        raise UsageError(f"a signaling server is at a ws or wss address, not at {address}")
    path = f"/session/{session}"
    if SESSION.fullmatch(path) is None:
        raise UsageError(f"not the name of a session: {session[:80]!r}")
    return path


async def _introduce_and_join(
    socket: ClientConnection,
    address: Address,
    peer: PeerId,
    credentials: Credentials,
    capabilities: tuple[str, ...] | None,
    demands: TlsClient | None,
) -> SignalClient:
    binding = web_sockets.binding(socket, demands)
    if credentials.key is not None:
        if socket.subprotocol != PROOF_PROTOCOL:
            raise TransportError(f"{address} takes no proofs", retry=False)
        remote = tcp.describe(socket.remote_address)
        verified = binding is not None and (demands or TlsClient()).verifies
        route = Route(
            address=address,
            remote=remote.text,
            origin=remote.origin,
            loopback=remote.loopback,
            binding=binding,
            verified=verified,
        )
        stream = SocketStream(socket, route)
        await introduce(stream, role=Role.INITIATOR, key=credentials.key, admit=lambda introduction: None)  # noqa: ARG005
    await _send(socket, Join(peer=peer, capabilities=capabilities))
    answer = await _receive(socket)
    match answer:
        case Welcome() if answer.peer == peer:
            return SignalClient(socket, answer)
        case Refusal():
            raise JoinRefused(answer.code, f"the server does not let peer {peer} in: {answer.message[:200]}")
        case _:
            raise PeerError(UNEXPECTED, "the server answers a join with something else")


async def _send(socket: ClientConnection, frame: ClientFrame) -> None:
    try:
        await socket.send(codec.encode_client(frame).decode())
    except ConnectionClosed as error:
        raise TransportError("the signaling server has closed the connection", retry=True) from error


async def _receive(socket: ClientConnection) -> ServerFrame:
    try:
        raw = await socket.recv()
    except ConnectionClosed as error:
        raise TransportError("the signaling server has closed the connection", retry=True) from error
    try:
        if isinstance(raw, bytes):
            raise PeerError(UNEXPECTED, "a signaling server speaks text")
        return codec.decode_server(raw.encode(), frame_bytes_max=_HEARD_BYTES_MAX)
    except PeerError:
        await socket.close()
        raise
