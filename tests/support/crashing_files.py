"""A folder in memory that loses power, kills whoever uses it, and fails at any operation one names.

It keeps apart what the system shows (``content``), and what the platter holds (``durable``). Operations that change
something are counted from 1: create, write, sync, rename, remove, sync_folder. ``crash_at`` cuts the power at one of
them, a write after ``crash_bytes`` bytes; ``fail_at`` makes it fail with an ``OSError``, before or after it took
effect.

A sync that fails drops what it should have written and calls it clean: the next sync of that file succeeds and proves
nothing, and readers still see the bytes. This is what Linux does.
"""

import errno
import os
from collections.abc import Callable
from typing import TypeAlias

from bobbin.store.wal.files import Appender, Reader

SECTOR = 512
SPACE = 1 << 40


class PowerCut(Exception):
    """The machine is down: what every call raises then."""


class Inode:
    """A file without its name."""

    def __init__(self, content: bytes = b"") -> None:
        self.content = bytearray(content)
        self.durable = bytearray(content)
        self.clean_to = len(content)
        """Bytes that the system believes to be on the platter."""

    def sync(self) -> None:
        self.durable.extend(bytes(self.clean_to - len(self.durable)))
        self.durable += self.content[self.clean_to :]
        self.clean_to = len(self.content)


Survival: TypeAlias = Callable[[Inode], bytes]
"""What is left of a file after a power cut."""


def nothing(inode: Inode) -> bytes:
    """Only what was synced."""
    return bytes(inode.durable)


def everything(inode: Inode) -> bytes:
    """All that was ever written, although nobody asked for it."""
    return bytes(inode.content)


def beginning(size: int) -> Survival:
    """What was synced, and so many bytes more."""
    return lambda inode: bytes(inode.content[: len(inode.durable) + size])


def holes(which: int) -> Survival:
    """The full size, but of what was not synced only the sectors whose bit is set in ``which``."""

    def survivor(inode: Inode) -> bytes:
        found = bytearray(inode.content)
        for sector in range(len(inode.durable) // SECTOR, len(found) // SECTOR + 1):
            if not which >> (sector % 16) & 1:
                start, end = max(sector * SECTOR, len(inode.durable)), min((sector + 1) * SECTOR, len(found))
                found[start:end] = bytes(max(end - start, 0))
        return bytes(found)

    return survivor


class CrashingFiles:
    """One folder."""

    def __init__(self) -> None:
        self.inodes: dict[str, Inode] = {}
        self.durable_inodes: dict[str, Inode] = {}
        self.operations = 0
        self.log: list[str] = []
        """What was done, by kind and name."""
        self.crash_at: int | None = None
        self.crash_bytes = 0
        self.fail_at: dict[int, int] = {}
        """Which operations fail, and how (an ``errno``)."""
        self.fails_after = False
        """Whether a failing operation has taken effect all the same; a write by half."""
        self.free = SPACE
        self.is_down = False

    def restarted(self) -> "CrashingFiles":
        """The process was killed, and the machine was not: everything is as the system shows it."""
        other = CrashingFiles()
        other.inodes = dict(self.inodes)
        other.durable_inodes = dict(self.durable_inodes)
        self.is_down = True
        return other

    def after_power_cut(self, survival: Survival = nothing, *, names_durable: bool = True) -> "CrashingFiles":
        """What the machine finds when it starts again; the names that were synced, or all that were given."""
        other = CrashingFiles()
        kept = self.durable_inodes if names_durable else self.inodes
        other.inodes = {name: Inode(survival(inode)) for name, inode in kept.items()}
        other.durable_inodes = dict(other.inodes)
        self.is_down = True
        return other

    def names(self) -> list[str]:
        self._check_up()
        return sorted(self.inodes)

    def open(self, name: str) -> Reader:
        self._check_up()
        return _Reader(self, self._inode(name))

    def create(self, name: str) -> Appender:
        if name in self.inodes:
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), name)
        inode = Inode()
        self.change("create", name, lambda: self.inodes.__setitem__(name, inode))
        return _Appender(self, inode, name)

    def rename(self, old: str, new: str) -> None:
        inode = self._inode(old)

        def renamed() -> None:
            self.inodes[new] = inode
            del self.inodes[old]

        self.change("rename", new, renamed)

    def remove(self, name: str) -> None:
        self._inode(name)
        self.change("remove", name, lambda: self.inodes.__delitem__(name))

    def sync_folder(self) -> None:
        def synced() -> None:
            self.durable_inodes = dict(self.inodes)

        self.change("sync_folder", "", synced)

    def free_bytes(self) -> int:
        self._check_up()
        return self.free

    def close(self) -> None:
        pass

    def change(
        self, kind: str, name: str, effect: Callable[[], None], in_part: Callable[[], None] | None = None
    ) -> None:
        """Do something that changes a file or the folder; or lose power, or fail, if this is the moment."""
        self._check_up()
        self.operations += 1
        self.log.append(f"{kind} {name}".rstrip())
        if self.operations == self.crash_at:
            if in_part is not None:
                in_part()
            self.is_down = True
            raise PowerCut
        code = self.fail_at.get(self.operations)
        if code is not None:
            if self.fails_after:
                (in_part or effect)()
            raise OSError(code, os.strerror(code), name)
        effect()

    def _inode(self, name: str) -> Inode:
        inode = self.inodes.get(name)
        if inode is None:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), name)
        return inode

    def _check_up(self) -> None:
        if self.is_down:
            raise PowerCut


class _Appender:
    def __init__(self, files: CrashingFiles, inode: Inode, name: str) -> None:
        self._files = files
        self._inode = inode
        self._name = name

    def write(self, data: bytes) -> None:
        def in_part() -> None:
            part = self._files.crash_bytes if self._files.crash_at is not None else len(data) // 2
            self._inode.content.extend(data[:part])

        self._files.change("write", self._name, lambda: self._inode.content.extend(data), in_part)

    def sync(self) -> None:
        try:
            self._files.change("sync", self._name, self._inode.sync, lambda: None)
        except OSError:
            self._inode.clean_to = len(self._inode.content)
            raise

    def close(self) -> None:
        pass


class _Reader:
    def __init__(self, files: CrashingFiles, inode: Inode) -> None:
        self._files = files
        self._inode = inode

    def size(self) -> int:
        return len(self._inode.content)

    def read(self, offset: int, size: int) -> bytes:
        return bytes(self._inode.content[offset : offset + size])

    def close(self) -> None:
        pass
