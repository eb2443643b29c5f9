"""A large relation as columns of numbers: a few bytes a row instead of a few hundred.

The bulk of the rows is an immutable block of NumPy columns; what was added or taken out since lies beside it in an
ordinary table, until there is enough of it to make a new block. Indexes over the block are permutations: one
position is addressed directly by value (compressed rows), several positions by a packed, sorted key. To compiled rules
an index looks like a dictionary, to the columnar evaluator like arrays.

Relations about the same records have the same column of records, and most fields occur once, at index 0. So equal
columns of two blocks are one array with one index (``adopt``), and a column of one value takes no room (``gather``).
Blocks at rest share equal columns wherever in the process they are (``share``). What a rule is charged for an index
does not depend on that: each block says for itself which indexes it was asked for.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from typing import Final, TypeAlias
from weakref import WeakValueDictionary

import numpy as np
from numpy.typing import NDArray

from bobbin.datalog.local.table import INDEXES_MAX, Key, Positions, Row, Table

Column: TypeAlias = NDArray[np.int32]
Keys: TypeAlias = NDArray[np.int64]

_MERGE_FRACTION: Final = 8
"""The block is rebuilt when a part this large of it has changed."""
_MERGE_MIN: Final = 65_536
_DENSE_FACTOR: Final = 4
"""Direct addressing may waste this much room."""
_REST_MIN: Final = 64
_REST_FRACTION: Final = 128
"""What is not changing much is worth a new block much sooner: a row beside it takes a hundred times the room."""
_SAMPLE_ROWS: Final = 16_384
_TELLING: Final = 4
"""A value that no more rows than this have, on average, tells rows apart well enough."""
_TOGETHER_MIN: Final = 64
_TOGETHER_PAIRS_MAX: Final = 4_000_000
"""So many rows are looked for at once, unless they have too many candidates."""
_MIX: Final = 0x9E3779B97F4A7C15


def pack(columns: Sequence[Column]) -> Keys:
    """One number per row for several columns: exact for up to two, a hash beyond (equal rows, equal numbers)."""
    if len(columns) == 1:
        return columns[0].astype(np.int64)
    if len(columns) == 2:
        return (columns[0].astype(np.int64) << 32) | columns[1].astype(np.int64)
    packed = columns[0].astype(np.uint64)
    for column in columns[1:]:
        packed = packed * np.uint64(_MIX) + column.astype(np.uint64)
    return packed.astype(np.int64)


def pack_row(row: Sequence[int]) -> int:
    """``pack`` for a single row."""
    if len(row) == 1:
        return row[0]
    if len(row) == 2:
        return (row[0] << 32) | row[1]
    packed = row[0]
    for value in row[1:]:
        packed = (packed * _MIX + value) & 0xFFFFFFFFFFFFFFFF
    return packed - 0x10000000000000000 if packed >> 63 else packed


class Postings:
    """Where the rows of each value of one column are: a permutation in which equal values stand together.

    Values that lie close together are addressed directly, others through the sorted list of those that occur.
    """

    def __init__(self, column: Column) -> None:
        self.permutation = np.argsort(column, kind="stable").astype(np.int32)
        ordered = column[self.permutation]
        first = np.flatnonzero(np.diff(ordered, prepend=ordered[:1] - 1)).astype(np.int32)
        self._values = ordered[first]
        self._starts = np.append(first, np.int32(len(column)))
        self._low = int(self._values[0]) if len(first) else 0
        span = int(self._values[-1]) - self._low + 1 if len(first) else 0
        self._dense = span <= _DENSE_FACTOR * len(first)
        if self._dense:
            counts = np.zeros(span + 2, dtype=np.int32)
            counts[self._values - self._low + 1] = np.diff(self._starts)
            self._starts = np.cumsum(counts, dtype=np.int32)
            self._values = self._values[:0]
        self._first = self._starts.data
        """The same numbers, faster to ask for one by one."""

    def range(self, value: int) -> tuple[int, int]:
        """The stretch of the permutation that holds a value's rows."""
        if self._dense:
            place = value - self._low
            if not 0 <= place < len(self._first) - 1:
                return 0, 0
        else:
            place = bisect_left(self._values.data, value)
            if place == len(self._values) or self._values[place] != value:
                return 0, 0
        return self._first[place], self._first[place + 1]

    def ranges(self, values: Column) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """(begin, count) of the stretch of each value."""
        if self._dense:
            inside = (values >= self._low) & (values < self._low + len(self._starts) - 1)
            places = np.where(inside, values - self._low, 0)
        else:
            places = np.minimum(np.searchsorted(self._values, values), max(len(self._values) - 1, 0))
            inside = self._values[places] == values
        begin = self._starts[places].astype(np.int64)
        return begin, np.where(inside, self._starts[places + 1] - begin, 0)


