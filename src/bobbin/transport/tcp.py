"""TCP: sockets to listen on, how they are set up, and what the other end is called."""

import socket
from ipaddress import IPv4Address, IPv6Address, ip_address
from typing import Final

from msgspec import Struct

_IPV6_PREFIX: Final = 64
"""What one customer of a network gets. Counting by single addresses would count nothing."""

LOCAL: Final = "local"
"""The origin of what comes over no network."""


class Remote(Struct, frozen=True, kw_only=True):
    """The other end of a socket, as ``Route`` names it."""

    text: str
    origin: str
    loopback: bool


class Patience(Struct, frozen=True, kw_only=True):
    """How long the machine at the other end may be silent until a connection is given up. By default some minutes."""

    idle_seconds: int = 60
    """Without a word from either end, until the other one is asked whether it is there."""
    probe_seconds: int = 15
    probes: int = 4
    unacknowledged_ms: int = 120_000
    """For what was sent and has not arrived."""


PATIENT: Final = Patience()


def prepare(connection: socket.socket, patience: Patience = PATIENT) -> None:
    """Notice a dead peer in bounded time, even on a link where nobody says anything."""
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in (
        ("TCP_KEEPIDLE", patience.idle_seconds),
        ("TCP_KEEPINTVL", patience.probe_seconds),
        ("TCP_KEEPCNT", patience.probes),
        ("TCP_USER_TIMEOUT", patience.unacknowledged_ms),
    ):
        # Not every system has every one of them.
        if (option := getattr(socket, name, None)) is not None:
            connection.setsockopt(socket.IPPROTO_TCP, option, value)


def is_literal(host: str) -> bool:
    """Whether a host is an IP address, and no name to look up."""
    try:
        ip_address(host)
    except ValueError:
        return False
    return True


def describe(name: object) -> Remote:
    """What ``getpeername`` of a TCP socket says."""
    match name:
        case (str(host), int(port), *_):
            address = ip_address(host)
            if isinstance(address, IPv6Address) and address.ipv4_mapped is not None:
                address = address.ipv4_mapped
            text = f"[{address}]:{port}" if isinstance(address, IPv6Address) else f"{address}:{port}"
            return Remote(text=text, origin=_origin(address), loopback=address.is_loopback)
        case _:
            # The peer was gone before anybody looked.
            return Remote(text="unknown", origin="unknown", loopback=False)


def bind(host: str, port: int, *, backlog: int) -> list[socket.socket]:
    """Sockets that listen on every address of a host; on the first one only, where the system chooses the port.

    Resolves names, so an event loop lets a thread do it. Raises ``OSError``; then nothing is left open.
    """
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    # A host may be listed twice in a file of hosts.
    places = list(dict.fromkeys((family, place) for family, _, _, _, place in found))
    listening: list[socket.socket] = []
    try:
        for family, place in places if port else places[:1]:
            listening.append(_listen(family, place, backlog))
    except OSError:
        for one in listening:
            one.close()
        raise
    return listening


def _listen(family: socket.AddressFamily, place: object, backlog: int) -> socket.socket:
    assert isinstance(place, tuple)
    listening = socket.socket(family, socket.SOCK_STREAM)
    try:
        listening.settimeout(0)
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            # Or [::] would take 0.0.0.0 as well, and the two could not be listened on side by side.
            listening.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        listening.bind(place)
        listening.listen(backlog)
    except OSError:
        listening.close()
        raise
    return listening


def _origin(address: IPv4Address | IPv6Address) -> str:
    if isinstance(address, IPv4Address) or address.is_loopback:
        return str(address)
    shift = address.max_prefixlen - _IPV6_PREFIX
    return f"{IPv6Address(int(address) >> shift << shift)}/{_IPV6_PREFIX}"
