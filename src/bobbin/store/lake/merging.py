"""Many sorted files as one sorted stream, in bounded memory.

Of every file that is open, one piece is in memory. The least of the last keys of these pieces is a bound: everything up
to it can be put in order now, since no file has such a key further on. Files whose first key lies beyond the bound are
not opened yet, so files that do not overlap are read one after another, however many they are.

No more than ``OPEN_FILES_MAX`` are open at once. Where more overlap, the smallest are merged into one file in a folder
for that purpose, as often as it takes; so small files are written twice, and large ones are not.

Keys are bytes or texts, one for each row: the record's name, or for the quarantine its source and offset, spelled so
that byte order is their order.
"""

from bisect import bisect_right
from collections import deque
from collections.abc import Iterator, Sequence
from itertools import chain
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
from msgspec import Struct, structs

from bobbin.errors import UsageError
from bobbin.store.lake import reading
from bobbin.store.lake.errors import DamagedLake, translated
from bobbin.store.lake.files import Files, LocalFiles
from bobbin.store.lake.manifest import DataFile
from bobbin.store.lake.tables import QUARANTINE, Table
from bobbin.store.lake.writing import PartWriter, Shape

MEMORY_BYTES_MAX: Final = 256 << 20
"""For all pieces together, as far as that allows each the least."""
_PIECE_BYTES_MIN: Final = 64 << 10
OPEN_FILES_MAX: Final = 200
"""A process may often have no more than 1,024 open, and others need some."""

_OFFSET_BYTES: Final = 8
_ZERO: Final = b"\0"
_ESCAPED: Final = b"\0\xff"
_END: Final = b"\0\0"


def keys_of(table: Table, batch: pa.RecordBatch) -> pa.Array:
    """What the rows of a table sort by, as one column."""
    if table.sorted_by == ("record",):
        column = batch.column(batch.schema.get_field_index("record"))
        return pc.utf8_slice_codeunits(column, 2) if table.payload_order else column
    if table.name == QUARANTINE.name:
        sources = batch.column(batch.schema.get_field_index("source")).to_pylist()
        offsets = batch.column(batch.schema.get_field_index("offset")).to_pylist()
        return pa.array(map(_place, sources, offsets), type=pa.binary())
    raise UsageError(f"the table {table.name} is not one that can be merged")


def key_at(keys: pa.Array, row: int) -> bytes:
    """One key, as the bytes that it sorts by."""
    found: str | bytes = keys[row].as_py()
    return found.encode() if isinstance(found, str) else found


def is_sorted(keys: pa.Array, *, after: bytes | None = None) -> bool:
    """Whether keys rise, or at least do not fall, also from the one before them."""
    if after is not None and after > key_at(keys, 0):
        return False
    return not pc.any(pc.greater(keys.slice(0, len(keys) - 1), keys.slice(1))).as_py()


def _place(source: str, offset: int | None) -> bytes:
    """Source and offset in one, no offset first. A source that begins another sorts before it, whatever follows."""
    number = 0 if offset is None else max(0, offset) + 1
    return source.encode().replace(_ZERO, _ESCAPED) + _END + number.to_bytes(_OFFSET_BYTES, "big")


class _Cursor:
    """Where the merge stands in one file."""

    def __init__(self, table: Table, path: str, pieces: Iterator[pa.RecordBatch]) -> None:
        self._table = table
        self._path = path
        self._pieces = pieces
        self._batch: pa.RecordBatch | None = None
        self._keys: pa.Array | None = None
        self._at = 0
        self.advance()

    @property
    def is_over(self) -> bool:
        return self._batch is None

    @property
    def last(self) -> bytes:
        """The greatest key in memory."""
        assert self._keys is not None
        return key_at(self._keys, -1)

    def advance(self) -> None:
        """The next piece. One that is out of order is damage: what comes after it would be in a wrong place."""
        last = None if self._keys is None else self.last
        self._batch = next(self._pieces, None)
        self._keys = None if self._batch is None else keys_of(self._table, self._batch)
        self._at = 0
        if self._keys is not None and not is_sorted(self._keys, after=last):
            raise DamagedLake(f"{self._path} is not sorted by {', '.join(self._table.sorted_by)}")

    def take(self, bound: bytes) -> tuple[pa.RecordBatch, pa.Array] | None:
        """The rows in memory up to the bound."""
        assert self._batch is not None
        assert self._keys is not None
        keys = self._keys
        end = bisect_right(range(len(keys)), bound, lo=self._at, key=lambda row: key_at(keys, row))
        taken = end - self._at
        if not taken:
            return None
        rows = self._batch.slice(self._at, taken), keys.slice(self._at, taken)
        self._at = end
        if end == len(keys):
            self.advance()
        return rows


class Scratch(Struct, frozen=True):
    """A folder in which files may be written that nobody needs after the merge. Whoever names it removes it."""

    files: Files
    folder: str


