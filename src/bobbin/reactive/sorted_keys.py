"""Many texts in order, of which one more or less costs next to nothing.

They lie in blocks of a bounded length, one after the other. A text is looked for among the first texts of the blocks,
and then in its block; what is put in or taken out moves only its block.
"""

from bisect import bisect_left, bisect_right, insort
from collections.abc import Collection, Iterable, Iterator
from typing import Final

BLOCK_MAX: Final = 1_024
"""Texts in one block. A new block is half full."""
_ANEW_FRACTION: Final = 8
"""When this part of all changes at once, everything is sorted anew."""


class SortedKeys:
    """A set of texts in ascending order."""

    __slots__ = ("_blocks", "_firsts", "_size")

    def __init__(self, keys: Iterable[str] = ()) -> None:
        self._blocks: list[list[str]] = []
        """None is empty."""
        self._firsts: list[str] = []
        """The first text of each block."""
        self._size = 0
        self._fill(sorted(set(keys)))

    def __len__(self) -> int:
        return self._size

    def __contains__(self, key: str) -> bool:
        at = bisect_right(self._firsts, key) - 1
        if at < 0:
            return False
        block = self._blocks[at]
        place = bisect_left(block, key)
        return place < len(block) and block[place] == key

    def __iter__(self) -> Iterator[str]:
        for block in list(self._blocks):
            yield from list(block)

    def page(self, begin: int, count: int) -> list[str]:
        """So many texts from one place in the order on; fewer where it ends."""
        found: list[str] = []
        for block in self._blocks:
            if begin < len(block):
                found += block[begin : begin + count - len(found)]
                if len(found) >= count:
                    break
            begin = max(0, begin - len(block))
        return found

    def add(self, key: str) -> bool:
        """Put a text in; whether it was not there."""
        if not self._blocks:
            self._fill([key])
            return True
        at = max(0, bisect_right(self._firsts, key) - 1)
        block = self._blocks[at]
        place = bisect_left(block, key)
        if place < len(block) and block[place] == key:
            return False
        insort(block, key)
        if not place:
            self._firsts[at] = key
        if len(block) > BLOCK_MAX:
            half = block[BLOCK_MAX // 2 :]
            del block[BLOCK_MAX // 2 :]
            self._blocks.insert(at + 1, half)
            self._firsts.insert(at + 1, half[0])
        self._size += 1
        return True

    def discard(self, key: str) -> bool:
        """Take a text out; whether it was there."""
        at = bisect_right(self._firsts, key) - 1
        if at < 0:
            return False
        block = self._blocks[at]
        place = bisect_left(block, key)
        if place == len(block) or block[place] != key:
            return False
        del block[place]
        if not block:
            del self._blocks[at], self._firsts[at]
        elif not place:
            self._firsts[at] = block[0]
        self._size -= 1
        return True

    def change(self, *, added: Collection[str], removed: Collection[str]) -> tuple[list[str], list[str]]:
        """Take texts out, then put texts in; returns those that are new and those that are gone, both in order."""
        if len(added) + len(removed) > max(BLOCK_MAX, self._size // _ANEW_FRACTION):
            before = set(self)
            after = (before - set(removed)) | set(added)
            self._fill(sorted(after))
            return sorted(after - before), sorted(before - after)
        out = {key for key in removed if self.discard(key)}
        new = {key for key in added if self.add(key)}
        return sorted(new - out), sorted(out - new)

    def check(self) -> None:
        """What always holds."""
        assert len(self) == sum(map(len, self._blocks))
        assert self._firsts == [block[0] for block in self._blocks]
        assert all(len(block) <= BLOCK_MAX for block in self._blocks)
        assert list(self) == sorted(set(self))

    def _fill(self, ordered: list[str]) -> None:
        step = BLOCK_MAX // 2
        self._blocks = [ordered[at : at + step] for at in range(0, len(ordered), step)]
        self._firsts = [block[0] for block in self._blocks]
        self._size = len(ordered)
