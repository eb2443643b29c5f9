"""Bytes to rows: what is a record, under its name, and what is none, with the reason and the place.

One kind of row for both, so that one pass over the input gives everything. A row is

* a record: ``record`` and ``raw``, everything else null;
* rejected bytes: ``raw``, ``reason``, ``detail``, ``source``, ``offset``, and the ``digest`` of the bytes;
* the count of a part, once all of it is read: ``tally``, in JSON, and nothing else.

Each has the number of the part that it came from. The check is that of the node, ``records.record.validate``, the
signature included. A batch is bounded by its bytes: a large record makes a batch alone.
"""

from collections import Counter
from collections.abc import Callable, Iterator
from operator import itemgetter
from typing import Any, Final, TypeAlias

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
from blake3 import blake3
from msgspec import Struct, field

from bobbin.errors import UsageError
from bobbin.records.bundle import Damage, Extent, Piece, Run
from bobbin.records.canonical import MARK, MARKLINE_SIZE
from bobbin.records.reasons import InvalidRecord
from bobbin.records.record import validate
from bobbin.store.lake.files import is_address

BATCH_ROWS_MAX: Final = 8192
BATCH_BYTES_MAX: Final = 8 << 20

CHECKED: Final = pa.schema(
    [
        ("record", pa.string()),
        ("raw", pa.binary()),
        ("reason", pa.string()),
        ("detail", pa.string()),
        ("source", pa.string()),
        ("offset", pa.int64()),
        ("digest", pa.binary()),
        ("part", pa.int32()),
        ("tally", pa.string()),
    ]
)

_NAME: Final = slice(len(MARK) + 2, MARKLINE_SIZE - 1)
"""Where a valid record says its own hash."""

_FIRST: Final = itemgetter(0)

NO_BYTES: Final = "no-bytes"
"""The reason of a row that has nothing where a record should be."""


Faults: TypeAlias = dict[int, tuple[str, str, int | None]]
"""Reason, detail and offset of the rows of a batch that are no records."""


class Counts(Struct):
    """What was in some batches."""

    records: int = 0
    rejected: int = 0
    record_bytes: int = 0
    rejected_bytes: int = 0
    largest: int = 0
    reasons: dict[str, int] = field(default_factory=dict)
    kinds: dict[str, int] = field(default_factory=dict)
    """Records by the first letter of their names."""

    def add(self, raws: list[bytes], names: list[bytes | None], faults: Faults) -> None:
        """The rows of one more batch, and which of them are no records."""
        sizes = list(map(len, raws))
        bad = [sizes[row] for row in faults]
        for reason, _, _ in faults.values():
            self.reasons[reason] = self.reasons.get(reason, 0) + 1
        for letter, count in Counter(map(_FIRST, filter(None, names))).items():
            self.kinds[chr(letter)] = self.kinds.get(chr(letter), 0) + count
        self.records += len(sizes) - len(bad)
        self.rejected += len(bad)
        self.record_bytes += sum(sizes) - sum(bad)
        self.rejected_bytes += sum(bad)
        self.largest = max(self.largest, max(sizes, default=0))

    def merge(self, other: "Counts") -> None:
        """What was in other batches, too."""
        self.records += other.records
        self.rejected += other.rejected
        self.record_bytes += other.record_bytes
        self.rejected_bytes += other.rejected_bytes
        self.largest = max(self.largest, other.largest)
        for reason, count in other.reasons.items():
            self.reasons[reason] = self.reasons.get(reason, 0) + count
        for letter, count in other.kinds.items():
            self.kinds[letter] = self.kinds.get(letter, 0) + count


