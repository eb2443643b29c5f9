"""A disk that fails on purpose, behind SQLite's VFS interface.

The files are real ones in a folder of their own: what SQLite has written, whether or not it would survive. Beside each
file the disk keeps what is *durable*, and the list of changes since. ``sync`` makes those durable. ``crash`` is a
power cut: of the pending changes of each file an arbitrary part has reached the platter, the last of them perhaps torn
at a sector. From then on every call fails, until ``restart`` leaves in the folder what the platter holds.

Faults are drawn from the ``Random`` that comes in, so one seed is one history:

* an I/O error or a full disk at any write, sync or truncation;
* a power cut at any write, sync or truncation.

A program may order its writes only by sync; a store that survives here survives what a real disk does.
"""

from pathlib import Path
from random import Random
from typing import Final, TypeAlias

import apsw

SECTOR: Final = 512

_Change: TypeAlias = tuple[int, bytes] | int
"""A write (offset and bytes) or a truncation (size)."""


class PowerCut(apsw.IOError):
    """The simulated machine is down: what every call of the disk raises then."""


class _Platter:
    """What of one file would survive, and what is on its way."""

    __slots__ = ("durable", "pending")

    def __init__(self, content: bytes) -> None:
        self.durable = bytearray(content)
        self.pending: list[_Change] = []

    def sync(self) -> None:
        for change in self.pending:
            _apply(self.durable, change)
        self.pending.clear()

    def lose_power(self, random: Random) -> None:
        """Keep an arbitrary part of what was pending: any selection, since only a sync orders writes."""
        if random.random() < 0.5:
            kept = [change for change in self.pending if random.random() < 0.5]
        else:
            kept = self.pending[: random.randrange(len(self.pending) + 1)]
        if kept and isinstance(kept[-1], tuple) and random.random() < 0.5:
            offset, data = kept[-1]
            kept[-1] = (offset, data[: random.randrange(len(data) // SECTOR + 1) * SECTOR])
        for change in kept:
            _apply(self.durable, change)
        self.pending.clear()


def _apply(image: bytearray, change: _Change) -> None:
    if isinstance(change, int):
        del image[change:]
        return
    offset, data = change
    if len(image) < offset:
        image.extend(bytes(offset - len(image)))
    image[offset : offset + len(data)] = data


class FaultyDisk(apsw.VFS):
    """A VFS under its own name, for the databases of one folder."""

    def __init__(self, name: str, random: Random) -> None:
        self.name: Final = name
        self.error_rate = 0.0
        """Chance of an I/O error or a full disk at one change."""
        self.crash_rate = 0.0
        """Chance of a power cut at one change."""
        self.down = False
        self.errors = 0
        self.crashes = 0
        self._random = random
        self._platters: dict[str, _Platter] = {}
        super().__init__(name, base="")

    def xOpen(self, name: str | apsw.URIFilename | None, flags: list[int]) -> apsw.VFSFile:
        """Open a file. Temporary files, which have no name, and shared memory are nobody's promise."""
        self.fail_when_down()
        path = name.filename() if isinstance(name, apsw.URIFilename) else name
        if path is None:
            return apsw.VFSFile("", name, flags)
        file = Path(path)
        if path not in self._platters:
            self._platters[path] = _Platter(file.read_bytes() if file.exists() else b"")
        return _File(self, self._platters[path], name, flags)

    def xDelete(self, filename: str, syncdir: bool) -> None:  # noqa: FBT001 (SQLite's interface)
        """Delete a file; the folder's own entry is taken to be durable."""
        self.fail_when_down()
        super().xDelete(filename, syncdir)
        self._platters.pop(filename, None)

    def fail_when_down(self) -> None:
        """Nothing answers without power."""
        if self.down:
            raise PowerCut

    def before_change(self) -> None:
        """Called before anything is changed: pass, fail, or go down."""
        self.fail_when_down()
        if self._random.random() < self.crash_rate:
            self.crash()
            raise PowerCut
        if self._random.random() < self.error_rate:
            self.errors += 1
            raise apsw.FullError("disk full") if self._random.random() < 0.5 else apsw.IOError("I/O error")

    def crash(self) -> None:
        """Cut the power. Every later call fails until ``restart``."""
        self.crashes += 1
        self.down = True
        for path in sorted(self._platters):
            self._platters[path].lose_power(self._random)

    def restart(self) -> None:
        """Power is back: the files are what the platter held. Connections from before must be closed."""
        if self.down:
            for path, platter in self._platters.items():
                Path(path).write_bytes(platter.durable)
                Path(path.removesuffix("-wal") + "-shm").unlink(missing_ok=True)
        self._platters.clear()
        self.down = False


class _File(apsw.VFSFile):
    """An open file that is watched. Reading and locking are the real file's."""

    def __init__(
        self, disk: FaultyDisk, platter: _Platter, name: str | apsw.URIFilename | None, flags: list[int]
    ) -> None:
        super().__init__("", name, flags)
        self._disk = disk
        self._platter = platter

    def xRead(self, amount: int, offset: int) -> bytes:
        self._disk.fail_when_down()
        return super().xRead(amount, offset)

    def xWrite(self, data: bytes, offset: int) -> None:
        self._disk.before_change()
        super().xWrite(data, offset)
        self._platter.pending.append((offset, bytes(data)))

    def xTruncate(self, newsize: int) -> None:
        self._disk.before_change()
        super().xTruncate(newsize)
        self._platter.pending.append(newsize)

    def xSync(self, flags: int) -> None:  # noqa: ARG002 (the platter is simulated; a real sync only costs time)
        self._disk.before_change()
        self._platter.sync()
