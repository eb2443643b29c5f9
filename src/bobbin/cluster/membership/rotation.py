"""Taking turns in shuffled passes: everybody comes up once in a pass, in an order nobody can foresee.

Between two turns of one member there are at most ``2 (members - 1)`` of others, which bounds how long a dead node goes
unprobed; drawing at random would bound nothing.
"""

from collections.abc import Collection, Iterable
from random import Random
from typing import Final

from bobbin.cluster.names import NodeId


class Rotation:
    """A list that is gone through again and again, shuffled before each pass."""

    def __init__(self, random: Random) -> None:
        self._random: Final = random
        self._order: list[NodeId] = []
        self._at = 0

    def __len__(self) -> int:
        return len(self._order)

    def replace(self, members: Iterable[NodeId]) -> None:
        """Others are members now: who stays keeps its turn, who is new gets one in this pass."""
        wanted = set(members)
        gone_before = sum(node not in wanted for node in self._order[: self._at])
        known = set(self._order)
        self._order = [node for node in self._order if node in wanted]
        self._at -= gone_before
        for node in sorted(wanted - known):
            self._order.insert(self._random.randint(self._at, len(self._order)), node)

    def next(self) -> NodeId | None:
        """Whose turn it is; None where there is nobody."""
        if self._at >= len(self._order):
            self._random.shuffle(self._order)
            self._at = 0
        if not self._order:
            return None
        self._at += 1
        return self._order[self._at - 1]

    def take(self, count: int, *, without: Collection[NodeId] = ()) -> list[NodeId]:
        """The next few, each once; who is left out has its turn all the same."""
        taken: list[NodeId] = []
        for _ in range(2 * len(self._order)):
            if len(taken) >= count:
                break
            node = self.next()
            if node is not None and node not in taken and node not in without:
                taken.append(node)
        return taken
