"""Changes made ready for products: frequent positions as columns of a matrix, the rest as an inverted index.

A position that few rows have is worth looking up, one that many have is worth a column. The bound between the two is a
cap on the lists of the index, so that no list is ever long, and it leaves no more columns than rows have positions,
times a constant. Nothing is left out on either side: what both together find is exact.
"""

from collections.abc import Iterator
from typing import Final, TypeAlias

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from bobbin.cluster.conflicts.columns import Columns, Numbers, Reals

Singles: TypeAlias = NDArray[np.float32]
LISTED_MIN: Final = 2
"""A position that no more rows have is always looked up."""
LISTED_SHARE: Final = 64
"""One that more than one in so many rows have is always a column."""
MEETINGS_MAX: Final = 1 << 21
"""How often rows may meet at positions of the index before what was found is added up."""


class Plan(Struct, frozen=True):
    """Which positions become columns."""

    column_of: Numbers
    """Of each position up to the largest: its column, or -1."""
    width: int


def plan_of(one: Columns, other: Columns | None) -> Plan:
    """A plan for two sides, or for the pairs within one."""
    sides = (one,) if other is None else (one, other)
    size = max((int(side.positions.max()) + 1 for side in sides if len(side.positions)), default=0)
    holders = np.zeros(size, np.int64)
    for side in sides:
        holders += np.bincount(side.positions, minlength=size)
    rows = sum(side.rows for side in sides)
    frequent = np.flatnonzero(holders > max(LISTED_MIN, rows // LISTED_SHARE))
    column_of = np.full(size, -1, np.int64)
    column_of[frequent] = np.arange(len(frequent))
    return Plan(column_of, len(frequent))


class Side(Struct, frozen=True):
    """Rows that are ready. Directions have length 1; those of odd rows are zero, and nothing is read off them."""

    first: int
    """The number of the first row."""
    counts: Numbers
    is_odd: NDArray[np.bool_]
    directions: Reals
    """Rows and columns of the plan."""
    screens: Singles
    """The same at half the precision, to tell most pairs at a glance."""
    marks: Singles
    """1 where a row has a position."""
    index: "Index"
    """What is not in the columns."""

    @property
    def rows(self) -> int:
        return len(self.counts)


class Index(Struct, frozen=True):
    """Entries by row, in order."""

    rows: Numbers
    positions: Numbers
    values: Reals

    def within(self, first: int, last: int) -> "Index":
        """The entries of some rows, which are numbered from 0 then."""
        span = slice(*np.searchsorted(self.rows, (first, last)).tolist())
        return Index(self.rows[span] - first, self.positions[span], self.values[span])

    def cut(self, first: int) -> "Index":
        """Without the rows before one, from which they are numbered then; whatever the order."""
        kept = self.rows >= first
        return Index(self.rows[kept] - first, self.positions[kept], self.values[kept])

    def by_position(self) -> "Index":
        """In the order of positions."""
        order = np.argsort(self.positions, kind="stable")
        return Index(self.rows[order], self.positions[order], self.values[order])


def side_of(columns: Columns, plan: Plan, first: int, last: int) -> Side:
    """Some rows, made ready by a plan."""
    part = columns.slice(first, last)
    lengths = part.lengths()
    odd = part.is_odd(lengths)
    rows = np.repeat(np.arange(part.rows), part.counts)
    values = part.values / np.where((lengths > 0) & ~odd, lengths, np.inf)[rows]
    at = plan.column_of[part.positions]
    is_column = at >= 0
    directions = np.zeros((part.rows, plan.width))
    directions[rows[is_column], at[is_column]] = values[is_column]
    marks = np.zeros((part.rows, plan.width), np.float32)
    marks[rows[is_column], at[is_column]] = 1.0
    rest = ~is_column
    return Side(
        first,
        part.counts,
        odd,
        directions,
        directions.astype(np.float32),
        marks,
        Index(rows[rest], part.positions[rest], values[rest]),
    )


class Met(Struct, frozen=True):
    """Pairs that share positions of the index, ascending: each is a row times the width of the tile plus a column."""

    pairs: Numbers
    products: Reals
    shared: Numbers
    """How many positions."""


NOBODY: Final = Met(np.empty(0, np.int64), np.empty(0), np.empty(0, np.int64))


def meet(rows: Index, columns: Index, width: int) -> Met:
    """Who of some rows shares a position with whom of the columns, which are in the order of positions."""
    begin = np.searchsorted(columns.positions, rows.positions, "left")
    end = np.searchsorted(columns.positions, rows.positions, "right")
    return _added_up(rows, columns, begin, end, width)


def meet_within(index: Index, width: int) -> Met:
    """Who shares a position with whom of the same rows, each pair once; the index is in the order of positions."""
    begin = np.arange(1, len(index.positions) + 1)
    ends = np.append(np.flatnonzero(np.diff(index.positions)) + 1, len(index.positions))
    return _added_up(index, index, begin, np.repeat(ends, np.diff(ends, prepend=0)), width)


def _added_up(rows: Index, columns: Index, begin: Numbers, end: Numbers, width: int) -> Met:
    """What comes of each entry of the rows meeting some of the columns."""
    found = [_added(pairs, products) for pairs, products in _meetings(rows, columns, begin, end - begin, width)]
    if len(found) <= 1:
        return found[0] if found else NOBODY
    pairs = np.concatenate([one.pairs for one in found])
    products = np.concatenate([one.products for one in found])
    shared = np.concatenate([one.shared for one in found])
    order = np.argsort(pairs, kind="stable")
    heads = np.flatnonzero(np.diff(pairs[order], prepend=-1))
    return Met(pairs[order][heads], np.add.reduceat(products[order], heads), np.add.reduceat(shared[order], heads))


def _meetings(
    rows: Index, columns: Index, begin: Numbers, often: Numbers, width: int
) -> Iterator[tuple[Numbers, Reals]]:
    """Every meeting, a bounded number at a time: the pair, and the product of their values."""
    until = np.cumsum(often)
    first = done = 0
    while first < len(often):
        last = max(first + 1, int(np.searchsorted(until, done + MEETINGS_MAX, "right")))
        count = often[first:last]
        here = np.repeat(rows.rows[first:last] * width, count)
        there = np.arange(len(here)) + np.repeat(begin[first:last] - (until[first:last] - count - done), count)
        if len(here):
            yield here + columns.rows[there], np.repeat(rows.values[first:last], count) * columns.values[there]
        first, done = last, int(until[last - 1])


def _added(pairs: Numbers, products: Reals) -> Met:
    """The same pairs, each once."""
    order = np.argsort(pairs, kind="stable")
    ordered = pairs[order]
    heads = np.flatnonzero(np.diff(ordered, prepend=-1))
    shared = np.diff(heads, append=len(ordered))
    return Met(ordered[heads], np.add.reduceat(products[order], heads), shared)
