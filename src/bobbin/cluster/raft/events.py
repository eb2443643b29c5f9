"""What a raft machine hears."""

from typing import TypeAlias

from msgspec import Struct

from bobbin.cluster.names import Index, NodeId, Term
from bobbin.cluster.raft.entries import Entry, SnapshotMetadata
from bobbin.cluster.raft.messages import RaftMessage


class Recovered(Struct, frozen=True, kw_only=True):
    """What was found on the disk; a machine begins with it."""

    term: Term = Term(0)
    voted_for: NodeId | None = None
    snapshot: SnapshotMetadata | None = None
    """The newest whole one, which the state machine has been restored from."""
    entries: tuple[Entry, ...] = ()
    """Contiguous. They may begin before the snapshot's end (trailing entries), never leave a gap after it."""
    lost: tuple[Term, Index] | None = None
    """Last term and last index of a log that damage has taken. Until its own log is as up to date as that one was, a
    node does not stand for election, and measures candidates by this: else it might help to elect a log without
    entries that it has acknowledged."""


class Tick(Struct, frozen=True):
    """Time has passed: due by ``WakeAt`` at the latest, allowed at any moment."""


class Received(Struct, frozen=True):
    """A message whose sender is proven."""

    sender: NodeId
    message: RaftMessage


class Persisted(Struct, frozen=True):
    """Everything up to and including the ``Persist`` of this token is durable."""

    token: int


class PersistFailed(Struct, frozen=True):
    """This ``Persist`` and every later one could not be made durable, by any attempt; the disk is as before it."""

    token: int
    reason: str


class Propose(Struct, frozen=True):
    """Commands of clients, to be appended in this order, all or none."""

    request: int
    commands: tuple[bytes, ...]


class Read(Struct, frozen=True):
    """Somebody wants to read what is true now."""

    request: int


class Transfer(Struct, frozen=True):
    """Hand leadership to another voter."""

    request: int
    target: NodeId


class AddLearner(Struct, frozen=True):
    """A node shall get entries, without a vote."""

    request: int
    node: NodeId


class PromoteLearner(Struct, frozen=True):
    """A learner that has caught up shall vote."""

    request: int
    node: NodeId


class RemoveNode(Struct, frozen=True):
    """A voter or learner shall go; not the leader itself."""

    request: int
    node: NodeId


class JointChange(Struct, frozen=True):
    """Several voters at once, by way of a joint configuration; it is left by an entry of its own.

    Those who are added must be learners that have caught up. The leader may be among those who go.
    """

    request: int
    additions: tuple[NodeId, ...]
    removals: tuple[NodeId, ...]


class Applied(Struct, frozen=True):
    """The state machine has taken every entry up to this one."""

    index: Index


class SnapshotTaken(Struct, frozen=True):
    """A snapshot that ``TakeSnapshot`` asked for is durable."""

    metadata: SnapshotMetadata


class SnapshotFailed(Struct, frozen=True):
    """A snapshot that ``TakeSnapshot`` asked for could not be made."""

    reason: str


class SnapshotBytes(Struct, frozen=True):
    """What ``ReadSnapshot`` asked for; no bytes when that snapshot is gone."""

    to: NodeId
    sha256: bytes
    offset: int
    data: bytes | None


class SnapshotInstalled(Struct, frozen=True):
    """An ``InstallSnapshot`` is done: it is durable, and the state machine is as it says."""

    metadata: SnapshotMetadata


class SnapshotRefused(Struct, frozen=True):
    """An ``InstallSnapshot`` could not be done (wrong hash, unreadable); nothing has changed."""

    metadata: SnapshotMetadata
    reason: str


class SnapshotWanted(Struct, frozen=True):
    """An operator asks for a compaction now, whatever the thresholds say."""

    request: int


Event: TypeAlias = (
    Tick
    | Received
    | Persisted
    | PersistFailed
    | Propose
    | Read
    | Transfer
    | AddLearner
    | PromoteLearner
    | RemoveNode
    | JointChange
    | Applied
    | SnapshotTaken
    | SnapshotFailed
    | SnapshotBytes
    | SnapshotInstalled
    | SnapshotRefused
    | SnapshotWanted
)
