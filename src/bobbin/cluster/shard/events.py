"""What the leader of a shard hears."""

from typing import TypeAlias

from msgspec import Struct

from bobbin.cluster.names import Index
from bobbin.cluster.operations import ReadVersion, Transaction
from bobbin.cluster.shard.commands import Command, Outcome
from bobbin.cluster.transactions.messages import ShardMessage
from bobbin.cluster.transactions.names import ShardId, TxId


class Tick(Struct, frozen=True):
    """Time has passed."""


class Commit(Struct, frozen=True):
    """A client wants a transaction of this shard alone to be committed.

    One that only reads goes into a block like any other, which proves that this leader still leads.
    """

    request: int
    """The driver's own number for whoever waits."""
    transaction: Transaction


class Commits(Struct, frozen=True):
    """The same from many clients at once: they are looked at in this order before any block is made."""

    commits: tuple[Commit, ...]


class Begin(Struct, frozen=True):
    """A client wants a transaction over several shards; this one coordinates."""

    request: int
    tx: TxId
    parts: tuple[tuple[ShardId, Transaction], ...]
    """Ascending by shard."""
    timeout_ms: int


class Abort(Struct, frozen=True):
    """A client takes back a transaction that it began here."""

    request: int
    tx: TxId


class Validate(Struct, frozen=True):
    """A client asks whether what it has read still stands and is not locked; the driver has confirmed leadership."""

    request: int
    reads: tuple[ReadVersion, ...]


class Heard(Struct, frozen=True):
    """A message of another shard, or of this one to itself."""

    sender: ShardId
    message: ShardMessage


class Applied(Struct, frozen=True):
    """A command of this shard's log was applied, proposed here or not. ``Shard`` has it in it already."""

    index: Index
    command: Command
    outcome: Outcome
    proposal: int | None
    """The number of this leader's proposal, if it was one."""


class Lost(Struct, frozen=True):
    """A proposal was refused, or another entry has taken its place: it is not done and never will be."""

    proposal: int
    reason: str


class ReplaceCodebookWanted(Struct, frozen=True):
    """An operator has a new codebook."""

    request: int
    centroids: bytes


class ResolveWanted(Struct, frozen=True):
    """An operator ends a promised part by hand."""

    request: int
    tx: TxId
    commits: bool
    operator: str
    reason: str


Event: TypeAlias = (
    Tick | Commit | Commits | Begin | Abort | Validate | Heard | Applied | Lost | ReplaceCodebookWanted | ResolveWanted
)
