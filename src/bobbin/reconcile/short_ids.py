"""Short ids: 64 bits that stand for a digest under a key (SipHash-1-3, a batch at a time).

The key is made for one link by both sides, so neither can look for digests whose ids collide before it is known. Among
a million digests two share an id by chance once in 37 million keys; ``SharedId`` says so, and another key helps.
"""

from collections.abc import Sequence
from typing import Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from bobbin.errors import UsageError

Ids: TypeAlias = NDArray[np.uint64]
"""Short ids, in any order, each once."""
Rows: TypeAlias = NDArray[np.uint64]
"""Digests as rows of four numbers, little end first."""

KEY_BYTES: Final = 16
DIGEST_BYTES: Final = 32
_WORDS: Final = 4
_BATCH: Final = 16_384
"""Rows at a time: what is worked on stays in the cache."""
_MARKS: Final = 1 << 16
_START: Final = (0x736F6D6570736575, 0x646F72616E646F6D, 0x6C7967656E657261, 0x7465646279746573)
_LENGTH_WORD: Final = np.uint64(DIGEST_BYTES << 56)


class SharedId(UsageError):
    """Two different digests of one set have the same short id. Nothing is wrong with either; take another key."""


def digest_rows(digests: Sequence[bytes]) -> Rows:
    """Digests, each of 32 bytes, as rows."""
    joined = b"".join(digests)
    if len(joined) != DIGEST_BYTES * len(digests):
        raise UsageError(f"a digest has {DIGEST_BYTES} bytes")
    return np.frombuffer(joined, dtype="<u8").astype(np.uint64, copy=False).reshape(-1, _WORDS)


def short_ids(key: bytes, rows: Rows) -> Ids:
    """The short id of each digest, in the order of the rows. Raises ``SharedId`` where two rows have the same."""
    ids = keyed_ids(key, rows)
    ordered = np.sort(ids)
    if bool((ordered[1:] == ordered[:-1]).any()):
        raise SharedId("two digests have the same short id under this key")
    return ids


def keyed_ids(key: bytes, rows: Rows) -> Ids:
    """The same for a caller that compares a root at the end anyway: nobody looks whether two rows have the same."""
    if len(key) != KEY_BYTES:
        raise UsageError(f"a key has {KEY_BYTES} bytes")
    low, high = (int.from_bytes(key[at : at + 8], "little") for at in (0, 8))
    ids = np.empty(len(rows), np.uint64)
    for at in range(0, len(rows), _BATCH):
        ids[at : at + _BATCH] = _hash(low, high, rows[at : at + _BATCH])
    return ids


def find(ids: Ids, wanted: Ids) -> NDArray[np.intp]:
    """Where in ``ids`` those that are wanted stand, in rising order: one quick look at each, a closer one at few."""
    marked = np.zeros(_MARKS, np.bool_)
    marked[_marks(wanted)] = True
    likely = np.flatnonzero(marked[_marks(ids)])
    ordered = np.sort(wanted)
    at = np.searchsorted(ordered, ids[likely])
    at[at == len(ordered)] = 0
    return likely[ordered[at] == ids[likely]] if len(ordered) else likely


def _marks(ids: Ids) -> NDArray[np.int64]:
    return (ids & np.uint64(_MARKS - 1)).view(np.int64)


def _hash(low: int, high: int, rows: Rows) -> Ids:
    words = (low, high, low, high)
    state = [np.full(len(rows), start ^ word, np.uint64) for start, word in zip(_START, words, strict=True)]
    spare = np.empty(len(rows), np.uint64)
    for number in range(_WORDS):
        word = rows[:, number]
        state[3] ^= word
        _round(state, spare)
        state[0] ^= word
    state[3] ^= _LENGTH_WORD
    _round(state, spare)
    state[0] ^= _LENGTH_WORD
    state[2] ^= np.uint64(0xFF)
    for _ in range(3):
        _round(state, spare)
    return state[0] ^ state[1] ^ state[2] ^ state[3]


def _round(state: list[Ids], spare: Ids) -> None:
    """One round of SipHash on all rows at once, in place."""
    first, second, third, fourth = state
    first += second
    _rotate(second, 13, spare)
    second ^= first
    _rotate(first, 32, spare)
    third += fourth
    _rotate(fourth, 16, spare)
    fourth ^= third
    first += fourth
    _rotate(fourth, 21, spare)
    fourth ^= first
    third += second
    _rotate(second, 17, spare)
    second ^= third
    _rotate(third, 32, spare)


def _rotate(values: Ids, bits: int, spare: Ids) -> None:
    np.right_shift(values, np.uint64(64 - bits), out=spare)
    np.left_shift(values, np.uint64(bits), out=values)
    values |= spare
