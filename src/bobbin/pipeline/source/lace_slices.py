"""A lace read in slices: ranges of ``StoreRecordId``, each by whichever process gets it.

The high-water mark is taken once, when the slices are made, and no slice reads beyond it: however late a slice is read
and whatever is written meanwhile, all slices together hold the records of one moment, each once. Only a removal shows:
a record that is taken out between the making of a slice and its reading is not read.

Where conditions open an index, the rows that each way would touch are counted first, up to a bound, and the shortest
way is taken. A way that touches few rows needs few slices.
"""

from array import array
from collections.abc import Iterator, Sequence
from itertools import islice, pairwise
from pathlib import Path
from typing import Final

import apsw
import pyarrow as pa
from blake3 import blake3
from msgspec import Struct

from bobbin.errors import UsageError
from bobbin.lace import Lace
from bobbin.pipeline.source import columns, lace_statement
from bobbin.pipeline.source.conditions import Condition, OneOf, Within
from bobbin.pipeline.source.lace_statement import Term, Way
from bobbin.records import tai
from bobbin.records.canonical import MARKLINE_SIZE
from bobbin.records.ids import Kind
from bobbin.store.base import DamagedStore, StoreError, StoreRecordId
from bobbin.store.sqlite import coding, wide
from bobbin.store.sqlite.store import SqliteStore

RECORDS_PER_SLICE: Final = 50_000
SLICES_MAX: Final = 4_096
_COUNTED_MAX: Final = 500_000
"""Beyond this many rows an index is not worth counting further."""

_WORTH: Final = 4
"""An index is taken where it touches at most one row in so many: it finds them in no order, so each costs more."""

_EXTRAS: Final = (
    "SELECT h.record, n.value, h.position, v.value FROM header h CROSS JOIN text n ON n.id = h.name "
    "CROSS JOIN text v ON v.id = h.value WHERE h.record IN carray(?)"
)

_LAST: Final = "SELECT max(id) FROM (SELECT id FROM record WHERE id > ? ORDER BY id LIMIT ?)"

_Row = tuple[int | str | bytes | None, ...]


class LaceSlice(Struct, frozen=True, kw_only=True):
    """Records of one lace with ``low`` < id <= ``high``."""

    folder: str
    created: str
    """When the lace was created: whether it is still the same one."""
    low: int
    high: int
    way: Way = Way.IDS
    conditions: tuple[Condition, ...] = ()


class Moment(Struct, frozen=True, kw_only=True):
    """A lace as it is when slices are made."""

    folder: str
    created: str
    high_water: int
    records: int


def moment(folder: Path) -> Moment:
    """The present of a lace. Raises what ``Lace.open`` raises where there is none, or a damaged one."""
    with Lace.open(folder, read_only=True) as lace:
        stat = lace.stat()
        return Moment(
            folder=str(folder.absolute()),
            created=lace.settings.created,
            high_water=stat.high_water,
            records=sum(stat.records.values()),
        )


def plan(
    folder: Path, conditions: Sequence[Condition] = (), *, records_per_slice: int = RECORDS_PER_SLICE
) -> list[LaceSlice]:
    """The slices of a lace in which these conditions are met. None where there is nothing."""
    now = moment(folder)
    return between(now, 0, now.high_water, conditions, records_per_slice=records_per_slice)


