"""A bundle read in parts, in one process: as the job does it, without Spark."""

from collections.abc import Sequence

from bobbin.pipeline.reading.bundle_part import BEHIND_BYTES, BundlePart, Joint, guess_begin
from bobbin.records.bundle import Extent, Piece, Run


def read_part(raw: bytes, begin: int, end: int, *, spent: int = 0, chunk: int = 1 << 16) -> tuple[list[Piece], Joint]:
    """The pieces of one part, one extent for each record."""
    part = BundlePart(begin, end, behind=raw[max(0, begin - BEHIND_BYTES) : begin], spent=spent)
    pieces: list[Piece] = []
    at = begin
    while not part.is_complete and at < len(raw):
        size = min(chunk, end - at) if at < end else chunk
        pieces += part.feed(raw[at : at + size])
        at += size
    if not part.is_complete:
        pieces += part.finish()
    return one_by_one(pieces), part.joint


def guesses(raw: bytes, places: Sequence[int]) -> list[int]:
    """Where the parts begin that are wanted at these places, besides the first."""
    begins = set()
    for place in places:
        start = max(0, place - BEHIND_BYTES)
        found = guess_begin(raw[start:], place - start)
        if found is not None:
            begins.add(start + found)
    return sorted(begins)


def one_by_one(pieces: list[Piece]) -> list[Piece]:
    """The same pieces with an extent for each record of a run."""
    extents: list[Piece] = []
    for piece in pieces:
        if not isinstance(piece, Run):
            extents.append(piece)
            continue
        offset = piece.offset
        for record in piece.records:
            extents.append(Extent(raw=record.raw, offset=offset))
            offset += len(record.raw)
    return extents