class Rows:
    """Rows of one part that wait for their batch."""

    def __init__(
        self, part: int, source: str, *, rows_max: int = BATCH_ROWS_MAX, bytes_max: int = BATCH_BYTES_MAX
    ) -> None:
        self._part: Final = part
        self._source: Final = source
        self._rows_max: Final = rows_max
        self._bytes_max: Final = bytes_max
        self._names: list[bytes | None] = []
        self._raws: list[bytes] = []
        self._bytes = 0
        self._faults: Faults = {}
        self.counts: Final = Counts()

    def add(self, piece: Piece) -> Iterator[pa.RecordBatch]:
        """Take a piece. What is full comes out."""
        match piece:
            case Run():
                yield from self._add_run([record.raw for record in piece.records], piece.size)
            case Extent():
                yield from self.check(piece.raw, piece.offset)
            case Damage():
                if self._is_full_with(len(piece.raw)):
                    yield self._take()
                self._reject(piece.raw, piece.reason, piece.detail, piece.offset)

    def _add_run(self, raws: list[bytes], size: int) -> Iterator[pa.RecordBatch]:
        """Take valid records: all at once where they fit into one batch, as those of one chunk nearly always do."""
        if self._raws and (len(self._raws) + len(raws) > self._rows_max or self._bytes + size > self._bytes_max):
            yield self._take()
        if len(raws) <= self._rows_max and size <= self._bytes_max:
            self._raws += raws
            self._names += [raw[_NAME] for raw in raws]
            self._bytes += size
            return
        for raw in raws:
            if self._is_full_with(len(raw)):
                yield self._take()
            self._raws.append(raw)
            self._names.append(raw[_NAME])
            self._bytes += len(raw)

    def check(self, raw: bytes, offset: int | None) -> Iterator[pa.RecordBatch]:
        """Take bytes that may be a record. What is full comes out."""
        if self._is_full_with(len(raw)):
            yield self._take()
        try:
            validate(raw)
        except InvalidRecord as failure:
            self._reject(raw, failure.reason.value, failure.detail, offset)
        else:
            self._raws.append(raw)
            self._names.append(raw[_NAME])
            self._bytes += len(raw)

    def rest(self) -> Iterator[pa.RecordBatch]:
        """What is left, if anything is."""
        if self._raws:
            yield self._take()

    def _is_full_with(self, size: int) -> bool:
        waiting = len(self._raws)
        return waiting >= self._rows_max or (waiting > 0 and self._bytes + size > self._bytes_max)

    def _reject(self, raw: bytes, reason: str, detail: str, offset: int | None) -> None:
        self._faults[len(self._raws)] = (reason, detail, offset)
        self._raws.append(raw)
        self._names.append(None)
        self._bytes += len(raw)

    def _take(self) -> pa.RecordBatch:
        self.counts.add(self._raws, self._names, self._faults)
        batch = _batch(self._names, pa.array(self._raws, pa.binary()), self._faults, self._part, self._source)
        self._names, self._raws, self._faults, self._bytes = [], [], {}, 0
        return batch


def check_column(
    raws: pa.Array, place: Callable[[int], tuple[str, int | None]], counts: Counts, *, part: int
) -> pa.RecordBatch:
    """A batch of a column of bytes. ``place`` says where rejected bytes come from, by their row.

    A null is rejected, with no bytes to keep. At an address it is an error: of the files there nobody knows that each
    has the column, Spark gives nulls also for one that has not, and what that has instead would be kept nowhere.
    """
    nulls = frozenset(pc.indices_nonzero(raws.is_null()).to_pylist()) if raws.null_count else frozenset()
    if nulls:
        raws = pc.fill_null(raws, b"")
    values: list[bytes] = raws.to_pylist()
    names: list[bytes | None] = []
    faults: Faults = {}
    sources: dict[int, str] = {}
    add = names.append
    for row, raw in enumerate(values):
        if row in nulls:
            sources[row], offset = place(row)
            _refuse_elsewhere(sources[row], offset)
            faults[row] = (NO_BYTES, "the column is null in this row", offset)
            add(None)
            continue
        try:
            validate(raw)
        except InvalidRecord as failure:
            sources[row], offset = place(row)
            faults[row] = (failure.reason.value, failure.detail, offset)
            add(None)
        else:
            add(raw[_NAME])
    counts.add(values, names, faults)
    return _batch(names, raws, faults, part, sources)


def _refuse_elsewhere(source: str, offset: int | None) -> None:
    if is_address(source):
        where = source if offset is None else f"row {offset} of {source}"
        raise UsageError(f"{where} has no bytes: the column is null there, or missing in the file")


def tally_row(part: int, tally: object) -> pa.RecordBatch:
    """The one row that says what a part held."""
    text = msgspec.json.encode(tally).decode()
    columns = {"part": [part], "tally": [text]}
    return pa.RecordBatch.from_arrays(
        [pa.array(columns.get(column.name, [None]), column.type) for column in CHECKED], schema=CHECKED
    )


def _batch(
    names: list[bytes | None],
    raws: pa.Array,
    faults: Faults,
    part: int,
    sources: str | dict[int, str],
) -> pa.RecordBatch:
    """The columns. Most batches have no fault, and then all but three columns are nothing but nulls."""
    size = len(names)
    columns: dict[str, Any] = {
        "record": pa.array(names, pa.string()),
        "raw": raws,
        "part": pa.repeat(pa.scalar(part, pa.int32()), size),
    }
    if faults:
        reasons: list[str | None] = [None] * size
        details: list[str | None] = [None] * size
        offsets: list[int | None] = [None] * size
        places: list[str | None] = [None] * size
        digests: list[bytes | None] = [None] * size
        for row, (reason, detail, offset) in faults.items():
            reasons[row], details[row], offsets[row] = reason, detail, offset
            places[row] = sources if isinstance(sources, str) else sources[row]
            digests[row] = blake3(raws[row].as_buffer()).digest()
        columns |= {
            "reason": pa.array(reasons, pa.string()),
            "detail": pa.array(details, pa.string()),
            "source": pa.array(places, pa.string()),
            "offset": pa.array(offsets, pa.int64()),
            "digest": pa.array(digests, pa.binary()),
        }
    arrays = [columns[column.name] if column.name in columns else pa.nulls(size, column.type) for column in CHECKED]
    return pa.RecordBatch.from_arrays(arrays, schema=CHECKED)
