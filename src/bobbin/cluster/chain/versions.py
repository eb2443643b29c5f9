"""The items of a store with what they held before, for as long as somebody may still read it.

A version is named by the height of the block that wrote it. A new one supersedes the one before, which is kept for
readers of earlier heights and forgotten when the *floor* reaches the height at which it was superseded. A key that was
taken away leaves an empty version that goes in the same way. The floor follows ``KEEP_HEIGHTS`` behind the tip, and
closer when superseded values would take more than ``KEEP_BYTES``. All of this follows from the blocks alone, so that
every node forgets the same at the same height.

**Commutative writes.** ``by`` is the kind of declared commutative operation that wrote a version, and ``base`` the
height of the last write that was of another kind, or 0 when the floor has reached it. So whether all writes since some
height were additions of one kind is known without looking at them: they were if ``base`` is not above it.
"""

from bisect import bisect_right
from collections import deque
from collections.abc import Iterable, Iterator
from itertools import pairwise
from typing import Final

from msgspec import Struct

from bobbin.cluster.chain.errors import SnapshotTooOld
from bobbin.cluster.chain.holdings import Held, Holds
from bobbin.errors import IntegrityError

KEEP_HEIGHTS: Final = 10_000
KEEP_BYTES: Final = 268_435_456
_OVERHEAD: Final = 200
"""Bytes that a superseded version counts for besides its key and value."""


class Version(Struct, frozen=True, array_like=True, forbid_unknown_fields=True, gc=False):
    """What a key holds from a height on."""

    height: int
    holds: Holds
    value: bytes
    by: int = 0
    """The tag of the commutative operation that all writes at this height were; 0 for anything else."""
    base: int = 0
    """The height of the last write before, or at this height, that was not ``by``."""


class Item(Struct, frozen=True, gc=False):
    """A key and what it holds, as a reader gets it."""

    key: bytes
    """A storage key."""
    value: bytes
    version: int
    """The height of the block that wrote it."""
    holds: Holds = Holds.BYTES


def written(present: Version | None, height: int, held: Held | None, by: int) -> Version:
    """The version that a write makes of the one it meets; None for a key that has gone."""
    if by == 0:
        base = height
    elif present is None:
        base = 0
    else:
        base = present.base if present.by == by else present.height
    if held is None:
        return Version(height, Holds.NOTHING, b"", 0, height)
    return Version(height, held.holds, held.value, by, base)


def held_by(version: Version | None) -> Held | None:
    """What a version holds; None for nothing."""
    if version is None or version.holds is Holds.NOTHING:
        return None
    return Held(version.holds, version.value)


