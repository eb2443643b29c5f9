"""The endless stream of symbols of one set, made a stretch at a time."""

from typing import Final

import numpy as np
from numpy.typing import NDArray

from bobbin.reconcile import mapping
from bobbin.reconcile.short_ids import Ids
from bobbin.reconcile.symbols import Symbols, checks_of

_BATCH: Final = 32_768
"""Ids at a time: what is worked on stays in the cache."""


class Encoder:
    """One set and how far its stream has come. Each stretch costs what its symbols hold, and one look at every id."""

    def __init__(self, ids: Ids) -> None:
        self._batches: Final = [_Batch(ids[at : at + _BATCH]) for at in range(0, len(ids), _BATCH)]
        self._size: Final = len(ids)
        self._made = 0

    def __len__(self) -> int:
        """How many ids the set has."""
        return self._size

    @property
    def made(self) -> int:
        """How many symbols were made so far."""
        return self._made

    def produce(self, count: int) -> Symbols:
        """The next symbols of the stream."""
        first, end = self._made, self._made + count
        sums, checks = np.zeros(count, np.uint64), np.zeros(count, np.uint16)
        for batch in self._batches:
            batch.add(sums, checks, first, end)
        self._made = end
        return Symbols(first, sums, checks)


class _Batch:
    """Some ids of a set, each with the place where it comes next."""

    def __init__(self, ids: Ids) -> None:
        self.ids: Final = ids
        self.generators: Ids = mapping.begin(ids)
        self.places = np.zeros(len(ids), np.float64)

    def add(self, sums: Ids, checks: NDArray[np.uint16], first: int, end: int) -> None:
        """Put the ids into the symbols from ``first`` up to ``end`` that they take part in."""
        active = np.flatnonzero(self.places < end)
        ids, generators, places = self.ids[active], self.generators[active], self.places[active]
        own_checks = checks_of(ids)
        while len(active):
            at = places.astype(np.int64) - first
            np.bitwise_xor.at(sums, at, ids)
            np.bitwise_xor.at(checks, at, own_checks)
            generators, places = mapping.jump(generators, places)
            left = places >= end
            if left.any():
                gone = active[left]
                self.generators[gone], self.places[gone] = generators[left], places[left]
                stay = ~left
                active, ids, own_checks = active[stay], ids[stay], own_checks[stay]
                generators, places = generators[stay], places[stay]
