"""The codebook of one domain on one node: it learns from what it sees, and forgets what it sees no more.

Two nodes see different things, so local codes differ, and none of them ever stands in anything that is hashed or
signed. Time comes in as an argument.
"""

from enum import Enum
from math import log
from typing import Final

from msgspec import Struct

from bobbin.cluster.geometry import Embedding, combine, cosine
from bobbin.errors import UsageError

CAPACITY: Final = 256
USED_MIN: Final = 2
"""An entry that was used less often is too fresh to be judged, and is not pruned."""
_SHARE: Final = 0.5
_FADE_S: Final = 60.0


class Pruning(Enum):
    """By which score the entry to be pruned is found: the lowest goes."""

    LEAST_RECENT = "lru"
    LEAST_FREQUENT = "lfu"
    HYBRID = "hybrid"


class LocalStats(Struct):
    """What has happened to a book."""

    lookups: int = 0
    updates: int = 0
    """An entry was moved towards what it was taken for."""
    insertions: int = 0
    prunes: int = 0
    refusals: int = 0
    """The book was full of entries that are too fresh."""


class LocalEntry(Struct):
    """A centroid, and how it was used."""

    centroid: Embedding
    uses: int
    last_ms: int

    def score(self, pruning: Pruning, now_ms: int) -> float:
        match pruning:
            case Pruning.LEAST_RECENT:
                return float(self.last_ms)
            case Pruning.LEAST_FREQUENT:
                return float(self.uses)
            case Pruning.HYBRID:
                age_s = max(0, now_ms - self.last_ms) / 1_000
                return _SHARE / (1.0 + age_s / _FADE_S) + _SHARE * log(1.0 + self.uses)


class LocalCodebook:
    """A code is the place of an entry; a place that became free is given to the next one."""

    def __init__(
        self,
        *,
        capacity: int = CAPACITY,
        rate: float = 0.1,
        match: float = 0.9,
        pruning: Pruning = Pruning.HYBRID,
    ) -> None:
        """``rate``: the share of what is seen in the entry that it is taken for. ``match``: the least cosine for it."""
        if not 0 < capacity <= 65_536:
            raise UsageError(f"a local codebook has 1 to 65,536 entries, not {capacity}")
        if not 0.0 < rate <= 1.0 or not 0.0 < match <= 1.0:
            raise UsageError(f"rate ({rate}) and match ({match}) of a local codebook lie in (0, 1]")
        self.stats = LocalStats()
        self._capacity = capacity
        self._rate = rate
        self._match = match
        self._pruning = pruning
        self._entries: dict[int, LocalEntry] = {}

    def __len__(self) -> int:
        return len(self._entries)

    def entry(self, code: int) -> LocalEntry | None:
        return self._entries.get(code)

    def learn(self, vector: Embedding, *, now_ms: int) -> int | None:
        """The code of a vector: that of the entry it is like, which moves towards it, or of a new one.

        None for the zero vector, and where the book is full and all of it too fresh to be pruned.
        """
        if vector.is_zero:
            return None
        self.stats.lookups += 1
        code, similarity = self._nearest(vector)
        if code is not None and similarity >= self._match:
            entry = self._entries[code]
            entry.centroid = combine(vector, entry.centroid, self._rate, 1.0 - self._rate)
            entry.uses += 1
            entry.last_ms = now_ms
            self.stats.updates += 1
            return code
        if len(self._entries) >= self._capacity and not self._prune(now_ms):
            self.stats.refusals += 1
            return None
        free = next(place for place in range(self._capacity) if place not in self._entries)
        self._entries[free] = LocalEntry(vector, 1, now_ms)
        self.stats.insertions += 1
        return free

    def similarity(self, vector: Embedding) -> float:
        """To the entry that is most like a vector; 0 for an empty book. Changes no entry."""
        self.stats.lookups += 1
        code, similarity = self._nearest(vector)
        return 0.0 if code is None else similarity

    def _nearest(self, vector: Embedding) -> tuple[int | None, float]:
        best, similarity = None, -2.0
        for code in sorted(self._entries):
            found = cosine(vector, self._entries[code].centroid)
            if found > similarity:
                best, similarity = code, found
        return best, similarity

    def _prune(self, now_ms: int) -> bool:
        known = [code for code in sorted(self._entries) if self._entries[code].uses >= USED_MIN]
        if not known:
            return False
        del self._entries[min(known, key=lambda code: self._entries[code].score(self._pruning, now_ms))]
        self.stats.prunes += 1
        return True