def merged(
    files: Files,
    table: Table,
    parts: Sequence[DataFile],
    *,
    columns: Sequence[str] | None = None,
    scratch: Scratch | None = None,
) -> Iterator[pa.RecordBatch]:
    """The rows of these files in the order of their table: all columns, or some with those that they sort by.

    Files in between go to the scratch folder, or where this machine keeps temporary files.
    """
    chosen = table
    if columns is not None:
        chosen = structs.replace(table, schema=pa.schema([table.schema.field(name) for name in columns]))
    sources = [_Source(files, table, chosen, part) for part in parts]
    if _overlap(parts) <= OPEN_FILES_MAX:
        yield from _merged(sources, chosen)
    elif scratch is not None:
        yield from _merged(_fewer(sources, chosen, scratch), chosen)
    else:
        with TemporaryDirectory(prefix="bobbin-merge-") as folder:
            yield from _merged(_fewer(sources, chosen, Scratch(LocalFiles(Path(folder)), "parts")), chosen)


class _Source(Struct, frozen=True):
    """A file to merge: of the lake, or one in between."""

    files: Files
    table: Table
    """With the columns that the file has."""
    chosen: Table
    """With those that are wanted."""
    file: DataFile

    def begin(self, bytes_max: int) -> _Cursor:
        """Open it."""
        names = self.chosen.schema.names
        found = reading.pieces(self.files, self.file, self.table, columns=names, bytes_max=bytes_max)
        return _Cursor(self.chosen, self.file.path, found)


def _fewer(sources: list[_Source], table: Table, scratch: Scratch) -> list[_Source]:
    """The same rows in so few files that all may be open at once."""
    with translated(f"merging into {scratch.folder} failed"):
        scratch.files.make_folder(scratch.folder)
    tier = 0
    while _overlap([source.file for source in sources]) > OPEN_FILES_MAX:
        sources = sorted(sources, key=lambda source: source.file.bytes)
        smallest, rest = sources[:OPEN_FILES_MAX], sources[OPEN_FILES_MAX:]
        file = _in_one(smallest, table, scratch, f"{scratch.folder}/{tier}")
        for source in smallest:
            if source.files is scratch.files and source.file.path.startswith(f"{scratch.folder}/"):
                scratch.files.delete(source.file.path)
        sources = [*rest, _Source(scratch.files, table, table, file)]
        tier += 1
    return sources


def _in_one(sources: list[_Source], table: Table, scratch: Scratch, folder: str) -> DataFile:
    """Merge files into one."""
    with translated(f"merging into {folder} failed"):
        scratch.files.make_folder(folder)
    parts = [source.file for source in sources]
    with PartWriter(scratch.files, table, folder, Shape(file_bytes_max=1 << 62)) as writer:
        for batch in _merged(sources, table):
            writer.write(batch)
    path = f"{folder}/{scratch.files.list(folder)[0]}"
    has_bounds = all(part.low is not None for part in parts)
    return DataFile(
        path,
        sum(part.rows for part in parts),
        scratch.files.size(path),
        "",
        min(part.low or "" for part in parts) if has_bounds else None,
        max(part.high or "" for part in parts) if has_bounds else None,
    )


def _merged(sources: Sequence[_Source], table: Table) -> Iterator[pa.RecordBatch]:
    waiting = deque(sorted(enumerate(sources), key=lambda pair: pair[1].file.low or ""))
    overlap = _overlap([source.file for source in sources])
    bytes_max = max(_PIECE_BYTES_MIN, min(reading.PIECE_BYTES_MAX, MEMORY_BYTES_MAX // max(1, overlap)))
    cursors: dict[int, _Cursor] = {}
    while waiting or cursors:
        bound = min((cursor.last for cursor in cursors.values()), default=None)
        if waiting and (bound is None or _may_begin(waiting[0][1].file, table, bound)):
            number, source = waiting.popleft()
            cursor = source.begin(bytes_max)
            if not cursor.is_over:
                cursors[number] = cursor
            continue
        assert bound is not None
        taken = [rows for number in sorted(cursors) if (rows := cursors[number].take(bound)) is not None]
        cursors = {number: cursor for number, cursor in cursors.items() if not cursor.is_over}
        yield _in_order([batch for batch, _ in taken], [keys for _, keys in taken])


def _may_begin(file: DataFile, table: Table, bound: bytes) -> bool:
    """Whether a file may have a key up to the bound."""
    if file.low is None:
        return True
    low = _place(file.low, None) if table.name == QUARANTINE.name else file.low.encode()
    return low <= bound


def _in_order(batches: list[pa.RecordBatch], keys: list[pa.Array]) -> pa.RecordBatch:
    if len(batches) == 1:
        return batches[0]
    rows = pa.Table.from_batches(batches).combine_chunks()
    order = pc.sort_indices(pa.concat_arrays(keys))
    return rows.take(order).combine_chunks().to_batches()[0]


def _overlap(parts: Sequence[DataFile]) -> int:
    """How many of these files have a place in common, at most."""
    edges = sorted(chain.from_iterable(((file.low or "", 0), (file.high or "\U0010ffff", 1)) for file in parts))
    most = now = 0
    for _, is_end in edges:
        now += -1 if is_end else 1
        most = max(most, now)
    return most


def do_overlap(parts: Sequence[DataFile]) -> bool:
    """Whether two of these files have a place in common."""
    return _overlap(parts) > 1
