"""One process, one core: pairs of changes that are classified, and the same products by NumPy alone.

    python -m benchmarks.conflicts_once SHAPE CHANGES ROUNDS processor|clock ALTERNATIVE…

``bare`` works out the cosines of all pairs and how many positions they share, and looks at none of it; ``ours``
classifies them. Prints the rates, by either way to count seconds, as one JSON object. The parent sees to it that NumPy
uses one thread.
"""

import json
import sys
import time
from enum import StrEnum
from functools import partial
from typing import Final

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from benchmarks.rounds import Rates, take_turns
from bobbin.cluster.conflicts.batch import compare
from bobbin.cluster.conflicts.columns import Columns

_TILE: Final = (512, 2_048)
_KEYS: Final = 4


class Shape(StrEnum):
    """What the changes look like."""

    WIDE = "wide"
    """128 of 1,024 positions each, as embeddings have them."""
    SPARSE = "sparse"
    """32 of 65,536 positions each."""
    NARROW = "narrow"
    """8 of 128 positions each: so many pairs have positions in common that one in seven has something to tell."""

    @property
    def dimension(self) -> int:
        return {Shape.WIDE: 1_024, Shape.SPARSE: 65_536, Shape.NARROW: 128}[self]

    @property
    def positions(self) -> int:
        return {Shape.WIDE: 128, Shape.SPARSE: 32, Shape.NARROW: 8}[self]


class Material(Struct, frozen=True):
    """Changes; one in fifty repeats the one before it."""

    positions: NDArray[np.int64]
    values: NDArray[np.float64]
    keys: NDArray[np.int64]

    @property
    def count(self) -> int:
        return len(self.positions)

    @property
    def pairs(self) -> int:
        return self.count * (self.count - 1) // 2


def make(shape: Shape, count: int) -> Material:
    """So many changes of a shape, the same each time."""
    chance = np.random.default_rng(11)
    size = shape.positions
    positions = np.empty((count, size), np.int64)
    for row in range(count):
        positions[row] = np.sort(chance.choice(shape.dimension, size, replace=False))
    values = chance.standard_normal((count, size))
    keys = chance.integers(0, count, (count, 1)) * _KEYS + np.arange(_KEYS)
    repeated = np.arange(50, count, 50)
    for column in (positions, values, keys):
        column[repeated] = column[repeated - 1]
    return Material(positions, values, keys)


def columns(material: Material) -> Columns:
    """As the classification takes them."""
    starts = np.arange(material.count + 1)
    return Columns(
        starts * material.positions.shape[1],
        material.positions.ravel(),
        material.values.ravel(),
        starts * _KEYS,
        material.keys.ravel(),
    )


def ours(material: Material) -> None:
    """Every pair gets its class."""
    found = list(compare(columns(material), None))
    assert sum(one.pairs for one in found) == material.pairs
    assert sum(len(one.rows) for one in found) >= material.count // 50 - 1


def bare(material: Material, shape: Shape) -> None:
    """The same products and intersections, and nothing else."""
    if shape is Shape.SPARSE:
        _bare_sparse(material)
    else:
        _bare_dense(material, shape.dimension)


def _bare_dense(material: Material, dimension: int) -> None:
    rows = np.arange(material.count)[:, None]
    vectors, marks = np.zeros((material.count, dimension)), np.zeros((material.count, dimension), np.float32)
    vectors[rows, material.positions] = material.values
    vectors /= np.sqrt(np.einsum("ij,ij->i", vectors, vectors))[:, None]
    marks[rows, material.positions] = 1.0
    height, width = _TILE
    for first in range(0, material.count, height):
        for begin in range(first, material.count, width):
            cosines = vectors[first : first + height] @ vectors[begin : begin + width].T
            shared = marks[first : first + height] @ marks[begin : begin + width].T
            assert cosines.shape == shared.shape


def _bare_sparse(material: Material) -> None:
    """By lists of who has a position: each with those after it in the list, at every distance."""
    lengths = np.sqrt(np.einsum("ij,ij->i", material.values, material.values))
    values = (material.values / lengths[:, None]).ravel()
    order = np.argsort(material.positions.ravel(), kind="stable")
    positions, values = material.positions.ravel()[order], values[order]
    rows = np.repeat(np.arange(material.count), material.positions.shape[1])[order]
    pairs, products = [], []
    for apart in range(1, material.count):
        at = np.flatnonzero(positions[apart:] == positions[:-apart])
        if not len(at):
            break
        pairs.append(rows[at] * material.count + rows[at + apart])
        products.append(values[at] * values[at + apart])
    codes = np.concatenate(pairs)
    order = np.argsort(codes, kind="stable")
    heads = np.flatnonzero(np.diff(codes[order], prepend=-1))
    cosines = np.add.reduceat(np.concatenate(products)[order], heads)
    shared = np.diff(np.append(heads, len(codes)))
    assert len(cosines) == len(shared)


class Seconds(StrEnum):
    """Which seconds are counted."""

    PROCESSOR = "processor"
    CLOCK = "clock"

    def now(self) -> float:
        return time.process_time() if self is Seconds.PROCESSOR else time.perf_counter()


def main(shape: Shape, count: int, rounds: int, seconds: Seconds, names: list[str]) -> Rates:
    """Pairs per second, round by round."""
    material = make(shape, count)

    def rate(name: str) -> float:
        start = seconds.now()
        if name == "bare":
            bare(material, shape)
        else:
            ours(material)
        return material.pairs / (seconds.now() - start)

    return take_turns({name: partial(rate, name) for name in names}, rounds=rounds)


if __name__ == "__main__":
    given, changes, turns, counted, *wanted = sys.argv[1:]
    print(json.dumps(main(Shape(given), int(changes), int(turns), Seconds(counted), wanted)))
