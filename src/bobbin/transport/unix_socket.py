"""Unix sockets: a file that only its owner can use, and that stands for one living server.

A server that was killed leaves its file behind. A new one takes the place only when nobody answers there; two that
start at the same moment are kept apart by a lock on the folder, held while the file is looked at and made.
"""

import errno
import fcntl
import os
import socket
import stat
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from bobbin.transport.base import TransportError

_CREDENTIALS: Final = struct.Struct("iII")
"""Process, user and group, as Linux gives them."""


class SocketFile:
    """A socket that listens, and the file it is reached by."""

    def __init__(self, path: Path, listening: socket.socket) -> None:
        self.path: Final = path
        self.listening: Final = listening
        self._identity = _identity(path)

    def remove(self) -> None:
        """Take the file away, unless another server has put its own in the place.

        Called while the socket is still open: only until then is no other file given the same number.
        """
        try:
            if _identity(self.path) == self._identity:
                self.path.unlink()
        except OSError:
            # It is gone, or was made unreachable by somebody who may.
            return


def bind(path: Path, *, backlog: int) -> SocketFile:
    """Listen on a file. Raises ``TransportError`` where somebody else does, and ``OSError``."""
    listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        listening.settimeout(0)
        with _locked(path.parent):
            try:
                listening.bind(os.fspath(path))
            except OSError as error:
                if error.errno != errno.EADDRINUSE:
                    raise
                _remove_stale(path)
                listening.bind(os.fspath(path))
            # Nobody can connect before the socket listens, so nobody has been let in by a wider mode.
            path.chmod(0o600)
            listening.listen(backlog)
        return SocketFile(path, listening)
    except BaseException:
        listening.close()
        raise


def describe(connection: socket.socket) -> str:
    """The process at the other end, where the system tells."""
    option = getattr(socket, "SO_PEERCRED", None)
    if option is None:
        return "a local process"
    try:
        found = connection.getsockopt(socket.SOL_SOCKET, option, _CREDENTIALS.size)
    except OSError:
        return "a local process"
    process, user, _ = _CREDENTIALS.unpack(found)
    return f"process {process} of user {user}"


def _remove_stale(path: Path) -> None:
    if not stat.S_ISSOCK(path.lstat().st_mode):
        raise TransportError("there is a file of this name that is no socket", retry=False)
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.settimeout(0)
        found = probe.connect_ex(os.fspath(path))
    if found != errno.ECONNREFUSED:
        # Connected, or its queue is full, or it is another user's: somebody is there.
        raise TransportError("something else listens there already", retry=True)
    path.unlink()


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise TransportError("another process is about to listen in this folder", retry=True) from error
        yield
    finally:
        os.close(descriptor)


def _identity(path: Path) -> tuple[int, int]:
    found = path.lstat()
    return found.st_dev, found.st_ino
