"""Finding records of a lake by name, or by their place in it, with little read and little kept in memory.

Files are sorted by name, so a footer says for each row group which names it may hold. A name is looked for in the one
row group of each file that may have it; the names of row groups that were looked into stay in memory, within a bound,
and so do bytes. Neighbours by name are therefore found for nearly nothing, and a random record costs one row group.

A record's number is its place: files in the order of the manifest, rows in the order of the file, from 1 on.
"""

from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from itertools import islice
from threading import RLock
from typing import Any, Final, Generic, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from msgspec import Struct

from bobbin.errors import UsageError
from bobbin.records import b64a, ids
from bobbin.records.canonical import MARK
from bobbin.records.ids import HashText, Kind
from bobbin.store.base import StoredRecord, StoreRecordId
from bobbin.store.lake import reading, staging
from bobbin.store.lake.errors import DamagedLake
from bobbin.store.lake.files import Files
from bobbin.store.lake.manifest import DataFile, Manifest
from bobbin.store.lake.tables import RECORDS

NAME_SIZE: Final = len("B.") + b64a.length(ids.DIGEST_SIZE) + len(".H3")
_NAME: Final = slice(len(MARK) + 2, len(MARK) + 2 + NAME_SIZE)
_DTYPE: Final = f"S{NAME_SIZE}"

NAMES_BYTES_MAX: Final = 64 << 20
RAW_BYTES_MAX: Final = 64 << 20
FILES_OPEN_MAX: Final = 64

Names = npt.NDArray[np.bytes_]
Key = TypeVar("Key")
Value = TypeVar("Value")

_ONLY_NAMES: Final = pa.schema([RECORDS.schema.field("record")])
_ONLY_BYTES: Final = pa.schema([RECORDS.schema.field("raw")])


class _Cache(Generic[Key, Value]):
    """What was used last, up to a weight. One that is heavier than all of it is held alone."""

    def __init__(self, weight_max: int) -> None:
        self._weight_max = weight_max
        self._weight = 0
        self._held: OrderedDict[Key, tuple[Value, int]] = OrderedDict()

    def get(self, key: Key) -> Value | None:
        found = self._held.get(key)
        if found is None:
            return None
        self._held.move_to_end(key)
        return found[0]

    def put(self, key: Key, value: Value, weight: int) -> list[Value]:
        """Hold a value; returns those that had to go."""
        _, before = self._held.pop(key, (None, 0))
        self._held[key] = value, weight
        self._weight += weight - before
        gone: list[Value] = []
        while self._weight > self._weight_max and len(self._held) > 1:
            _, (dropped, lost) = self._held.popitem(last=False)
            self._weight -= lost
            gone.append(dropped)
        return gone

    def clear(self) -> list[Value]:
        values = [value for value, _ in self._held.values()]
        self._held.clear()
        self._weight = 0
        return values


class _Groups(Struct):
    """The row groups of one file that have rows."""

    numbers: list[int]
    starts: list[int]
    """The rows before each."""
    lows: Names
    highs: Names


class _Walk(Struct):
    """Where reading the bytes of a row group has got to: whoever asks in order reads it once, however large it is."""

    group: tuple[int, int]
    batches: Iterator[Any]
    next: int = 0


class _Part(Struct):
    """One file."""

    file: DataFile
    first: int
    """How many records come before it."""
    low: bytes
    high: bytes
    groups: _Groups | None = None


def names_of(column: pa.Array, where: str) -> Names:
    """The names of a column as an array of bytes, without copying them. Anything else than names is damage."""
    offsets = np.frombuffer(column.buffers()[1], dtype=np.int32)[column.offset : column.offset + len(column) + 1]
    if column.null_count or (np.diff(offsets) != NAME_SIZE).any():
        raise DamagedLake(f"{where} has a row whose name is no name of a record")
    if not len(column):
        return np.empty(0, dtype=_DTYPE)
    return np.frombuffer(column.buffers()[2], dtype=_DTYPE, count=len(column), offset=int(offsets[0]))


def spelled(name: str) -> bytes | None:
    """A text as names are compared; None for one that can be no name."""
    if len(name) != NAME_SIZE or not name.isascii():
        return None
    return name.encode()


