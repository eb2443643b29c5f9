"""Socket files: private, one living server each, gone when it is."""

import fcntl
import os
import socket
import stat
from pathlib import Path

import pytest

from bobbin.transport import unix_socket
from bobbin.transport.base import TransportError


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "node.sock"


def _stale(path: Path) -> None:
    """The file of a server that was killed."""
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(os.fspath(path))
        dead.listen(1)


def test_only_its_owner_can_connect(path: Path) -> None:
    file = unix_socket.bind(path, backlog=1)
    with file.listening:
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        file.remove()
        assert not path.exists()
        file.remove()


def test_the_file_of_a_dead_server_is_replaced(path: Path) -> None:
    _stale(path)
    file = unix_socket.bind(path, backlog=1)
    with file.listening, socket.socket(socket.AF_UNIX) as client:
        client.connect(os.fspath(path))


def test_the_file_of_a_living_server_is_not(path: Path) -> None:
    living = unix_socket.bind(path, backlog=1)
    with living.listening:
        with pytest.raises(TransportError, match="listens there already") as found:
            unix_socket.bind(path, backlog=1)
        assert found.value.retry
        assert path.exists()


def test_a_server_whose_queue_is_full_lives(path: Path) -> None:
    living = unix_socket.bind(path, backlog=0)
    clients = [socket.socket(socket.AF_UNIX) for _ in range(4)]
    with living.listening:
        for client in clients:
            client.settimeout(0)
            client.connect_ex(os.fspath(path))
        with pytest.raises(TransportError, match="listens there already"):
            unix_socket.bind(path, backlog=1)
        for client in clients:
            client.close()


def test_another_kind_of_file_is_left_alone(path: Path) -> None:
    path.write_text("a diary")
    with pytest.raises(TransportError, match="is no socket") as found:
        unix_socket.bind(path, backlog=1)
    assert not found.value.retry
    assert path.read_text() == "a diary"


def test_the_file_of_a_successor_is_not_removed(path: Path) -> None:
    first = unix_socket.bind(path, backlog=1)
    path.unlink()
    second = unix_socket.bind(path, backlog=1)
    with first.listening, second.listening:
        first.remove()
        assert path.exists()


def test_two_that_start_at_once_are_kept_apart(path: Path) -> None:
    descriptor = os.open(path.parent, os.O_RDONLY)
    fcntl.flock(descriptor, fcntl.LOCK_EX)
    with pytest.raises(TransportError, match="about to listen"):
        unix_socket.bind(path, backlog=1)
    os.close(descriptor)
    unix_socket.bind(path, backlog=1).listening.close()


def test_the_process_at_the_other_end_is_named() -> None:
    one, other = socket.socketpair()
    with one, other:
        assert unix_socket.describe(one) == f"process {os.getpid()} of user {os.getuid()}"
    assert unix_socket.describe(one) == "a local process"
