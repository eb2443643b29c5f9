"""What is asked of the leader of a shard, and of any node for what is old: transactions, blocks, what is pending.

Kinds of requests and answers from 32 on; ``client`` has the others, and puts them into frames. The bounds here are on
the form. What a transaction says is looked at by the leader of the shard, which answers with a reason.
"""

from typing import Annotated, Final, TypeAlias

from msgspec import Meta, Struct

from bobbin.cluster.chain.block import Block
from bobbin.cluster.geometry import Embedding
from bobbin.cluster.operations import KEY_BYTES_MAX, OPERATIONS_MAX, Operation, ReadVersion, Transaction
from bobbin.cluster.transactions.names import SHARD_MAX, TX_ID_BYTES, ShardId, TxId
from bobbin.cluster.transactions.phases import Ended
from bobbin.errors import UsageError

STORAGE_KEY_BYTES_MAX: Final = 2 * KEY_BYTES_MAX + 512
"""A storage key may hold two keys and the kind of an edge."""
READ_KEYS_MAX: Final = 1_000
"""Of one request."""
READS_MAX: Final = 10_000
"""That one request has checked."""
PARTS_MAX: Final = 1_000
BLOCKS_MAX: Final = 1_000
"""Of one page, which ends earlier where blocks are large."""
CHANGES_MAX: Final = 1_000
"""Of one page of a history."""
NEAREST_MAX: Final = 1_000
MESSAGE_BYTES_MAX: Final = 15 * 1_048_576
CODEBOOK_BYTES_MAX: Final = 15 * 1_048_576
REASON_CHARACTERS_MAX: Final = 1_000
TEXT_CHARACTERS_MAX: Final = 4_096
PENDING_MAX: Final = 10_000

_Number = Annotated[int, Meta(ge=0)]
_StorageKey = Annotated[bytes, Meta(min_length=1, max_length=STORAGE_KEY_BYTES_MAX)]
_Tx = Annotated[TxId, Meta(min_length=TX_ID_BYTES, max_length=TX_ID_BYTES)]
_Shard = Annotated[ShardId, Meta(ge=0, le=SHARD_MAX)]
_Reason = Annotated[str, Meta(max_length=REASON_CHARACTERS_MAX)]
_Text = Annotated[str, Meta(max_length=TEXT_CHARACTERS_MAX)]


class ChainRead(Struct, frozen=True, array_like=True, tag=32, gc=False, forbid_unknown_fields=True):
    """What storage keys hold; without keys, only the height, at which a transaction may begin."""

    number: _Number
    keys: Annotated[tuple[_StorageKey, ...], Meta(max_length=READ_KEYS_MAX)]
    at: _Number | None = None
    """A height; None for the present one."""
    linearizable: bool = True
    """False reads what this node has applied, which may be old."""


class ChainCommit(Struct, frozen=True, array_like=True, tag=33, forbid_unknown_fields=True):
    """Commit a transaction of this shard alone. May be sent again: its id is done once."""

    number: _Number
    transaction: Transaction


class ChainBegin(Struct, frozen=True, array_like=True, tag=34, forbid_unknown_fields=True):
    """Commit a transaction over several shards; this one coordinates. May be sent again, to the same shard."""

    number: _Number
    tx: _Tx
    parts: Annotated[tuple[tuple[_Shard, Transaction], ...], Meta(max_length=PARTS_MAX)]
    timeout_ms: _Number


class ChainAbort(Struct, frozen=True, array_like=True, tag=35, gc=False, forbid_unknown_fields=True):
    """Take back a transaction that this shard coordinates, if it is not decided."""

    number: _Number
    tx: _Tx


class ChainValidate(Struct, frozen=True, array_like=True, tag=36, forbid_unknown_fields=True):
    """Whether what was read still stands and is not locked."""

    number: _Number
    reads: Annotated[tuple[ReadVersion, ...], Meta(max_length=READS_MAX)]


class ChainSay(Struct, frozen=True, array_like=True, tag=37, gc=False, forbid_unknown_fields=True):
    """A message of another shard. Being taken says nothing of what comes of it."""

    number: _Number
    sender: _Shard
    message: Annotated[bytes, Meta(max_length=MESSAGE_BYTES_MAX)]
    """In the bytes of ``shard_messages``."""


