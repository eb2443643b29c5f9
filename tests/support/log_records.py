"""Records, entries and snapshots to write logs with in tests."""

from collections.abc import Iterable
from hashlib import sha256

from bobbin.cluster.names import Index, NodeId, Term
from bobbin.cluster.raft.effects import Append, Cut, DurableRecord, HardState, Reset, Truncate
from bobbin.cluster.raft.entries import Configuration, Entry, SnapshotMetadata
from bobbin.cluster.raft.events import Recovered

NODE = NodeId("0123456789abcdef0123456789abcdef")
OTHER = NodeId("fedcba9876543210fedcba9876543210")
CLUSTER = b"cluster of tests"
CONFIGURATION = Configuration(voters=(NODE, OTHER))


def entry(index: int, term: int = 1, payload: bytes | Configuration | None = b"") -> Entry:
    """An entry; without a payload of its own it has a short one that names its place."""
    return Entry(Term(term), Index(index), f"{term}/{index}".encode() if payload == b"" else payload)


def append(first: int, last: int, term: int = 1) -> Append:
    """Entries of one term, both ends included."""
    return Append(tuple(entry(index, term) for index in range(first, last + 1)))


def vote(term: int, voted_for: NodeId | None = None) -> HardState:
    """A term, and a vote in it."""
    return HardState(Term(term), voted_for)


def truncate(from_index: int) -> Truncate:
    """The log loses the rest."""
    return Truncate(Index(from_index))


def metadata(last_index: int, *, term: int = 1, data: bytes = b"", epoch: int = 1) -> SnapshotMetadata:
    """Of a snapshot that holds these bytes."""
    return SnapshotMetadata(
        last_index=Index(last_index),
        last_term=Term(term),
        sha256=sha256(data).digest(),
        size=len(data),
        configuration=CONFIGURATION,
        created_s=1_790_000_000,
        epoch=epoch,
    )


HISTORY: tuple[tuple[DurableRecord, ...], ...] = (
    (vote(1, NODE),),
    (append(1, 3),),
    (vote(2), truncate(3), append(3, 4, 2)),
    (vote(2, OTHER),),
    (Append((entry(5, 2, CONFIGURATION), entry(6, 2, None))),),
    (vote(3), truncate(5), append(5, 5, 3)),
)
"""Groups of records that a node may write one after the other."""


def expected(groups: Iterable[Iterable[DurableRecord]]) -> Recovered:
    """What a log of these groups says, found in the plainest way."""
    term = Term(0)
    voted_for: NodeId | None = None
    snapshot: SnapshotMetadata | None = None
    entries: dict[int, Entry] = {}
    for record in (record for group in groups for record in group):
        match record:
            case HardState(new_term, vote_for):
                term, voted_for = new_term, vote_for
            case Append(new):
                entries |= {each.index: each for each in new}
            case Truncate(from_index):
                entries = {index: each for index, each in entries.items() if index < from_index}
            case Cut(first_index, snapshot):
                entries = {index: each for index, each in entries.items() if index >= first_index}
            case Reset(snapshot):
                entries = {}
    return Recovered(
        term=term,
        voted_for=voted_for,
        snapshot=snapshot,
        entries=tuple(entries[index] for index in sorted(entries)),
    )
