"""Many changes as columns, which is how NumPy takes them: positions and values, one row after the other, and keys."""

from collections.abc import Iterable, Sequence
from typing import Final, TypeAlias

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from bobbin.cluster.conflicts.delta import DeltaVector
from bobbin.cluster.geometry import Embedding

Numbers: TypeAlias = NDArray[np.int64]
Reals: TypeAlias = NDArray[np.float64]
WHOLE_SQUARE_MAX: Final = 8_192.0**2
"""Of two such vectors, a cosine at double precision still tells the exact product."""
_ORDINARY: Final = (1e-100, 1e100)
"""Lengths between which sums of products neither vanish nor overflow, by far."""


class Columns(Struct, frozen=True):
    """Rows of changes. Values are finite and not zero, positions ascend in each row, and so do numbers of keys.

    Key numbers mean the same only in columns that were numbered together.
    """

    starts: Numbers
    """Where the positions of each row begin; one more entry says where the last row ends."""
    positions: Numbers
    values: Reals
    key_starts: Numbers
    key_numbers: Numbers

    @property
    def rows(self) -> int:
        return len(self.starts) - 1

    @property
    def counts(self) -> Numbers:
        """How many positions each row has."""
        return np.diff(self.starts)

    @property
    def key_counts(self) -> Numbers:
        return np.diff(self.key_starts)

    def embedding(self, row: int) -> Embedding:
        """One row as ``geometry`` takes it. The dimension is of no account there."""
        span = slice(int(self.starts[row]), int(self.starts[row + 1]))
        positions: list[int] = self.positions[span].tolist()
        values: list[float] = self.values[span].tolist()
        return Embedding(positions[-1] + 1 if positions else 0, tuple(positions), tuple(values))

    def slice(self, first: int, last: int) -> "Columns":
        """Some rows, without a copy of what they hold."""
        entries = slice(int(self.starts[first]), int(self.starts[last]))
        keys = slice(int(self.key_starts[first]), int(self.key_starts[last]))
        return Columns(
            self.starts[first : last + 1] - self.starts[first],
            self.positions[entries],
            self.values[entries],
            self.key_starts[first : last + 1] - self.key_starts[first],
            self.key_numbers[keys],
        )

    def lengths(self) -> Reals:
        """Of the vectors; rounded as NumPy does, so good for comparing and not for hashing."""
        with np.errstate(over="ignore", under="ignore"):
            return np.sqrt(row_sums(self.values * self.values, self.starts))

    def whole_squares(self) -> Reals:
        """Of rows that have only whole numbers, and are not too long, the exact square of the length; 0 for all others.

        Sums of their products are exact in whatever order they are made.
        """
        squares = np.square(self.lengths())
        fractions = row_sums((self.values != np.rint(self.values)).astype(np.float64), self.starts)
        return np.where((fractions == 0.0) & (squares <= WHOLE_SQUARE_MAX), np.rint(squares), 0.0)

    def is_odd(self, lengths: Reals) -> NDArray[np.bool_]:
        """Rows of which products may overflow or vanish; they are compared one by one."""
        return (self.counts > 0) & ~((lengths > _ORDINARY[0]) & (lengths < _ORDINARY[1]))


def row_sums(values: Reals, starts: Numbers) -> Reals:
    """The sum of each row, 0 for an empty one."""
    sums = np.zeros(len(starts) - 1)
    filled = np.flatnonzero(np.diff(starts))
    if len(filled):
        sums[filled] = np.add.reduceat(values, starts[filled])
    return sums


def columns_of(deltas: Sequence[DeltaVector]) -> tuple[Columns, list[bytes]]:
    """The columns of some changes, and the keys that the numbers stand for, ascending."""
    keys = sorted({key for delta in deltas for key in delta.keys})
    number_of = {key: number for number, key in enumerate(keys)}
    held = [
        [(at, value) for at, value in zip(delta.delta.positions, delta.delta.values, strict=True) if value]
        for delta in deltas
    ]
    entries = [entry for row in held for entry in row]
    numbers = [sorted(number_of[key] for key in delta.keys) for delta in deltas]
    columns = Columns(
        _starts(map(len, held)),
        np.array([at for at, _ in entries], np.int64),
        np.array([value for _, value in entries], np.float64),
        _starts(map(len, numbers)),
        np.array([number for row in numbers for number in row], np.int64),
    )
    return columns, keys


def _starts(sizes: Iterable[int]) -> Numbers:
    return np.cumsum(np.array([0, *sizes], np.int64))
