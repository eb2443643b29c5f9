"""The tuples of one relation in memory, with the hash indexes that rules ask for.

An index is made when a rule first needs it and kept up to date from then on, so a second evaluation finds it warm.
Rows are tuples of numbers (see ``values``).
"""

from collections.abc import Collection, Iterable
from itertools import islice
from math import expm1
from typing import Final, TypeAlias

Row: TypeAlias = tuple[int, ...]
Positions: TypeAlias = tuple[int, ...]
Key: TypeAlias = int | Row
Index: TypeAlias = dict[Key, list[Row]]
"""From a key to its rows. A key is the value itself for one position, a tuple of values for several."""

INDEXES_MAX: Final = 8
"""Indexes that one relation keeps; the oldest makes room. A hostile program could ask for thousands."""
_SAMPLE_ROWS: Final = 1_024


class Table:
    """A set of rows of one arity."""

    __slots__ = ("_distinct", "_indexes", "arity", "rows", "version")

    def __init__(self, arity: int, rows: Iterable[Row] = ()) -> None:
        self.arity = arity
        self.rows: set[Row] = set(rows)
        self.version = 0
        """Rises with every change."""
        self._indexes: dict[Positions, Index] = {}
        self._distinct: dict[Positions, tuple[int, int]] = {}
        """An estimate of different keys, with the number of rows that it was made for."""

    def __len__(self) -> int:
        return len(self.rows)

    def add(self, rows: Iterable[Row]) -> list[Row]:
        """Add rows; returns those that were new."""
        known = self.rows
        new = [row for row in dict.fromkeys(rows) if row not in known]
        self.add_new(new)
        return new

    def add_new(self, rows: Collection[Row]) -> None:
        """Add rows that differ and are not here."""
        if rows:
            self.rows.update(rows)
            self.version += 1
            for positions, index in self._indexes.items():
                _fill(index, positions, rows)

    def discard(self, rows: Iterable[Row]) -> list[Row]:
        """Take rows out; returns those that were there."""
        gone = [row for row in dict.fromkeys(rows) if row in self.rows]
        self.rows.difference_update(gone)
        self.version += bool(gone)
        for positions, index in self._indexes.items():
            for row in gone:
                key: Key = row[positions[0]] if len(positions) == 1 else tuple(row[place] for place in positions)
                bucket = index[key]
                bucket.remove(row)
                if not bucket:
                    del index[key]
        return gone

    def index(self, positions: Positions) -> Index:
        """The index over these positions, made now if it is not there."""
        index = self._indexes.get(positions)
        if index is None:
            index = {}
            _fill(index, positions, self.rows)
            if len(self._indexes) == INDEXES_MAX:
                del self._indexes[next(iter(self._indexes))]
            self._indexes[positions] = index
        return index

    def has_index(self, positions: Positions) -> bool:
        """Whether this index is there already."""
        return positions in self._indexes

    def distinct(self, positions: Positions) -> int:
        """About how many different keys these positions have: exact for few rows, from a sample for many."""
        if positions in self._indexes:
            return len(self._indexes[positions])
        size, count = self._distinct.get(positions, (0, 0))
        if not size <= len(self.rows) <= size * 2:
            count = _estimate_distinct(self.rows, positions)
            self._distinct[positions] = len(self.rows), count
        return count


def _estimate_distinct(rows: set[Row], positions: Positions) -> int:
    sample = list(islice(rows, _SAMPLE_ROWS))
    seen = len({tuple([row[place] for place in positions]) for row in sample})
    if len(sample) == len(rows):
        return seen
    return len(rows) if seen == len(sample) else min(len(rows), _behind(seen, len(sample)))


def _behind(seen: int, drawn: int) -> int:
    """How many keys there are when so many different ones were seen among so many drawn, all being as frequent."""
    low, high = seen, seen * drawn
    while low < high:
        middle = (low + high) // 2
        if middle * -expm1(-drawn / middle) < seen:
            low = middle + 1
        else:
            high = middle
    return low


def _fill(index: Index, positions: Positions, rows: Iterable[Row]) -> None:
    if len(positions) == 1:
        place = positions[0]
        for row in rows:
            index.setdefault(row[place], []).append(row)
    elif len(positions) == 2:
        first, second = positions
        for row in rows:
            index.setdefault((row[first], row[second]), []).append(row)
    else:
        for row in rows:
            index.setdefault(tuple([row[place] for place in positions]), []).append(row)
