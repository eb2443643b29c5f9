"""What went wrong on the way to a peer, in words, and whether trying again later makes sense.

A server that is down, full or restarting may come back, so that is worth another try. A host that does not exist or a
certificate that is not trusted will not change by waiting.
"""

import errno
import socket
import ssl
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from bobbin.transport.base import EndedByPeer, TransportError, WrongCertificate
from bobbin.wire.address import Address

# Codes of OpenSSL, x509_vfy.h.
_NOT_YET_VALID: Final = 9
_EXPIRED: Final = 10
_WRONG_NAME: Final = frozenset({62, 64})
_UNKNOWN_ISSUER: Final = frozenset({18, 19, 20, 21})

_CERTIFICATE: Final[Mapping[int, str]] = MappingProxyType(
    {
        _EXPIRED: "its certificate has expired",
        _NOT_YET_VALID: "its certificate is not valid yet; is a clock wrong?",
        **dict.fromkeys(_WRONG_NAME, "its certificate is for another name"),
        **dict.fromkeys(_UNKNOWN_ISSUER, "its certificate is not trusted: no known authority vouches for it"),
    }
)
_CLOSED: Final = "closed by the other end while connecting"
_SYSTEM: Final[Mapping[int, tuple[str, bool]]] = MappingProxyType(
    {
        errno.ECONNREFUSED: ("refused; nothing listens there", True),
        errno.ENOENT: ("there is no such socket; is the node running?", True),
        errno.ENOTSOCK: ("this file is no socket", False),
        errno.EACCES: ("not permitted", False),
        errno.EPERM: ("not permitted", False),
        errno.EHOSTUNREACH: ("there is no way to this host", True),
        errno.ENETUNREACH: ("there is no way to this network", True),
        errno.ECONNRESET: (_CLOSED, True),
        errno.EPIPE: (_CLOSED, True),
        errno.EADDRINUSE: ("something else listens there already", True),
        errno.EADDRNOTAVAIL: ("this machine has no such address", False),
    }
)


def explain(address: Address, error: Exception, *, seconds: float | None = None) -> TransportError:
    """The error to raise for one that came up while dialling or listening."""
    why, retry = _reason(address, error, seconds)
    if isinstance(error, WrongCertificate):
        return WrongCertificate(f"{address}: {why}")
    if why == _CLOSED:
        return EndedByPeer(f"{address}: {why}")
    return TransportError(f"{address}: {why}", retry=retry)


def _reason(address: Address, error: Exception, seconds: float | None) -> tuple[str, bool]:
    match error:
        case TransportError():
            return str(error), error.retry
        case TimeoutError():
            return ("timed out" if seconds is None else f"no answer within {seconds:g} seconds"), True
        case socket.gaierror():
            return _resolving(address, error)
        case ssl.SSLCertVerificationError():
            return _CERTIFICATE.get(error.verify_code, f"its certificate is not trusted: {error.verify_message}"), False
        case ssl.SSLError():
            return _handshake(error)
        case OSError():
            return _system(error)
        case _:
            return f"cannot be reached: {error}", True


def _resolving(address: Address, error: socket.gaierror) -> tuple[str, bool]:
    if error.errno == socket.EAI_AGAIN:
        return f"the name {address.host} cannot be looked up now", True
    return f"there is no host called {address.host}", False


def _handshake(error: ssl.SSLError) -> tuple[str, bool]:
    # One that was not made by OpenSSL has none.
    reason = getattr(error, "reason", None) or ""
    if isinstance(error, ssl.SSLEOFError | ssl.SSLZeroReturnError):
        return _CLOSED, True
    if "WRONG_VERSION_NUMBER" in reason or "RECORD_LAYER" in reason or "PACKET_LENGTH" in reason:
        return "what answers there does not speak TLS", False
    if "PROTOCOL_VERSION" in reason or "UNSUPPORTED_PROTOCOL" in reason:
        return "what answers there does not speak TLS 1.3", False
    return f"TLS failed: {reason.lower().replace('_', ' ') or error}", False


def _system(error: OSError) -> tuple[str, bool]:
    if error.errno is not None and error.errno in _SYSTEM:
        return _SYSTEM[error.errno]
    if isinstance(error, ConnectionError):
        return _CLOSED, True
    # asyncio sums up several addresses of one host in one error without a number.
    return f"cannot be reached: {error.strerror or error}", True
