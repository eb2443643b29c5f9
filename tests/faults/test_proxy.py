"""The proxy breaks links as it says, at the byte that it says."""

import errno
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

import pytest

from tests.faults.proxy import Act, Fault, Proxy, Way

_SECONDS: Final = 45.0


@contextmanager
def _echo() -> Iterator[int]:
    """A server that sends back what it gets, until its end."""

    def answer(taken: socket.socket) -> None:
        with taken:
            try:
                while data := taken.recv(4096):
                    taken.sendall(data)
            except OSError:
                return

    def serve() -> None:
        while True:
            try:
                taken, _ = listening.accept()
            except OSError:
                return
            threading.Thread(target=answer, args=(taken,), daemon=True).start()

    with socket.create_server(("127.0.0.1", 0)) as listening:
        threading.Thread(target=serve, daemon=True).start()
        yield listening.getsockname()[1]
        listening.shutdown(socket.SHUT_RDWR)


def _through(fault: Fault | None, said: bytes) -> tuple[bytes, bool]:
    """What comes back, and whether the end was a reset."""
    heard = b""
    with (
        _echo() as port,
        Proxy(port, fault) as proxy,
        socket.create_connection(("127.0.0.1", proxy.port), timeout=_SECONDS) as connection,
    ):
        try:
            connection.sendall(said)
            connection.shutdown(socket.SHUT_WR)
            while data := connection.recv(4096):
                heard += data
        except OSError as error:
            # A reset may have come before we were done; then there is nothing left to shut down.
            if not (isinstance(error, ConnectionError) or error.errno == errno.ENOTCONN):
                raise
            return heard, True
        assert proxy.struck.is_set() == (fault is not None)
    return heard, False


def test_without_a_fault_everything_passes() -> None:
    said = bytes(range(256)) * 1_000
    assert _through(None, said) == (said, False)


@pytest.mark.parametrize(
    ("fault", "heard"),
    [
        (Fault(act=Act.HALF_CLOSE, after=4), b"0123"),
        (Fault(act=Act.HALF_CLOSE, mark=b"56", after=1), b"012345"),
        (Fault(act=Act.FLIP, mark=b"8"), b"0123456799"),
        (Fault(act=Act.THROTTLE, after=7, pause_seconds=0.001), b"0123456789"),
        (Fault(act=Act.CALL, after=3), b"0123456789"),
        (Fault(act=Act.FLIP, way=Way.TO_CLIENT, after=9), b"0123456788"),
    ],
)
def test_faults_that_end_nothing(fault: Fault, heard: bytes) -> None:
    assert _through(fault, b"0123456789") == (heard, False)


@pytest.mark.parametrize("act", [Act.CUT, Act.RESET])
def test_faults_that_end_the_link(act: Act) -> None:
    heard, was_reset = _through(Fault(act=act, way=Way.TO_CLIENT, after=4), b"0123456789")
    assert b"0123".startswith(heard)
    assert was_reset or act is Act.CUT


def test_a_stall_is_not_told_to_anybody() -> None:
    with (
        _echo() as port,
        Proxy(port, Fault(act=Act.STALL, way=Way.TO_CLIENT, after=4)) as proxy,
        socket.create_connection(("127.0.0.1", proxy.port), timeout=_SECONDS) as connection,
    ):
        connection.sendall(b"0123456789")
        assert proxy.struck.wait(_SECONDS)
        assert connection.recv(10) == b"0123"
        connection.settimeout(0.2)
        with pytest.raises(TimeoutError):
            connection.recv(10)


def test_a_flood_goes_on_until_the_other_end_lets_go() -> None:
    taken = 0
    with (
        socket.create_server(("127.0.0.1", 0)) as listening,
        Proxy(listening.getsockname()[1], Fault(act=Act.FLOOD, after=1)) as proxy,
        socket.create_connection(("127.0.0.1", proxy.port), timeout=_SECONDS) as connection,
    ):
        connection.sendall(b"01")
        accepted, _ = listening.accept()
        with accepted:
            while taken < 10_000_000:
                taken += len(accepted.recv(1_000_000))
        assert connection.recv(1) == b""
        assert proxy.flooded >= taken - 100_000
