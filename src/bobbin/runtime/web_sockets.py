"""WebSockets whose messages have a meaning, which browsers may open: what a request shows, and how one is made.

Links between laces do not go this way: see ``transport.websocket``. A token is in ``Authorization: Bearer TOKEN`` or,
since a browser cannot set headers, in the subprotocol ``bearer.TOKEN``.

Browsers say which page they come from. Otherwise any page that somebody looks at could talk to a server on the same
machine. Taken are pages that are listed, and those of the very host and port that the request names, if that host is an
IP address, ``localhost``, or the host that is listened on: neither another program on this machine nor a name that
somebody has pointed here makes a page ours.
"""

import asyncio
import logging
from collections.abc import Mapping, Sequence
from typing import Final
from urllib.parse import urlsplit

from websockets.asyncio.client import ClientConnection, connect
from websockets.datastructures import HeadersLike
from websockets.exceptions import InvalidHandshake, InvalidStatus, InvalidURI
from websockets.http11 import Request
from websockets.typing import Subprotocol

from bobbin.transport import failures, tcp, tls
from bobbin.transport.base import TransportError
from bobbin.transport.dial import InsecureRoute
from bobbin.transport.tls import TlsClient
from bobbin.wire.address import Address, Scheme

PROOF_PROTOCOL: Final = Subprotocol("bobbin-knot-proof")
"""The introduction that links begin with goes first, in binary messages."""
BEARER: Final = "bearer."
CLOSE_SECONDS: Final = 2.0

_AUTHORIZATION: Final = "Bearer "
_LOCALHOST: Final = "localhost"
_PAGES: Final = {"http": 80, "https": 443}
"""What pages come by, and the port where none is named."""
_RETRY_FROM: Final = 500


class RequestRefused(TransportError):
    """What answers gives no WebSocket, and says so by a status of HTTP."""

    def __init__(self, address: Address, status: int) -> None:
        super().__init__(f"{address} answers {status}", retry=status >= _RETRY_FROM)
        self.status = status


# ---- the server's side -----------------------------------------------------------------------------------------------


def silent_log() -> logging.Logger:
    """For the library, whose log would have in it what peers send."""
    log = logging.getLogger("bobbin.web_sockets")
    log.disabled = True
    return log


def offered(request: Request) -> list[str]:
    """The subprotocols that a client could speak."""
    return [name.strip() for value in request.headers.get_all("Sec-WebSocket-Protocol") for name in value.split(",")]


def tokens_of(request: Request) -> list[str]:
    """The tokens that a request shows; more than one makes no sense."""
    return [
        *(value.removeprefix(_AUTHORIZATION) for value in request.headers.get_all("Authorization")),
        *(name.removeprefix(BEARER) for name in offered(request) if name.startswith(BEARER)),
    ]


def takes_origin(request: Request, *, origins: frozenset[str], host: str) -> bool:
    """Whether the page that a request comes from is welcome; also where it comes from none. ``host``: our own."""
    asked = next(iter(request.headers.get_all("Host")), "")
    for origin in request.headers.get_all("Origin"):
        scheme = origin.partition("://")[0]
        own = _place(f"{scheme}://{asked}")
        is_ours = own is not None and (own[0] in (_LOCALHOST, host) or tcp.is_literal(own[0]))
        if origin not in origins and not (is_ours and _place(origin) == own):
            return False
    return True


def _place(url: str) -> tuple[str, int] | None:
    """The host and the port that a page's URL names; None if it is the URL of no page."""
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        return None
    if parts.scheme not in _PAGES or parts.hostname is None:
        return None
    return parts.hostname, _PAGES[parts.scheme] if port is None else port


# ---- the client's side -----------------------------------------------------------------------------------------------


def is_here(host: str) -> bool:
    """Whether a host is certain to be this machine."""
    return host == _LOCALHOST or (tcp.is_literal(host) and tcp.describe((host, 0)).loopback)


async def open_socket(
    address: Address,
    path: str,
    *,
    protocols: Sequence[Subprotocol],
    headers: Mapping[str, str],
    demands: TlsClient | None,
    message_bytes_max: int,
    allow_insecure: bool = False,
) -> ClientConnection:
    """A WebSocket to an address. Raises ``TransportError``, of which ``RequestRefused`` is one.

    Off this machine it must be encrypted, unless ``allow_insecure``; nothing is sent before that is certain, and before
    the certificate is the right one: the request may have a token in it.
    """
    secure = address.scheme is Scheme.WSS
    if not (secure or allow_insecure or is_here(address.host)):
        raise InsecureRoute(address)
    trust = demands or TlsClient()
    context = await asyncio.to_thread(tls.client_context, trust) if secure else None
    host = f"[{address.host}]" if ":" in address.host else address.host
    try:
        return await _Connect(
            f"{address.scheme.value}://{host}:{address.port_number}{path}",
            ssl=context,
            server_hostname=(trust.server_name or address.host) if secure else None,
            create_connection=_checking(trust),
            subprotocols=protocols,
            additional_headers=headers,
            user_agent_header=None,
            compression=None,
            proxy=None,
            open_timeout=None,
            close_timeout=CLOSE_SECONDS,
            max_size=message_bytes_max,
            logger=silent_log(),
        )
    except InvalidStatus as error:
        raise RequestRefused(address, error.response.status_code) from error
    except (InvalidHandshake, InvalidURI) as error:
        raise TransportError(f"{address}: what answers there is no WebSocket: {error}", retry=False) from error
    except OSError as error:
        raise failures.explain(address, error) from error


def binding(socket: ClientConnection, demands: TlsClient | None) -> bytes | None:
    """Of the channel, if it is encrypted. Raises ``TransportError`` for a certificate that will not do."""
    channel = socket.transport.get_extra_info("ssl_object")
    return None if channel is None else tls.binding_at_client(demands or TlsClient(), channel)


class _Connect(connect):
    """Goes where it was told to, and nowhere else: what was checked of an address was checked of that one."""

    def process_redirect(self, exc: Exception) -> Exception | str:
        return exc


def _checking(demands: TlsClient) -> type[ClientConnection]:
    """A connection that looks at the certificate before its request goes out."""

    class Checking(ClientConnection):
        async def handshake(
            self, additional_headers: HeadersLike | None = None, user_agent_header: str | None = None
        ) -> None:
            binding(self, demands)
            await super().handshake(additional_headers, user_agent_header)

    return Checking
