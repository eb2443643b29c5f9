"""Addresses: where a lace is reached, as text (Lace-060, and ``tls`` of our own).

=========  ===========================  ============
scheme     form                         default port
=========  ===========================  ============
``stdio``  ``stdio``
``unix``   ``unix:/absolute/path``
``tcp``    ``tcp:host[:port]``          4790
``tls``    ``tls:host[:port]``          4791
``ws``     ``ws:host[:port][/interlace]``  80
``wss``    ``wss:host[:port][/interlace]`` 443
=========  ===========================  ============

A host is a name, an IPv4 address, or an IPv6 address in brackets. An address is kept as it was written: it is the value
of ``Transport(S)``, which rules compare as text.
"""

import re
import unicodedata
from collections.abc import Mapping
from contextlib import suppress
from enum import StrEnum
from ipaddress import AddressValueError, IPv4Address, IPv6Address, ip_address
from types import MappingProxyType
from typing import Final

from msgspec import Struct

from bobbin import profile
from bobbin.errors import UsageError

PATH: Final = "/interlace"
"""Of every WebSocket address, written or not."""


class Scheme(StrEnum):
    """How the bytes travel."""

    STDIO = "stdio"
    UNIX = "unix"
    TCP = "tcp"
    TLS = "tls"
    WS = "ws"
    WSS = "wss"


PORTS: Final[Mapping[Scheme, int]] = MappingProxyType(
    {Scheme.TCP: 4790, Scheme.TLS: 4791, Scheme.WS: 80, Scheme.WSS: 443}
)
"""The port where an address names none."""

_PORT_MAX: Final = 65_535
_NAME_CHARACTERS_MAX: Final = 253
_LABEL: Final = r"[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?"
_NAME: Final = re.compile(rf"{_LABEL}(?:\.{_LABEL})*", re.ASCII)
_AUTHORITY: Final = re.compile(r"(\[[^\[\]]*\]|[^\[\]:/]*)(?::(0|[1-9][0-9]{0,4}))?(/.*)?", re.ASCII | re.DOTALL)
_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f\ud800-\udfff]")


class AddressError(UsageError):
    """A text is no address."""


class Address(Struct, frozen=True, kw_only=True):
    """One address, made by ``parse``. Two spellings of one place are two addresses."""

    scheme: Scheme
    host: str = ""
    """A name or an IP address, without brackets; empty for ``stdio`` and ``unix``."""
    port: int | None = None
    """As written; ``port_number`` is the one to use."""
    path: str = ""
    """The file of a Unix socket, or the path of a WebSocket as written."""

    @property
    def port_number(self) -> int:
        """The port, written or not."""
        if self.port is not None:
            return self.port
        if self.scheme not in PORTS:
            raise UsageError(f"an address of the scheme {self.scheme.value} has no port")
        return PORTS[self.scheme]

    def is_confidential(self, *, verified: bool) -> bool:
        """Whether nobody else can read a link to here: its transport encrypts, and its certificate was verified."""
        return verified and self.scheme in (Scheme.TLS, Scheme.WSS)

    def __str__(self) -> str:
        """The text that was parsed."""
        if self.scheme is Scheme.STDIO:
            return self.scheme.value
        host = f"[{self.host}]" if ":" in self.host else self.host
        port = "" if self.port is None else f":{self.port}"
        return f"{self.scheme.value}:{host}{port}{self.path}"


def same_place(one: Address, other: Address) -> bool:
    """Whether two addresses, however they are spelled, lead to one place: a name has no case, a port may be implied."""
    return _place(one) == _place(other)


def _place(address: Address) -> tuple[Scheme, str, int]:
    if address.scheme not in PORTS:
        return address.scheme, address.path, 0
    host = address.host.lower()
    with suppress(ValueError):  # a name
        host = ip_address(host).compressed
    return address.scheme, host, address.port_number


def parse(text: str, *, to_listen: bool = False) -> Address:
    """The address that a text spells, or ``AddressError``.

    ``to_listen`` lets the port be 0, by which the system chooses one; nobody can be reached there.
    """
    if text == Scheme.STDIO:
        return Address(scheme=Scheme.STDIO)
    name, colon, rest = text.partition(":")
    if not colon or name == Scheme.STDIO or name not in set(Scheme):
        known = "stdio, unix:/path, tcp:host:port, tls:host:port, ws:host, wss:host"
        raise AddressError(f"not an address: {text[:80]!r}; the forms are {known}")
    scheme = Scheme(name)
    if scheme is Scheme.UNIX:
        return _parse_unix(rest)
    found = _AUTHORITY.fullmatch(rest)
    if found is None:
        raise AddressError(f"not a host and a port: {rest[:80]!r}; an IPv6 address stands in brackets")
    host, port, path = found.groups()
    if path and (path != PATH or scheme in (Scheme.TCP, Scheme.TLS)):
        raise AddressError(f"only a ws or wss address has a path, and that is {PATH}: {text[:80]!r}")
    if port is not None and not (0 if to_listen else 1) <= int(port) <= _PORT_MAX:
        raise AddressError(f"a port lies between 1 and {_PORT_MAX}, not at {port}")
    return Address(scheme=scheme, host=_check_host(host), port=int(port) if port else None, path=path or "")


def _parse_unix(path: str) -> Address:
    if not path.startswith("/") or path.endswith("/"):
        raise AddressError(f"a Unix socket has the absolute path of a file, not {path[:80]!r}")
    if _CONTROL.search(path) or not unicodedata.is_normalized("NFC", path):
        raise AddressError("the path of a Unix socket is text in form NFC, without control characters")
    if len(path.encode()) > profile.FACT_VALUE_BYTES_MAX - len("unix:"):
        raise AddressError(f"an address has at most {profile.FACT_VALUE_BYTES_MAX} bytes")
    return Address(scheme=Scheme.UNIX, path=path)


def _check_host(host: str) -> str:
    """The host without brackets."""
    try:
        if host.startswith("["):
            inner = host[1:-1]
            if "%" in inner:
                raise AddressError(f"an address names no network interface: {host[:80]!r}")
            IPv6Address(inner)
            return inner
        # What ends in a number is an IPv4 address or a mistake, never a name.
        if host.rpartition(".")[2].isdigit():
            IPv4Address(host)
            return host
    except AddressValueError as error:
        raise AddressError(f"not an IP address: {host[:80]!r}") from error
    if len(host) > _NAME_CHARACTERS_MAX or not _NAME.fullmatch(host):
        raise AddressError(f"not the name of a host: {host[:80]!r}")
    return host
