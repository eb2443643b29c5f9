"""The codebook that all nodes share: vectors that stand for many, numbered, versioned, replaced through the log alone.

Codes stand in headers, which are hashed and signed, so a code must be the same on every node. The nearest centroid is
therefore decided by ``geometry.cosine``, and by the lower number among equals. Matrix products only narrow the choice:
whatever they leave within ``_SLACK`` of the best is looked at again, and no rounding of theirs comes near that.
"""

import struct
from collections.abc import Sequence
from functools import cached_property
from itertools import pairwise
from typing import Final

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from bobbin.cluster.geometry import Embedding, combine, cosine
from bobbin.errors import IntegrityError, UsageError

CENTROIDS_MAX: Final = 65_536
"""A code has 16 bits."""
DIMENSION_MAX: Final = 65_536
LABEL_BYTES_MAX: Final = 256
_MAGIC: Final = b"bobbin-codebook/v1"
_HEAD: Final = struct.Struct("<II")
_ENTRY: Final = struct.Struct("<HI")
_SLACK: Final = 1e-6
_NARROW_FROM: Final = 8
"""Fewer centroids are looked at one by one."""
_CELLS_MAX: Final = 4_194_304
"""Of the matrix that narrows the choice; larger books go without."""


class Quantized(Struct, frozen=True):
    """The centroid that a vector is nearest to by direction."""

    code: int
    similarity: float
    residual: Embedding
    """The vector without the centroid."""


class GlobalCodebook:
    """Never changed once made; version 0 is the empty one that a chain begins with."""

    def __init__(self, version: int = 0, centroids: Sequence[Embedding] = (), labels: Sequence[str] = ()) -> None:
        """Raise ``UsageError`` for zero vectors, unlike dimensions, too many centroids or another number of labels."""
        self.version: Final = version
        self.centroids: Final = tuple(centroids)
        self.labels: Final = tuple(labels) or ("",) * len(self.centroids)
        self.dimension: Final = self.centroids[0].dimension if self.centroids else 0
        """0 for an empty one."""
        fault = _fault(self)
        if fault:
            raise UsageError(fault)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, GlobalCodebook) and _parts(self) == _parts(other)

    def __hash__(self) -> int:
        return hash(_parts(self))

    def quantize(self, vector: Embedding) -> Quantized | None:
        """None for an empty book, another dimension, or the zero vector, which has no direction."""
        if not self.centroids or vector.dimension != self.dimension or vector.is_zero:
            return None
        best, similarity = -1, -2.0
        for code in self._near(vector):
            found = cosine(vector, self.centroids[code])
            if found > similarity:
                best, similarity = code, found
        return Quantized(best, similarity, combine(vector, self.centroids[best], 1.0, -1.0))

    def codes(self, vector: Embedding) -> tuple[int, ...]:
        """What a header carries: the global code, or nothing."""
        found = self.quantize(vector)
        return () if found is None else (found.code,)

    def encode(self) -> bytes:
        """The centroids and labels, in one form only. The version stands beside them."""
        parts = [_MAGIC, _HEAD.pack(self.dimension, len(self.centroids))]
        for centroid, label in zip(self.centroids, self.labels, strict=True):
            name, size = label.encode(), len(centroid.positions)
            parts += (_ENTRY.pack(len(name), size), name)
            parts.append(struct.pack(f"<{size}I{size}d", *centroid.positions, *centroid.values))
        return b"".join(parts)

    @staticmethod
    def decode(version: int, content: bytes) -> "GlobalCodebook":
        """Raise ``IntegrityError`` for anything that ``encode`` does not give."""
        try:
            book = _decoded(version, content)
        except (struct.error, UnicodeDecodeError, UsageError) as error:
            raise IntegrityError(f"not a codebook: {error}") from error
        if book.encode() != content:
            raise IntegrityError("not a codebook: it is not written in its one form")
        return book

    def _near(self, vector: Embedding) -> Sequence[int]:
        count = len(self.centroids)
        if not _NARROW_FROM <= count <= _CELLS_MAX // self.dimension:
            return range(count)
        length = vector.norm
        if not 1e-100 < length < 1e100:
            return range(count)
        values = np.fromiter(vector.values, np.float64, len(vector.values)) / length
        products = self._directions[:, list(vector.positions)] @ values
        nearest: list[int] = np.flatnonzero(products >= products.max() - _SLACK).tolist()
        return nearest

    @cached_property
    def _directions(self) -> NDArray[np.float64]:
        """The centroids as rows of length 1."""
        rows = np.zeros((len(self.centroids), self.dimension))
        for code, centroid in enumerate(self.centroids):
            rows[code, list(centroid.positions)] = centroid.values
            rows[code] /= centroid.norm
        return rows


def _decoded(version: int, content: bytes) -> GlobalCodebook:
    if not content.startswith(_MAGIC):
        raise IntegrityError("not a codebook: it begins with something else")
    at = len(_MAGIC)
    dimension, count = _HEAD.unpack_from(content, at)
    at += _HEAD.size
    if count * _ENTRY.size > len(content) - at:
        raise IntegrityError(f"not a codebook: {count} centroids do not fit into it")
    centroids: list[Embedding] = []
    labels: list[str] = []
    for _ in range(count):
        named, size = _ENTRY.unpack_from(content, at)
        at += _ENTRY.size
        if named + 12 * size > len(content) - at:
            raise IntegrityError("not a codebook: it ends within a centroid")
        labels.append(content[at : at + named].decode())
        at += named
        values: tuple[float, ...] = struct.unpack_from(f"<{size}I{size}d", content, at)
        at += 12 * size
        centroids.append(Embedding(dimension, tuple(map(int, values[:size])), values[size:]))
    if at != len(content):
        raise IntegrityError(f"not a codebook: {len(content) - at} bytes too many")
    return GlobalCodebook(version, centroids, labels)


def _fault(book: GlobalCodebook) -> str | None:
    if book.version < 0:
        return f"the version of a codebook is 0 or more, not {book.version}"
    if len(book.centroids) > CENTROIDS_MAX:
        return f"a codebook has at most {CENTROIDS_MAX} centroids, not {len(book.centroids)}"
    if len(book.labels) != len(book.centroids):
        return f"a codebook has a label for each centroid: {len(book.labels)} for {len(book.centroids)}"
    if any(len(label.encode()) > LABEL_BYTES_MAX for label in book.labels):
        return f"a label has at most {LABEL_BYTES_MAX} bytes"
    for code, centroid in enumerate(book.centroids):
        fault = _fault_of(centroid, book.dimension)
        if fault:
            return f"centroid {code} {fault}"
    return None


def _fault_of(centroid: Embedding, dimension: int) -> str | None:
    if centroid.dimension != dimension or not 0 < dimension <= DIMENSION_MAX:
        return f"has {centroid.dimension} dimensions, where {dimension or 'at least one'} are due"
    positions = centroid.positions
    if len(positions) != len(centroid.values):
        return "has another number of positions than of values"
    ordered = all(one < other for one, other in pairwise(positions))
    if not ordered or (positions and not 0 <= positions[0] <= positions[-1] < dimension):
        return "has positions out of order or out of its dimensions"
    if not all(1e-100 < abs(value) < 1e100 for value in centroid.values):
        return "has a value that is zero, not finite, or of no sensible size"
    return None if positions else "is the zero vector"


def _parts(book: GlobalCodebook) -> tuple[int, tuple[Embedding, ...], tuple[str, ...]]:
    return book.version, book.centroids, book.labels


EMPTY: Final = GlobalCodebook()
