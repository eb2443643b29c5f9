"""Ranges of depth: which part of a tangle a side has, and which part it wants of what the other has.

A range names the depths from its lower to its upper end, both included. One whose lower end is above its upper end is
empty, whatever its numbers are, and is sent as it was computed. What a side wants follows from what both have and from
its own goal alone; goals themselves are never sent.
"""

from typing import Final, NamedTuple, TypeAlias, assert_never

from msgspec import Struct

ESTIMATE_MIN: Final = 5
ESTIMATE_MAX: Final = 1000


class Range(NamedTuple):
    """Depths from ``low`` up to and including ``high``."""

    low: int
    high: int

    @property
    def is_empty(self) -> bool:
        return self.low > self.high

    def __contains__(self, depth: object) -> bool:
        """Whether a depth lies in it."""
        return isinstance(depth, int) and self.low <= depth <= self.high


EMPTY: Final = Range(1, 0)


class WantAll(Struct, frozen=True):
    """Everything that the other side has."""


class WantNewest(Struct, frozen=True):
    """The topmost ``count`` levels, and whatever else lies above the own top."""

    count: int


class WantFrom(Struct, frozen=True):
    """Everything from a depth on: a set or dict needs no more than that. None: there is nothing it needs."""

    depth: int | None


Wish: TypeAlias = WantAll | WantNewest | WantFrom | None
"""What a goal asks for, as far as ranges are concerned. None asks for nothing."""


def want_range(local: Range, remote: Range, wish: Wish) -> Range:
    """The depths that are wanted of what the other side has."""
    if wish is None or remote.is_empty:
        return EMPTY
    match wish:
        case WantAll():
            return remote
        case WantNewest(count):
            return _want_newest(local, remote, count)
        case WantFrom(depth):
            if depth is None or remote.high < depth:
                return EMPTY
            return Range(max(depth, remote.low), remote.high)
        case _:
            assert_never(wish)


def exact_want_range(local: Range, remote: Range, wish: Wish) -> Range:
    """The same without what a goal lets go again at once.

    A pzp peer that wants the newest levels wants everything above its own top, however far that is.
    """
    if not isinstance(wish, WantNewest) or remote.is_empty:
        return want_range(local, remote, wish)
    top = remote.high if local.is_empty else max(local.high, remote.high)
    return Range(max(top - wish.count + 1, remote.low), remote.high)


def _want_newest(local: Range, remote: Range, count: int) -> Range:
    if remote.high < local.low:
        return EMPTY
    size = max(count, remote.high - local.high)
    return Range(max(remote.high - size + 1, local.high - size + 1, remote.low), remote.high)


def estimate(wanted: Range) -> int:
    """How many messages a filter is made for, going by depth alone: two a level, within bounds."""
    return min(max(2 * (wanted.high - wanted.low + 1), ESTIMATE_MIN), ESTIMATE_MAX)
