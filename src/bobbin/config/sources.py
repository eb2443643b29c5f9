"""The files that one configuration is made of, read once each, with what it takes to notice that one has changed.

A configuration is a file that names others: peers, policies. ``Sources`` remembers every file that was looked at while
it was read, also those that were missing or could not be used, so that mending one of them is noticed, too.
"""

import os
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from blake3 import blake3
from msgspec import Struct

from bobbin.errors import UsageError

FILE_BYTES_MAX: Final = 16 * 1024 * 1024
"""Far more than a configuration or a policy has."""


class UnusableFile(UsageError):
    """A file that a configuration consists of is missing, cannot be read or cannot be trusted."""


class MissingFile(UnusableFile):
    """There is no such file."""


class Stamp(Struct, frozen=True):
    """What the file system says of a file. Where two are equal, the content is taken to be the same."""

    modified_ns: int
    changed_ns: int
    size: int
    inode: int


class Seen(Struct, frozen=True, kw_only=True):
    """One file as it was when it was read."""

    stamp: Stamp | None
    """None if there was no file."""
    digest: bytes | None
    """None if nothing could be read."""


class Sources:
    """The files of one reading."""

    def __init__(self) -> None:
        self._seen: Final[dict[Path, Seen]] = {}
        self._content: Final[dict[Path, bytes]] = {}

    @property
    def seen(self) -> Mapping[Path, Seen]:
        """Every file that was asked for."""
        return self._seen

    def read(self, path: Path) -> bytes:
        """The content of a file; the same however often it is asked for. Raises ``UnusableFile``."""
        if path not in self._content:
            # Noted first, so that a file that changes while it is read counts as changed afterwards.
            before = stamp(path)
            self._seen[path] = Seen(stamp=before, digest=None)
            content = self._content[path] = _read(path)
            self._seen[path] = Seen(stamp=before, digest=digest(content))
        return self._content[path]


def stamp(path: Path) -> Stamp | None:
    """What the file system says of a file now; None if it is not there or out of reach."""
    try:
        status = path.stat()
    except (OSError, ValueError):
        return None
    return Stamp(status.st_mtime_ns, status.st_ctime_ns, status.st_size, status.st_ino)


def digest(content: bytes) -> bytes:
    """What stands for some content in a comparison."""
    return blake3(content).digest()


def current_digest(path: Path) -> bytes | None:
    """Of the content that a file has now; None if it cannot be read."""
    try:
        return digest(_read(path))
    except UnusableFile:
        return None


def _read(path: Path) -> bytes:
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except FileNotFoundError as error:
        raise MissingFile(f"there is no file {path}") from error
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        raise UnusableFile(f"{path} cannot be read: {reason}") from error
    try:
        _check(path, os.fstat(descriptor))
        with os.fdopen(descriptor, "rb", closefd=False) as stream:
            content = stream.read(FILE_BYTES_MAX + 1)
    except OSError as error:
        raise UnusableFile(f"{path} cannot be read: {error.strerror}") from error
    finally:
        os.close(descriptor)
    if len(content) > FILE_BYTES_MAX:
        raise UnusableFile(f"{path} is larger than {FILE_BYTES_MAX:,} bytes")
    return content


def _check(path: Path, status: os.stat_result) -> None:
    if not stat.S_ISREG(status.st_mode):
        raise UnusableFile(f"{path} is not a regular file")
    if status.st_mode & stat.S_IWOTH:
        # Who may change this file decides who gets the records.
        raise UnusableFile(f"{path} can be written by everyone, so it is not used; mend it with: chmod o-w {path}")
