"""Parts of a bundle, written by workers: each is the bytes of its records, joined, and a note of what it holds.

A part gets its name when all of it is on the disk, and its note after that, so a part with a note is whole. Whoever
starts the same work again looks for notes and leaves those parts out. Two workers that write the same part, since one
of them was believed dead, write the same bytes, and the second replaces the first.
"""

from collections.abc import Iterable, Iterator
from itertools import groupby
from pathlib import Path
from typing import Final

import msgspec
import pyarrow as pa
from blake3 import blake3
from msgspec import Struct

from bobbin.config.durable import replacing
from bobbin.errors import ResourceError
from bobbin.records import ids
from bobbin.records.canonical import MARK, MARKLINE_SIZE
from bobbin.records.ids import IdentifierError
from bobbin.store.lake.errors import DamagedLake

ROWS: Final = pa.schema([("part", pa.int32()), ("record", pa.string()), ("raw", pa.binary())])
"""What comes in, in the order of the parts."""

NOTES: Final = pa.schema([("part", pa.int32()), ("rows", pa.int64()), ("bytes", pa.int64()), ("digest", pa.string())])
"""What comes out: one row for each part that was written."""

_MARKLINE: Final = MARK + b": "


class Note(Struct, frozen=True, forbid_unknown_fields=True):
    """What one part holds."""

    part: int
    rows: int
    bytes: int
    digest: str
    """BLAKE3 of the part, in hex."""


def part_file(folder: Path, part: int) -> Path:
    """Where a part is."""
    return folder / f"part-{part:05d}"


def note_file(folder: Path, part: int) -> Path:
    """Where its note is."""
    return folder / f"part-{part:05d}.json"


def finished(folder: Path, parts: int) -> dict[int, Note]:
    """The parts that are whole, as their notes say and their sizes confirm."""
    found: dict[int, Note] = {}
    for part in range(parts):
        try:
            note = msgspec.json.decode(note_file(folder, part).read_bytes(), type=Note)
            is_whole = note.part == part and part_file(folder, part).stat().st_size == note.bytes
        except (OSError, msgspec.DecodeError):
            continue
        if is_whole:
            found[part] = note
    return found


def write_parts(batches: Iterable[pa.RecordBatch], folder: Path) -> Iterator[pa.RecordBatch]:
    """Write the parts that the rows belong to, one after the other, and say what each holds."""
    rows = ((part, name, raw) for batch in batches for part, name, raw in _rows(batch))
    for part, members in groupby(rows, key=lambda row: row[0]):
        note = write_part(folder, part, ((name, raw) for _, name, raw in members))
        yield pa.RecordBatch.from_pylist([msgspec.structs.asdict(note)], NOTES)


def write_part(folder: Path, part: int, records: Iterable[tuple[str, bytes]]) -> Note:
    """Write one part. Each record is checked against its name before."""
    target = part_file(folder, part)
    hasher = blake3()
    rows = size = 0
    try:
        with replacing(target) as stream:
            for name, raw in records:
                _check(name, raw)
                stream.write(raw)
                hasher.update(raw)
                rows += 1
                size += len(raw)
        note = Note(part, rows, size, hasher.hexdigest())
        with replacing(note_file(folder, part)) as stream:
            stream.write(msgspec.json.encode(note))
    except OSError as error:
        raise ResourceError(f"cannot write {target}: {error.strerror or error}", retry=False) from error
    return note


def _rows(batch: pa.RecordBatch) -> Iterator[tuple[int, str, bytes]]:
    return zip(*(column.to_pylist() for column in batch.columns), strict=True)


def _check(name: str, raw: bytes) -> None:
    try:
        _, digest = ids.parse_hash(name)
    except IdentifierError as error:
        raise DamagedLake(f"the lake is damaged: {error}") from error
    is_named = raw[:MARKLINE_SIZE] == b"%b%b\n" % (_MARKLINE, name.encode())
    if not is_named or blake3(memoryview(raw)[MARKLINE_SIZE:]).digest() != digest:
        raise DamagedLake(f"the bytes stored as {name} have changed; `bobbin lake check` finds the file")
