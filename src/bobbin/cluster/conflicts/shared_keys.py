"""Which keys the two changes of each of many pairs share."""

from typing import Final

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from bobbin.cluster.conflicts.columns import Columns, Numbers

_LISTED_MAX: Final = 1 << 21
"""Keys that are set side by side at a time."""


class SharedKeys(Struct, frozen=True):
    """For each pair the numbers of the shared keys, ascending."""

    starts: Numbers
    numbers: Numbers

    @property
    def counts(self) -> Numbers:
        return np.diff(self.starts)

    def of(self, pair: int) -> list[int]:
        found: list[int] = self.numbers[self.starts[pair] : self.starts[pair + 1]].tolist()
        return found


def shared_keys(one: Columns, other: Columns, rows: Numbers, columns: Numbers) -> SharedKeys:
    """Of the pairs of these rows of the one and the other, whose keys were numbered together."""
    counts = np.zeros(len(rows), np.int64)
    # A pair without a common bit shares nothing, and that is most of them.
    possible = np.flatnonzero(_bits(one)[rows] & _bits(other)[columns])
    found: list[Numbers] = []
    listed = np.cumsum(one.key_counts[rows[possible]] + other.key_counts[columns[possible]])
    first = 0
    while first < len(possible):
        before = int(listed[first - 1]) if first else 0
        last = max(first + 1, int(np.searchsorted(listed, before + _LISTED_MAX, "right")))
        some = possible[first:last]
        pairs, numbers = _both(one, other, rows[some], columns[some])
        counts[some] = np.bincount(pairs, minlength=len(some))
        found.append(numbers)
        first = last
    starts = np.concatenate([np.zeros(1, np.int64), np.cumsum(counts)])
    return SharedKeys(starts, np.concatenate(found) if found else np.empty(0, np.int64))


def _both(one: Columns, other: Columns, rows: Numbers, columns: Numbers) -> tuple[Numbers, Numbers]:
    """Each shared key, with the place of its pair, in the order of pairs and numbers."""
    size = 1 + max((int(side.key_numbers.max()) for side in (one, other) if len(side.key_numbers)), default=0)
    here, there = _listed(one, rows, size), _listed(other, columns, size)
    at = np.minimum(np.searchsorted(there, here), max(0, len(there) - 1))
    shared = here[there[at] == here] if len(there) else here[:0]
    pairs, numbers = np.divmod(shared, size)
    return pairs, numbers


def _listed(side: Columns, rows: Numbers, size: int) -> Numbers:
    """The keys of some rows, each as the place of the row times ``size`` plus the number of the key; ascending."""
    counts = side.key_counts[rows]
    until = np.cumsum(counts)
    place = np.repeat(np.arange(len(rows)), counts)
    entry = np.arange(len(place)) - np.repeat(until - counts - side.key_starts[rows], counts)
    codes: Numbers = place * size + side.key_numbers[entry]
    return codes


def _bits(side: Columns) -> NDArray[np.uint64]:
    """For each row a word with a bit for each of its keys; several keys may have the same."""
    bits = np.zeros(side.rows, np.uint64)
    filled = np.flatnonzero(side.key_counts)
    if len(filled):
        of_keys = np.uint64(1) << (side.key_numbers % 64).astype(np.uint64)
        bits[filled] = np.bitwise_or.reduceat(of_keys, side.key_starts[filled])
    return bits
