"""Vectors by which nodes and changes are compared. Geometry advises; nothing that must be safe rests on it.

Some results are hashed or signed, so every node has to come to the same bits. Sums are therefore correctly rounded
(``math.fsum``), which makes them independent of the order of their terms, and all else is single operations of IEEE
754 doubles, roots included. Only ``angle`` rests on a library function that may differ in its last bit.
"""

from collections.abc import Callable, Iterable
from math import acos, fsum, inf, isfinite, sqrt
from typing import Final

from msgspec import Struct

_PLAIN: Final = (1e-280, 1e280)


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

    @staticmethod
    def of(dimension: int, values: dict[int, float]) -> "Embedding":
        """A vector by what it has at its positions; zeros take no room."""
        positions = tuple(sorted([position for position, value in values.items() if value]))
        return Embedding(dimension, positions, tuple([values[position] for position in positions]))

    @staticmethod
    def zero(dimension: int) -> "Embedding":
        return Embedding(dimension, (), ())

    @property
    def square(self) -> float:
        """Of the length."""
        return total(value * value for value in self.values)

    @property
    def norm(self) -> float:
        return sqrt(self.square)

    @property
    def is_zero(self) -> bool:
        return not any(self.values)

    def by_position(self) -> dict[int, float]:
        return dict(zip(self.positions, self.values, strict=True))

    def mapped(self, change: Callable[[float], float]) -> "Embedding":
        """Each value changed; those that become zero take no room."""
        return Embedding.of(self.dimension, {at: change(value) for at, value in self.by_position().items()})


def total(terms: Iterable[float]) -> float:
    """The sum, correctly rounded whatever the order; infinite where a double cannot hold it."""
    try:
        return fsum(terms)
    except (OverflowError, ValueError):
        return inf


def dot(one: Embedding, other: Embedding) -> float:
    """The same in both orders."""
    there = other.by_position()
    return total(value * there.get(at, 0.0) for at, value in zip(one.positions, one.values, strict=True))


def combine(one: Embedding, other: Embedding, left: float = 1.0, right: float = 1.0) -> Embedding:
    """``left`` times the one plus ``right`` times the other; the smaller is padded with zeros."""
    values = {at: left * value for at, value in zip(one.positions, one.values, strict=True)}
    for at, value in zip(other.positions, other.values, strict=True):
        values[at] = values.get(at, 0.0) + right * value
    return Embedding.of(max(one.dimension, other.dimension), values)


def distance(one: Embedding, other: Embedding) -> float:
    """Of two points, as the crow flies."""
    return combine(one, other, 1.0, -1.0).norm


def cosine(one: Embedding, other: Embedding) -> float:
    """In [-1, 1]; 0 where either vector is zero or the result would not be finite. The same in both orders."""
    here, there = one.square, other.square
    both = here * there
    # One root of the product is nearer to the truth than the product of two roots, where doubles can hold it: vectors
    # of ten ones that share one of them have the cosine 0.1, and not a little less.
    norms = sqrt(both) if _PLAIN[0] < both < _PLAIN[1] else sqrt(here) * sqrt(there)
    if not norms or not isfinite(norms):
        return 0.0
    product = dot(one, other)
    return max(-1.0, min(1.0, product / norms)) if isfinite(product) else 0.0


def angle(one: Embedding, other: Embedding) -> float:
    """In [0, pi]."""
    return acos(cosine(one, other))


def bias(own: Embedding | None, other: Embedding | None) -> float:
    """How near two nodes are, in [0, 1]; 0.5 where one of them has not said where it is."""
    return 0.5 if own is None or other is None else (cosine(own, other) + 1.0) / 2.0
