"""What is wrong with what clients and other shards ask for, whatever the state is.

Everything here is looked at by a leader before it does anything, and refused with a reason: nothing is changed by it.
"""

from collections.abc import Sequence
from typing import Final

from bobbin.cluster.chain.draft import Clash, ClashKind
from bobbin.cluster.operations import OPERATIONS_MAX, Transaction, affected_key, why_invalid
from bobbin.cluster.shard.placing import shard_of
from bobbin.cluster.transactions.messages import TxPrepareMsg
from bobbin.cluster.transactions.names import TX_ID_BYTES, ShardId, TxId
from bobbin.cluster.transactions.phases import Ended

TIMEOUT_MS_MAX: Final = 300_000
REASON_BYTES_MAX: Final = 1_000
"""Of what an operator says, and of what is passed on."""


def why_transaction_refused(transaction: Transaction, *, shard: ShardId, shards: int, dimension: int) -> str | None:
    """Of a transaction, or a part of one, that is for this shard."""
    wrong = why_invalid(transaction, dimension=dimension)
    if wrong is not None:
        return wrong
    if not (transaction.operations or transaction.reads):
        return "the transaction neither reads nor writes"
    if shards > 1:
        for operation in transaction.operations:
            key = affected_key(operation)
            if shard_of(key, shards) != shard:
                return f"the key {shown(key)} belongs to shard {shard_of(key, shards)}, not to {shard}"
    return None


def why_parts_refused(
    tx: TxId, parts: Sequence[tuple[ShardId, Transaction]], timeout_ms: int, *, shards: int, dimension: int
) -> str | None:
    """Of a transaction over several shards, at its coordinator."""
    if len(tx) != TX_ID_BYTES:
        return f"the id of a transaction has {TX_ID_BYTES} bytes, not {len(tx)}"
    if not parts:
        return "the transaction has no parts"
    wrong = why_timeout_refused(timeout_ms)
    if wrong is not None:
        return wrong
    before = -1
    for shard, part in parts:
        if not before < shard < shards:
            return f"the shards of a transaction ascend and lie below {shards}: {shard} after {before} does not"
        before = shard
        if part.id != tx:
            return f"the part of shard {shard} has the id of another transaction"
        wrong = why_transaction_refused(part, shard=shard, shards=shards, dimension=dimension)
        if wrong is not None:
            return f"shard {shard}: {wrong}"
    operations = sum(len(part.operations) for _, part in parts)
    if operations > OPERATIONS_MAX:
        return f"a transaction has at most {OPERATIONS_MAX} operations, not {operations}"
    return None


def why_prepare_refused(message: TxPrepareMsg, *, shard: ShardId, shards: int, dimension: int) -> str | None:
    """Of a part that another shard wants to be promised here. Shards first, then the timeout, then the vectors."""
    if message.shard != shard:
        return f"it is for shard {message.shard}, and this is shard {shard}"
    if not 0 <= message.coordinator < shards:
        return f"there is no shard {message.coordinator}"
    if shard not in message.participants or not all(0 <= one < shards for one in message.participants):
        return "its participants are not shards of this cluster, or this one is not among them"
    wrong = why_timeout_refused(message.timeout_ms)
    if wrong is not None:
        return wrong
    if message.part.id != message.tx:
        return "the part has the id of another transaction"
    return why_transaction_refused(message.part, shard=shard, shards=shards, dimension=dimension)


def why_timeout_refused(timeout_ms: int) -> str | None:
    """Of a transaction over several shards."""
    if not 1 <= timeout_ms <= TIMEOUT_MS_MAX:
        return f"a timeout lies between 1 and {TIMEOUT_MS_MAX} ms, not at {timeout_ms}"
    return None


def ended_by(clash: Clash) -> Ended:
    """What a client is told whose transaction clashes with the applied state.

    A leader that was replaced without knowing it may be behind, in its chain or in its codebook: what a later state
    would allow is not refused for ever.
    """
    if clash.kind in {ClashKind.STALE_READ, ClashKind.OVERTAKEN}:
        return Ended.CONFLICT
    return Ended.REFUSED if clash.kind in {ClashKind.MALFORMED, ClashKind.TOO_OLD} else Ended.BUSY


def shown(key: bytes) -> str:
    """A key in a reason, which has few characters."""
    return repr(key[:64])
