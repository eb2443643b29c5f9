"""Addresses of PZP peers: ``net:host:port~shse:<key>[:<extra>]``, where to dial and whom to expect there.

The key is the peer's public one in base58, and ``extra`` 32 bytes in base58 that the peer wants to be told in the
handshake. Several such addresses of one peer may stand together, with ``;`` between them. An IPv6 address stands as it
is, without brackets, as real peers write it; with brackets it is understood too.
"""

from typing import Final

from msgspec import Struct

from bobbin.tangles import base58
from bobbin.tangles.errors import MalformedText
from bobbin.wire.address import Address, AddressError, Scheme
from bobbin.wire.address import parse as parse_address
from bobbin.wire.pzp.handshake import EXTRA_SIZE, KEY_SIZE

ADDRESS_CHARACTERS_MAX: Final = 4096
"""Of all the addresses of one peer together."""

_NET: Final = "net:"
_SHSE: Final = "shse:"
_ESCAPE: Final = "!"
"""Before a separator that is part of a value, in addresses of other kinds. Ours have none."""


class PeerAddress(Struct, frozen=True, kw_only=True):
    """Where a PZP peer is, and its key."""

    place: Address
    """Over TCP."""
    key: bytes
    extra: bytes | None = None

    def __str__(self) -> str:
        """As a real peer writes it."""
        extra = "" if self.extra is None else f":{base58.encode(self.extra)}"
        return f"{_NET}{self.place.host}:{self.place.port_number}~{_SHSE}{base58.encode(self.key)}{extra}"


def at(place: Address, key: bytes) -> PeerAddress:
    """The address of whoever listens at a place with a key."""
    if place.scheme is not Scheme.TCP:
        raise AddressError(f"a PZP peer is reached over tcp, not at {place}")
    return PeerAddress(place=place, key=key)


def parse(text: str) -> PeerAddress:
    """The first address in a text that can be dialled here, or ``AddressError``."""
    if len(text) > ADDRESS_CHARACTERS_MAX:
        raise AddressError(f"the addresses of a peer have at most {ADDRESS_CHARACTERS_MAX} characters")
    failure: AddressError | None = None
    for one in text.split(";"):
        try:
            return _parse_one(one)
        except AddressError as error:
            failure = failure or error
    assert failure is not None, "a text has at least one part"
    raise failure


def _parse_one(text: str) -> PeerAddress:
    place, tilde, proof = text.partition("~")
    host, _, port = place.removeprefix(_NET).rpartition(":")
    if not (tilde and place.startswith(_NET) and proof.startswith(_SHSE) and host and port) or _ESCAPE in text:
        raise AddressError(f"not the address of a PZP peer: {text[:80]!r}; the form is net:host:port~shse:key")
    key, _, extra = proof.removeprefix(_SHSE).partition(":")
    bracketed = f"[{host}]" if ":" in host and not host.startswith("[") else host
    return PeerAddress(
        place=parse_address(f"{Scheme.TCP.value}:{bracketed}:{port}"),
        key=_decode(key, KEY_SIZE, "the key of the peer"),
        extra=_decode(extra, EXTRA_SIZE, "what the peer wants to be told") if extra else None,
    )


def _decode(text: str, size: int, what: str) -> bytes:
    try:
        return base58.decode(text, size)
    except MalformedText as error:
        raise AddressError(f"{what}: {error}") from error
