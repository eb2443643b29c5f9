"""How much two sets differ, roughly, from some two hundred bytes.

Each id adds one to one of 128 counters, or takes one away. Where both sets have an id, the difference of their
counters does not feel it, so the sum of the squared differences is about the size of the difference (a count sketch
read as a second moment; the standard error is an eighth, however large the sets are).
"""

from typing import Final

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from bobbin.errors import PeerError
from bobbin.reconcile.short_ids import Ids

COUNTERS: Final = 128
_COUNTER_BYTES_MAX: Final = 9
_BATCH: Final = 65_536


class MalformedBulk(PeerError):
    """Bytes that are no counters."""

    def __init__(self, message: str) -> None:
        super().__init__("malformed-sketch", message)


class Bulk(Struct, frozen=True, eq=False):
    """What one set looks like to the estimate."""

    size: int
    """How many ids the set has."""
    counters: NDArray[np.int64]

    def encode(self) -> bytes:
        """The counters, each in groups of seven bits, the lowest first; the very lowest bit is the sign."""
        raw = bytearray()
        for counter in self.counters.tolist():
            rest = counter << 1 if counter >= 0 else ~(counter << 1)
            while rest > 0x7F:
                raw.append(rest & 0x7F | 0x80)
                rest >>= 7
            raw.append(rest)
        return bytes(raw)

    @classmethod
    def decode(cls, size: int, raw: bytes) -> "Bulk":
        """Raises ``MalformedBulk`` for bytes that are no counters."""
        counters: list[int] = []
        value = shift = 0
        for byte in raw:
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte & 0x80:
                if shift >= 7 * _COUNTER_BYTES_MAX:
                    raise MalformedBulk("a counter has too many bytes")
                continue
            if not byte and shift > 7:
                raise MalformedBulk("a counter has more bytes than it needs")
            counters.append(value >> 1 if not value & 1 else ~(value >> 1))
            if abs(counters[-1]) > size:
                raise MalformedBulk("a counter is larger than the set")
            value = shift = 0
        if shift or len(counters) != COUNTERS:
            raise MalformedBulk(f"{len(raw)} bytes are no {COUNTERS} counters")
        return cls(size, np.array(counters, np.int64))


def measure(ids: Ids) -> Bulk:
    """The counters of a set."""
    counters = np.zeros(COUNTERS, np.int64)
    for at in range(0, len(ids), _BATCH):
        batch = ids[at : at + _BATCH]
        # The lowest bits choose the counter, the next one the sign: two bins a counter, one for each.
        bins = np.bincount((batch & np.uint64(2 * COUNTERS - 1)).astype(np.int64), minlength=2 * COUNTERS)
        counters += bins[:COUNTERS] - bins[COUNTERS:]
    return Bulk(len(ids), counters)


def estimate(ours: Bulk, theirs: Bulk) -> int:
    """About how many ids only one of two sets has. Never less than the sizes alone say."""
    gap = (ours.counters - theirs.counters).astype(np.float64)
    squares = float((gap * gap).sum())
    least = abs(ours.size - theirs.size)
    return int(min(max(squares, least), ours.size + theirs.size))
