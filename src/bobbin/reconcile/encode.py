"""The endless stream of symbols of one set, made a stretch at a time."""

from typing import Final

import numpy as np
from numpy.typing import NDArray

from bobbin.reconcile import mapping
from bobbin.reconcile.short_ids import Ids
from bobbin.reconcile.symbols import Checks, Symbols, checks_of

_BATCH: Final = 16_384
"""Ids at a time: what is worked on stays in the cache."""
_JUMPS: Final = 3
"""After so many, ids that have left the stretch are taken out of the work; until then their jumps lead nowhere."""


class Encoder:
    """One set and how far its stream has come.

    Nothing is kept of the ids but themselves. When more symbols are asked for than are ready, as many again are made,
    from the first jump of every id: so the whole stream costs a few times what its last stretch does.
    """

    def __init__(self, ids: Ids) -> None:
        self._ids: Final = ids
        self._made = 0
        self._ready = Symbols(0, np.empty(0, np.uint64), np.empty(0, np.uint16))

    def __len__(self) -> int:
        """How many ids the set has."""
        return len(self._ids)

    @property
    def made(self) -> int:
        """How many symbols were handed out so far."""
        return self._made

    def produce(self, count: int) -> Symbols:
        """The next symbols of the stream."""
        first, end = self._made, self._made + count
        ready = len(self._ready)
        if end > ready:
            more = _stretch(self._ids, ready, max(end, 2 * ready))
            sums = np.concatenate((self._ready.sums, more.sums))
            self._ready = Symbols(0, sums, np.concatenate((self._ready.checks, more.checks)))
        self._made = end
        return Symbols(first, self._ready.sums[first:end], self._ready.checks[first:end])


def _stretch(ids: Ids, first: int, end: int) -> Symbols:
    """The symbols from ``first`` up to ``end``."""
    # The last place is for all that lies outside.
    sums, checks = np.zeros(end - first + 1, np.uint64), np.zeros(end - first + 1, np.uint16)
    batch = _Batch(min(len(ids), _BATCH))
    for at in range(0, len(ids), _BATCH):
        batch.add(ids[at : at + _BATCH], sums, checks, first)
    return Symbols(first, sums[:-1], checks[:-1])


class _Batch:
    """Where some ids are worked on: always the same memory, since taking new costs as much as working on it."""

    def __init__(self, size: int) -> None:
        self._ids = np.empty(size, np.uint64)
        self._checks = np.empty(size, np.uint16)
        self._generators = np.empty(size, np.uint64)
        self._places, self._draws, self._spare = np.empty(size), np.empty(size), np.empty(size)

    def add(self, some: Ids, sums: Ids, checks: Checks, first: int) -> None:
        """Put some ids into all symbols of a stretch that they take part in."""
        outside = len(sums) - 1
        end = first + outside
        count = len(some)
        self._ids[:count], self._checks[:count], self._generators[:count] = some, checks_of(some), mapping.begin(some)
        self._places[:count] = 0.0
        jumps = 0
        while count:
            places, draws = self._places[:count], self._draws[:count]
            at = mapping.numbers(np.minimum(places, end, out=draws))
            if first:
                # Seen as a number without sign, what comes before the stretch is after it, too.
                at -= first
                np.minimum(at.view(np.uint64), np.uint64(outside), out=at.view(np.uint64))
            np.add.at(sums, at, self._ids[:count])
            np.add.at(checks, at, self._checks[:count])
            mapping.advance(self._generators[:count], places, draws, self._spare[:count])
            jumps += 1
            if not jumps % _JUMPS:
                count = self._leave_out(np.flatnonzero(places < end), count)

    def _leave_out(self, stay: NDArray[np.intp], count: int) -> int:
        """Go on with some of the ids; returns how many."""
        left = len(stay)
        if left < count:
            self._ids[:left], self._checks[:left] = self._ids.take(stay), self._checks.take(stay)
            self._generators[:left], self._places[:left] = self._generators.take(stay), self._places.take(stay)
        return left
