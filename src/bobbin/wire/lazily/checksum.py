"""FNV-1a with 64 bits, the checksum of blobs in shared memory, without any compiled code of our own.

Each step is ``h = (h ^ byte) * prime``, so every step waits for the one before, and a loop in Python is slow. Two
things help:

* The exclusive or reaches only the low byte of ``h``. So ``h ^ byte`` is ``h + d`` where ``d`` follows from the low
  byte and the byte, and the whole is a sum: ``h0 * prime**n + d0 * prime**n + d1 * prime**(n - 1) + …``, modulo 2^64.
* The low bytes obey the same rule modulo 256. The factor is odd, so bit ``k`` of a product is bit ``k`` of the other
  factor, turned over or not as the bits below say. With those known, all bits ``k`` are one running exclusive or.

That makes eight passes over arrays instead of one step a byte. ``bobbin.native`` has the plain loop in C, which is
faster still; where it was not built, this is what is used.
"""

from functools import cache
from typing import Final

import numpy as np
import numpy.typing as npt

BASIS: Final = 0xCBF29CE484222325
PRIME: Final = 0x100000001B3

_MASK: Final = 2**64 - 1
_LOW_FACTOR: Final = PRIME & 0xFF
_CHUNK: Final = 65_536
_PLAIN_MAX: Final = 1024
"""Up to here the loop is quicker than setting up arrays."""


def fnv1a64(data: bytes | bytearray | memoryview) -> int:
    """The checksum of some bytes."""
    if len(data) <= _PLAIN_MAX:
        found = BASIS
        for byte in data:
            found = (found ^ byte) * PRIME & _MASK
        return found
    whole = np.frombuffer(data, dtype=np.uint8)
    found = BASIS
    for start in range(0, len(whole), _CHUNK):
        found = _advance(found, whole[start : start + _CHUNK])
    return found


def _advance(state: int, chunk: npt.NDArray[np.uint8]) -> int:
    """The state after the bytes of a chunk."""
    mixed = _mixed_low_bytes(state & 0xFF, chunk)
    changes = mixed.astype(np.int64)
    changes -= mixed ^ chunk
    powers = _powers()[-len(chunk) :]
    return (state * int(powers[0]) + int(np.dot(changes.view(np.uint64), powers))) & _MASK


def _mixed_low_bytes(low: int, chunk: npt.NDArray[np.uint8]) -> npt.NDArray[np.uint8]:
    """What the low byte of the state is at each step, after the exclusive or and before the product."""
    mixed = np.zeros(len(chunk), dtype=np.uint8)
    for bit in range(8):
        own = chunk >> bit & 1
        turned = mixed * np.uint8(_LOW_FACTOR) >> bit & 1
        # The running exclusive or up to and without a place is the state's bit there; its own bit then makes the mix.
        flips = np.bitwise_xor.accumulate(own ^ turned)
        mixed |= (flips ^ turned ^ (low >> bit & 1)) << bit
    return mixed


@cache
def _powers() -> npt.NDArray[np.uint64]:
    """``PRIME ** _CHUNK`` down to ``PRIME ** 1``, modulo 2^64."""
    rising = np.multiply.accumulate(np.full(_CHUNK, PRIME, dtype=np.uint64), dtype=np.uint64)
    falling = np.ascontiguousarray(rising[::-1])
    falling.setflags(write=False)
    return falling
