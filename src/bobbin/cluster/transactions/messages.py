"""What shards say to one another. Any of it may be lost, doubled, late, or come to a leader that has just begun."""

from typing import TypeAlias

from msgspec import Struct

from bobbin.cluster.geometry import Embedding
from bobbin.cluster.operations import Transaction
from bobbin.cluster.transactions.names import ShardId, TxId


class TxPrepareMsg(Struct, frozen=True, array_like=True, forbid_unknown_fields=True, tag=1):
    """Lock, check and promise a part of a transaction."""

    tx: TxId
    coordinator: ShardId
    shard: ShardId
    """The participant."""
    part: Transaction
    delta: Embedding
    """As the coordinator has it; the participant works out its own."""
    timeout_ms: int
    participants: tuple[ShardId, ...]
    """All of them, ascending: whom to ask when the coordinator is silent."""


class Yes(Struct, frozen=True, array_like=True, forbid_unknown_fields=True, tag=1):
    """The part is locked and durable; it will be done or dropped as the coordinator decides."""

    handle: int
    delta: Embedding
    keys: tuple[bytes, ...]


class No(Struct, frozen=True, array_like=True, forbid_unknown_fields=True, tag=2):
    """Nothing of it remains."""

    reason: str
    is_final: bool = False
    """Whether trying the same again is of no use: it was malformed, or is too old."""


class Conflict(Struct, frozen=True, array_like=True, forbid_unknown_fields=True, tag=3):
    """Somebody else's change is in the way; nothing of this one remains."""

    similarity: float
    other: TxId | None
    """None for one that is committed and forgotten."""
    reason: str = ""


PrepareVote: TypeAlias = Yes | No | Conflict


class TxPrepareResponse(Struct, frozen=True, array_like=True, forbid_unknown_fields=True, tag=2):
    """A participant's vote. A yes is sent only after the promise is durable."""

    tx: TxId
    shard: ShardId
    vote: PrepareVote


class TxCommitMsg(Struct, frozen=True, array_like=True, forbid_unknown_fields=True, tag=3):
    """It is decided: do it. Sent only after the decision is durable, and until it is acknowledged."""

    tx: TxId
    coordinator: ShardId
    shard: ShardId


class TxAbortMsg(Struct, frozen=True, array_like=True, forbid_unknown_fields=True, tag=4):
    """It is decided: drop it."""

    tx: TxId
    coordinator: ShardId
    shard: ShardId
    reason: str


class TxAckMsg(Struct, frozen=True, array_like=True, forbid_unknown_fields=True, tag=5):
    """A participant has done as it was told, durably."""

    tx: TxId
    shard: ShardId
    success: bool
    error: str = ""


class TxQueryMsg(Struct, frozen=True, array_like=True, forbid_unknown_fields=True, tag=6):
    """A prepared participant asks what was decided: its coordinator first, then the other participants."""

    tx: TxId
    coordinator: ShardId
    asker: ShardId
    shard: ShardId
    """Who is asked."""


class TxDecisionMsg(Struct, frozen=True, array_like=True, forbid_unknown_fields=True, tag=7):
    """The answer to a question.

    A coordinator that does not know the transaction says abort; another participant says only what it has seen decided.
    """

    tx: TxId
    shard: ShardId
    """Who answers."""
    commits: bool | None
    """None: not decided, or not known here. Ask again later."""


class WaitEdge(Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """A transaction waits for another one on one shard."""

    waiter: TxId
    holder: TxId
    started_ms: int
    """When the wait began, by the reporting shard's forward clock."""
    born_ms: int
    """Of the waiter."""
    priority: int
    """Of the waiter."""
    locks: int
    """That the holder has on this shard: whoever waits here has none here."""
    coordinator: ShardId
    """Of the waiter: where it can be aborted."""


class WaitReport(Struct, frozen=True, array_like=True, forbid_unknown_fields=True, tag=8):
    """All waits of a shard, to the one that looks for cycles. Replaces what the same shard said before."""

    shard: ShardId
    round: int
    """Rises with each report of one leader; an older one than the last is dropped."""
    term: int
    edges: tuple[WaitEdge, ...]


class Recheck(Struct, frozen=True, array_like=True, forbid_unknown_fields=True, tag=9):
    """The detector has found a cycle and asks whether these edges still stand, before anybody is aborted."""

    number: int
    shard: ShardId
    """Who is asked."""
    edges: tuple[tuple[TxId, TxId], ...]


class Rechecked(Struct, frozen=True, array_like=True, forbid_unknown_fields=True, tag=10):
    """Those of the edges in question that still stand."""

    number: int
    shard: ShardId
    standing: tuple[tuple[TxId, TxId], ...]


class VictimMsg(Struct, frozen=True, array_like=True, forbid_unknown_fields=True, tag=11):
    """Abort this one if it is not decided: it waits in a circle, or an older one wants its locks."""

    tx: TxId
    coordinator: ShardId
    reason: str


ShardMessage: TypeAlias = (
    TxPrepareMsg
    | TxPrepareResponse
    | TxCommitMsg
    | TxAbortMsg
    | TxAckMsg
    | TxQueryMsg
    | TxDecisionMsg
    | WaitReport
    | Recheck
    | Rechecked
    | VictimMsg
)
