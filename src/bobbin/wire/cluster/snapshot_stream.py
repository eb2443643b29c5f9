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
whole stream, which are known only at its end; until then the store holds it (``store.wal.spool``).
"""

from collections.abc import Iterable, Iterator
from struct import Struct as Layout
from typing import Final

from bobbin.cluster.state_machine import Capture
from bobbin.errors import IntegrityError, UsageError

MAGIC: Final = b"SNAP"
VERSION: Final = 1
ENTRY_BYTES_MAX: Final = 100 * 1_048_576
PIECE_BYTES: Final = 65_536
"""About so much is written at once."""
_HEAD: Final = Layout("<4sIQ")
_LENGTH: Final = Layout("<I")


def encode(capture: Capture) -> Iterator[bytes]:
    """The stream of a captured state, in pieces."""
    # Asked once: a capture that is read to its end has let go of its moment, and would tell of another one.
    announced = len(capture)
    pieces = [_HEAD.pack(MAGIC, VERSION, announced)]
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
    assert count == announced, "a capture has as many entries as it says"
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
