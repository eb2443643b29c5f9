"""Asking a node over its socket: whatever answers, or does not, is said in words."""

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from bobbin.cli import node_client
from bobbin.cli.node_client import NoNode, ask_links
from bobbin.errors import ResourceError, UsageError
from tests.support.served import Served


@contextmanager
def _answering(folder: Path, answer: bytes | None) -> Iterator[None]:
    """Something at the socket that says this and closes; with None it says nothing until the end."""
    over = threading.Event()
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listening:
        listening.bind(str(folder / "node.sock"))
        listening.listen(1)

        def serve() -> None:
            connection, _ = listening.accept()
            with connection:
                connection.recv(1_000)
                if answer is None:
                    over.wait()
                else:
                    connection.sendall(answer)

        thread = threading.Thread(target=serve)
        thread.start()
        try:
            yield
        finally:
            over.set()
            thread.join()


def test_a_node_tells_about_itself(node: Served) -> None:
    status = ask_links(node.folder)
    assert (status.health, status.verifier, status.records, status.peers) == ("ok", node.verifier, 2, 1)
    assert set(status.listening) == set(node.addresses.values())


def test_no_node(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(NoNode, match="bobbin serve"):
        ask_links(folder)
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as gone:
        gone.bind(str(folder / "node.sock"))
    with pytest.raises(NoNode):
        ask_links(folder)
    with pytest.raises(UsageError, match="no lace"):
        ask_links(tmp_path)


@pytest.mark.parametrize(
    "answer",
    [b"", b"nonsense", b"HTTP/1.0 404 Not Found\r\n\r\n", b"HTTP/1.0 200 OK\r\n\r\n{}", b"HTTP/1.0 200 OK\r\n\r\n"],
)
def test_what_is_no_node(folder: Path, answer: bytes) -> None:
    with _answering(folder, answer), pytest.raises(ResourceError, match="no node of this version") as caught:
        ask_links(folder)
    assert not caught.value.retry


def test_a_node_that_does_not_answer(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(node_client, "_TIMEOUT_SECONDS", 0.05)
    with _answering(folder, None), pytest.raises(ResourceError, match="did not answer") as caught:
        ask_links(folder)
    assert caught.value.retry


def test_a_long_path_is_no_obstacle(tmp_path: Path) -> None:
    deep = tmp_path.joinpath(*["a-rather-long-name-of-a-folder"] * 5)
    deep.mkdir(parents=True)
    (deep / "lace.toml").touch()
    with pytest.raises(NoNode):
        ask_links(deep)