def between(
    now: Moment,
    low: int,
    high: int,
    conditions: Sequence[Condition] = (),
    *,
    records_per_slice: int = RECORDS_PER_SLICE,
) -> list[LaceSlice]:
    """The slices of the records with low < id <= high."""
    if records_per_slice < 1:
        raise UsageError(f"a slice has at least one record, not {records_per_slice}")
    useful = tuple(condition for condition in conditions if lace_statement.narrows(condition))
    low, high = _clamped(useful, low, high)
    span = high - low
    if span <= 0:
        return []
    touched, way = _shortest(now, useful, low, high) if lace_statement.ways(useful) else (span, Way.IDS)
    number = max(1, min(-(-touched // records_per_slice), span, SLICES_MAX))
    edges = [low + span * position // number for position in range(number + 1)]
    return [
        LaceSlice(folder=now.folder, created=now.created, low=begin, high=end, way=way, conditions=useful)
        for begin, end in pairwise(edges)
    ]


def _clamped(conditions: Sequence[Condition], low: int, high: int) -> tuple[int, int]:
    """The range of ids that conditions on the id leave."""
    for condition in conditions:
        match condition:
            case OneOf(column="id", values=values):
                numbers = [int(value) for value in values]
                low, high = max(low, min(numbers, default=high) - 1), min(high, max(numbers, default=low))
            case Within(column="id", low=least, high=most):
                low = low if least is None else max(low, int(least) - condition.low_included)
                high = high if most is None else min(high, int(most) - (not condition.high_included))
            case _:
                pass
    return low, high


def _shortest(now: Moment, conditions: tuple[Condition, ...], low: int, high: int) -> tuple[int, Way]:
    """How many rows the shortest way touches, and which one it is."""
    with Lace.open(now.folder, read_only=True) as lace:
        store = _sqlite(lace)
        counts = []
        for way in lace_statement.ways(conditions):
            term = lace_statement.count(conditions, way, low, high, limit=_COUNTED_MAX)
            counts.append((_number(store, term), way))
    touched, way = min(counts)
    is_worth = way is Way.RECORDS or (touched < _COUNTED_MAX and touched * _WORTH <= high - low)
    return (touched, way) if is_worth else (high - low, Way.IDS)


def _number(store: SqliteStore, term: Term) -> int:
    """The one number that a query answers; 0 where it answers null."""
    ((found,),) = store.walk(lambda connection: connection.execute(term.text, term.bindings))
    return int(found or 0)


def read(slice_: LaceSlice, schema: pa.Schema, *, verify: bool = True) -> Iterator[pa.RecordBatch]:
    """The rows of a slice. With ``verify`` every record whose bytes are read is checked against its name."""
    with Lace.open(slice_.folder, read_only=True) as lace:
        if lace.settings.created != slice_.created:
            raise StoreError(f"{slice_.folder} is another lace than when the query began; start it again", retry=True)
        names = [name for name in lace_statement.OPTIONAL if name in schema.names]
        term = lace_statement.select(names, slice_.conditions, slice_.way, slice_.low, slice_.high)

        def walk(connection: apsw.Connection) -> Iterator[pa.RecordBatch]:
            rows = connection.execute(term.text, term.bindings)
            for chunk in _chunks(rows, names):
                yield _batch(connection, chunk, names, schema, verify=verify)

        yield from _sqlite(lace).walk(walk)


def last_of(folder: Path, low: int, rows_max: int) -> int:
    """The id of the last of so many records after ``low``; ``low`` itself where there is none."""
    with Lace.open(folder, read_only=True) as lace:
        return max(low, _number(_sqlite(lace), Term(_LAST, (low, rows_max))))


def name_at(folder: Path, id_: int) -> str | None:
    """The name of the record with this id; None if there is none any more."""
    with Lace.open(folder, read_only=True) as lace:
        for stored in lace.store.scan(after=StoreRecordId(id_ - 1), limit=1):
            return stored.hash if stored.id == id_ else None
    return None


def _sqlite(lace: Lace) -> SqliteStore:
    store = lace.store
    if not isinstance(store, SqliteStore):
        raise UsageError(f"{lace.path} does not rest in SQLite; it cannot be read in slices")
    return store


def _chunks(rows: Iterator[_Row], names: Sequence[str]) -> Iterator[list[_Row]]:
    """Rows in lists that make a batch each, bounded by their number and by the bytes of their records."""
    if "raw" not in names:
        while chunk := list(islice(rows, columns.BATCH_ROWS_MAX)):
            yield chunk
        return
    at = len(lace_statement.FIXED) + names.index("raw")
    chunk, size = [], 0
    for row in rows:
        raw = row[at]
        assert isinstance(raw, bytes), "the table is STRICT"
        if chunk and (len(chunk) == columns.BATCH_ROWS_MAX or size + len(raw) > columns.BATCH_BYTES_MAX):
            yield chunk
            chunk, size = [], 0
        chunk.append(row)
        size += len(raw)
    if chunk:
        yield chunk


def _batch(
    connection: apsw.Connection, chunk: list[_Row], names: Sequence[str], schema: pa.Schema, *, verify: bool
) -> pa.RecordBatch:
    numbers, kinds, digests, *rest = zip(*chunk, strict=True)
    found: dict[str, Sequence[object]] = {"id": numbers, **dict(zip(names, rest, strict=True))}
    if "raw" in found and verify:
        _verify(kinds, digests, found["raw"])
    if "record" in schema.names:
        found["record"] = wide.hash_texts(kinds, digests)
    if "type" in schema.names:
        found["type"] = [_letter(kind) for kind in kinds]
    if "tai" in found:
        found["tai"] = [_time(time) for time in found["tai"]]
    if "extras" in schema.names:
        found["extras"] = _extras(connection, numbers)
    return columns.batch(found, schema)


def _verify(kinds: Sequence[int], digests: Sequence[bytes], raws: Sequence[object]) -> None:
    """Compare bytes with the names that the store has for them. The digest covers every byte that was validated."""
    for kind, digest, raw in zip(kinds, digests, raws, strict=True):
        assert isinstance(raw, bytes), "the table is STRICT"
        if blake3(memoryview(raw)[MARKLINE_SIZE:]).digest() != digest or raw[coding.NAME] != _name(kind, digest):
            name = coding.hash_text(kind, digest)
            raise DamagedStore(f"the store is damaged: the stored bytes of {name} have changed; run `bobbin fsck`")


def _name(kind: int, digest: bytes) -> bytes:
    return coding.hash_text(kind, digest).encode()


def _time(column: object) -> str | None:
    return tai.render(coding.tai_of_column(column)) if isinstance(column, int) else None


def _letter(kind: int) -> str:
    try:
        return Kind(kind).letter
    except ValueError as error:
        raise DamagedStore(f"the store is damaged: no record is of kind {kind}") from error


def _extras(connection: apsw.Connection, numbers: Sequence[int]) -> list[list[dict[str, str | int]]]:
    """The extra headers of many records, each record's in canonical order: by name, then as the author wrote."""
    found: dict[int, list[tuple[bytes, int, str, str]]] = {number: [] for number in numbers}
    for number, name, position, value in connection.execute(_EXTRAS, (apsw.carray(array("q", numbers)),)):
        found[number].append((name.encode(), position, name, value))
    return [
        [{"name": name, "index": position, "value": value} for _, position, name, value in sorted(found[number])]
        for number in numbers
    ]
