"""The two numbers that a filter derives from an item: the low halves of XXH64 under two seeds, many items at a time.

Items of equal length are hashed together, a column of NumPy words for each eight bytes of them. A round's items are a
digit and an id of 43 or 44 characters, so a whole tangle takes two or three passes, whatever its size.

The library whose filters these are seeds with 0x1234567890 plus one and plus two, but keeps 32 bits of either, and 32
bits of each hash. Both cuts are part of the format.
"""

from collections.abc import Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

Words = NDArray[np.uint64]

_LOW: Final = 0xFFFFFFFF
_P1: Final = np.uint64(0x9E3779B185EBCA87)
_P2: Final = np.uint64(0xC2B2AE3D27D4EB4F)
_P3: Final = np.uint64(0x165667B19E3779F9)
_P4: Final = np.uint64(0x85EBCA77C2B2AE63)
_P5: Final = np.uint64(0x27D4EB2F165667C5)
_STRIPE: Final = 32


def pairs(items: Sequence[bytes], seed: int) -> tuple[Words, Words]:
    """The first and the second number of each item, under the seed that a filter states."""
    first, second = np.empty(len(items), np.uint64), np.empty(len(items), np.uint64)
    by_length: dict[int, list[int]] = {}
    for number, item in enumerate(items):
        by_length.setdefault(len(item), []).append(number)
    for length, numbers in by_length.items():
        joined = b"".join([items[number] for number in numbers])
        rows = np.frombuffer(joined, np.uint8).reshape(len(numbers), length)
        at = np.array(numbers, np.intp)
        first[at] = _xxh64(rows, (seed + 1) & _LOW) & np.uint64(_LOW)
        second[at] = _xxh64(rows, (seed + 2) & _LOW) & np.uint64(_LOW)
    return first, second


def _xxh64(rows: NDArray[np.uint8], seed: int) -> Words:
    """XXH64 of each row. Sums and products wrap at 64 bits, as the algorithm wants them to."""
    count, length = rows.shape
    if length >= _STRIPE:
        at = length - length % _STRIPE
        state = _stripes(rows[:, :at], seed)
    else:
        at = 0
        state = np.full(count, seed, np.uint64) + _P5
    state += np.uint64(length)
    while at + 8 <= length:
        state ^= _round(np.zeros(count, np.uint64), _word(rows, at))
        state = _rotate(state, 27) * _P1 + _P4
        at += 8
    if at + 4 <= length:
        part = np.ascontiguousarray(rows[:, at : at + 4]).view("<u4")[:, 0].astype(np.uint64)
        state ^= part * _P1
        state = _rotate(state, 23) * _P2 + _P3
        at += 4
    for column in range(at, length):
        state ^= rows[:, column].astype(np.uint64) * _P5
        state = _rotate(state, 11) * _P1
    return _avalanche(state)


def _stripes(rows: NDArray[np.uint8], seed: int) -> Words:
    """The state after all whole stripes of 32 bytes."""
    count, length = rows.shape
    base = np.full(count, seed, np.uint64)
    lanes = [base + _P1 + _P2, base + _P2, base.copy(), base - _P1]
    for start in range(0, length, _STRIPE):
        lanes = [_round(lane, _word(rows, start + 8 * number)) for number, lane in enumerate(lanes)]
    state = _rotate(lanes[0], 1) + _rotate(lanes[1], 7) + _rotate(lanes[2], 12) + _rotate(lanes[3], 18)
    for lane in lanes:
        state ^= _round(np.zeros(count, np.uint64), lane)
        state = state * _P1 + _P4
    return state


def _avalanche(state: Words) -> Words:
    state ^= state >> np.uint64(33)
    state *= _P2
    state ^= state >> np.uint64(29)
    state *= _P3
    state ^= state >> np.uint64(32)
    return state


def _word(rows: NDArray[np.uint8], at: int) -> Words:
    return np.ascontiguousarray(rows[:, at : at + 8]).view("<u8")[:, 0].astype(np.uint64, copy=False)


def _round(lane: Words, word: Words) -> Words:
    return _rotate(lane + word * _P2, 31) * _P1


def _rotate(values: Words, bits: int) -> Words:
    return (values << np.uint64(bits)) | (values >> np.uint64(64 - bits))