class ChainBlocks(Struct, frozen=True, array_like=True, tag=38, gc=False, forbid_unknown_fields=True):
    """Blocks from a height on."""

    number: _Number
    first: _Number
    limit: Annotated[int, Meta(ge=1, le=BLOCKS_MAX)] = BLOCKS_MAX
    linearizable: bool = True


class ChainHistory(Struct, frozen=True, array_like=True, tag=39, gc=False, forbid_unknown_fields=True):
    """What was done to a key, by its affected or its storage name, the oldest first."""

    number: _Number
    key: _StorageKey
    after: _Number = 0
    """A height, where the last page ended."""
    linearizable: bool = True


class ChainVerify(Struct, frozen=True, array_like=True, tag=40, gc=False, forbid_unknown_fields=True):
    """Check the whole chain of this node: hashes, signatures, and every root by doing it all again."""

    number: _Number


class ChainPending(Struct, frozen=True, array_like=True, tag=41, gc=False, forbid_unknown_fields=True):
    """Transactions that are not over on this shard, as this node has applied it."""

    number: _Number


class ChainResolve(Struct, frozen=True, array_like=True, tag=42, gc=False, forbid_unknown_fields=True):
    """End a promised part by hand, where its coordinator is gone for good. Marked as such for ever."""

    number: _Number
    tx: _Tx
    commits: bool
    reason: _Reason


class ChainCodebook(Struct, frozen=True, array_like=True, tag=43, gc=False, forbid_unknown_fields=True):
    """Replace the codebook of this shard; without centroids, ask for the present one."""

    number: _Number
    centroids: Annotated[bytes, Meta(max_length=CODEBOOK_BYTES_MAX)] | None = None


class ChainNearest(Struct, frozen=True, array_like=True, tag=44, forbid_unknown_fields=True):
    """Blocks whose change was most like this one."""

    number: _Number
    embedding: Embedding
    limit: Annotated[int, Meta(ge=1, le=NEAREST_MAX)] = 10


ChainRequest: TypeAlias = (
    ChainRead
    | ChainCommit
    | ChainBegin
    | ChainAbort
    | ChainValidate
    | ChainSay
    | ChainBlocks
    | ChainHistory
    | ChainVerify
    | ChainPending
    | ChainResolve
    | ChainCodebook
    | ChainNearest
)


class ChainItem(Struct, frozen=True, array_like=True, gc=False, forbid_unknown_fields=True):
    """What a key holds."""

    value: bytes | None
    """None for a key that is not there."""
    version: _Number
    """The height of the block that wrote it; 0 for a key that is not there."""
    holds: _Number = 0
    """What the bytes are, as ``chain.holdings`` numbers it."""


class ChainItems(Struct, frozen=True, array_like=True, tag=32, forbid_unknown_fields=True):
    """The answer to a read, key by key."""

    number: _Number
    height: _Number
    """At which it was read."""
    horizon: _Number
    """The id of a new transaction is made from this number: the shard may have forgotten those before it."""
    items: Annotated[tuple[ChainItem, ...], Meta(max_length=READ_KEYS_MAX)]


class ChainEnded(Struct, frozen=True, array_like=True, tag=33, forbid_unknown_fields=True):
    """How a transaction ended, or what came of an operator's request."""

    number: _Number
    ended: Ended
    tx: bytes
    height: _Number = 0
    """Of the block on this shard, where one was written."""
    reason: _Text = ""
    similarity: float | None = None
    other: bytes | None = None
    refusals: Annotated[tuple[tuple[int, str], ...], Meta(max_length=OPERATIONS_MAX)] = ()
    """Of a committed transaction: operations that the state refused."""


class ChainPage(Struct, frozen=True, array_like=True, tag=34, forbid_unknown_fields=True):
    """Blocks, ascending."""

    number: _Number
    blocks: Annotated[tuple[Block, ...], Meta(max_length=BLOCKS_MAX)]
    height: _Number
    """Of the chain: the last block there is."""


