"""Which shard a key belongs to. By its hash, so that everybody knows it who knows how many shards there are."""

from hashlib import sha256
from typing import Final

from bobbin.cluster.operations import Operation, affected_key
from bobbin.cluster.transactions.names import SHARD_MAX, ShardId
from bobbin.errors import UsageError

_TAG: Final = b"bobbin-shard/v1"


def shard_of(key: bytes, shards: int) -> ShardId:
    """The shard of an affected key."""
    if not 0 < shards <= SHARD_MAX + 1:
        raise UsageError(f"there are 1 to {SHARD_MAX + 1} shards, not {shards}")
    if shards == 1:
        return ShardId(0)
    return ShardId(int.from_bytes(sha256(_TAG + key).digest()[:8], "big") % shards)


def place(operation: Operation, shards: int) -> ShardId:
    """The shard of an operation."""
    return shard_of(affected_key(operation), shards)
