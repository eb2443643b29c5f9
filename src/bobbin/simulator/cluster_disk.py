"""A folder that fails on purpose, in memory: the ``Files`` of a node's log and snapshots.

What a power cut leaves is what ``store/wal/files.py`` says, and no more. Of a file: everything that was synced, and of
the rest any part: nothing, all, a beginning that ends at any byte, or a stretch with holes; perhaps with a flipped bit
near its end. Of the names: everything before the last ``sync_folder``, and any selection of the later changes that
makes sense. After a sync that failed, later ones of the same file report success and do nothing.

Every operation that could change what survives is counted, so a world can cut the power at each of them in turn.
``PowerCut`` is no ``OSError``: a process without power handles nothing.
"""

import errno
from collections.abc import Callable
from random import Random
from typing import Final, TypeAlias

PAGE: Final = 512
"""Holes are of whole pages, counted from the beginning of the file."""
ROOMY: Final = 1 << 40
TIGHT: Final = 1 << 12
"""What is left of a full disk, by its own account."""


class PowerCut(Exception):
    """The simulated machine is down: what every call of its disk raises then."""


class _Inode:
    """The bytes of one file, wherever its name is."""

    __slots__ = ("data", "is_deaf", "synced")

    def __init__(self) -> None:
        self.data = bytearray()
        self.synced = 0
        """So many bytes survive."""
        self.is_deaf = False
        """A sync has failed; later ones do nothing and say nothing."""

    def surviving(self, random: Random, flip_rate: float) -> "_Inode":
        """Another one with any part of what was not synced; handles of the old one no longer reach it."""
        kept = _Inode()
        kept.data = data = self.data[:]
        rest = len(data) - self.synced
        draw = random.random() if rest else 1.0
        if draw < 0.25:
            del data[self.synced :]
        elif draw < 0.85:
            del data[self.synced + random.randrange(rest + 1) :]
        if 0.65 <= draw < 0.85:
            for start in range(self.synced // PAGE * PAGE, len(data), PAGE):
                if random.random() < 0.5:
                    begin, end = max(start, self.synced), min(start + PAGE, len(data))
                    data[begin:end] = bytes(end - begin)
        if len(data) > self.synced and random.random() < flip_rate:
            at = random.randrange(max(self.synced, len(data) - PAGE), len(data))
            data[at] ^= 1 << random.randrange(8)
        kept.synced = len(data)
        return kept


_Change: TypeAlias = tuple[str, _Inode | None] | tuple[str, str]
"""A name that is given or gone, or a name that becomes another."""


class ClusterDisk:
    """The folder of one node. It stays when the node crashes; open handles do not."""

    def __init__(self, random: Random) -> None:
        self.error_rate = 0.0
        """Chance of an I/O error at one operation."""
        self.cut_rate = 0.0
        """Chance of a power cut at one operation."""
        self.flip_rate = 0.0
        """Chance that a bit of a torn end is flipped."""
        self.is_full = False
        self.cut_in: int | None = None
        """So many operations until the power is cut."""
        self.fail_in: int | None = None
        """So many operations until one fails."""
        self.is_down = False
        self.operations = 0
        self.errors = 0
        self.cuts = 0
        self._random: Final = random
        self._names: dict[str, _Inode] = {}
        self._durable_names: dict[str, _Inode] = {}
        self._changes: list[_Change] = []
        """Of names, since the last ``sync_folder``."""

    # ---- the folder, as ``Files`` ---------------------------------------------------------------------------------

    def names(self) -> list[str]:
        """Of the files that are there."""
        self._fail_when_down()
        return sorted(self._names)

    def open(self, name: str) -> "_MemoryReader":
        """A file for reading."""
        self._fail_when_down()
        if name not in self._names:
            raise FileNotFoundError(errno.ENOENT, name)
        return _MemoryReader(self, self._names[name])

    def create(self, name: str) -> "_MemoryAppender":
        """A new, empty file."""
        self._before(takes_room=True)
        if name in self._names:
            raise FileExistsError(errno.EEXIST, name)
        inode = _Inode()
        self._change((name, inode))
        return _MemoryAppender(self, inode)

    def rename(self, old: str, new: str) -> None:
        """At one moment the file has the new name."""
        self._before()
        if old not in self._names:
            raise FileNotFoundError(errno.ENOENT, old)
        self._change((old, new))

    def remove(self, name: str) -> None:
        """The name is gone."""
        self._before()
        if name not in self._names:
            raise FileNotFoundError(errno.ENOENT, name)
        self._change((name, None))

    def sync_folder(self) -> None:
        """Make the names durable."""
        self._before()
        self._durable_names = dict(self._names)
        self._changes.clear()

    def free_bytes(self) -> int:
        """Plenty, or nearly nothing."""
        self._fail_when_down()
        return TIGHT if self.is_full else ROOMY

    def close(self) -> None:
        """Nothing is held."""

    # ---- what happens to it ---------------------------------------------------------------------------------------

    def cut_power(self) -> None:
        """Every later call fails until ``restore_power``; what survives is settled now."""
        assert not self.is_down, "there is no power to cut"
        self.is_down = True
        self.cuts += 1
        self.cut_in = None
        names = dict(self._durable_names)
        kept = self._changes[: self._random.randrange(len(self._changes) + 1)]
        if self._random.random() < 0.3:
            kept = [change for change in self._changes if self._random.random() < 0.5]
        for change in kept:
            _apply(names, change)
        names = {name: names[name].surviving(self._random, self.flip_rate) for name in sorted(names)}
        self._names, self._durable_names = names, dict(names)
        self._changes.clear()

    def rot(self) -> Callable[[], None] | None:
        """Flip one bit of what survives, in any file; the way back. None where there is nothing to flip."""
        files = [name for name in sorted(self._names) if self._names[name].data]
        if not files:
            return None
        data = self._names[self._random.choice(files)].data
        at, bit = self._random.randrange(len(data)), 1 << self._random.randrange(8)

        def flip() -> None:
            data[at] ^= bit

        flip()
        return flip

    def restore_power(self) -> None:
        """A node may open the folder again."""
        self.is_down = False

    def _before(self, *, takes_room: bool = False) -> None:
        """Called before anything is changed: pass, fail, or go down."""
        self._fail_when_down()
        self.operations += 1
        if self.cut_in is not None:
            self.cut_in -= 1
        if self.cut_in == 0 or (self.cut_rate and self._random.random() < self.cut_rate):
            self.cut_power()
            raise PowerCut
        if self.fail_in is not None:
            self.fail_in -= 1
        if takes_room and self.is_full:
            self.errors += 1
            raise OSError(errno.ENOSPC, "no space left on the simulated device")
        if self.fail_in == 0 or (self.error_rate and self._random.random() < self.error_rate):
            self.errors += 1
            raise OSError(errno.EIO, "simulated I/O error")

    def _fail_when_down(self) -> None:
        if self.is_down:
            raise PowerCut

    def _change(self, change: _Change) -> None:
        _apply(self._names, change)
        self._changes.append(change)

    # ---- files ----------------------------------------------------------------------------------------------------

    def write(self, inode: _Inode, data: bytes) -> None:
        """At the end of a file; of a write that fails any beginning may be there."""
        try:
            self._before(takes_room=True)
        except OSError:
            inode.data += data[: self._random.randrange(len(data) + 1)]
            raise
        inode.data += data

    def sync(self, inode: _Inode) -> None:
        """Make a file durable, unless an earlier sync of it has failed."""
        try:
            self._before()
        except OSError:
            inode.is_deaf = True
            raise
        if not inode.is_deaf:
            inode.synced = len(inode.data)

    def read(self, inode: _Inode, offset: int, size: int) -> bytes:
        """Bytes of a file, synced or not."""
        self._fail_when_down()
        return bytes(inode.data[offset : offset + size])


def _apply(names: dict[str, _Inode], change: _Change) -> None:
    """A change of names; one that has no ground, since what it rests on was lost, does nothing."""
    name, other = change
    if isinstance(other, str):
        if name in names:
            names[other] = names.pop(name)
    elif other is None:
        names.pop(name, None)
    else:
        names[name] = other


class _MemoryAppender:
    """A file that is being written."""

    def __init__(self, disk: ClusterDisk, inode: _Inode) -> None:
        self._disk: Final = disk
        self._inode: Final = inode

    def write(self, data: bytes) -> None:
        """Put all of it at the end."""
        self._disk.write(self._inode, data)

    def sync(self) -> None:
        """Make it durable."""
        self._disk.sync(self._inode)

    def close(self) -> None:
        """Nothing is held."""


class _MemoryReader:
    """A file that is being read."""

    def __init__(self, disk: ClusterDisk, inode: _Inode) -> None:
        self._disk: Final = disk
        self._inode: Final = inode

    def size(self) -> int:
        """Bytes in the file."""
        return len(self._inode.data)

    def read(self, offset: int, size: int) -> bytes:
        """So many bytes from there."""
        return self._disk.read(self._inode, offset, size)

    def close(self) -> None:
        """Nothing is held."""