class ChainChange(Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """One operation on a key."""

    height: _Number
    timestamp_ms: _Number
    tx: bytes
    operation: Operation
    refusal: _Text = ""
    """Why the state did not take it; empty where it did."""


class ChainChanges(Struct, frozen=True, array_like=True, tag=35, forbid_unknown_fields=True):
    """A page of a history."""

    number: _Number
    changes: tuple[ChainChange, ...]
    is_whole: bool
    """There are none after these."""


class ChainVerdict(Struct, frozen=True, array_like=True, tag=36, gc=False, forbid_unknown_fields=True):
    """What a check of the whole chain has found."""

    number: _Number
    height: _Number
    tip: bytes
    fault_height: _Number | None
    """Of the first bad block; None where all is well."""
    fault: _Text


class PendingTransaction(Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """One that is not over."""

    tx: bytes
    role: _Text
    """``coordinates`` or ``participates``."""
    standing: _Text
    coordinator: _Number
    shards: tuple[int, ...]
    keys: _Number
    """Locked on this shard."""


class ChainOpen(Struct, frozen=True, array_like=True, tag=37, forbid_unknown_fields=True):
    """All that are not over, as far as they fit."""

    number: _Number
    transactions: Annotated[tuple[PendingTransaction, ...], Meta(max_length=PENDING_MAX)]
    total: _Number


class ChainBook(Struct, frozen=True, array_like=True, tag=38, gc=False, forbid_unknown_fields=True):
    """The codebook in force."""

    number: _Number
    version: _Number
    centroids: bytes


class Near(Struct, frozen=True, array_like=True, gc=False, forbid_unknown_fields=True):
    """A block, and how like it is."""

    height: _Number
    similarity: float


class ChainNear(Struct, frozen=True, array_like=True, tag=39, forbid_unknown_fields=True):
    """The most alike first."""

    number: _Number
    blocks: Annotated[tuple[Near, ...], Meta(max_length=NEAREST_MAX)]


ChainAnswer: TypeAlias = (
    ChainItems | ChainEnded | ChainPage | ChainChanges | ChainVerdict | ChainOpen | ChainBook | ChainNear
)


def check_chain_request(request: ChainRequest) -> None:
    """Refuse a request that a node would not take, before it is sent."""
    match request:
        case ChainRead(keys=keys):
            _check_count("keys", len(keys), 0, READ_KEYS_MAX)
            for key in keys:
                _check_count("bytes of a storage key", len(key), 1, STORAGE_KEY_BYTES_MAX)
        case ChainHistory(key=key):
            _check_count("bytes of a storage key", len(key), 1, STORAGE_KEY_BYTES_MAX)
        case ChainBegin(tx=tx, parts=parts):
            _check_tx(tx)
            _check_count("parts", len(parts), 0, PARTS_MAX)
            for shard, _ in parts:
                _check_count("shard", shard, 0, SHARD_MAX)
        case ChainAbort(tx=tx):
            _check_tx(tx)
        case ChainResolve(tx=tx, reason=reason):
            _check_tx(tx)
            _check_count("characters of a reason", len(reason), 0, REASON_CHARACTERS_MAX)
        case ChainValidate(reads=reads):
            _check_count("reads", len(reads), 0, READS_MAX)
        case ChainSay(sender=sender, message=message):
            _check_count("shard", sender, 0, SHARD_MAX)
            _check_count("bytes of a message", len(message), 0, MESSAGE_BYTES_MAX)
        case ChainCodebook(centroids=centroids):
            _check_count("bytes of a codebook", len(centroids or b""), 0, CODEBOOK_BYTES_MAX)
        case ChainBlocks(limit=limit):
            _check_count("blocks", limit, 1, BLOCKS_MAX)
        case ChainNearest(limit=limit):
            _check_count("blocks", limit, 1, NEAREST_MAX)
        case ChainCommit() | ChainVerify() | ChainPending():
            pass


def _check_tx(tx: bytes) -> None:
    if len(tx) != TX_ID_BYTES:
        raise UsageError(f"the id of a transaction has {TX_ID_BYTES} bytes, not {len(tx)}")


def _check_count(what: str, count: int, least: int, most: int) -> None:
    if not least <= count <= most:
        raise UsageError(f"{what}: {least} to {most}, not {count}")
