"""What a coordinator wants to be done, in the order in which a step returns it.

A ``Write`` need not be durable before the next effect is performed: whatever rests on it is held back by the
coordinator until ``written`` is called with its ticket.
"""

from enum import Enum
from typing import TypeAlias

from msgspec import Struct

from bobbin.cluster.transactions.messages import ShardMessage
from bobbin.cluster.transactions.names import ShardId, TxId
from bobbin.cluster.transactions.phases import Ended
from bobbin.cluster.transactions.tx_log import TxWalEntry


class Write(Struct, frozen=True):
    """Put these into the log of this shard, all or none. Answered by ``written`` or ``lost``, or never."""

    ticket: int
    entries: tuple[TxWalEntry, ...]


class Send(Struct, frozen=True):
    """To the leader of a shard, perhaps of this one. It may get lost."""

    shard: ShardId
    message: ShardMessage


class End(Struct, frozen=True):
    """Tell whoever waits behind a request how the transaction ended. Each request is answered once at most."""

    request: int
    tx: TxId
    ended: Ended
    reason: str = ""
    similarity: float | None = None
    """Of the change that was in the way, for a conflict."""
    other: TxId | None = None


class Mistake(Enum):
    """What is wrong with something that came. It is counted, and nothing else changes."""

    UNKNOWN_TRANSACTION = "unknown-transaction"
    """Never begun here, or ended and forgotten."""
    FOREIGN_SHARD = "foreign-shard"
    """It has no part in the transaction, or the transaction has another coordinator."""
    DUPLICATE_VOTE = "duplicate-vote"
    """The first one stands, whatever this one says."""
    DUPLICATE_ACK = "duplicate-ack"
    WRONG_PHASE = "wrong-phase"
    """Too early, or too late."""
    FAILED_ACK = "failed-ack"
    """The participant says that it has not done as it was told. It is told again."""


class Refused(Struct, frozen=True):
    """Something that came makes no sense, or no sense any more. Nothing was changed."""

    mistake: Mistake
    tx: TxId
    shard: ShardId
    """Who said it; the coordinator's own shard for a client or a search for deadlocks."""
    detail: str = ""


class Alarm(Struct, frozen=True):
    """A person should know."""

    code: str
    detail: str


class WakeAt(Struct, frozen=True):
    """A tick is wanted at this moment of the forward clock; replaces the one before."""

    at_ms: int


CoordinatorEffect: TypeAlias = Write | Send | End | Refused | Alarm | WakeAt
