"""Fact lines that go compressed, between sides that both know how (``interlace.capability``).

A long block of the advertise phase repeats itself: the same predicates, source and fields around one hash text after
the other. So its lines may travel as one raw deflate stream, which begins with a dictionary that both sides know. The
stream is cut into pieces, each an element of its own: ``🗜: <n>`` LF and n bytes. It ends before the phase does, and a
phase has such pieces or fact lines, never both.

Both ends work a piece at a time. What comes out is counted as fact lines are, so a few bytes that would become very
many end where a plain block of that size would; and the pieces themselves are counted too, so that there is no endless
stream of bytes that become nothing.
"""

import re
import zlib
from collections.abc import Iterable, Iterator
from itertools import chain
from typing import Final

from bobbin.facts.block import OversizedBlock
from bobbin.interlace.reasons import Abort, Reason

COMPRESSED_MARK: Final = "🗜".encode()
PIECE_BYTES_MAX: Final = 64 * 1024
HEAD: Final = re.compile(COMPRESSED_MARK + rb": ([1-9][0-9]{0,4})\n")
HEAD_BYTES_MAX: Final = len(COMPRESSED_MARK) + len(": 99999\n")

_PLAIN_MAX: Final = 32
"""A shorter block gains nothing."""
_WINDOW: Final = -15
"""A raw stream, with the largest window there is."""
_LEVEL: Final = 1
"""Of long blocks: higher ones take several times as long and save a fiftieth."""
_SHORT_LEVEL: Final = 9
_DICTIONARY: Final = (
    b"ReconcileRemoved('ReconcileAdded('ReconcileMore('ReconcileStretch('ReconcileProbe('ReconcileStanding('"
    b"NarrowAdvertisementPartition('')\nListAdvertisementPartition('')\nTickReady('')\nAdvertisementPartition('"
    b"','Name','0','Type','0','P','TAI','0','App','0','Group','0','')\nReconcileSupplied()\nReconcileLacking('"
    b"ReconcileSymbols('0','','V..H3')\nAdvertisedField('P..H3')\nAdvertised('P."
)
"""What both sides have seen before the first byte, the likeliest last. It is part of the form, and never changes."""


def compress(pieces: Iterable[bytes]) -> Iterator[bytes]:
    """Fact lines as they go to a peer that can read it: compressed where that is shorter."""
    rest = iter(pieces)
    first, second = next(rest, b""), next(rest, None)
    if second is None:
        yield _shorter(first)
        return
    deflate = zlib.compressobj(_LEVEL, zlib.DEFLATED, _WINDOW, zdict=_DICTIONARY)
    waiting = b""
    for piece in chain((first, second), rest):
        waiting += deflate.compress(piece)
        while len(waiting) >= PIECE_BYTES_MAX:
            yield _element(waiting[:PIECE_BYTES_MAX])
            waiting = waiting[PIECE_BYTES_MAX:]
    yield _elements(waiting + deflate.flush())


def _shorter(lines: bytes) -> bytes:
    """A short block in the form that has fewer bytes."""
    if len(lines) <= _PLAIN_MAX:
        return lines
    deflate = zlib.compressobj(_SHORT_LEVEL, zlib.DEFLATED, _WINDOW, zdict=_DICTIONARY)
    return min(lines, _elements(deflate.compress(lines) + deflate.flush()), key=len)


def _elements(stream: bytes) -> bytes:
    parts = range(0, len(stream), PIECE_BYTES_MAX)
    return b"".join([_element(stream[at : at + PIECE_BYTES_MAX]) for at in parts])


def _element(piece: bytes) -> bytes:
    return b"%b: %d\n%b" % (COMPRESSED_MARK, len(piece), piece)


class Inflater:
    """The pieces of one phase, on their way back to fact lines."""

    def __init__(self, bytes_max: int) -> None:
        """``bytes_max``: of the lines."""
        self._bytes_max: Final = bytes_max
        self._inflate: Final = zlib.decompressobj(_WINDOW, zdict=_DICTIONARY)
        self._size = 0

    def take(self, piece: bytes) -> bytes:
        """The lines, or parts of lines, that a piece holds."""
        if self._inflate.eof:
            raise _malformed("it goes on after its end")
        try:
            # One more than there is room for: that tells what is too long from what is just long enough.
            lines = self._inflate.decompress(piece, self._bytes_max - self._size + 1)
        except zlib.error as error:
            raise _malformed(str(error)) from error
        self._size += len(lines)
        if self._size > self._bytes_max:
            raise OversizedBlock(f"a fact block has at most {self._bytes_max} bytes, compressed or not")
        if self._inflate.unused_data:
            raise _malformed("it goes on after its end")
        return lines

    def finish(self) -> None:
        """The phase has ended."""
        if not self._inflate.eof:
            raise _malformed("it has no end")


def _malformed(detail: str) -> Abort:
    return Abort(Reason.MALFORMED_BLOCK, f"a compressed fact block: {detail}")
