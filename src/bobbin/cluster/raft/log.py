"""The log of one node as it stands in memory: entries, what came before them, and the configurations they name.

What always holds: indexes are contiguous from ``first_index`` to ``last_index``, terms never fall, and the place before
the first entry is either 0, under the snapshot, or the snapshot's own last place. Everything that a step needs of many
entries (the end of a batch, the configuration in force, the last entry up to a term) is found without looking at each.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from itertools import accumulate
from typing import Final

from bobbin.cluster.names import Index, Term
from bobbin.cluster.raft.entries import Configuration, Entry, SnapshotMetadata
from bobbin.errors import IntegrityError

NOBODY: Final = Configuration(())
"""In force on a node that has heard of no configuration: nobody votes."""

_MEMBER_BYTES: Final = 40


class RaftLog:
    """Entries after a base, with the configurations among them."""

    __slots__ = ("_base_index", "_base_term", "_configurations", "_ends", "_entries", "_snapshot")

    def __init__(self, bootstrap: Configuration | None = None) -> None:
        self._base_index = 0
        self._base_term: Term | None = Term(0)
        self._snapshot: tuple[int, Term] = (0, Term(0))
        self._entries: list[Entry] = []
        self._ends: list[int] = [0]
        """Bytes of all entries up to each place, the base included; one more than there are entries."""
        self._configurations: list[tuple[Index, Configuration]] = [(Index(0), bootstrap or NOBODY)]
        """By index, the last one in force. There is always one at or below the base or the snapshot."""

    @classmethod
    def recovered(
        cls, snapshot: SnapshotMetadata | None, entries: Sequence[Entry], bootstrap: Configuration | None
    ) -> tuple["RaftLog", bool]:
        """The log that was on the disk, and whether its entries had to give way to the snapshot.

        They do where they do not reach it, or do not agree with it: a snapshot holds what is committed, so an entry
        that differs from it is not.
        """
        log = cls(bootstrap)
        check_contiguous(entries)
        if snapshot is None:
            if entries and entries[0].index != 1:
                raise IntegrityError(f"the log begins at {entries[0].index}, and no snapshot says what was before")
            log.append(entries)
            return log, False
        log.reset(snapshot)
        if not entries:
            return log, False
        first, last = entries[0].index, entries[-1].index
        if first > snapshot.last_index + 1:
            raise IntegrityError(f"the log begins at {first}, but the snapshot ends at {snapshot.last_index}")
        reaches = first == snapshot.last_index + 1
        if not reaches and last >= snapshot.last_index:
            reaches = entries[snapshot.last_index - first].term == snapshot.last_term
        if not reaches:
            return log, True
        if first <= snapshot.last_index:
            log._base_index = first - 1
            log._base_term = Term(0) if first == 1 else None
        log._extend(entries)
        return log, False

    # ---- what it holds --------------------------------------------------------------------------------------------

    def __len__(self) -> int:
        return len(self._entries)

    @property
    def first_index(self) -> Index:
        """Of the entries that are held, or that will come."""
        return Index(self._base_index + 1)

    @property
    def last_index(self) -> Index:
        return Index(self._base_index + len(self._entries))

    @property
    def last_term(self) -> Term:
        """Of the last entry; of the snapshot where there is none (CL-086)."""
        return self._entries[-1].term if self._entries else self._snapshot[1]

    def term_at(self, index: int) -> Term | None:
        """The term of the entry at a place; None where it is cut away or not there yet."""
        place = index - self._base_index
        if 0 < place <= len(self._entries):
            return self._entries[place - 1].term
        if place == 0 and self._base_term is not None:
            return self._base_term
        return self._snapshot[1] if index == self._snapshot[0] else None

    def entries(self, first: int, end: int) -> tuple[Entry, ...]:
        """The entries from ``first`` up to, not including, ``end``; all of them must be held."""
        assert self._base_index < first <= end <= self.last_index + 1, "only what the log holds"
        return tuple(self._entries[first - self._base_index - 1 : end - self._base_index - 1])

    def batch_end(self, first: int, *, entries_max: int, bytes_max: int) -> Index:
        """Where a message that begins at ``first`` ends, exclusively: at least one entry, however large it is."""
        place = first - self._base_index - 1
        fits = bisect_right(self._ends, self._ends[place] + bytes_max, lo=place + 1) - 1
        return Index(min(max(fits, place + 1), place + entries_max, len(self._entries)) + self._base_index + 1)

    def bytes_after(self, index: int) -> int:
        """How much the entries after a place take; it must be held, or be the one before the first."""
        return self._ends[-1] - self._ends[index - self._base_index]

    def bytes_between(self, after: int, last: int) -> int:
        """How much the entries after a place take, up to another one."""
        return self._ends[last - self._base_index] - self._ends[after - self._base_index]

    def first_within(self, last: int, bytes_max: int) -> Index:
        """The first entry from which on all up to ``last`` take so many bytes at most; the one after it if none do."""
        end = last - self._base_index
        return Index(bisect_left(self._ends, self._ends[end] - bytes_max, hi=end) + self._base_index + 1)

    def last_at_most(self, index: int, term: int) -> Index:
        """The last place up to ``index`` whose entry is not of a later term. Two logs cannot agree after it."""
        end = min(index, self.last_index) - self._base_index
        if end <= 0:
            return Index(max(0, min(index, self.last_index)))
        return Index(bisect_right(self._entries, term, hi=end, key=_term_of) + self._base_index)

    # ---- configurations -------------------------------------------------------------------------------------------

    @property
    def configuration(self) -> Configuration:
        """In force: the one of the latest entry that has one, committed or not (CL-037)."""
        return self._configurations[-1][1]

    @property
    def configuration_index(self) -> Index:
        return self._configurations[-1][0]

    def configuration_at(self, index: int) -> tuple[Index, Configuration]:
        """The one that is in force for a log that ends at ``index``, and where it stands."""
        return self._configurations[max(0, bisect_right(self._configurations, index, key=_index_of) - 1)]

    # ---- changes --------------------------------------------------------------------------------------------------

    def append(self, entries: Sequence[Entry]) -> None:
        """Entries that follow the last one."""
        if entries:
            assert entries[0].index == self.last_index + 1, "no gap and no overlap"
            self._extend(entries)

    def append_commands(self, term: Term, commands: Sequence[bytes]) -> tuple[Entry, ...]:
        """Commands as entries of a leader's own term, the most frequent of all changes."""
        first = self.last_index + 1
        entries = tuple([Entry(term, Index(index), command) for index, command in enumerate(commands, first)])
        ends = self._ends
        last = ends.pop()
        ends.extend(accumulate(map(len, commands), initial=last))
        self._entries.extend(entries)
        return entries

    def truncate(self, from_index: int) -> tuple[Entry, ...]:
        """Forget everything from a place on, configurations included; returns what stood there."""
        place = from_index - self._base_index - 1
        assert place >= 0, "what a snapshot holds is never taken back"
        removed = tuple(self._entries[place:])
        del self._entries[place:]
        del self._ends[place + 1 :]
        while len(self._configurations) > 1 and self._configurations[-1][0] >= from_index:
            self._configurations.pop()
        return removed

    def cut(self, first_index: int, snapshot: SnapshotMetadata) -> None:
        """A snapshot stands in for everything before ``first_index``; later entries stay."""
        if snapshot.last_index < self._snapshot[0]:
            return
        self._take_over(snapshot)
        count = first_index - self._base_index - 1
        if count <= 0:
            return
        assert first_index <= snapshot.last_index + 1, "nothing is cut that the snapshot lacks"
        self._base_term = self.term_at(first_index - 1)
        self._base_index = first_index - 1
        del self._entries[:count]
        del self._ends[:count]

    def reset(self, snapshot: SnapshotMetadata) -> None:
        """A snapshot takes the place of the whole log."""
        self._base_index, self._base_term = snapshot.last_index, snapshot.last_term
        self._snapshot = (snapshot.last_index, snapshot.last_term)
        self._entries.clear()
        self._ends[:] = [0]
        self._configurations[:] = [(snapshot.last_index, snapshot.configuration)]

    def check(self) -> None:
        """Assert what always holds; for tests, since it looks at every entry."""
        assert len(self._ends) == len(self._entries) + 1
        for place, entry in enumerate(self._entries):
            assert entry.index == self._base_index + place + 1, "contiguous"
            assert place == 0 or self._entries[place - 1].term <= entry.term, "terms never fall"
        named = [(entry.index, entry.payload) for entry in self._entries if isinstance(entry.payload, Configuration)]
        floor = self._snapshot[0]
        assert [pair for pair in named if pair[0] > floor] == [p for p in self._configurations if p[0] > floor]
        assert self._configurations[0][0] <= max(self._base_index, floor)
        assert floor >= self._base_index or self._base_index == 0, "what is cut is under a snapshot"
        assert floor <= self.last_index

    def _extend(self, entries: Sequence[Entry]) -> None:
        total = self._ends[-1]
        ends, floor = self._ends, self._snapshot[0]
        for entry in entries:
            payload = entry.payload
            if type(payload) is bytes:
                total += len(payload)
            elif isinstance(payload, Configuration):
                total += _MEMBER_BYTES * (len(payload.voters) + len(payload.learners) + len(payload.outgoing))
                if entry.index > floor:
                    self._configurations.append((entry.index, payload))
            ends.append(total)
        self._entries.extend(entries)

    def _take_over(self, snapshot: SnapshotMetadata) -> None:
        self._snapshot = (snapshot.last_index, snapshot.last_term)
        later = [pair for pair in self._configurations if pair[0] > snapshot.last_index]
        self._configurations[:] = [self.configuration_at(snapshot.last_index), *later]


def check_contiguous(entries: Sequence[Entry]) -> None:
    """Raise ``IntegrityError`` unless each entry follows the one before, in a term that is not lower."""
    if not entries:
        return
    index, term = entries[0].index, 0
    for entry in entries:
        if entry.index != index or entry.term < term:
            raise IntegrityError(f"entry {entry.index} of term {entry.term} stands where {index} should follow")
        index = Index(index + 1)
        term = entry.term


def follows(entries: Sequence[Entry], previous_index: int, previous_term: int, term: int) -> bool:
    """Whether entries of a peer can stand after a place, in a log of that term."""
    index, before = previous_index, previous_term
    for entry in entries:
        index += 1
        if entry.index != index or entry.term < before:
            return False
        before = entry.term
    return before <= term


def _term_of(entry: Entry) -> int:
    return entry.term


def _index_of(pair: tuple[Index, Configuration]) -> int:
    return pair[0]