class Versions:
    """All keys of a store."""

    def __init__(self, *, keep_heights: int = KEEP_HEIGHTS, keep_bytes: int = KEEP_BYTES) -> None:
        self.floor = 0
        """The lowest height at which the store can still be read."""
        self._keep_heights = keep_heights
        self._keep_bytes = keep_bytes
        self._present: dict[bytes, Version] = {}
        """The newest version of each key, empty ones included."""
        self._older: dict[bytes, list[Version]] = {}
        """Superseded ones, ascending; a list in here is never empty."""
        self._expiring: deque[tuple[int, bytes, int]] = deque()
        """What goes when the floor gets there: height, key and size. Ascending by height."""
        self._expiring_bytes = 0

    def newest(self, key: bytes) -> Version | None:
        """The newest version, which may be an empty one; None for a key that never was, or was forgotten."""
        return self._present.get(key)

    def at(self, key: bytes, height: int) -> Version | None:
        """The version of a height. Raises ``SnapshotTooOld`` below the floor."""
        if height < self.floor:
            raise SnapshotTooOld(f"height {height} can be read no more; the lowest one is {self.floor}")
        version = self._present.get(key)
        if version is None or version.height <= height:
            return version
        older = self._older.get(key, [])
        place = bisect_right(older, height, key=lambda one: one.height)
        return older[place - 1] if place else None

    def put(self, height: int, changes: dict[bytes, Version]) -> None:
        """Take in the versions of a new block, and forget what the floor has reached."""
        present, expiring, expiring_bytes = self._present, self._expiring, self._expiring_bytes
        for key, given in changes.items():
            version = given
            if version.by and 0 < version.base <= self.floor:
                # Whoever worked this out earlier may have met the end of a key that is forgotten by now. No transaction
                # that may still commit can tell the difference, and every node keeps the same.
                version = Version(version.height, version.holds, version.value, version.by, 0)
            before = present.get(key)
            present[key] = version
            if before is not None:
                self._older.setdefault(key, []).append(before)
                size = len(before.value) + len(key) + _OVERHEAD
                expiring.append((height, key, size))
                expiring_bytes += size
            if version.holds is Holds.NOTHING:
                size = len(key) + _OVERHEAD
                expiring.append((height, key, size))
                expiring_bytes += size
        self._expiring_bytes = expiring_bytes
        self._raise_floor(height)

    def _raise_floor(self, height: int) -> None:
        floor = max(self.floor, height - self._keep_heights)
        expiring = self._expiring
        while expiring and (expiring[0][0] <= floor or self._expiring_bytes > self._keep_bytes):
            reached, key, size = expiring.popleft()
            self._expiring_bytes -= size
            floor = max(floor, reached)
            self._forget(key, reached)
        self.floor = floor

    def _forget(self, key: bytes, reached: int) -> None:
        """Drop what was superseded at a height, or an empty version that was written there and is the newest."""
        older = self._older.get(key)
        if older is not None:
            newest = self._present[key]
            while older and (older[1] if len(older) > 1 else newest).height <= reached:
                older.pop(0)
            if not older:
                del self._older[key]
        version = self._present.get(key)
        if version is not None and version.holds is Holds.NOTHING and version.height <= reached:
            del self._present[key]

    # ---- the whole ---------------------------------------------------------------------------------------------------

    def __len__(self) -> int:
        """Keys with anything to be said of them."""
        return len(self._present)

    def entries(self) -> Iterator[tuple[bytes, tuple[Version, ...]]]:
        """Every key with its versions, ascending by height. Keys in no order that means anything."""
        older = self._older
        for key, version in self._present.items():
            yield key, (*older.get(key, ()), version)

    def copied(self) -> tuple[dict[bytes, Version], dict[bytes, tuple[Version, ...]]]:
        """The newest version of each key, and those that it superseded where there are any: they do not change."""
        return self._present.copy(), {key: tuple(older) for key, older in self._older.items()}

    def contents(self) -> Iterator[tuple[bytes, Held]]:
        """Every key that holds something."""
        for key, version in self._present.items():
            held = held_by(version)
            if held is not None:
                yield key, held

    @staticmethod
    def restored(
        entries: Iterable[tuple[bytes, tuple[Version, ...]]],
        *,
        height: int,
        floor: int,
        keep_heights: int = KEEP_HEIGHTS,
        keep_bytes: int = KEEP_BYTES,
    ) -> "Versions":
        """What ``entries`` gave, of a store at a height. Raises ``IntegrityError`` for what cannot have been one."""
        made = Versions(keep_heights=keep_heights, keep_bytes=keep_bytes)
        made.floor = floor
        expiring: list[tuple[int, bytes, int]] = []
        for key, versions in entries:
            _check_versions(key, versions, height)
            if key in made._present:
                raise IntegrityError("a key comes twice")
            *older, present = versions
            made._present[key] = present
            if older:
                made._older[key] = older
            for before, after in pairwise(versions):
                expiring.append((after.height, key, len(before.value) + len(key) + _OVERHEAD))
            gone = [one for one in versions if one.holds is Holds.NOTHING and (one.height > floor or one is present)]
            expiring.extend((one.height, key, len(key) + _OVERHEAD) for one in gone)
        expiring.sort()
        if expiring and expiring[0][0] <= floor:
            raise IntegrityError("a version is there that should have been forgotten")
        made._expiring = deque(expiring)
        made._expiring_bytes = sum(size for _, _, size in expiring)
        return made


def _check_versions(key: bytes, versions: tuple[Version, ...], height: int) -> None:
    if not key or not versions:
        raise IntegrityError("an entry of the store has a key and at least one version")
    last = 0
    for version in versions:
        if not last < version.height <= height or not 0 <= version.base <= version.height:
            raise IntegrityError("the versions of a key ascend, from 1 to the height of the chain")
        last = version.height
