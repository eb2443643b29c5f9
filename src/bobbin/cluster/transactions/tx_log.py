"""What a coordinator writes down, and what it knows again from it.

Each entry is durable, in the log of the coordinator's shard, before anything that rests on it is said.
"""

from typing import TypeAlias

from msgspec import Struct

from bobbin.cluster.operations import Transaction
from bobbin.cluster.transactions.messages import PrepareVote
from bobbin.cluster.transactions.names import ShardId, TxId
from bobbin.cluster.transactions.phases import TxPhase


class TxBegin(Struct, frozen=True, array_like=True, forbid_unknown_fields=True, tag=1):
    """Everything that is needed to send each prepare again."""

    tx: TxId
    parts: tuple[tuple[ShardId, Transaction], ...]
    timeout_ms: int
    at_ms: int
    """By the coordinator's clock; for people and for the age shown, never for a decision."""


class Voted(Struct, frozen=True, array_like=True, forbid_unknown_fields=True, tag=2):
    """A participant's vote (PrepareVote), before it counts."""

    tx: TxId
    shard: ShardId
    vote: PrepareVote


class PhaseChange(Struct, frozen=True, array_like=True, forbid_unknown_fields=True, tag=3):
    """To COMMITTING is the decision to commit: from here on there is no other."""

    tx: TxId
    was: TxPhase
    is_now: TxPhase


class TxComplete(Struct, frozen=True, array_like=True, forbid_unknown_fields=True, tag=4):
    """Every participant has acknowledged, or an abort has been tried often enough."""

    tx: TxId
    commits: bool


class LockRelease(Struct, frozen=True, array_like=True, forbid_unknown_fields=True, tag=5):
    """A participant has acknowledged: its locks are free."""

    tx: TxId
    shard: ShardId


class AllLocksReleased(Struct, frozen=True, array_like=True, forbid_unknown_fields=True, tag=6):
    """Nothing of it is left anywhere; it may be forgotten."""

    tx: TxId


class AbortIntent(Struct, frozen=True, array_like=True, forbid_unknown_fields=True, tag=7):
    """It is being aborted. Nothing rests on this being durable."""

    tx: TxId
    reason: str
    shards: tuple[ShardId, ...]


TxWalEntry: TypeAlias = TxBegin | Voted | PhaseChange | TxComplete | LockRelease | AllLocksReleased | AbortIntent