class Records:
    """The table of records as one manifest has it. Any thread may ask; one at a time is answered."""

    def __init__(self, files: Files, manifest: Manifest) -> None:
        self._files = files
        self.manifest = manifest
        self._lock = RLock()
        self._parts: list[_Part] = []
        first = 0
        for file in manifest.files:
            low, high = (file.low or "").encode(), (file.high or "\U0010ffff").encode()
            self._parts.append(_Part(file, first, low, high))
            first += file.rows
        self._firsts = [part.first for part in self._parts]
        self._opened: _Cache[str, Any] = _Cache(FILES_OPEN_MAX)
        self._names: _Cache[tuple[int, int], Names] = _Cache(NAMES_BYTES_MAX)
        self._raws: _Cache[tuple[int, int, int], pa.Array] = _Cache(RAW_BYTES_MAX)
        self._walk: _Walk | None = None

    def __len__(self) -> int:
        return self.manifest.rows

    def close(self) -> None:
        """Let go of files and memory. It may still be asked, and then opens them again."""
        with self._lock:
            for parquet in self._opened.clear():
                parquet.close(force=True)
            self._names.clear()
            self._raws.clear()
            self._walk = None

    # ---- by name ------------------------------------------------------------------------------------------------

    def locate(self, name: str) -> StoreRecordId | None:
        """The number of the record of this name, or None."""
        wanted = spelled(name)
        if wanted is None:
            return None
        with self._lock:
            for number, part in enumerate(self._parts):
                if part.low <= wanted <= part.high and (row := self._row(number, wanted)) is not None:
                    return StoreRecordId(part.first + row + 1)
        return None

    def locate_many(self, names: Sequence[str]) -> npt.NDArray[np.int64]:
        """The numbers of the records of these names; 0 for one that is not here."""
        found = np.zeros(len(names), dtype=np.int64)
        keys = [spelled(name) for name in names]
        places = np.array([place for place, key in enumerate(keys) if key is not None], dtype=np.int64)
        if not len(places):
            return found
        wanted = np.array([key for key in keys if key is not None], dtype=_DTYPE)
        order = np.argsort(wanted, kind="stable")
        wanted, places = wanted[order], places[order]
        with self._lock:
            for number, part in enumerate(self._parts):
                begin, end = np.searchsorted(wanted, part.low), np.searchsorted(wanted, part.high, side="right")
                if begin < end:
                    self._locate_in(number, wanted[begin:end], places[begin:end], found)
        return found

    def _locate_in(
        self, number: int, wanted: Names, places: npt.NDArray[np.int64], found: npt.NDArray[np.int64]
    ) -> None:
        groups = self._groups(number)
        begins = np.searchsorted(wanted, groups.lows)
        ends = np.searchsorted(wanted, groups.highs, side="right")
        for group in np.flatnonzero(begins < ends):
            names = self._group_names(number, int(group))
            asked = wanted[begins[group] : ends[group]]
            rows = np.minimum(np.searchsorted(names, asked), len(names) - 1)
            here = names[rows] == asked
            first = self._parts[number].first + groups.starts[group] + 1
            found[places[begins[group] : ends[group]][here]] = rows[here] + first

    def _row(self, number: int, wanted: bytes) -> int | None:
        """The row of a name in a file."""
        groups = self._groups(number)
        group = int(np.searchsorted(groups.highs, wanted))
        while group < len(groups.numbers) and groups.lows[group] <= wanted:
            names = self._group_names(number, group)
            row = int(np.searchsorted(names, wanted))
            if row < len(names) and names[row] == wanted:
                return groups.starts[group] + row
            group += 1
        return None

    # ---- by number ----------------------------------------------------------------------------------------------

    def raw(self, number: int) -> bytes:
        """The bytes of the record of this number."""
        with self._lock:
            part = bisect_right(self._firsts, number - 1) - 1
            row = number - 1 - self._parts[part].first
            groups = self._groups(part)
            group = bisect_right(groups.starts, row) - 1
            raw: bytes = self._raw_piece(part, group, row - groups.starts[group])
            return raw

    def get(self, name: str) -> bytes | None:
        """The bytes of the record of this name, or None. Other bytes under the name are damage."""
        number = self.locate(name)
        if number is None:
            return None
        raw = self.raw(number)
        if raw[_NAME] != name.encode():
            raise DamagedLake(f"the lake {self._files!r} is damaged: the stored bytes of {name} open with another name")
        return raw

    def scan(self, *, after: int = 0, limit: int | None = None) -> Iterator[StoredRecord]:
        """Records in the order of their numbers, those above ``after``."""
        records = (
            StoredRecord(StoreRecordId(first + row), HashText(name), raw)
            for first, names, raws in self.pieces(after)
            for row, (name, raw) in enumerate(zip(names.to_pylist(), raws.to_pylist(), strict=True))
        )
        return records if limit is None else islice(records, limit)

    def pieces(self, after: int = 0) -> Iterator[tuple[int, pa.Array, pa.Array]]:
        """The number of the first record, names and bytes, a piece at a time, from a number on."""
        for part in self._parts:
            if part.first + part.file.rows <= after:
                continue
            yield from self._part_pieces(part, max(0, after - part.first))

    def _part_pieces(self, part: _Part, skipped: int) -> Iterator[tuple[int, pa.Array, pa.Array]]:
        """Reads through a file of its own, so that nobody waits for a long walk."""
        with reading.open_file(self._files, part.file) as parquet:
            row = 0
            for group in range(parquet.metadata.num_row_groups):
                rows = parquet.metadata.row_group(group).num_rows
                if row + rows <= skipped:
                    row += rows
                    continue
                for batch in reading.group_pieces(self._files, part.file, parquet, group, RECORDS.schema):
                    start = max(0, skipped - row)
                    if start < batch.num_rows:
                        piece = batch.slice(start)
                        yield part.first + row + start + 1, piece.column(0), piece.column(1)
                    row += batch.num_rows

    def kinds(self) -> dict[Kind, int]:
        """How many records of each kind there are. Only row groups with several kinds are looked into."""
        counts = dict.fromkeys(Kind, 0)
        with self._lock:
            for number in range(len(self._parts)):
                groups = self._groups(number)
                sizes = np.diff([*groups.starts, self._parts[number].file.rows])
                for group, rows in enumerate(sizes):
                    low, high = groups.lows[group][:1], groups.highs[group][:1]
                    if low == high:
                        counts[Kind.of_letter(low.decode())] += int(rows)
                        continue
                    names = self._group_names(number, group)
                    for kind in Kind:
                        letter = kind.letter.encode()
                        end = bytes([letter[0] + 1])
                        counts[kind] += int(np.searchsorted(names, end) - np.searchsorted(names, letter))
        return counts

    # ---- what is in memory --------------------------------------------------------------------------------------

    def _parquet(self, number: int) -> Any:  # noqa: ANN401 -- pyarrow has no types
        file = self._parts[number].file
        parquet = self._opened.get(file.path)
        if parquet is None:
            parquet = reading.open_file(self._files, file)
            reading.check_columns(parquet, RECORDS, file)
            for gone in self._opened.put(file.path, parquet, 1):
                gone.close(force=True)
        return parquet

    def _groups(self, number: int) -> _Groups:
        part = self._parts[number]
        if part.groups is None:
            parquet = self._parquet(number)
            metadata = parquet.metadata
            rows = [metadata.row_group(group).num_rows for group in range(metadata.num_row_groups)]
            numbers = [group for group, count in enumerate(rows) if count]
            starts = [0, *np.cumsum([rows[group] for group in numbers]).tolist()][:-1]
            bounds = staging.group_bounds(parquet, "record") or self._read_bounds(number, numbers)
            lows, highs = (np.array([one.encode() for one in side], dtype=_DTYPE) for side in zip(*bounds, strict=True))
            part.groups = _Groups(numbers, starts, lows, highs)
        return part.groups

    def _read_bounds(self, number: int, groups: list[int]) -> list[tuple[str, str]]:
        """The bounds of row groups that do not say them."""
        read = [self._read_names(number, group) for group in groups]
        return [(names[0].decode(), names[-1].decode()) for names in read]

    def _group_names(self, number: int, group: int) -> Names:
        """The names of a row group, by its place among those with rows."""
        found = self._names.get((number, group))
        if found is None:
            found = self._read_names(number, self._groups(number).numbers[group])
            self._names.put((number, group), found, found.nbytes)
        return found

    def _read_names(self, number: int, group: int) -> Names:
        file = self._parts[number].file
        batches = reading.group_pieces(self._files, file, self._parquet(number), group, _ONLY_NAMES)
        return np.concatenate([names_of(batch.column(0), file.path) for batch in batches])

    def _raw_piece(self, number: int, group: int, row: int) -> bytes:
        file = self._parts[number].file
        parquet = self._parquet(number)
        real = self._groups(number).numbers[group]
        size = reading.rows_of_pieces(parquet, real)
        piece = row // size
        found = self._raws.get((number, group, piece))
        if found is None:
            walk = self._walk
            if walk is None or walk.group != (number, group) or walk.next > piece:
                batches = reading.group_pieces(self._files, file, parquet, real, _ONLY_BYTES)
                walk = self._walk = _Walk((number, group), batches)
            for at in range(walk.next, piece + 1):
                batch = next(walk.batches, None)
                if batch is None:
                    raise DamagedLake(f"{file.path} of the lake {self._files!r} has fewer rows than it says")
                walk.next = at + 1
                found = batch.column(0)
                self._raws.put((number, group, at), found, found.nbytes)
        assert found is not None
        raw: bytes = found[row % size].as_py()
        return raw


def check_limit(limit: int | None) -> None:
    """Refuse a limit that is not a number of records."""
    if limit is not None and limit < 0:
        raise UsageError(f"a limit is a number of records, not {limit}")
