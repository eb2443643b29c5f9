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
    """A set of ids in the order of their keys."""

    def __init__(self, keys: Keys, ids: Ids) -> None:
        if len(keys) != len(ids):
            raise UsageError("every id has one key")
        order = np.argsort(keys, kind="stable")
        self._keys: Final = keys[order]
        self._ids: Final = ids[order]
        self._sums: Final = np.concatenate((np.zeros(1, np.uint64), np.cumsum(self._ids, dtype=np.uint64)))

    def __len__(self) -> int:
        return len(self._ids)

    def fingerprint(self, interval: Interval) -> Fingerprint:
        """What the ids of an interval add up to."""
        begin, end = self._find(interval)
        total = (int(self._sums[end]) - int(self._sums[begin])) % 2**64
        return Fingerprint(interval, end - begin, total)

    def ids(self, interval: Interval) -> Ids:
        """The ids of an interval, in order."""
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
        """All keys, cut where the last so many ids begin. ``counts`` fall."""
        cuts = sorted({int(self._keys[len(self) - count]) for count in counts if 0 < count <= len(self)})
        return _cut(Interval(), cuts)

    def _find(self, interval: Interval) -> tuple[int, int]:
        begin = np.searchsorted(self._keys, np.uint64(interval.low), "left")
        end = np.searchsorted(self._keys, np.uint64(interval.high), "right")
        return int(begin), int(end)


def _cut(interval: Interval, cuts: list[int]) -> tuple[Interval, ...]:
    """An interval before and from each of some keys on, which rise."""
    inside = [key for key in cuts if interval.low < key <= interval.high]
    lows = [interval.low, *inside]
    highs = [*(key - 1 for key in inside), interval.high]
    return tuple(Interval(low, high) for low, high in zip(lows, highs, strict=True))
