"""A bundle read in slices: ranges of bytes that begin and end where a record does.

Where a record begins is known only because the one before ends there. So a bundle is skimmed once, when the slices are
made: from header to header by the lengths that they declare, without a look at the data, in a twentieth of the time
that checking the records takes. Whoever reads a slice checks every record in it, and that the last one ends where the
slice does; so slices that read well join, and their records are those of the whole.

Damage ends the query, with the place and the reason. Where it is to be passed over instead, the bundle is read in one
slice: how far damage reaches can only be told from the beginning.
"""

from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Final

import pyarrow as pa
from msgspec import Struct

from bobbin.errors import IntegrityError, UsageError
from bobbin.pipeline.reading.sources import Form, Source, check_unchanged, find_sources, open_source
from bobbin.pipeline.source import record_rows
from bobbin.records.bundle import BundleReader, Damage, Piece, Run, skim
from bobbin.records.reasons import InvalidRecord
from bobbin.records.record import Record, validate
from bobbin.records.salvage import MARK_HEAD, WINDOW_BYTES

_CHUNK_BYTES: Final = 1 << 20
_HEAD_BYTES: Final = 64 * 1024


class DamagedBundle(IntegrityError):
    """Bytes of a bundle are no record."""


class BundleSlice(Struct, frozen=True, kw_only=True):
    """The records of one bundle that stand in a range of its bytes."""

    source: Source
    begin: int
    end: int
    lenient: bool
    """Whether what is no record is passed over."""


def is_bundle(path: Path) -> bool:
    """Whether a file is a bundle: it is empty, or a record begins near its front, whatever became of the first ones."""
    with path.open("rb") as stream:
        head = stream.read(_HEAD_BYTES)
    return head == b"" or MARK_HEAD in head


def plan(path: Path, *, bytes_per_slice: int, lenient: bool = False) -> list[BundleSlice]:
    """The slices of a bundle; none where it is empty."""
    (source,) = find_sources([str(path)])
    if source.form is not Form.BUNDLE:
        raise UsageError(f"{path} is no bundle, but {source.form.value}")
    if source.size == 0:
        return []
    edges = [0, source.size] if lenient else _edges(source, bytes_per_slice)
    return [BundleSlice(source=source, begin=begin, end=end, lenient=lenient) for begin, end in pairwise(edges)]


def _edges(source: Source, size: int) -> list[int]:
    """Places where records begin, about so far from one another; the first and the last are those of the bundle."""
    edges = [0]
    if source.size <= size:
        return [0, source.size]
    at = 0
    rest = bytearray()
    with open_source(source.name) as stream:
        while chunk := stream.read(_CHUNK_BYTES):
            rest += chunk
            if end := skim(rest):
                del rest[:end]
                at += end
                if at - edges[-1] >= size and at < source.size:
                    edges.append(at)
            elif len(rest) > WINDOW_BYTES:
                # Damage, so the reader of the last slice will say.
                break
    return [*edges, source.size]


def read(slice_: BundleSlice, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """The rows of a slice; every record is validated, its signature included."""
    check_unchanged(slice_.source)
    yield from record_rows.batches(_records(slice_), schema)
    check_unchanged(slice_.source)


def _records(slice_: BundleSlice) -> Iterator[Record]:
    reader = BundleReader(recognises=True)
    at = slice_.begin
    with open_source(slice_.source.name) as stream:
        stream.seek(at)
        while chunk := stream.read(min(_CHUNK_BYTES, slice_.end - at)):
            at += len(chunk)
            for piece in reader.feed(chunk):
                yield from _valid(piece, slice_)
    for piece in reader.finish():
        yield from _valid(piece, slice_)


def _valid(piece: Piece, slice_: BundleSlice) -> Iterator[Record]:
    if isinstance(piece, Run):
        yield from piece.records
        return
    if isinstance(piece, Damage):
        reason, detail = piece.reason, piece.detail
    else:
        try:
            record = validate(piece.raw)
        except InvalidRecord as failure:
            reason, detail = failure.reason.value, failure.detail
        else:
            yield record
            return
    if not slice_.lenient:
        raise DamagedBundle(
            f"{slice_.source.name} is damaged: at byte {slice_.begin + piece.offset} there are {len(piece.raw)} bytes "
            f"that are no record ({reason}: {detail}). With mode DROPMALFORMED they are passed over; "
            "`bobbin pipeline ingest` keeps them in the quarantine"
        )
