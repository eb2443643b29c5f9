"""Vectors by which nodes and changes are compared. Geometry advises; nothing that must be safe rests on it."""

from math import acos, isfinite, sqrt

from msgspec import Struct


class Embedding(Struct, frozen=True, array_like=True):
    """A sparse vector: positions strictly ascending and below the dimension, a finite value at each.

    The gateway has checked this of whatever came from a peer.
    """

    dimension: int
    positions: tuple[int, ...]
    values: tuple[float, ...]

    @staticmethod
    def dense(values: tuple[float, ...]) -> "Embedding":
        """A vector given by all its values; zeros take no room."""
        kept = tuple((position, value) for position, value in enumerate(values) if value)
        return Embedding(len(values), tuple(at for at, _ in kept), tuple(value for _, value in kept))

    @property
    def norm(self) -> float:
        return sqrt(sum(value * value for value in self.values))


def cosine(one: Embedding, other: Embedding) -> float:
    """In [-1, 1]; 0 where either vector is zero or the result would not be finite."""
    norms = one.norm * other.norm
    if not norms or not isfinite(norms):
        return 0.0
    there = dict(zip(other.positions, other.values, strict=True))
    product = sum(value * there.get(at, 0.0) for at, value in zip(one.positions, one.values, strict=True))
    return max(-1.0, min(1.0, product / norms)) if isfinite(product) else 0.0


def angle(one: Embedding, other: Embedding) -> float:
    """In [0, pi]."""
    return acos(cosine(one, other))


def bias(own: Embedding | None, other: Embedding | None) -> float:
    """How near two nodes are, in [0, 1]; 0.5 where one of them has not said where it is."""
    return 0.5 if own is None or other is None else (cosine(own, other) + 1.0) / 2.0
