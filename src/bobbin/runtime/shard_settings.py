"""What a node of a shard is told besides what every node of a cluster is."""

from msgspec import Struct

from bobbin.cluster.settings import ChainConfig, DeadlockDetectorConfig, DistributedTxConfig
from bobbin.cluster.transactions.names import SHARD_MAX, ShardId
from bobbin.errors import UsageError

SHARDS_MAX = 64
"""That one process serves."""


class ShardSettings(Struct, frozen=True, kw_only=True):
    """One shard of a set. Which keys are its own follows from the number of shards, so that never changes."""

    shard: ShardId
    shards: int
    transactions: DistributedTxConfig = DistributedTxConfig()
    deadlock: DeadlockDetectorConfig = DeadlockDetectorConfig()
    chain: ChainConfig = ChainConfig()

    def __post_init__(self) -> None:
        if not 0 < self.shards <= SHARD_MAX + 1:
            raise UsageError(f"a set has 1 to {SHARD_MAX + 1} shards, not {self.shards}")
        if not 0 <= self.shard < self.shards:
            raise UsageError(f"a shard of a set of {self.shards} is numbered below that, not {self.shard}")
