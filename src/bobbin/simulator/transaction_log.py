"""The replicated log of one shard, as what Raft promises and no more.

How a cluster agrees on a log is tried in worlds of its own (``raft_world``). Here the log is given: what is committed
stays, in one order. What was proposed and is not committed when its leader is gone survives up to some place, and is
lost behind it; nobody is told which.
"""

from collections import deque
from random import Random
from typing import Final

from msgspec import Struct

from bobbin.cluster.names import Index, Term
from bobbin.cluster.shard.commands import Command


class Entry(Struct, frozen=True):
    """One place of the log."""

    index: Index
    term: Term
    """Of the leader that proposed it."""
    proposal: int
    """The number that this leader gave it."""
    command: Command


class ReplicatedLog:
    """What is committed, and what may come to be."""

    def __init__(self) -> None:
        self.entries: Final[list[Entry]] = []
        """Committed, by place; the first has index 1."""
        self._open: Final[deque[tuple[int, Command]]] = deque()
        self.term = Term(1)

    @property
    def last(self) -> Index:
        return Index(len(self.entries))

    @property
    def open_count(self) -> int:
        """Proposals of the present leader that are not committed."""
        return len(self._open)

    def propose(self, term: Term, proposal: int, command: Command) -> bool:
        """Append at the present leader; False for one that was deposed, whose proposals come to nothing."""
        if term != self.term:
            return False
        self._open.append((proposal, command))
        return True

    def commit(self, term: Term) -> Entry | None:
        """A quorum has the oldest open proposal of this term; None if there is none any more."""
        if term != self.term or not self._open:
            return None
        return self._commit_next()

    def change_leader(self, random: Random) -> list[Entry]:
        """A new term begins. Gives what survived of the open proposals, now committed; all others are lost."""
        survivors = random.randint(0, len(self._open))
        survived = [self._commit_next() for _ in range(survivors)]
        self._open.clear()
        self.term = Term(self.term + 1)
        return survived

    def lose_open(self) -> None:
        """Nothing that is open has reached anybody."""
        self._open.clear()

    def _commit_next(self) -> Entry:
        proposal, command = self._open.popleft()
        entry = Entry(Index(len(self.entries) + 1), self.term, proposal, command)
        self.entries.append(entry)
        return entry
