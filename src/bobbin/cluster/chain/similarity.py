"""Blocks by the likeness of their changes.

The changes of all blocks stand in one row, a byte for each value (``quantising``), with the block of each beside it, so
a search is a few passes of NumPy over little memory. A byte is off by half a step at most, so these passes say between
which bounds the likeness of each block lies. Whatever could be among the likest is then looked at exactly: the result
is that of looking at every block.
"""

from array import array
from math import fsum
from typing import Final

import numpy as np
from msgspec import Struct

from bobbin.cluster.chain.quantising import quantise
from bobbin.cluster.geometry import Embedding, cosine
from bobbin.errors import UsageError

_SLACK: Final = 1e-9
"""By how much the passes themselves may be off."""


class Similar(Struct, frozen=True):
    """A block that was found."""

    height: int
    similarity: float


class BlockVectors:
    """The changes of the blocks from height 1 on. One search at a time; blocks may be added while it runs."""

    def __init__(self, dimension: int) -> None:
        self._dimension = dimension
        self._vectors: list[Embedding] = []
        self._settled = 0
        """Of how many blocks the rows below know."""
        self._rows = array("Q")
        self._positions = array("I")
        self._codes = array("b")
        self._scales = array("d")
        self._norms = array("d")

    def add(self, vector: Embedding) -> None:
        """Take in the change of the next block. Putting it into the rows is left to the next search."""
        self._vectors.append(vector)

    def similar(self, vector: Embedding, limit: int) -> list[Similar]:
        """The blocks most like a vector, the likest first and the lowest among equals. None for the zero vector."""
        if vector.dimension != self._dimension:
            raise UsageError(f"a vector of {vector.dimension} dimensions, where {self._dimension} are due")
        if limit < 1:
            raise UsageError(f"a search gives at least one block, not {limit}")
        if vector.is_zero or not self._vectors:
            return []
        self._settle()
        found = [Similar(row + 1, cosine(vector, self._vectors[row])) for row in self._near(vector, limit)]
        found.sort(key=lambda one: (-one.similarity, one.height))
        return found[:limit]

    def _settle(self) -> None:
        count = len(self._vectors)
        for row in range(self._settled, count):
            vector = self._vectors[row]
            quantised = quantise(vector)
            self._rows.extend([row] * len(vector.positions))
            self._positions.extend(vector.positions)
            self._codes.frombytes(quantised.codes)
            self._scales.append(quantised.scale)
            self._norms.append(vector.norm)
        self._settled = count

    def _near(self, vector: Embedding, limit: int) -> list[int]:
        """Every block that could be among the likest, and few others."""
        length = vector.norm
        there = np.zeros(self._dimension)
        there[list(vector.positions)] = np.array(vector.values) / length
        norms, scales = np.frombuffer(self._norms, np.float64), np.frombuffer(self._scales, np.float64)
        rows = np.frombuffer(self._rows, np.uint64).astype(np.int64)
        values = np.frombuffer(self._codes, np.int8) * there[np.frombuffer(self._positions, np.uint32)]
        products = np.bincount(rows, weights=values, minlength=len(norms)) * scales
        kept = np.flatnonzero(norms)
        likeness = products[kept] / norms[kept]
        off = scales[kept] / norms[kept] * (fsum(map(abs, vector.values)) / length / 2.0) + _SLACK
        if limit < len(kept):
            least = np.partition(likeness - off, -limit)[-limit]
            kept = kept[likeness + off >= least]
        found: list[int] = kept.tolist()
        return found
