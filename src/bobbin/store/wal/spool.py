"""Bytes on their way into a file: in memory while they are few, then in a temporary file, hashed as they come.

However it ends, nothing temporary stays: ``keep`` gives the bytes a name of their own, durably; ``drop`` forgets them,
and so does every failure.
"""

from contextlib import suppress
from hashlib import sha256
from typing import Final

from bobbin.store.wal.faults import free_for, translated
from bobbin.store.wal.files import Appender, Files
from bobbin.store.wal.replacing import TEMPORARY, created_anew, remove_quietly, written_whole


class Spool:
    """One stream of bytes. After a failure or ``drop`` it is empty, and takes no more."""

    def __init__(self, files: Files, name: str, *, memory_max: int, free_bytes_min: int) -> None:
        self.size = 0
        """Bytes taken."""
        self._files: Final = files
        self._temporary: Final = name + TEMPORARY
        self._memory_max: Final = memory_max
        self._free_bytes_min: Final = free_bytes_min
        self._held: list[bytes] = []
        """Empty once there is a file."""
        self._appender: Appender | None = None
        self._hash = sha256()
        self._is_open = True

    def digest(self) -> bytes:
        """The SHA-256 of what was taken."""
        return self._hash.digest()

    def write(self, data: bytes) -> None:
        """Take bytes. When this fails, everything taken is gone."""
        assert self._is_open
        try:
            with translated("writing a snapshot"):
                self._write(data)
        except BaseException:
            self.drop()
            raise
        self._hash.update(data)
        self.size += len(data)

    def keep(self, name: str, footer: bytes) -> None:
        """Put what was taken, and a footer, durably into a file of this name."""
        assert self._is_open
        try:
            with translated("keeping a snapshot"):
                self._keep(name, footer)
        except BaseException:
            self.drop()
            raise
        self._is_open = False
        self._held.clear()

    def drop(self) -> None:
        """Forget everything. A second time, or after ``keep``, this does nothing."""
        if not self._is_open:
            return
        self._is_open = False
        self._held.clear()
        self.size = 0
        if self._appender is not None:
            with suppress(OSError):
                self._appender.close()
            remove_quietly(self._files, self._temporary)

    def _write(self, data: bytes) -> None:
        if self._appender is None:
            if self.size + len(data) <= self._memory_max:
                self._held.append(data)
                return
            free_for(self._files.free_bytes(), self.size + len(data), self._free_bytes_min)
            self._appender = created_anew(self._files, self._temporary)
            held, self._held = self._held, []
            for piece in held:
                self._appender.write(piece)
        else:
            free_for(self._files.free_bytes(), len(data), self._free_bytes_min)
        self._appender.write(data)

    def _keep(self, name: str, footer: bytes) -> None:
        if self._appender is None:
            free_for(self._files.free_bytes(), self.size + len(footer), self._free_bytes_min)
            written_whole(self._files, name, [*self._held, footer]).close()
            return
        self._appender.write(footer)
        self._appender.sync()
        self._appender.close()
        self._files.rename(self._temporary, name)
        self._files.sync_folder()
