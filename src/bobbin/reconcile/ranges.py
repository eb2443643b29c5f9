"""A set in order of time, and what its stretches add up to: for differences that lie close together.

Every id has a key, a moment in nanoseconds or whatever else both sides order by. A stretch holds the ids whose keys
are in an interval; all ids of one key are in the same stretch. Its fingerprint is how many ids there are and their sum
modulo 2**64. Two sides whose fingerprints agree have, but for accident or malice, the same ids there, and the rest can
be listed. With the running sums that a set keeps, a fingerprint costs two searches.
"""

from typing import Final

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from bobbin.errors import UsageError
from bobbin.reconcile.short_ids import Ids

Keys = NDArray[np.uint64]

KEY_MAX: Final = 2**64 - 1


class Interval(Struct, frozen=True, order=True):
    """The keys from ``low`` up to and including ``high``."""

    low: int = 0
    high: int = KEY_MAX

    def __post_init__(self) -> None:
        if not 0 <= self.low <= self.high <= KEY_MAX:
            raise UsageError(f"there are no keys from {self.low} to {self.high}")


class Fingerprint(Struct, frozen=True):
    """What the ids of an interval add up to."""

    interval: Interval
    count: int
    sum: int


class Ordered:
    """A set of ids in the order of their keys.

    Only the last stretch is sorted, as far back as anybody has asked: differences lie there if they lie close together.
    """

    def __init__(self, keys: Keys, ids: Ids) -> None:
        if len(keys) != len(ids):
            raise UsageError("every id has one key")
        self._all_keys: Final = keys
        self._all_ids: Final = ids
        self._total: Final = int(ids.sum(dtype=np.uint64))
        self._low = KEY_MAX + 1
        """What follows holds all ids whose keys are not less."""
        self._keys: Keys = keys[:0]
        self._ids: Ids = ids[:0]
        self._sums: Ids = np.zeros(1, np.uint64)
        """Of the ids before each, and of all."""

    def __len__(self) -> int:
        return len(self._all_ids)

    def fingerprint(self, interval: Interval) -> Fingerprint:
        """What the ids of an interval add up to."""
        count, total = self._from(interval.low)
        if interval.high < KEY_MAX:
            count_after, total_after = self._from(interval.high + 1)
            count, total = count - count_after, (total - total_after) % 2**64
        return Fingerprint(interval, count, total)

    def ids(self, interval: Interval) -> Ids:
        """The ids of an interval, in order; of one key, in the order in which they were given."""
        begin, end = self._find(interval)
        return self._ids[begin:end]

    def agrees(self, fingerprint: Fingerprint) -> bool:
        """Whether the own ids of the same interval add up to the same."""
        return self.fingerprint(fingerprint.interval) == fingerprint

    def split(self, interval: Interval, parts: int) -> tuple[Interval, ...]:
        """An interval cut into at most so many that hold about equally many ids. Together they cover it."""
        begin, end = self._find(interval)
        cuts = np.unique(self._keys[begin + (end - begin) * np.arange(1, parts) // parts]) if end > begin else ()
        return _cut(interval, [int(key) for key in cuts])

    def recent(self, counts: tuple[int, ...]) -> tuple[Interval, ...]:
        """All keys, cut where the last so many ids begin."""
        inside = [count for count in counts if 0 < count <= len(self)]
        if not inside:
            return (Interval(),)
        first = len(self) - max(inside)
        self._reach(int(np.partition(self._all_keys, first)[first]))
        return _cut(Interval(), sorted({int(self._keys[-count]) for count in inside}))

    def _from(self, low: int) -> tuple[int, int]:
        """How many ids there are from a key on, and what they add up to."""
        if not low:
            return len(self), self._total
        self._reach(low)
        begin = int(np.searchsorted(self._keys, np.uint64(low), "left"))
        return len(self._keys) - begin, (int(self._sums[-1]) - int(self._sums[begin])) % 2**64

    def _find(self, interval: Interval) -> tuple[int, int]:
        self._reach(interval.low)
        begin = np.searchsorted(self._keys, np.uint64(interval.low), "left")
        end = np.searchsorted(self._keys, np.uint64(interval.high), "right")
        return int(begin), int(end)

    def _reach(self, low: int) -> None:
        """Sort all ids whose keys are not less than ``low``."""
        if low >= self._low:
            return
        inside = np.flatnonzero(self._all_keys >= np.uint64(low))
        order = inside[np.argsort(self._all_keys[inside], kind="stable")]
        self._low = low
        self._keys, self._ids = self._all_keys[order], self._all_ids[order]
        self._sums = np.concatenate((np.zeros(1, np.uint64), np.cumsum(self._ids, dtype=np.uint64)))


def _cut(interval: Interval, cuts: list[int]) -> tuple[Interval, ...]:
    """An interval before and from each of some keys on, which rise."""
    inside = [key for key in cuts if interval.low < key <= interval.high]
    lows = [interval.low, *inside]
    highs = [*(key - 1 for key in inside), interval.high]
    return tuple(Interval(low, high) for low, high in zip(lows, highs, strict=True))
