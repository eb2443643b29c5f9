"""What a transaction must look like to be begun at all."""

from itertools import pairwise

from bobbin.cluster.operations import Transaction
from bobbin.cluster.transactions.names import SHARD_MAX, TX_ID_BYTES, ShardId, TxId


def why_malformed(tx: TxId, parts: tuple[tuple[ShardId, Transaction], ...], timeout_ms: int) -> str | None:
    """What is wrong with a transaction whatever the state is; None if nothing is."""
    shards = [shard for shard, _ in parts]
    if len(tx) != TX_ID_BYTES:
        return f"the id of a transaction has {TX_ID_BYTES} bytes, not {len(tx)}"
    if not shards or any(one >= following for one, following in pairwise(shards)):
        return "a transaction needs participants, ascending and each once"
    if shards[0] < 0 or shards[-1] > SHARD_MAX:
        return f"shards are numbered from 0 to {SHARD_MAX}"
    if any(part.id != tx for _, part in parts):
        return "a part has another id than its transaction"
    if timeout_ms <= 0:
        return f"a timeout must be above 0, not {timeout_ms} ms"
    return None
