"""What a worker does with its parts: open, cut, check, count; in batches of rows (``batches.validate``)."""

from collections.abc import Generator, Iterator
from pathlib import Path
from typing import Any, Final, assert_never

import pyarrow as pa
from msgspec.structs import asdict

from bobbin.errors import ResourceError
from bobbin.lace import Lace
from bobbin.pipeline.batches.validate import CHECKED, Counts, Rows, check_column, tally_row
from bobbin.pipeline.reading.bundle_part import BEHIND_BYTES, BundlePart, Joint, guess_begin
from bobbin.pipeline.reading.line_part import ReadAt, read_lines
from bobbin.pipeline.reading.parts import SEVERAL, Part, Tally
from bobbin.pipeline.reading.sources import Form, Source, check_unchanged, name_of, open_source
from bobbin.records.salvage import WINDOW_BYTES
from bobbin.store.base import StoreRecordId

CHUNK_BYTES: Final = 1 << 20
_FIRST_LOOK_BYTES: Final = 64 << 10

PARTS: Final = pa.schema(
    [
        ("task", pa.int32()),
        ("number", pa.int32()),
        ("source", pa.int32()),
        ("begin", pa.int64()),
        ("end", pa.int64()),
        ("joins", pa.bool_()),
        ("spent", pa.int64()),
        ("name", pa.string()),
        ("form", pa.string()),
        ("size", pa.int64()),
        ("stamp", pa.int64()),
        ("positions", pa.int64()),
    ]
)
"""A part with its source, as a row for a worker."""


def part_row(task: int, part: Part, source: Source) -> dict[str, object]:
    """A part as a row of ``PARTS``."""
    return {
        "task": task,
        "number": part.number,
        "source": part.source,
        "begin": part.begin,
        "end": part.end,
        "joins": part.joins,
        "spent": part.spent,
        "name": source.name,
        "form": source.form.value,
        "size": source.size,
        "stamp": source.stamp,
        "positions": source.positions,
    }


def read_parts(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """For ``mapInArrow``: rows of ``PARTS`` in, rows of ``CHECKED`` out.

    Parts that must join are counted each by itself. The others, which may be thousands of small files, are counted
    together.
    """
    together = Counts()
    parts = 0
    for batch in batches:
        for row in batch.to_pylist():
            part = Part(**{name: row[name] for name in Part.__struct_fields__})
            source = Source(
                name=row["name"],
                form=Form(row["form"]),
                size=row["size"],
                stamp=row["stamp"],
                positions=row["positions"],
            )
            counts, joint = yield from read_part(part, source)
            if part.joins:
                yield tally_row(part.number, Tally(part=part.number, **asdict(counts), **asdict(joint)))
            else:
                together.merge(counts)
                parts += 1
    if parts:
        yield tally_row(SEVERAL, Tally(part=SEVERAL, parts=parts, **asdict(together)))


def read_part(part: Part, source: Source) -> Generator[pa.RecordBatch, None, tuple[Counts, Joint]]:
    """The rows of one part; then what was in it, and how it ended. A source that has changed is an error."""
    rows = Rows(part.number, source.name)
    joint = Joint(end=0, spent=0, slack=0)
    if source.form is Form.LACE:
        for raw, position in _stored(part, source):
            yield from rows.check(raw, position)
    else:
        check_unchanged(source)
        with open_source(source.name) as stream:
            read = _reader(stream, source)
            match source.form:
                case Form.BUNDLE:
                    joint = yield from _read_bundle(read, part, rows)
                case Form.JSONL:
                    for piece in read_lines(read, part.begin, part.end):
                        yield from rows.add(piece)
                case Form.PARQUET:
                    raise AssertionError("Spark reads these itself")
                case _:
                    assert_never(source.form)
    check_unchanged(source)
    yield from rows.rest()
    return rows.counts, joint


def find_begin(source: Source, place: int, until: int) -> int | None:
    """A guess at where the first record begins at ``place`` or behind it; None if none is in sight before ``until``."""
    with open_source(source.name) as stream:
        read = _reader(stream, source)
        start = max(0, place - BEHIND_BYTES)
        size = _FIRST_LOOK_BYTES
        while True:
            window = read(start, size)
            found = guess_begin(window, place - start)
            if found is not None:
                return start + found if start + found < until else None
            if len(window) < size or size > WINDOW_BYTES or start + size > until:
                return None
            size *= 4


def check_files(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """For ``mapInArrow``: rows (raw, source, offset) that Spark has read in, rows of ``CHECKED`` out."""
    counts = Counts()
    for batch in batches:
        raws, sources, offsets = batch.columns

        def place(row: int, sources: Any = sources, offsets: Any = offsets) -> tuple[str, int | None]:  # noqa: ANN401
            return name_of(sources[row].as_py()), offsets[row].as_py()

        yield check_column(raws, place, counts, part=SEVERAL)
    yield tally_row(SEVERAL, Tally(part=SEVERAL, **asdict(counts)))


def _reader(stream: Any, source: Source) -> ReadAt:  # noqa: ANN401 -- a file of pyarrow, which has no types
    def read(at: int, size: int) -> bytes:
        try:
            content: bytes = stream.read_at(min(size, max(0, source.size - at)), at)
        except (OSError, pa.ArrowException) as error:
            raise ResourceError(f"cannot read {source.name}: {error}", retry=True) from error
        return content

    return read


def _read_bundle(read: ReadAt, part: Part, rows: Rows) -> Generator[pa.RecordBatch, None, Joint]:
    begin = max(0, part.begin - BEHIND_BYTES)
    reader = BundlePart(part.begin, part.end, behind=read(begin, part.begin - begin), spent=part.spent)
    at = part.begin
    while not reader.is_complete:
        # Up to the end and no further, where that is enough: it nearly always is.
        chunk = read(at, min(CHUNK_BYTES, part.end - at) if at < part.end else CHUNK_BYTES)
        for piece in reader.feed(chunk) if chunk else reader.finish():
            yield from rows.add(piece)
        at += len(chunk)
        if not chunk:
            break
    return reader.joint


def _stored(part: Part, source: Source) -> Iterator[tuple[bytes, int]]:
    """The records of a lace behind one position and up to another."""
    with Lace.open(Path(source.name), read_only=True) as lace:
        for stored in lace.store.scan(after=StoreRecordId(part.begin)):
            if stored.id > part.end:
                return
            yield stored.raw, stored.id


__all__ = ["CHECKED", "PARTS", "check_files", "find_begin", "part_row", "read_part", "read_parts"]
