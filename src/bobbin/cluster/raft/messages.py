"""What nodes say to each other. Each message names its sender; the gateway has made sure that it is true."""

from typing import TypeAlias

from msgspec import Struct

from bobbin.cluster.geometry import Embedding
from bobbin.cluster.names import Index, NodeId, Term
from bobbin.cluster.raft.entries import Entry, SnapshotMetadata


class PreVote(Struct, frozen=True, kw_only=True):
    """Would you vote for me? Carries the present term and binds nobody."""

    term: Term
    candidate: NodeId
    last_index: Index
    last_term: Term
    request: int
    """Counted by the candidate; the answer repeats it."""
    embedding: Embedding | None = None


class PreVoteAnswer(Struct, frozen=True, kw_only=True):
    """Whether the answerer would vote so, as things are."""

    term: Term
    """The answerer's own."""
    granted: bool
    voter: NodeId
    request: int


class RequestVote(Struct, frozen=True, kw_only=True):
    """Vote for me in this term."""

    term: Term
    candidate: NodeId
    last_index: Index
    last_term: Term
    request: int
    is_transfer: bool = False
    """The leader itself has asked for this election (``TimeoutNow``)."""
    embedding: Embedding | None = None


class VoteAnswer(Struct, frozen=True, kw_only=True):
    """A vote, durable before it is said, or a refusal."""

    term: Term
    granted: bool
    voter: NodeId
    request: int


class TimeoutNow(Struct, frozen=True, kw_only=True):
    """The leader hands over: stand for election at once."""

    term: Term
    leader: NodeId


class AppendEntries(Struct, frozen=True, kw_only=True):
    """Entries that follow a place; without any, a heartbeat."""

    term: Term
    leader: NodeId
    previous_index: Index
    previous_term: Term
    entries: tuple[Entry, ...]
    commit: Index
    round: int
    """Counted by the leader; the answer repeats it, which is how a read is confirmed."""


class AppendAnswer(Struct, frozen=True, kw_only=True):
    """What became of entries or a heartbeat; of a snapshot, once it is installed or not needed."""

    term: Term
    success: bool
    follower: NodeId
    match_index: Index
    """Of an accepted message: previous index + number of entries, for one without any as far as they are durable. Of a
    refused one: where the logs may agree at most."""
    round: int
    used_fast_path: bool = False


class SnapshotOffer(Struct, frozen=True, kw_only=True):
    """The leader no longer has the entries that a follower lacks. Counts as a heartbeat."""

    term: Term
    leader: NodeId
    metadata: SnapshotMetadata
    round: int


class SnapshotRequest(Struct, frozen=True, kw_only=True):
    """The next bytes of an offered snapshot, please. Counts as contact."""

    term: Term
    requester: NodeId
    sha256: bytes
    offset: int
    size: int
    round: int


class SnapshotChunk(Struct, frozen=True, kw_only=True):
    """Bytes of a snapshot, and which one it is."""

    term: Term
    leader: NodeId
    sha256: bytes
    last_index: Index
    last_term: Term
    offset: int
    total: int
    data: bytes
    is_last: bool


RaftMessage: TypeAlias = (
    PreVote
    | PreVoteAnswer
    | RequestVote
    | VoteAnswer
    | TimeoutNow
    | AppendEntries
    | AppendAnswer
    | SnapshotOffer
    | SnapshotRequest
    | SnapshotChunk
)
