"""What a log says once all its records are read in order: term, vote, snapshot and entries.

The same value is what a running log knows to be durable. Records change it in one place, ``replay``, whether they were
just made durable or are found at the next open, so that what is in memory and what is on the disk cannot differ.

Replaying forgives what a correct writer never does and no reader must be misled by: the highest term wins, the first
vote in a term stays, an entry takes the place of an older one with its index and of all that followed it. What leaves
a gap is no log.
"""

from typing import assert_never

from msgspec import Struct

from bobbin.cluster.names import Index, NodeId, Term
from bobbin.cluster.raft.effects import Append, Cut, DurableRecord, HardState, Reset, Truncate
from bobbin.cluster.raft.entries import Entry, SnapshotMetadata
from bobbin.cluster.raft.events import Recovered
from bobbin.errors import IntegrityError, UsageError


class Held(Struct, frozen=True, kw_only=True):
    """What the header of a file repeats of a log: everything but the entries."""

    term: Term
    voted_for: NodeId | None
    snapshot: SnapshotMetadata | None
    first_index: Index
    last_index: Index
    lost: tuple[Term, Index] | None


class LogImage:
    """The state of a log. Always: entries are contiguous, the first has ``first_index``."""

    __slots__ = ("entries", "first_index", "lost", "snapshot", "term", "voted_for")

    def __init__(self) -> None:
        self.term = Term(0)
        self.voted_for: NodeId | None = None
        self.snapshot: SnapshotMetadata | None = None
        self.first_index = Index(1)
        """Of the entries that are here, or of the next one that comes."""
        self.entries: list[Entry] = []
        self.lost: tuple[Term, Index] | None = None
        """As in ``Recovered``."""

    @property
    def last_index(self) -> Index:
        """Of the newest entry; of the snapshot where there is none."""
        return Index(self.first_index + len(self.entries) - 1)

    @property
    def last_term(self) -> Term:
        """The same for the term."""
        if self.entries:
            return self.entries[-1].term
        return self.snapshot.last_term if self.snapshot is not None else Term(0)

    def copy(self) -> "LogImage":
        """Another one that says the same and changes on its own."""
        other = LogImage()
        for name in self.__slots__:
            setattr(other, name, getattr(self, name))
        other.entries = self.entries.copy()
        return other

    def held(self) -> Held:
        """What a header says of it."""
        return Held(
            term=self.term,
            voted_for=self.voted_for,
            snapshot=self.snapshot,
            first_index=self.first_index,
            last_index=self.last_index,
            lost=self.lost,
        )

    def recovered(self) -> Recovered:
        """What a machine begins with."""
        return Recovered(
            term=self.term,
            voted_for=self.voted_for,
            snapshot=self.snapshot,
            entries=tuple(self.entries),
            lost=self.lost,
        )

    def replay(self, record: DurableRecord) -> None:
        """Take a record that is durable. ``IntegrityError`` for one that no log can hold at this place."""
        match record:
            case Append(entries):
                self._append(entries)
            case HardState(term, voted_for):
                self._vote(term, voted_for)
            case Truncate(from_index):
                self._truncate(from_index)
            case Cut(first_index, metadata):
                self._cut(first_index, metadata)
            case Reset(metadata):
                self.snapshot = metadata
                self.first_index = Index(metadata.last_index + 1)
                self.entries = []
                self._found()
            case _:
                assert_never(record)

    def stand_on(self, metadata: SnapshotMetadata) -> None:
        """Take a durable snapshot that the log has no record of: the crash came between the two.

        Entries stay where the log agrees with the snapshot about its last one, or begins right behind it; otherwise the
        snapshot takes the place of the whole log, as an installed one does.
        """
        at = metadata.last_index - self.first_index
        if at == -1 or (0 <= at < len(self.entries) and self.entries[at].term == metadata.last_term):
            self.snapshot = metadata
            self._found()
        else:
            self.replay(Reset(metadata))

    def lose_snapshot(self) -> None:
        """The snapshot is damaged. Entries that need it go with it; what they reached is remembered."""
        end = self.last_term, self.last_index
        self.snapshot = None
        if self.first_index > 1:
            self.lost = end if self.lost is None else max(self.lost, end)
            self.first_index = Index(1)
            self.entries = []

    def _vote(self, term: Term, voted_for: NodeId | None) -> None:
        if term > self.term:
            self.term, self.voted_for = term, voted_for
        elif term == self.term and self.voted_for is None:
            self.voted_for = voted_for

    def _append(self, entries: tuple[Entry, ...]) -> None:
        if not entries:
            return
        first = entries[0].index
        place = first - self.first_index
        if not 0 <= place <= len(self.entries):
            raise IntegrityError(
                f"entry {first} does not follow the log, which has {self.first_index} to {self.last_index}"
            )
        check_contiguous(entries)
        if place < len(self.entries):
            del self.entries[place:]
        self.entries.extend(entries)
        if self.lost is not None:
            self._found()

    def _truncate(self, from_index: Index) -> None:
        if not self.first_index <= from_index <= self.last_index + 1:
            raise IntegrityError(
                f"the log is to end before {from_index}, but it has {self.first_index} to {self.last_index}"
            )
        del self.entries[from_index - self.first_index :]

    def _cut(self, first_index: Index, metadata: SnapshotMetadata) -> None:
        if not self.first_index <= first_index <= min(self.last_index, metadata.last_index) + 1:
            raise IntegrityError(
                f"the log is to begin at {first_index} behind a snapshot of {metadata.last_index}, but it has "
                f"{self.first_index} to {self.last_index}"
            )
        del self.entries[: first_index - self.first_index]
        self.first_index = first_index
        self.snapshot = metadata
        self._found()

    def _found(self) -> None:
        """What was lost is no longer missed once the log has come as far again."""
        if self.lost is not None and (self.last_term, self.last_index) >= self.lost:
            self.lost = None


