"""One part of a file of JSON lines.

A line belongs to the part in whose range it begins. A line feed ends a line wherever it stands, so two parts that meet
agree about where: the one reads on to the first line feed at its end, the other begins after it. A part in whose range
no line begins looks no further than that: only one part reads a line to its end, however long it is.
"""

from collections.abc import Callable, Iterator
from typing import Final

from bobbin.records.bundle import Damage, Extent, Piece
from bobbin.runtime.lines import LineReader

_CHUNK_BYTES: Final = 1 << 20

ReadAt = Callable[[int, int], bytes]
"""So many bytes from an offset on, or fewer where the source ends."""


def read_lines(read: ReadAt, begin: int, end: int, *, chunk_bytes: int = _CHUNK_BYTES) -> Iterator[Piece]:
    """The pieces of the lines that begin in a range, with their offsets in the whole."""
    at = 0 if begin == 0 else _after_line_feed(read, begin - 1, end - 1, chunk_bytes)
    if at is None or at >= end:
        return
    start = at
    reader = LineReader()
    while chunk := read(at, chunk_bytes):
        # The last line that begins before the end is over at the first line feed from the byte before the end on.
        feed = chunk.find(b"\n", max(0, end - 1 - at))
        if feed >= 0 and at + feed >= end - 1:
            yield from _moved(reader.feed(chunk[: feed + 1]), start)
            return
        yield from _moved(reader.feed(chunk), start)
        at += len(chunk)
    yield from _moved(reader.finish(), start)


def _after_line_feed(read: ReadAt, at: int, until: int, chunk_bytes: int) -> int | None:
    """Where the first line begins whose line feed before it stands at ``at`` or later, but before ``until``."""
    while at < until and (chunk := read(at, min(chunk_bytes, until - at))):
        feed = chunk.find(b"\n")
        if feed >= 0:
            return at + feed + 1
        at += len(chunk)
    return None


def _moved(pieces: list[Piece], by: int) -> Iterator[Piece]:
    for piece in pieces:
        if isinstance(piece, Extent):
            yield Extent(raw=piece.raw, offset=piece.offset + by)
        elif isinstance(piece, Damage):
            yield Damage(raw=piece.raw, offset=piece.offset + by, reason=piece.reason, detail=piece.detail)
