"""Centroids of given vectors: k-means++ from a fixed seed, then Lloyd's rounds.

The same vectors and the same seed lead to the same bits everywhere. Distances are added up dimension by dimension, each
step one multiplication and one addition of all rows at once, so their order is fixed whatever the machine; means are
correctly rounded sums; chance is hashes of the seed and a number; and among equals the first wins.
"""

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from hashlib import sha256
from itertools import accumulate, count
from math import fsum
from typing import Final

import numpy as np
from numpy.typing import NDArray

from bobbin.cluster.geometry import Embedding
from bobbin.errors import UsageError

ROUNDS_MAX: Final = 100
TOLERANCE: Final = 1e-4
"""Lloyd's rounds end when no centroid has moved further."""


def centroids_of(
    vectors: Sequence[Embedding],
    wanted: int,
    *,
    seed: int,
    rounds_max: int = ROUNDS_MAX,
    tolerance: float = TOLERANCE,
) -> list[Embedding]:
    """At most so many centroids; fewer where the vectors have fewer directions to offer.

    Zero vectors are left out, and a mean that comes out as zero is, too: neither has a direction. Raise ``UsageError``
    for vectors of unlike dimensions, or where fewer than one is wanted.
    """
    if wanted < 1:
        raise UsageError(f"a codebook is made of at least one centroid, not {wanted}")
    dimensions = {vector.dimension for vector in vectors}
    if len(dimensions) > 1:
        raise UsageError(f"vectors of {len(dimensions)} different dimensions have no common centroids")
    used = [vector for vector in vectors if not vector.is_zero]
    if not used:
        return []
    points = np.zeros((len(used), used[0].dimension))
    for row, vector in enumerate(used):
        points[row, list(vector.positions)] = vector.values
    centres = _begin(points, wanted, chances(seed))
    for _ in range(rounds_max):
        moved = _means(points, _nearest(points, centres), centres)
        steps = _distances(moved, centres)
        furthest = max(float(steps[row, row]) for row in range(len(moved)))
        centres = moved
        if furthest <= tolerance * tolerance:
            break
    rows: list[list[float]] = centres.tolist()
    return [centroid for centroid in (Embedding.dense(tuple(row)) for row in rows) if not centroid.is_zero]


def chances(seed: int) -> Iterator[float]:
    """Numbers from 0 up to, but not with, 1; the same for a seed wherever they are made."""
    for number in count():
        word = int.from_bytes(sha256(b"bobbin-kmeans %d %d" % (seed, number)).digest()[:8], "big")
        yield (word >> 11) * 2.0**-53


def _begin(points: NDArray[np.float64], wanted: int, chance: Iterator[float]) -> NDArray[np.float64]:
    """The first by chance, each further one with a chance in proportion to its squared distance from the nearest."""
    chosen = [int(next(chance) * len(points))]
    nearest = _distances(points, points[chosen])[:, 0]
    while len(chosen) < wanted:
        until = list(accumulate(nearest.tolist()))
        if not until[-1] > 0.0:
            break
        place = bisect_right(until, next(chance) * until[-1])
        chosen.append(min(place, len(points) - 1))
        nearest = np.minimum(nearest, _distances(points, points[chosen[-1:]])[:, 0])
    return points[chosen]


def _nearest(points: NDArray[np.float64], centres: NDArray[np.float64]) -> list[int]:
    labels: list[int] = _distances(points, centres).argmin(axis=1).tolist()
    return labels


def _distances(points: NDArray[np.float64], centres: NDArray[np.float64]) -> NDArray[np.float64]:
    """Squared, each point from each centre."""
    squares = np.zeros((len(points), len(centres)))
    for dimension in range(points.shape[1]):
        step = points[:, dimension, None] - centres[None, :, dimension]
        squares += step * step
    return squares


def _means(points: NDArray[np.float64], labels: Sequence[int], centres: NDArray[np.float64]) -> NDArray[np.float64]:
    """Of the points that belong to each centre; one to which none belongs stays where it is."""
    means = centres.copy()
    members: list[list[int]] = [[] for _ in centres]
    for row, label in enumerate(labels):
        members[label].append(row)
    for label, rows in enumerate(members):
        if rows:
            columns: list[list[float]] = points[rows].T.tolist()
            means[label] = [fsum(column) / len(rows) for column in columns]
    return means