class Outline:
    """Where a log will stand when everything that waits has become durable: enough to judge what comes next."""

    __slots__ = ("first_index", "last_index", "snapshot_index", "term", "voted_for")

    def __init__(self, image: LogImage) -> None:
        self.term = image.term
        self.voted_for = image.voted_for
        self.first_index = image.first_index
        self.last_index = image.last_index
        self.snapshot_index = image.snapshot.last_index if image.snapshot is not None else 0

    def copy(self) -> "Outline":
        """Another one that stands at the same place."""
        other: Outline = Outline.__new__(Outline)
        for name in self.__slots__:
            setattr(other, name, getattr(self, name))
        return other

    def take(self, record: DurableRecord) -> None:
        """Go on to after this record. ``UsageError`` for one that a correct machine does not write."""
        match record:
            case HardState(term, voted_for):
                bound = self.voted_for if term == self.term else None
                if term < self.term or (bound is not None and voted_for != bound):
                    raise UsageError(
                        f"term {term} with a vote for {voted_for} must not follow term {self.term} with one for "
                        f"{self.voted_for}"
                    )
                self.term, self.voted_for = term, voted_for
            case Append(entries):
                self._append(entries)
            case Truncate(from_index):
                least = max(self.first_index, self.snapshot_index + 1)
                if not least <= from_index <= self.last_index + 1:
                    raise UsageError(f"a log of {least} to {self.last_index} cannot lose what begins at {from_index}")
                self.last_index = Index(from_index - 1)
            case Cut(first_index, metadata):
                end = metadata.last_index
                if not (
                    self.first_index <= first_index <= end + 1 and max(1, self.snapshot_index) <= end <= self.last_index
                ):
                    raise UsageError(
                        f"a log of {self.first_index} to {self.last_index} cannot be cut at {first_index} behind a "
                        f"snapshot of {end}"
                    )
                self.first_index, self.snapshot_index = first_index, end
            case Reset(metadata):
                if metadata.last_index < max(1, self.snapshot_index):
                    raise UsageError(f"a snapshot of {metadata.last_index} cannot replace one of {self.snapshot_index}")
                self.first_index = Index(metadata.last_index + 1)
                self.last_index = self.snapshot_index = metadata.last_index
            case _:
                assert_never(record)

    def _append(self, entries: tuple[Entry, ...]) -> None:
        if not entries:
            return
        if entries[0].index != self.last_index + 1:
            raise UsageError(f"entry {entries[0].index} does not follow entry {self.last_index}")
        try:
            check_contiguous(entries)
        except IntegrityError as error:
            raise UsageError(str(error)) from error
        self.last_index = entries[-1].index


def check_contiguous(entries: tuple[Entry, ...]) -> None:
    """Raise where an entry has not the index after its predecessor's."""
    expected: int = entries[0].index
    for entry in entries:
        if entry.index != expected:
            raise IntegrityError(f"entry {entry.index} follows entry {expected - 1}")
        expected += 1
