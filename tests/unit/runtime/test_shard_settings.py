"""What a node of a shard is told."""

import pytest

from bobbin.cluster.settings import ChainConfig, DeadlockDetectorConfig, DistributedTxConfig
from bobbin.cluster.transactions.names import ShardId
from bobbin.errors import UsageError
from bobbin.runtime.shard_settings import ShardSettings


def test_defaults_are_those_of_the_parts() -> None:
    made = ShardSettings(shard=ShardId(1), shards=2)
    assert (made.transactions, made.deadlock, made.chain) == (
        DistributedTxConfig(),
        DeadlockDetectorConfig(),
        ChainConfig(),
    )


@pytest.mark.parametrize(("shard", "shards"), [(0, 0), (2, 2), (-1, 2), (0, 65_537)])
def test_a_shard_is_one_of_so_many(shard: int, shards: int) -> None:
    with pytest.raises(UsageError):
        ShardSettings(shard=ShardId(shard), shards=shards)