class _Shelf:
    """One column and its index, for every block that has the column."""

    __slots__ = ("__weakref__", "column", "postings")

    def __init__(self, column: Column) -> None:
        self.column = column
        self.postings: Postings | None = None


_SHARED: Final[WeakValueDictionary[tuple[int, int], _Shelf]] = WeakValueDictionary()
"""Columns at rest, by their length and a hash of their numbers."""


class Block:
    """Rows that do not change, as columns, with the indexes made so far."""

    def __init__(self, columns: Sequence[Column], size: int | None = None) -> None:
        """``columns`` hold no row twice. Rows without columns have only their number, 0 or 1."""
        self.columns = tuple(columns)
        self.size = len(columns[0]) if columns else size or 0
        self._shelves = list(map(_Shelf, self.columns))
        self._asked: set[int] = set()
        """The positions whose index was asked for."""
        self._selective: int | None = None
        self._sorted: dict[Positions, tuple[Keys, Column]] = {}
        self._telling: dict[Positions, int | None] = {}
        self._distinct: dict[Positions, int] = {}

    def postings(self, place: int) -> Postings:
        """Where the rows of each value at one position are."""
        shelf = self._shelves[place]
        self._asked.add(place)
        if shelf.postings is None:
            shelf.postings = Postings(self.columns[place])
        return shelf.postings

    def adopt(self, other: "Block") -> None:
        """Where a column of another block has the same values as one of these, hold that one, and its index."""
        if self.size != other.size or self is other:
            return
        columns = list(self.columns)
        for place, mine in enumerate(columns):
            for theirs, shelf in zip(other.columns, other._shelves, strict=True):  # noqa: SLF001 (its own class)
                if _equal(mine, theirs):
                    columns[place], self._shelves[place] = theirs, shelf
                    break
        self.columns = tuple(columns)

    def share(self) -> None:
        """Hold columns that are held somewhere already only once. Nobody changes a column."""
        for place, shelf in enumerate(self._shelves):
            column = shelf.column
            if column.strides == (0,) or not len(column):
                continue
            key = len(column), hash(column.tobytes())
            known = _SHARED.setdefault(key, shelf)
            if known is not shelf and np.array_equal(known.column, column):
                self._shelves[place] = known
        self.columns = tuple([shelf.column for shelf in self._shelves])

    def ordered(self, positions: Positions) -> tuple[Keys, Column]:
        """(keys, permutation): the packed keys of these positions in ascending order, and the row of each."""
        found = self._sorted.get(positions)
        if found is None:
            keys = pack([self.columns[place] for place in positions])
            permutation = np.argsort(keys, kind="stable").astype(np.int32)
            if len(self._sorted) == INDEXES_MAX:
                del self._sorted[next(iter(self._sorted))]
            found = self._sorted[positions] = keys[permutation], permutation
        return found

    def has_index(self, positions: Positions) -> bool:
        """Whether this index is there already."""
        place = positions[0] if len(positions) == 1 else self._tells(positions)
        return place in self._asked or positions in self._sorted

    def _tells(self, positions: Positions) -> int | None:
        """The one of several positions whose value alone leaves few rows, if there is one."""
        if positions not in self._telling:
            place = max(positions, key=lambda place: self.distinct((place,)))
            self._telling[positions] = place if self.size <= _TELLING * self.distinct((place,)) else None
        return self._telling[positions]

    def distinct(self, positions: Positions) -> int:
        """About how many different keys these positions have: exact for few rows, from a sample for many."""
        count = self._distinct.get(positions)
        if count is None:
            step = max(1, self.size // _SAMPLE_ROWS)
            sample = pack([self.columns[place][::step] for place in positions])
            seen = len(np.unique(sample))
            # Values that hardly repeat in the sample hardly repeat at all; others have mostly been seen.
            count = self._distinct[positions] = seen * step if seen * 2 > len(sample) else seen
        return count

    def selective(self) -> int:
        """The position with the most values."""
        if self._selective is None:
            self._selective = max(range(len(self.columns)), key=lambda place: self.distinct((place,)))
        return self._selective

    def matching(self, positions: Positions, key: Key) -> Column:
        """The numbers of the rows that have this key."""
        if isinstance(key, int):
            postings = self.postings(positions[0])
            begin, end = postings.range(key)
            return postings.permutation[begin:end]
        if (telling := self._tells(positions)) is not None:
            return self._narrowed(telling, positions, key)
        keys, permutation = self.ordered(positions)
        packed = pack_row(key)
        view = keys.data
        found = permutation[bisect_left(view, packed) : bisect_right(view, packed)]
        if len(positions) > 2 and len(found):
            for place, value in zip(positions, key, strict=True):
                found = found[self.columns[place][found] == value]
        return found

    def find(self, row: Row) -> Column:
        """The number of a row, if it is here: through its most selective value, without an index of whole rows."""
        if not self.columns or not self.size:
            return np.arange(self.size, dtype=np.int32)
        return self._narrowed(self.selective(), range(len(row)), row)

    def _narrowed(self, first: int, positions: Sequence[int], key: Row) -> Column:
        """The numbers of the rows that have this key, found through one of its positions."""
        found = self.matching((first,), key[positions.index(first)])
        for place, value in zip(positions, key, strict=True):
            if not len(found):
                break
            if place != first:
                found = found[self.columns[place][found] == value]
        return found

    def has_each(self, rows: Sequence[Row]) -> list[bool]:
        """For each of some rows whether it is here."""
        if len(rows) < _TOGETHER_MIN or not self.columns or not self.size:
            return [len(self.find(row)) > 0 for row in rows]
        wanted = block_of(len(self.columns), rows).columns
        first = self.selective()
        postings = self.postings(first)
        begin, counts = postings.ranges(wanted[first])
        total = int(counts.sum())
        if total > _TOGETHER_PAIRS_MAX:
            return [len(self.find(row)) > 0 for row in rows]
        left = np.repeat(np.arange(len(rows)), counts)
        within = np.arange(total) - np.repeat(np.cumsum(counts) - counts, counts)
        right = postings.permutation[np.repeat(begin, counts) + within]
        equal = np.ones(total, dtype=np.bool_)
        for mine, theirs in zip(self.columns, wanted, strict=True):
            equal &= mine[right] == theirs[left]
        here = np.zeros(len(rows), dtype=np.bool_)
        here[left[equal]] = True
        return here.tolist()

    def rows(self, numbers: Column | None = None) -> Iterator[Row]:
        """Rows as tuples; all of them, or those of these numbers."""
        if not self.columns:
            return iter([()] * self.size)
        parts = [column if numbers is None else column[numbers] for column in self.columns]
        return zip(*(part.tolist() for part in parts), strict=True)


class ColumnTable:
    """A relation with a block and the changes since. It answers like a ``Table``."""

    def __init__(self, arity: int, block: Block) -> None:
        self.arity = arity
        self.block = block
        self.tail = Table(arity)
        self.gone: set[Row] = set()

    def __len__(self) -> int:
        return self.block.size + len(self.tail) - len(self.gone)

    @property
    def rows(self) -> "ColumnRows":
        """All rows, as a collection."""
        return ColumnRows(self)

    def has(self, row: Row) -> bool:
        """Whether a row is in the relation."""
        return row in self.tail.rows or (len(self.block.find(row)) > 0 and row not in self.gone)

    def add(self, rows: Iterable[Row]) -> list[Row]:
        """Add rows; returns those that were new."""
        asked = list(dict.fromkeys(rows))
        late_rows, gone = self.tail.rows, self.gone
        new = [
            row
            for row, here in zip(asked, self.block.has_each(asked), strict=True)
            if row not in late_rows and (not here or row in gone)
        ]
        late = new
        if self.gone:
            late = [row for row in new if row not in self.gone]
            self.gone.difference_update(new)
        self.tail.add_new(late)
        self._merge_when_due()
        return new

    def discard(self, rows: Iterable[Row]) -> list[Row]:
        """Take rows out; returns those that were there."""
        asked = list(dict.fromkeys(rows))
        late_rows, known = self.tail.rows, self.gone
        out = [
            row
            for row, here in zip(asked, self.block.has_each(asked), strict=True)
            if row in late_rows or (here and row not in known)
        ]
        late = set(self.tail.discard(out))
        self.gone.update(row for row in out if row not in late)
        self._merge_when_due()
        return out

    def index(self, positions: Positions) -> "ColumnIndex":
        """The index over these positions."""
        return ColumnIndex(self, positions)

    def has_index(self, positions: Positions) -> bool:
        """Whether this index is there already, but for the recent changes."""
        return not self.block.size or self.block.has_index(positions)

    def distinct(self, positions: Positions) -> int:
        """How many different keys these positions have, the recent changes counted roughly."""
        return self.block.distinct(positions) + len(self.tail.index(positions))

    def merged(self) -> Block:
        """All rows as one block, the changes merged in."""
        if self.tail.rows or self.gone:
            self._merge()
        return self.block

    def extend(self, block: Block) -> None:
        """Add a block of rows, none of which is there yet."""
        self.block = join_blocks(self.merged(), block)

    def settle(self) -> None:
        """Merge the changes in if they are more than a few."""
        if len(self.tail) + len(self.gone) > max(_REST_MIN, self.block.size // _REST_FRACTION):
            self._merge()
            self.block.share()

    def _merge_when_due(self) -> None:
        changed = len(self.tail) + len(self.gone)
        if changed > max(_MERGE_MIN, self.block.size // _MERGE_FRACTION):
            self._merge()

    def _merge(self) -> None:
        kept, late = self.block, sorted_block(self.arity, self.tail.rows)
        if self.gone and not self.arity:
            kept = Block(())
        elif self.gone:
            mask = np.ones(self.block.size, dtype=np.bool_)
            for row in self.gone:
                mask[self.block.find(row)] = False
            kept = Block([column[mask] for column in kept.columns])
        pairs = zip(kept.columns, late.columns, strict=True)
        self.block = Block([gather(pair) for pair in pairs], kept.size + late.size)
        self.tail, self.gone = Table(self.arity), set()


class ColumnRows:
    """All rows of a column table, for loops and membership tests."""

    def __init__(self, table: ColumnTable) -> None:
        self._table = table

    def __len__(self) -> int:
        return len(self._table)

    def __iter__(self) -> Iterator[Row]:
        gone = self._table.gone
        yield from (row for row in self._table.block.rows() if row not in gone)
        yield from self._table.tail.rows

    def __contains__(self, row: Row) -> bool:
        return self._table.has(row)


class ColumnIndex:
    """An index of a column table that answers like a dictionary from key to rows."""

    def __init__(self, table: ColumnTable, positions: Positions) -> None:
        self._table = table
        self._positions = positions
        self._late = table.tail.index(positions)

    def get(self, key: Key, default: Sequence[Row] = ()) -> Sequence[Row]:
        block = self._table.block
        numbers = block.matching(self._positions, key) if block.size else None
        late = self._late.get(key, default)
        if numbers is None or not len(numbers):
            return late
        rows = list(block.rows(numbers))
        if self._table.gone:
            rows = [row for row in rows if row not in self._table.gone]
        return [*rows, *late]

    def __contains__(self, key: Key) -> bool:
        if key in self._late:
            return True
        if self._table.gone:
            return bool(self.get(key))
        block = self._table.block
        return bool(block.size) and len(block.matching(self._positions, key)) > 0

    def __len__(self) -> int:
        return self._table.distinct(self._positions)


def gather(parts: Sequence[Column]) -> Column:
    """The parts of a column as one; a column of one value is held as that value."""
    first = parts[0][:1]
    if len(first) and all(bool((part == first).all()) for part in parts):
        return np.broadcast_to(first.copy(), (sum(map(len, parts)),))
    return np.concatenate(parts)


def pick(columns: Sequence[Column], mask: NDArray[np.bool_]) -> list[Column]:
    """The rows where the mask is true; all of them are the very same columns, and one value is held once."""
    size = int(np.count_nonzero(mask))
    if size == len(mask):
        return list(columns)
    return [
        np.broadcast_to(column[:1], (size,)) if column.strides == (0,) else np.compress(mask, column)
        for column in columns
    ]


def _equal(one: Column, other: Column) -> bool:
    """Whether two columns of one length have the same values; most that differ do so at an end."""
    if one is other or not len(one):
        return one is other
    return bool(one[0] == other[0] and one[-1] == other[-1] and np.array_equal(one, other))


def block_of(arity: int, rows: Iterable[Row]) -> Block:
    """Rows, none twice, as a block."""
    kept = list(rows)
    array = _array(arity, kept)
    return Block([np.ascontiguousarray(array[:, place]) for place in range(arity)], len(kept))


def sorted_block(arity: int, rows: Iterable[Row]) -> Block:
    """Rows, none twice, as a block in their one order, so that relations about the same records have equal columns."""
    kept = list(rows)
    array = _array(arity, kept)
    order = np.lexsort(array.T[::-1]) if arity else ()
    return Block([gather([array[:, place][order]]) for place in range(arity)], len(kept))


def _array(arity: int, rows: Sequence[Row]) -> Column:
    numbers = np.fromiter(chain.from_iterable(rows), dtype=np.int32, count=len(rows) * arity)
    return numbers.reshape(len(rows), arity)


def join_blocks(first: Block, second: Block) -> Block:
    """The rows of two blocks that share none."""
    if not second.size:
        return first
    pairs = zip(first.columns, second.columns, strict=True)
    return Block([np.concatenate(pair) for pair in pairs], first.size + second.size)


def unique(columns: Sequence[Column], size: int) -> Block:
    """Every row once."""
    if not columns or size < 2:
        return Block(columns, min(size, 1))
    if len(columns) <= 2:
        _, first = np.unique(pack(columns), return_index=True)
    else:
        _, first = np.unique(np.stack(columns, axis=1), axis=0, return_index=True)
    return Block([column[first] for column in columns])


def difference(new: Block, old: Block) -> Block:
    """The rows of one block that the other has not."""
    if not new.columns:
        return Block((), new.size if not old.size else 0)
    if not new.size or not old.size:
        return new
    positions = tuple(range(len(new.columns)))
    keys, permutation = old.ordered(positions)
    wanted = pack(new.columns)
    begin = np.searchsorted(keys, wanted, side="left")
    if len(positions) <= 2:
        fresh = keys[np.minimum(begin, len(keys) - 1)] != wanted
    else:
        # Beyond two columns a key is a hash: look at the rows behind every equal key.
        counts = np.searchsorted(keys, wanted, side="right") - begin
        left = np.repeat(np.arange(new.size), counts)
        within = np.arange(len(left)) - np.repeat(np.cumsum(counts) - counts, counts)
        right = permutation[np.repeat(begin, counts) + within]
        equal = np.ones(len(left), dtype=np.bool_)
        for mine, theirs in zip(new.columns, old.columns, strict=True):
            equal &= mine[left] == theirs[right]
        fresh = np.ones(new.size, dtype=np.bool_)
        fresh[left[equal]] = False
    return Block([column[fresh] for column in new.columns])
