"""Opening a channel to a graph that is served elsewhere, and showing there who we are."""

import asyncio
from http import HTTPStatus
from typing import Final

from msgspec import Struct

from bobbin.errors import PeerError
from bobbin.reactive.handshake import Codec
from bobbin.reactive.messages import PeerId
from bobbin.runtime import web_sockets
from bobbin.runtime.graph_channel import Channel, SocketChannel, StreamChannel
from bobbin.runtime.graph_greeting import NOT_KNOWN, present, prove
from bobbin.runtime.graph_link import SESSION
from bobbin.runtime.graph_peers import Credentials
from bobbin.runtime.graph_web import PATH, PROTOCOL
from bobbin.runtime.introduction import NotAdmitted
from bobbin.runtime.remote import INSECURE
from bobbin.runtime.socket_stream import SocketStream
from bobbin.runtime.web_sockets import PROOF_PROTOCOL, RequestRefused
from bobbin.transport import tcp
from bobbin.transport.base import Route, TransportError
from bobbin.transport.dial import InsecureRoute, dial
from bobbin.transport.tls import TlsClient
from bobbin.wire.address import Address, Scheme

_WEB: Final = frozenset({Scheme.WS, Scheme.WSS})
_UNWANTED: Final = frozenset({HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN})


class ClientSettings(Struct, frozen=True, kw_only=True):
    """How a graph is mirrored, and the bounds of that."""

    session: str = SESSION
    source: PeerId | None = None
    """Who is to be at the other end; None: anybody."""
    codec: Codec = Codec.JSON
    frame_bytes_max: int = 4 * 1024 * 1024
    fragmentation: bool = False
    dial_seconds: float = 10.0
    """For connecting, and for showing who we are."""
    answer_seconds: float = 5.0
    """For the server's handshake; and how long a snapshot or an acknowledgement is waited for before asking again."""
    patient: bool = False
    """Whether the first attempt, too, is made again when it fails."""
    tls: TlsClient | None = None
    """What is demanded of the certificate; else authorities of the system must vouch for it."""
    allow_insecure: bool = False
    shares_memory: bool = False
    """Whether large values may come in shared memory, where the link is a Unix socket."""


async def dial_graph(address: Address, credentials: Credentials, settings: ClientSettings) -> Channel:
    """A channel on which frames can go. Raises ``PeerError`` or ``TransportError``."""
    try:
        async with asyncio.timeout(settings.dial_seconds):
            if address.scheme in _WEB:
                return await _dial_socket(address, credentials, settings)
            stream = await dial(address, tls=settings.tls, allow_insecure=settings.allow_insecure)
            try:
                await present(stream, credentials)
            except BaseException:
                stream.abort()
                raise
            return StreamChannel(stream, frame_bytes_max=settings.frame_bytes_max)
    except TimeoutError as error:
        raise TransportError(f"{address}: no answer within {settings.dial_seconds:g} seconds", retry=True) from error
    except InsecureRoute as error:
        raise NotAdmitted(INSECURE, str(error)) from error
    except RequestRefused as error:
        if error.status not in _UNWANTED:
            raise
        raise PeerError(NOT_KNOWN, f"{address} does not let us in: what we have shown is not known there") from error


async def _dial_socket(address: Address, credentials: Credentials, settings: ClientSettings) -> Channel:
    protocols = [PROTOCOL] if credentials.key is None else [PROOF_PROTOCOL]
    headers = {} if credentials.token is None else {"Authorization": f"Bearer {credentials.token}"}
    socket = await web_sockets.open_socket(
        address,
        PATH,
        protocols=protocols,
        headers=headers,
        demands=settings.tls,
        message_bytes_max=settings.frame_bytes_max,
        allow_insecure=settings.allow_insecure,
    )
    try:
        if credentials.key is not None:
            if socket.subprotocol != PROOF_PROTOCOL:
                raise PeerError(NOT_KNOWN, f"{address} takes no proofs of keys")
            remote = tcp.describe(socket.remote_address)
            route = Route(
                address=address,
                remote=remote.text,
                origin=remote.origin,
                loopback=remote.loopback,
                binding=web_sockets.binding(socket, settings.tls),
                verified=address.scheme is Scheme.WSS and (settings.tls or TlsClient()).verifies,
            )
            await prove(SocketStream(socket, route), credentials)
    except BaseException:
        socket.transport.abort()
        raise
    return SocketChannel(socket)
