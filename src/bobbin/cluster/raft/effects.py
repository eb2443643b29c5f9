"""What a raft machine wants done, in the order in which a step returns it.

``Persist`` need not be durable before the next effect is performed: whatever rests on it is held back by the machine
until ``Persisted`` comes. So a driver may gather the ``Persist`` of many steps into one fsync, and a leader's entries
travel while its own disk is still busy. ``Apply`` is done at once and in order, and answered by ``Applied``.
"""

from enum import Enum
from typing import TypeAlias

from msgspec import Struct

from bobbin.cluster.names import Index, NodeId, Term
from bobbin.cluster.raft.entries import Configuration, Entry, SnapshotMetadata
from bobbin.cluster.raft.messages import RaftMessage


class HardState(Struct, frozen=True):
    """Term and vote."""

    term: Term
    voted_for: NodeId | None


class Append(Struct, frozen=True):
    """Entries that follow what the log holds."""

    entries: tuple[Entry, ...]


class Truncate(Struct, frozen=True):
    """The log loses everything from this index on."""

    from_index: Index


class Cut(Struct, frozen=True):
    """A snapshot stands in for everything before ``first_index``."""

    first_index: Index
    """Of the entries that stay, or that will come."""
    metadata: SnapshotMetadata


class Reset(Struct, frozen=True):
    """An installed snapshot takes the place of the whole log."""

    metadata: SnapshotMetadata


DurableRecord: TypeAlias = HardState | Append | Truncate | Cut | Reset


class Persist(Struct, frozen=True):
    """Make these durable, in order, and answer with ``Persisted`` or ``PersistFailed``. Tokens rise by one."""

    token: int
    records: tuple[DurableRecord, ...]


class Send(Struct, frozen=True):
    """Send, or lose: nothing rests on the arrival of one message."""

    to: NodeId
    message: RaftMessage


class Apply(Struct, frozen=True):
    """Committed entries, contiguous, each given out once in the life of a machine."""

    entries: tuple[Entry, ...]


class Accepted(Struct, frozen=True):
    """A request has been appended at these places. Done when ``Apply`` brings them with this term."""

    request: int
    first_index: Index
    count: int
    term: Term


class Why(Enum):
    """Why a request was refused; nothing was appended for it."""

    NOT_LEADER = "not-leader"
    NO_QUORUM = "no-quorum"
    TRANSFERRING = "transferring"
    CHANGE_PENDING = "change-pending"
    """Another configuration change is not committed yet, or nothing of this term is."""
    NOT_CAUGHT_UP = "not-caught-up"
    UNKNOWN_NODE = "unknown-node"
    IS_MEMBER = "is-member"
    IS_LEADER = "is-leader"
    """A leader does not remove itself, nor hand over to itself."""
    TOO_MUCH = "too-much"
    """A bound on what waits, or on the size of a command."""
    STORAGE = "storage"
    NOTHING_NEW = "nothing-new"
    """No entry to compact since the last snapshot."""


class Refused(Struct, frozen=True):
    """A request will not be done."""

    request: int
    why: Why
    leader: NodeId | None
    """Whom to ask instead, if known."""


class ReadReady(Struct, frozen=True):
    """The read may be answered from a state that has applied this index."""

    request: int
    index: Index


class TransferDone(Struct, frozen=True):
    """A transfer is over: the target leads, or time was up and this node takes proposals again."""

    request: int
    leader: NodeId | None


class TakeSnapshot(Struct, frozen=True):
    """Capture the state machine as it is now, at ``index``; answer with ``SnapshotTaken`` or ``SnapshotFailed``."""

    index: Index
    term: Term
    configuration: Configuration
    epoch: int


class ReadSnapshot(Struct, frozen=True):
    """Bytes of the newest snapshot for a follower; answer with ``SnapshotBytes``."""

    to: NodeId
    sha256: bytes
    offset: int
    size: int


class StoreChunk(Struct, frozen=True):
    """Bytes of a snapshot that is being fetched. ``offset`` 0 begins anew; otherwise it follows what is held."""

    metadata: SnapshotMetadata
    offset: int
    data: bytes


class DropChunks(Struct, frozen=True):
    """Forget what was fetched."""

    reason: str


class InstallSnapshot(Struct, frozen=True):
    """All bytes are there: check the hash, make it durable, restore the state machine, and answer."""

    metadata: SnapshotMetadata


class Role(Enum):
    """What a node does in its term."""

    FOLLOWER = "follower"
    CANDIDATE = "candidate"
    LEADER = "leader"


class RoleChanged(Struct, frozen=True):
    """For the audit log, and for whoever waits."""

    before: Role
    after: Role
    term: Term
    leader: NodeId | None


class LeaderChanged(Struct, frozen=True):
    """Whom this node takes for the leader."""

    leader: NodeId | None
    term: Term


class ConfigurationChanged(Struct, frozen=True):
    """Which configuration counts; ``is_committed`` once it cannot be taken back."""

    configuration: Configuration
    index: Index
    is_committed: bool


class Alarm(Struct, frozen=True):
    """Something that a person should know: failed heartbeats, an even number of voters, a lost quorum, a bad disk."""

    code: str
    detail: str


class WakeAt(Struct, frozen=True):
    """A ``Tick`` is due by then. Each one replaces the one before."""

    at_ns: int


Effect: TypeAlias = (
    Persist
    | Send
    | Apply
    | Accepted
    | Refused
    | ReadReady
    | TransferDone
    | TakeSnapshot
    | ReadSnapshot
    | StoreChunk
    | DropChunks
    | InstallSnapshot
    | RoleChanged
    | LeaderChanged
    | ConfigurationChanged
    | Alarm
    | WakeAt
)
