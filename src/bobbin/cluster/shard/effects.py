"""What the leader of a shard wants to be done."""

from typing import TypeAlias

from msgspec import Struct

from bobbin.cluster.shard.commands import Command
from bobbin.cluster.transactions.messages import ShardMessage
from bobbin.cluster.transactions.names import ShardId, TxId
from bobbin.cluster.transactions.phases import Ended


class Propose(Struct, frozen=True):
    """Write to the log of this shard. Answered by ``Applied`` with this number, or by ``Lost``, or never."""

    proposal: int
    command: Command


class Send(Struct, frozen=True):
    """To the leader of a shard, perhaps of this one. It may get lost."""

    shard: ShardId
    message: ShardMessage


class Answer(Struct, frozen=True):
    """Tell the client behind a request how its transaction ended. Each request is answered once at most."""

    request: int
    ended: Ended
    tx: TxId
    height: int = 0
    """Of the block on this shard, where one was written."""
    reason: str = ""
    similarity: float | None = None
    """Of the change that was in the way, for a conflict that geometry found."""
    other: TxId | None = None
    refusals: tuple[tuple[int, str], ...] = ()
    """Of a committed transaction: operations that the state refused (a swap that found another value)."""


class WakeAt(Struct, frozen=True):
    """A tick is wanted at this moment of the forward clock; replaces the one before."""

    at_ms: int


class Alarm(Struct, frozen=True):
    """A person should know."""

    code: str
    detail: str


Other: TypeAlias = Propose | Send | WakeAt | Alarm
"""All but answers, of which there are many."""
Effect: TypeAlias = Answer | Other
