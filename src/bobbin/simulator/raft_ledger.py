"""What a cluster has ever done, over all nodes and all their lives: who led, who voted for whom, what was committed.

It only grows. Whatever contradicts it breaks a promise, however long ago the first half of the contradiction was.
"""

from bisect import bisect_left
from collections.abc import Callable, Iterable
from typing import Final, NoReturn

from bobbin.cluster.names import Index, NodeId, Term
from bobbin.cluster.raft.entries import Entry
from bobbin.simulator.raft_image import CHAIN_BEGIN, link


class Ledger:
    """The memory of a checker. ``fail`` raises with the promise that was broken."""

    def __init__(self, fail: Callable[[str], NoReturn]) -> None:
        self._fail: Final = fail
        self.leaders: Final[dict[Term, NodeId]] = {}
        self.votes: Final[dict[tuple[NodeId, Term], NodeId]] = {}
        self.asked: Final[set[tuple[NodeId, Term]]] = set()
        """Candidates, and the terms in which they asked for votes."""
        self.chains: Final[dict[tuple[Index, Term], int]] = {}
        """Of every entry that was ever in a log."""
        self.committed_in: Final[list[int]] = [0]
        """In which term each place was committed; never falls. Whoever leads in an earlier one may rightly lack it."""
        self.terms: Final[list[int]] = [0]
        """Of committed entries, by place; they never fall."""
        self.committed: Final[list[int]] = [CHAIN_BEGIN]
        """Chains of committed entries, by place."""
        self.commands: Final[list[bytes | None]] = [None]
        """What was committed, by place; None for what is no command."""
        self.results: Final[list[bytes | None]] = [None]
        """Of applied commands, by place."""
        self.roots: Final[dict[int, bytes]] = {}
        """Of states, by the place up to which they have applied."""
        self.denied: Final[set[tuple[int, int]]] = set()
        """Places and terms of entries that somebody was told will not be done."""
        self.highest_term = 0
        """In any message."""

    @property
    def last(self) -> int:
        """The last place that was ever committed."""
        return len(self.committed) - 1

    def lead(self, node: NodeId, term: Term) -> None:
        """R1: one leader in each term, over all time."""
        first = self.leaders.setdefault(term, node)
        if first != node:
            self._fail(f"R1: term {term} was led by {first}, and now by {node}")

    def vote(self, node: NodeId, term: Term, candidate: NodeId) -> None:
        """R5: one candidate of each node in each term, over all its lives."""
        first = self.votes.setdefault((node, term), candidate)
        if first != candidate:
            self._fail(f"R5: {node} has voted in term {term} for {first}, and now for {candidate}")

    def enter(self, entry: Entry, before: int) -> int:
        """R2: an entry is known by its place and term, with everything before it. Returns its chain."""
        chain = link(before, entry)
        if self.chains.setdefault((entry.index, entry.term), chain) != chain:
            self._fail(f"R2: two logs differ at or before entry {entry.index} of term {entry.term}, which both hold")
        return chain

    def commit(self, node: NodeId, entries: Iterable[Entry], term: int) -> None:
        """Further entries are committed, as a node sees it in a term."""
        for entry in entries:
            if entry.index != len(self.committed):
                self._fail(f"R3: {node} has entry {entry.index} in the place of {len(self.committed)}")
            chain = link(self.committed[-1], entry)
            if self.chains.get((entry.index, entry.term)) != chain:
                self._fail(f"R3: {node} commits at {entry.index} what was never appended there")
            if entry.term < self.terms[-1]:
                self._fail(f"R3: terms fall at {entry.index}")
            if (entry.index, entry.term) in self.denied:
                self._fail(f"entry {entry.index} was said not to be done, and is committed")
            self.committed.append(chain)
            self.terms.append(entry.term)
            self.committed_in.append(max(term, self.committed_in[-1]))
            self.commands.append(entry.payload if isinstance(entry.payload, bytes) else None)

    def deny(self, node: NodeId, index: int, term: int) -> None:
        """A request that had its place was refused after all."""
        if index <= self.last and self.terms[index] == term:
            self._fail(f"{node} says that entry {index} will not be done, and it is committed")
        self.denied.add((index, term))

    def last_before(self, term: int) -> int:
        """The last place that was committed in an earlier term, of which its entry may be an earlier one still."""
        return bisect_left(self.committed_in, term) - 1

    def result(self, node: NodeId, index: int, result: bytes | None) -> None:
        """R3: a command has one result."""
        while len(self.results) <= index:
            self.results.append(None)
        known = self.results[index]
        if known is None:
            self.results[index] = result
        elif known != result:
            self._fail(f"R3: entry {index} gave {known!r}, and {result!r} at {node}")

    def root(self, node: NodeId, index: int, root: bytes) -> None:
        """R3: a place has one state."""
        if self.roots.setdefault(index, root) != root:
            self._fail(f"R3: {node} has another state than others had at {index}")
