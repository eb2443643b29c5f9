"""Cells in the order of their stamps, peer by peer: what came after a stamp is found without looking at the rest.

A cell that is written again has another stamp, and what is noted of the old one is passed over when it is met, and
dropped when there is more of that than there are cells. So noting a write costs next to nothing, and finding what a
peer lacks costs what it lacks.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Mapping
from operator import itemgetter
from typing import Final, TypeAlias

from bobbin.reactive.messages import CrdtOperation, NodeId, PeerId, Stamp

Name: TypeAlias = NodeId | str

STALE_MIN: Final = 1_024
"""So many entries that say nothing are always borne."""

_stamp = itemgetter(0)


class StampIndex:
    """Of the cells of one plane, which it reads and does not change."""

    def __init__(self, cells: Mapping[Name, CrdtOperation]) -> None:
        self._cells: Final = cells
        self._entries: Final[dict[PeerId, list[tuple[Stamp, Name]]]] = {}
        """Of each peer, ascending."""
        self._count = 0

    @property
    def peers(self) -> tuple[PeerId, ...]:
        """Whose stamps there are, or were."""
        return tuple(self._entries)

    def note(self, names: Iterable[Name]) -> None:
        """These cells may have other stamps than before."""
        for name in names:
            held = self._cells.get(name)
            if held is not None:
                self._note(held.stamp, name)
        if self._count > 2 * len(self._cells) + STALE_MIN:
            self._entries.clear()
            self._count = 0
            for name, held in sorted(self._cells.items(), key=lambda one: one[1].stamp):
                self._note(held.stamp, name)

    def between(self, peer: PeerId, after: Stamp | None, through: Stamp | None) -> Iterator[CrdtOperation]:
        """The operations that hold with stamps of a peer, above one and up to another, ascending; None is no bound."""
        entries = self._entries.get(peer, [])
        start = 0 if after is None else bisect_right(entries, after, key=_stamp)
        end = len(entries) if through is None else bisect_right(entries, through, key=_stamp)
        for place in range(start, end):
            stamp, name = entries[place]
            held = self._cells.get(name)
            if held is not None and held.stamp == stamp:
                yield held

    def _note(self, stamp: Stamp, name: Name) -> None:
        entries = self._entries.setdefault(stamp.peer, [])
        place = len(entries) if not entries or entries[-1][0] < stamp else bisect_left(entries, stamp, key=_stamp)
        while place < len(entries) and entries[place][0] == stamp:
            if entries[place][1] == name:
                return
            place += 1
        entries.insert(place, (stamp, name))
        self._count += 1
