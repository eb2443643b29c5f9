"""The bytes of a snapshot: a head of 16 bytes, then every entry with its length before it.

======  =======================================================
bytes   what they are
======  =======================================================
4       ``SNAP``
4       the version, 1; little end first, like all numbers here
8       how many entries follow
4 + n   of each entry: its length, and as many bytes
======  =======================================================

The stream is written from a capture of the state and read entry by entry, so neither side needs all of it at once. A
length is looked at before any room is made for what it announces. The metadata of a snapshot tells hash and size of the
whole stream, which are known only at its end: ``SnapshotBuffer`` holds it until then, in memory as long as it is small.
"""

from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from hashlib import sha256
from struct import Struct as Layout
from types import TracebackType
from typing import BinaryIO, Final, Self

from bobbin.cluster.state_machine import Capture
from bobbin.errors import IntegrityError, ResourceError, UsageError

MAGIC: Final = b"SNAP"
VERSION: Final = 1
ENTRY_BYTES_MAX: Final = 100 * 1_048_576
PIECE_BYTES: Final = 65_536
"""About so much is written at once."""
_HEAD: Final = Layout("<4sIQ")
_LENGTH: Final = Layout("<I")


def encode(capture: Capture) -> Iterator[bytes]:
    """The stream of a captured state, in pieces."""
    pieces = [_HEAD.pack(MAGIC, VERSION, len(capture))]
    held = _HEAD.size
    count = 0
    for entry in capture:
        if len(entry) > ENTRY_BYTES_MAX:
            raise UsageError(f"an entry of a snapshot has at most {ENTRY_BYTES_MAX} bytes, not {len(entry)}")
        count += 1
        pieces += (_LENGTH.pack(len(entry)), entry)
        held += _LENGTH.size + len(entry)
        if held >= PIECE_BYTES:
            yield b"".join(pieces)
            pieces, held = [], 0
    assert count == len(capture), "a capture has as many entries as it says"
    if pieces:
        yield b"".join(pieces)


class SnapshotReader:
    """Takes the stream in pieces of any size and gives out its entries. After an error it is of no further use."""

    def __init__(self) -> None:
        self.entries_left: int | None = None
        """None before the head is whole."""
        self._waiting = bytearray()
        self._need = _HEAD.size
        """Bytes that must be there before anything can be read."""

    def feed(self, piece: bytes) -> list[bytes]:
        """The entries that this piece completes. ``IntegrityError`` for what is no snapshot."""
        waiting = self._waiting
        waiting += piece
        if len(waiting) < self._need:
            return []
        at = 0
        if self.entries_left is None:
            self.entries_left = _entry_count(waiting)
            at = _HEAD.size
        found = []
        self._need = 0
        while self.entries_left and not self._need:
            if len(waiting) - at < _LENGTH.size:
                self._need = _LENGTH.size
                break
            (length,) = _LENGTH.unpack_from(waiting, at)
            if length > ENTRY_BYTES_MAX:
                raise IntegrityError(f"an entry of a snapshot has at most {ENTRY_BYTES_MAX} bytes, not {length}")
            end = at + _LENGTH.size + length
            if len(waiting) < end:
                self._need = end - at
                break
            found.append(bytes(memoryview(waiting)[at + _LENGTH.size : end]))
            at = end
            self.entries_left -= 1
        if not self.entries_left and len(waiting) > at:
            raise IntegrityError("there are bytes after the last entry of a snapshot")
        del waiting[:at]
        return found

    def finish(self) -> None:
        """The stream is over. ``IntegrityError`` if it should have gone on."""
        if self.entries_left is None:
            raise IntegrityError("a snapshot ends within its head")
        if self.entries_left:
            raise IntegrityError(f"a snapshot ends {self.entries_left} entries too early")


def _entry_count(raw: bytearray) -> int:
    magic, version, count = _HEAD.unpack_from(raw)
    if magic != MAGIC:
        raise IntegrityError("this is no snapshot: it does not begin with SNAP")
    if version != VERSION:
        raise IntegrityError(f"a snapshot of version {version}; {VERSION} is known")
    assert isinstance(count, int), "the layout says so"
    return count


def decode(pieces: Iterable[bytes]) -> Iterator[bytes]:
    """The entries of a stream; ``IntegrityError`` as soon as it is seen not to be one, at its end at the latest."""
    reader = SnapshotReader()
    for piece in pieces:
        yield from reader.feed(piece)
    reader.finish()


class SnapshotBuffer:
    """Holds a stream while it is written: in memory up to a bound, then all of it in a file. Use it in ``with``.

    ``open_spill`` opens an empty file for writing and reading that is gone once it is closed, as
    ``tempfile.TemporaryFile`` does. ``ResourceError`` when the file fails; leaving ``with`` closes it in any case.
    """

    def __init__(self, memory_bytes_max: int, open_spill: Callable[[], BinaryIO]) -> None:
        self.size = 0
        self._hash = sha256()
        self._memory_bytes_max = memory_bytes_max
        self._open_spill = open_spill
        self._pieces: list[bytes] = []
        self._spill: BinaryIO | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @property
    def sha256(self) -> bytes:
        """Of what was written so far."""
        return self._hash.digest()

    @property
    def is_spilled(self) -> bool:
        return self._spill is not None

    def write(self, piece: bytes) -> None:
        """Add bytes at the end."""
        if self._spill is None and self.size + len(piece) > self._memory_bytes_max:
            self._move()
        if self._spill is None:
            self._pieces.append(piece)
        else:
            self._write(self._spill, piece)
        self._hash.update(piece)
        self.size += len(piece)

    def pieces(self) -> Iterator[bytes]:
        """All that was written, from the beginning."""
        if self._spill is None:
            yield from self._pieces
            return
        left = self.size
        try:
            self._spill.seek(0)
            while left and (piece := self._spill.read(min(PIECE_BYTES, left))):
                left -= len(piece)
                yield piece
        except OSError as error:
            raise ResourceError(f"the file of a snapshot cannot be read: {error}", retry=True) from error
        if left:
            raise ResourceError(f"the file of a snapshot is {left} bytes short", retry=True)

    def close(self) -> None:
        """Let go of everything."""
        self._pieces = []
        if self._spill is not None:
            # What could not be flushed is not wanted any more.
            with suppress(OSError):
                self._spill.close()
            self._spill = None

    def _move(self) -> None:
        try:
            spill = self._open_spill()
        except OSError as error:
            raise ResourceError(f"no file for a snapshot: {error}", retry=True) from error
        self._spill = spill
        for piece in self._pieces:
            self._write(spill, piece)
        self._pieces = []

    def _write(self, spill: BinaryIO, piece: bytes) -> None:
        try:
            spill.write(piece)
        except OSError as error:
            raise ResourceError(f"the file of a snapshot cannot be written: {error}", retry=True) from error
