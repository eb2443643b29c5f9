"""Opening a stream to an address. Whatever fails says so in words, with the address and whether to try again."""

import asyncio
import ssl
from typing import Final

from msgspec import Struct

from bobbin.errors import UsageError
from bobbin.transport import failures, stdio, tcp, tls, unix_socket, websocket
from bobbin.transport.base import ByteStream, Route, TransportError
from bobbin.transport.flow import CLOSE_SECONDS, Flow, FlowStream
from bobbin.transport.tls import TlsClient
from bobbin.wire.address import Address, Scheme

DIAL_SECONDS: Final = 10.0
"""For looking up the name, connecting, and the handshakes together."""

_NEXT_ADDRESS_SECONDS: Final = 0.25
"""How long one address of a host may keep silent before the next one is tried beside it (RFC 8305)."""

_TLS: Final = frozenset({Scheme.TLS, Scheme.WSS})
_PLAIN: Final = frozenset({Scheme.TCP, Scheme.WS})
_WEBSOCKET: Final = frozenset({Scheme.WS, Scheme.WSS})


class _Secure(Struct, frozen=True, kw_only=True):
    """What is demanded of a certificate, ready for use."""

    demands: TlsClient
    context: ssl.SSLContext

    @classmethod
    async def load(cls, demands: TlsClient) -> "_Secure":
        # The authorities of a system are many, and reading them takes a while.
        return cls(demands=demands, context=await asyncio.to_thread(tls.client_context, demands))

    def bind(self, transport: asyncio.BaseTransport) -> bytes:
        """The binding of a connection that has been made."""
        return tls.binding_at_client(self.demands, transport.get_extra_info("ssl_object"))


class InsecureRoute(TransportError):
    """The way to an address is not encrypted and leaves this machine. Nothing was written to it."""

    def __init__(self, address: Address) -> None:
        super().__init__(f"{address} is not on this machine, and the link is not encrypted", retry=False)


async def dial(
    address: Address,
    *,
    tls: TlsClient | None = None,
    timeout_seconds: float = DIAL_SECONDS,
    allow_insecure: bool = True,
) -> ByteStream:
    """A stream to an address, or ``TransportError``.

    ``tls`` says what is demanded of the certificate of a ``tls`` or ``wss`` address; without it, authorities of the
    system must vouch for it. ``UsageError`` for a file that cannot be used. Without ``allow_insecure`` a way off this
    machine that is not encrypted ends in ``InsecureRoute``, before a byte is written, the request for a WebSocket
    included; where the address itself says so, before anything is connected.
    """
    if tls is not None and address.scheme not in _TLS:
        raise UsageError(f"{address} is not encrypted, so there is no certificate to demand anything of")
    secure = await _Secure.load(tls or TlsClient()) if address.scheme in _TLS else None
    demands_local = not allow_insecure and address.scheme in _PLAIN
    if demands_local and tcp.is_literal(address.host) and not tcp.describe((address.host, 0)).loopback:
        raise InsecureRoute(address)
    try:
        async with asyncio.timeout(timeout_seconds):
            match address.scheme:
                case Scheme.STDIO:
                    return await stdio.open_stream(address, *stdio.take())
                case Scheme.UNIX:
                    return await _dial_unix(address)
                case _:
                    return await _dial_network(address, secure, demands_local=demands_local)
    except InsecureRoute:
        raise
    except (OSError, TransportError) as error:
        raise failures.explain(address, error, seconds=timeout_seconds) from error


async def _dial_unix(address: Address) -> FlowStream:
    transport, flow = await asyncio.get_running_loop().create_unix_connection(Flow, address.path)
    remote = unix_socket.describe(transport.get_extra_info("socket"))
    return FlowStream(flow, Route(address=address, remote=remote, origin=tcp.LOCAL, loopback=True))


async def _dial_network(address: Address, secure: _Secure | None, *, demands_local: bool) -> ByteStream:
    flow = Flow()
    try:
        transport, _ = await asyncio.get_running_loop().create_connection(
            lambda: flow,
            address.host,
            address.port_number,
            ssl=None if secure is None else secure.context,
            server_hostname=None if secure is None else secure.demands.server_name or address.host,
            ssl_shutdown_timeout=None if secure is None else CLOSE_SECONDS,
            # There is no race where there is one address; and asyncio may lose the winner of one that it breaks off.
            happy_eyeballs_delay=None if tcp.is_literal(address.host) else _NEXT_ADDRESS_SECONDS,
        )
        tcp.prepare(transport.get_extra_info("socket"))
        remote = tcp.describe(transport.get_extra_info("peername"))
        route = Route(
            address=address,
            remote=remote.text,
            origin=remote.origin,
            loopback=remote.loopback,
            binding=None if secure is None else secure.bind(transport),
            verified=secure is not None and secure.demands.verifies,
        )
        if demands_local and not route.loopback:
            raise InsecureRoute(address)
        if address.scheme in _WEBSOCKET:
            return await websocket.ask(flow, address, route)
    except BaseException:
        # Also where the handshake was done, and the time over before this task heard of it.
        flow.abort()
        raise
    return FlowStream(flow, route)
