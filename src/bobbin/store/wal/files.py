"""What a log needs of a file system: one folder, files that only grow, names that change at one moment.

A file is created empty, written from its beginning to its end, and never written again once its handle is closed.
Nothing is truncated or overwritten in place. What survives a power cut:

* of a file, everything written before the last ``sync`` that returned; of what was written after it, any part: nothing,
  all, a beginning, or a stretch with holes that read as zeros;
* of the folder, every ``create``, ``rename`` and ``remove`` before the last ``sync_folder`` that returned, and any part
  of the later ones; a ``rename`` is there or it is not, and whatever had the new name before is there instead.

Every method raises ``OSError`` when the system fails, and nothing else; the state of what it touched is unknown then.
After a failed ``sync`` the same handle may report success without having written anything: whoever uses it must not
try again, but write a new file.
"""

import fcntl
import os
from pathlib import Path
from typing import Final, Protocol

from bobbin.errors import ResourceError

_AT_ONCE: Final = 1 << 30
"""The most that one call of the system reads or writes; Linux stops a little below 2 GB."""


class Appender(Protocol):
    """A file that is being written. The handle stays with its file when the file gets another name."""

    def write(self, data: bytes) -> None:
        """Put all of it at the end. When it fails, any part of it may be there."""
        ...

    def sync(self) -> None:
        """Make everything written so far durable, the size of the file included. The name is the folder's affair."""
        ...

    def close(self) -> None:
        """Give the handle back; a second time does nothing. What was not synced is not durable."""
        ...


class Reader(Protocol):
    """A file that is being read. It stays readable when the file is removed or another takes its name."""

    def size(self) -> int:
        """Bytes in the file."""
        ...

    def read(self, offset: int, size: int) -> bytes:
        """So many bytes from there, fewer where the file ends."""
        ...

    def close(self) -> None:
        """Give the handle back; a second time does nothing."""
        ...


class Files(Protocol):
    """One folder. Names are plain: no slash, nothing above or below."""

    def names(self) -> list[str]:
        """Of the files that are there, ascending."""
        ...

    def open(self, name: str) -> Reader:
        """A file for reading. ``FileNotFoundError`` if there is none."""
        ...

    def create(self, name: str) -> Appender:
        """A new, empty file. ``FileExistsError`` if there is one."""
        ...

    def rename(self, old: str, new: str) -> None:
        """At one moment the file has the new name, and whatever had it before is gone."""
        ...

    def remove(self, name: str) -> None:
        """The name is gone. ``FileNotFoundError`` if there was none."""
        ...

    def sync_folder(self) -> None:
        """Make the names durable as they are."""
        ...

    def free_bytes(self) -> int:
        """How much more the file system would take."""
        ...

    def close(self) -> None:
        """Let go of the folder; a second time does nothing."""
        ...


class _RealAppender:
    """A file descriptor that writes at the end."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    def write(self, data: bytes) -> None:
        """Put all of it at the end."""
        written = os.write(self._descriptor, data) if len(data) <= _AT_ONCE else 0
        if written < len(data):
            rest = memoryview(data)[written:]
            while rest:
                rest = rest[os.write(self._descriptor, rest[:_AT_ONCE]) :]

    def sync(self) -> None:
        """Make bytes and size durable. Times of access and change are of no use to anybody and stay behind."""
        _sync_data(self._descriptor)

    def close(self) -> None:
        """Give the handle back."""
        if self._descriptor >= 0:
            descriptor, self._descriptor = self._descriptor, -1
            os.close(descriptor)


class _RealReader:
    """A file descriptor that reads anywhere."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    def size(self) -> int:
        """Bytes in the file."""
        return os.fstat(self._descriptor).st_size

    def read(self, offset: int, size: int) -> bytes:
        """So many bytes from there."""
        data = os.pread(self._descriptor, min(size, _AT_ONCE), offset)
        if len(data) == size or not data:
            return data
        parts = [data]
        size -= len(data)
        offset += len(data)
        while size > 0 and (data := os.pread(self._descriptor, min(size, _AT_ONCE), offset)):
            parts.append(data)
            size -= len(data)
            offset += len(data)
        return b"".join(parts)

    def close(self) -> None:
        """Give the handle back."""
        if self._descriptor >= 0:
            descriptor, self._descriptor = self._descriptor, -1
            os.close(descriptor)


class RealFiles:
    """A folder of this machine, held by one process at a time.

    Folders that are missing are made, durably. The hold is a lock on the folder itself: it ends with the process.
    """

    def __init__(self, folder: Path) -> None:
        self._folder: Final = folder.absolute()
        _make_durably(self._folder)
        self._descriptor = os.open(self._folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            self.close()
            raise ResourceError(f"the folder {self._folder} is in use by another process", retry=True) from None

    def __repr__(self) -> str:
        return str(self._folder)

    def names(self) -> list[str]:
        """Of the files that are there."""
        with os.scandir(self._descriptor) as entries:
            return sorted(entry.name for entry in entries if entry.is_file(follow_symlinks=False))

    def open(self, name: str) -> Reader:
        """A file for reading."""
        return _RealReader(self._opened(name, os.O_RDONLY))

    def create(self, name: str) -> Appender:
        """A new, empty file, for the owner's eyes only."""
        return _RealAppender(self._opened(name, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_EXCL))

    def rename(self, old: str, new: str) -> None:
        """At one moment the file has the new name."""
        os.rename(old, new, src_dir_fd=self._descriptor, dst_dir_fd=self._descriptor)

    def remove(self, name: str) -> None:
        """The name is gone."""
        os.unlink(name, dir_fd=self._descriptor)

    def sync_folder(self) -> None:
        """Make the names durable."""
        os.fsync(self._descriptor)

    def free_bytes(self) -> int:
        """What is left for those who are not root."""
        found = os.fstatvfs(self._descriptor)
        return found.f_bavail * found.f_frsize

    def close(self) -> None:
        """Let go of the folder."""
        if self._descriptor >= 0:
            descriptor, self._descriptor = self._descriptor, -1
            os.close(descriptor)

    def _opened(self, name: str, flags: int) -> int:
        assert "/" not in name, name
        return os.open(name, flags | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600, dir_fd=self._descriptor)


def _make_durably(folder: Path) -> None:
    """Each new name is made durable in the folder that lists it."""
    missing = [part for part in (folder, *folder.parents) if not part.exists()]
    for part in reversed(missing):
        part.mkdir(mode=0o700, exist_ok=True)
        descriptor = os.open(part.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


_sync_data: Final = getattr(os, "fdatasync", os.fsync)
"""Not every system has the cheaper call."""
