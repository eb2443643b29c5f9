"""Every failure in words, and whether it is worth another try."""

import errno
import socket
import ssl

import pytest

from bobbin.transport import failures
from bobbin.transport.base import EndedByPeer, TransportError
from bobbin.wire import address

_ADDRESS = address.parse("tls:node.example:4791")


def _system(number: int) -> OSError:
    return OSError(number, "as the system says it")


def _untrusted(code: int) -> ssl.SSLCertVerificationError:
    error = ssl.SSLCertVerificationError(1, "certificate verify failed")
    error.verify_code = code
    error.verify_message = "of another kind"
    return error


def _handshake(reason: str) -> ssl.SSLError:
    error = ssl.SSLError(1, "handshake")
    error.reason = reason
    return error


@pytest.mark.parametrize(
    ("error", "words", "retry"),
    [
        (_system(errno.ECONNREFUSED), "refused; nothing listens there", True),
        (_system(errno.ENOENT), "no such socket", True),
        (_system(errno.EACCES), "not permitted", False),
        (_system(errno.ENETUNREACH), "no way to this network", True),
        (_system(errno.EADDRINUSE), "listens there already", True),
        (_system(errno.EADDRNOTAVAIL), "no such address", False),
        (_system(errno.EIO), "cannot be reached: as the system says it", True),
        (OSError("Multiple exceptions: one, two"), "cannot be reached: Multiple exceptions: one, two", True),
        (ConnectionAbortedError("TLS"), "closed by the other end", True),
        (TimeoutError(), "no answer within 10 seconds", True),
        (socket.gaierror(socket.EAI_NONAME, "unknown"), "no host called node.example", False),
        (socket.gaierror(socket.EAI_AGAIN, "later"), "cannot be looked up now", True),
        (_untrusted(10), "has expired", False),
        (_untrusted(9), "is a clock wrong", False),
        (_untrusted(62), "for another name", False),
        (_untrusted(18), "no known authority", False),
        (_untrusted(1000), "not trusted: of another kind", False),
        (_handshake("WRONG_VERSION_NUMBER"), "does not speak TLS", False),
        (_handshake("TLSV1_ALERT_PROTOCOL_VERSION"), "does not speak TLS 1.3", False),
        (_handshake("HANDSHAKE_FAILURE"), "TLS failed: handshake failure", False),
        (ssl.SSLEOFError(8, "end"), "closed by the other end", True),
        (ValueError("odd"), "cannot be reached: odd", True),
    ],
)
def test_an_error_becomes_a_sentence(error: Exception, words: str, retry: bool) -> None:  # noqa: FBT001
    found = failures.explain(_ADDRESS, error, seconds=10.0)
    assert str(found).startswith("tls:node.example:4791: ")
    assert words in str(found)
    assert found.retry is retry
    assert isinstance(found, EndedByPeer) == (words == "closed by the other end")


def test_an_error_of_a_transport_keeps_its_own_words() -> None:
    found = failures.explain(_ADDRESS, TransportError("no pipe", retry=False))
    assert str(found) == "tls:node.example:4791: no pipe"
    assert not found.retry


def test_a_timeout_without_a_number_is_one_of_the_system() -> None:
    assert "timed out" in str(failures.explain(_ADDRESS, TimeoutError()))
