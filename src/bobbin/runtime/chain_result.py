"""How a transaction of a program ended, and what is counted of many."""

from typing import Final

from msgspec import Struct

from bobbin.cluster.operations import Operation
from bobbin.cluster.transactions.names import TxId
from bobbin.cluster.transactions.phases import Ended
from bobbin.errors import ResourceError
from bobbin.transport.base import TransportError


class Result(Struct, frozen=True, kw_only=True):
    """How a transaction ended."""

    ended: Ended
    tx: TxId
    height: int = 0
    """Of the block on the shard that was asked; 0 where none was written there."""
    reason: str = ""
    similarity: float | None = None
    """Of the change that was in the way, where geometry has refused."""
    other: bytes | None = None
    """The transaction that was in the way, if it is known."""
    refusals: tuple[tuple[Operation, str], ...] = ()
    """Of a committed transaction: operations that met a state which refused them, and why. The rest is done."""

    @property
    def is_committed(self) -> bool:
        return self.ended is Ended.COMMITTED


class TransactionFailed(ResourceError):
    """A transaction was not committed, however often it was tried. Nothing of it was done."""

    def __init__(self, result: Result) -> None:
        super().__init__(
            f"not committed ({result.ended.value}): {result.reason}", retry=result.ended is not Ended.REFUSED
        )
        self.result: Final = result


class NoMajority(TransportError):
    """Nobody has answered for a shard in time: too few of its nodes are there, or none of them leads."""

    def __init__(self, why: str) -> None:
        super().__init__(why, retry=True)


class ChainCounts(Struct):
    """What became of the transactions of one ``TensorChain``."""

    begun: int = 0
    committed: int = 0
    conflicts: int = 0
    failed: int = 0
    """Ended otherwise, without being committed."""
    unknown: int = 0
    rolled_back: int = 0


class SetMetrics(Struct, frozen=True, kw_only=True):
    """What the leaders of all shards count, and what became of this client's own transactions."""

    shards: tuple[dict[str, float], ...]
    """By shard: the figures of whoever leads it."""
    total: dict[str, float]
    """Of all shards: counts and sizes summed, shares the worst; without what is of one log alone."""
    own: ChainCounts


_WORST_IS_LEAST: Final = ("heartbeat_success_rate", "fast_path_rate", "commit_rate", "healthy")
_WORST_IS_MOST: Final = ("conflict_rate", "lag_entries")
_OF_ONE_LOG: Final = frozenset(
    {
        "term",
        "commit_index",
        "applied_index",
        "last_index",
        "first_index",
        "snapshot_index",
        "voters",
        "learners",
        "linked",
        "chain_height",
        "chain_floor",
    }
)
"""Places in a log, and the nodes of a shard: a sum of them says nothing."""


def total_of(shards: tuple[dict[str, float], ...]) -> dict[str, float]:
    """One figure for all shards, where there is one."""
    total: dict[str, float] = {}
    for figures in shards:
        for name, value in figures.items():
            if name in _OF_ONE_LOG:
                continue
            if name not in total:
                total[name] = value
            elif name in _WORST_IS_LEAST:
                total[name] = min(total[name], value)
            elif name in _WORST_IS_MOST:
                total[name] = max(total[name], value)
            else:
                total[name] += value
    return total
