"""The commands of a shard's log. What each leads to follows from the log alone."""

from enum import IntEnum
from typing import TypeAlias

from msgspec import Struct

from bobbin.cluster.chain.block import Block
from bobbin.cluster.transactions.messages import PrepareVote, TxPrepareMsg
from bobbin.cluster.transactions.names import TxId
from bobbin.cluster.transactions.tx_log import TxWalEntry


class Append(Struct, frozen=True, array_like=True, forbid_unknown_fields=True, tag=32):
    """Put a block on the chain: all of it or nothing. Parts that were prepared are unlocked by it."""

    block: Block


class Prepare(Struct, frozen=True, array_like=True, forbid_unknown_fields=True, tag=33):
    """Promise a part of a transaction, or refuse it."""

    message: TxPrepareMsg


class Drop(Struct, frozen=True, array_like=True, forbid_unknown_fields=True, tag=34):
    """Forget a promised part: its coordinator has decided so. One that is not there is dropped already."""

    tx: TxId


class Log(Struct, frozen=True, array_like=True, forbid_unknown_fields=True, tag=35):
    """What this shard's coordinator writes down."""

    entries: tuple[TxWalEntry, ...]


class ReplaceCodebook(Struct, frozen=True, array_like=True, forbid_unknown_fields=True, tag=36):
    """Use another codebook from the next block on."""

    version: int
    """One more than the present one."""
    centroids: bytes
    """In the codebook's own bytes."""


class Resolve(Struct, frozen=True, array_like=True, forbid_unknown_fields=True, tag=37):
    """An operator ends a promised part without its coordinator. Kept, and marked as heuristic, for ever."""

    tx: TxId
    commits: bool
    operator: str
    reason: str


Command: TypeAlias = Append | Prepare | Drop | Log | ReplaceCodebook | Resolve
TAGS = range(32, 48)
"""By the second byte of a command, this machine is chosen among those of a node."""


class Kind(IntEnum):
    """What came of a command. From 16 on: nothing was done."""

    APPENDED = 1
    VOTED = 2
    DROPPED = 3
    LOGGED = 4
    REPLACED = 5
    RESOLVED = 6
    NO_COMMAND = 16
    BAD_BLOCK = 17
    STALE_BLOCK = 18
    """It does not follow the tip: another one came first."""
    BAD_ENTRY = 19
    BAD_CODEBOOK = 20
    UNKNOWN_TRANSACTION = 21

    @property
    def is_refusal(self) -> bool:
        return self >= Kind.NO_COMMAND


class Outcome(Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """The answer to a command."""

    kind: Kind
    height: int
    """Of the chain, afterwards."""
    reason: str = ""
    vote: PrepareVote | None = None
    """Of a prepare."""
    refusals: tuple[tuple[int, int, str], ...] = ()
    """Of an appended block: (transaction, operation, why) for each operation that was refused by the state it met."""
