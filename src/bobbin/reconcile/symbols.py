"""Symbols: what one side sends of its set, and how they look as bytes.

A symbol is the sum of some ids modulo 2**64, and that of their checks modulo 2**16. Sums and not the exclusive or: in a
difference they also say which side has an id, and NumPy adds into scattered places several times as fast. A check is a
mix of 16 bits of an id: it tells whether a symbol of a difference has one id in it. It is short because it is not
alone: an id that is found must also belong where it was found, and what is left at the end must be nothing.

As bytes, a symbol is its sum (8) and its check (2), little end first; there is no count and no length.
"""

from typing import Final

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from bobbin.errors import PeerError
from bobbin.reconcile.short_ids import Ids

SYMBOL_BYTES: Final = 10
_ROW: Final = np.dtype([("sum", "<u8"), ("check", "<u2")])
_MIXER: Final = np.uint64(0xC2B2AE3D27D4EB4F)

Checks = NDArray[np.uint16]


class MalformedSymbols(PeerError):
    """Bytes that are no symbols."""

    def __init__(self, message: str) -> None:
        super().__init__("malformed-sketch", message)


class Symbols(Struct, frozen=True, eq=False):
    """Consecutive symbols of one stream."""

    first: int
    """The number of the first of them in the stream."""
    sums: Ids
    checks: Checks

    def __len__(self) -> int:
        return len(self.sums)

    def encode(self) -> bytes:
        rows = np.empty(len(self), _ROW)
        rows["sum"] = self.sums
        rows["check"] = self.checks
        return rows.tobytes()

    @classmethod
    def decode(cls, first: int, raw: bytes) -> "Symbols":
        """Raises ``MalformedSymbols`` for bytes that are not a whole number of symbols."""
        if len(raw) % SYMBOL_BYTES:
            raise MalformedSymbols(f"{len(raw)} bytes are no whole number of symbols, which have {SYMBOL_BYTES} each")
        rows = np.frombuffer(raw, _ROW)
        return cls(first, rows["sum"].astype(np.uint64), rows["check"].astype(np.uint16))


def checks_of(ids: Ids) -> Checks:
    """The check of each id."""
    return (((ids ^ (ids >> np.uint64(32))) * _MIXER) >> np.uint64(48)).astype(np.uint16)
