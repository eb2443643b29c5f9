"""A change as a vector: what a transaction moves, and which keys it touches.

Vectors of unlike dimension are compared and joined as if the smaller were padded with zeros. A merged change belongs to
no transaction (``NO_TX``).
"""

from collections.abc import Iterable
from typing import Final

from msgspec import Struct

from bobbin.cluster.geometry import Embedding, combine, dot, total

SPARSE_BELOW: Final = 1e-6
"""Smaller values are dropped when a change is made."""
NO_TX: Final = b""


class DeltaVector(Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """Made by ``DeltaVector.of``, which puts keys in order and drops what is too small to matter."""

    delta: Embedding
    keys: tuple[bytes, ...]
    """Affected keys, ascending, each once."""
    tx: bytes = NO_TX

    @staticmethod
    def of(delta: Embedding, keys: Iterable[bytes] = (), tx: bytes = NO_TX) -> "DeltaVector":
        return DeltaVector(sparsified(delta), tuple(sorted(set(keys))), tx)

    @property
    def is_zero(self) -> bool:
        return self.delta.is_zero

    def add(self, other: "DeltaVector") -> "DeltaVector":
        """Both changes in full."""
        return DeltaVector.of(combine(self.delta, other.delta), {*self.keys, *other.keys})

    def weighted_average(self, other: "DeltaVector", weight: float, other_weight: float) -> "DeltaVector":
        """``(w1 a + w2 b) / (w1 + w2)``; the zero change when there is no weight at all."""
        weights = weight + other_weight
        if weights == 0.0:
            return DeltaVector(Embedding.zero(max(self.delta.dimension, other.delta.dimension)), ())
        mean = combine(self.delta, other.delta, weight, other_weight).mapped(lambda value: value / weights)
        return DeltaVector.of(mean, {*self.keys, *other.keys})

    def scale(self, factor: float) -> "DeltaVector":
        """The same change, longer or shorter; it stays the transaction's own."""
        return DeltaVector.of(self.delta.mapped(lambda value: value * factor), self.keys, self.tx)

    def project_non_conflicting(self, direction: Embedding) -> "DeltaVector":
        """What is left without the part along a direction. Nothing is taken away for a direction of no length."""
        square = dot(direction, direction)
        if not square:
            return self
        along = dot(self.delta, direction) / square
        return DeltaVector.of(combine(self.delta, direction, 1.0, -along), self.keys, self.tx)


def sparsified(vector: Embedding, below: float = SPARSE_BELOW) -> Embedding:
    """Without the values that are smaller in size."""
    if all(abs(value) >= below for value in vector.values):
        return vector
    return vector.mapped(lambda value: value if abs(value) >= below else 0.0)


def overlapping_keys(one: DeltaVector, other: DeltaVector) -> tuple[bytes, ...]:
    """Keys that both touch, ascending."""
    return tuple(sorted(set(one.keys) & set(other.keys)))


def jaccard(one: Embedding, other: Embedding) -> float:
    """Share of the positions of either that both have. 1 for two zero vectors, 0 when exactly one is zero."""
    here, there = _positions(one), _positions(other)
    both = len(here & there)
    either = len(here) + len(there) - both
    return both / either if either else 1.0


def weighted_jaccard(one: Embedding, other: Embedding) -> float:
    """The same by size: the smaller sizes against the larger ones, position by position."""
    here, there = one.by_position(), other.by_position()
    pairs = [(abs(here.get(at, 0.0)), abs(there.get(at, 0.0))) for at in sorted({*here, *there})]
    larger = total(max(pair) for pair in pairs)
    return total(min(pair) for pair in pairs) / larger if larger else 1.0


def overlap_coefficient(one: Embedding, other: Embedding) -> float:
    """Share of the positions of the smaller that the other has too; 1 for two zero vectors, 0 for one."""
    here, there = _positions(one), _positions(other)
    if not here or not there:
        return float(here == there)
    return len(here & there) / min(len(here), len(there))


def _positions(vector: Embedding) -> set[int]:
    return {at for at, value in zip(vector.positions, vector.values, strict=True) if value}
