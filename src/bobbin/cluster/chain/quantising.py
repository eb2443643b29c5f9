"""A delta embedding in a byte for each value, for keeping and sending many of them.

The scale is the largest size among the values over 127, in double precision, so it follows from the vector alone and is
the same on every node. What is hashed and signed is never quantised: a byte cannot say what a double says.
"""

import struct
from struct import Struct as Layout
from struct import pack, unpack_from
from typing import Final

from msgspec import Struct

from bobbin.cluster.geometry import Embedding
from bobbin.errors import IntegrityError, UsageError

LEVELS: Final = 127
"""Steps on either side of zero."""
_HEAD: Final = Layout(">IId")


class QuantisedEmbedding(Struct, frozen=True):
    """Positions as they were, and whole multiples of a scale."""

    dimension: int
    positions: tuple[int, ...]
    codes: bytes
    """A signed byte for each value."""
    scale: float
    """0 for a vector without values."""

    def encode(self) -> bytes:
        """In one form only."""
        size = len(self.positions)
        return _HEAD.pack(self.dimension, size, self.scale) + pack(f">{size}I", *self.positions) + self.codes

    @staticmethod
    def decode(content: bytes) -> "QuantisedEmbedding":
        """Raise ``IntegrityError`` for anything that ``encode`` does not give."""
        try:
            dimension, size, scale = _HEAD.unpack_from(content)
            if len(content) != _HEAD.size + 5 * size:
                raise IntegrityError("a quantised embedding has another length than it says")
            positions: tuple[int, ...] = unpack_from(f">{size}I", content, _HEAD.size)
        except struct.error as error:
            raise IntegrityError(f"not a quantised embedding: {error}") from error
        return QuantisedEmbedding(dimension, positions, content[_HEAD.size + 4 * size :], scale)

    def restored(self) -> Embedding:
        """The vector, each value off by half a step at most; those that came to zero are gone."""
        values = unpack_from(f">{len(self.codes)}b", self.codes)
        return Embedding.of(
            self.dimension, {at: code * self.scale for at, code in zip(self.positions, values, strict=True)}
        )


def quantise(vector: Embedding) -> QuantisedEmbedding:
    """Round each value to the nearest of 255 steps, halves to the even one."""
    largest = max(map(abs, vector.values), default=0.0)
    if not largest < 1e300:
        raise UsageError("a vector with a value that is not finite, or close to it, cannot be quantised")
    scale = largest / LEVELS
    if scale == 0.0:
        codes = bytes(len(vector.values))
    else:
        codes = pack(f">{len(vector.values)}b", *[_code(value, scale) for value in vector.values])
    return QuantisedEmbedding(vector.dimension, vector.positions, codes, scale)


def _code(value: float, scale: float) -> int:
    return max(-LEVELS, min(LEVELS, round(value / scale)))
