"""What a node can reach of its cluster, as a report. Nothing waits for it: votes, writes and heartbeats do not ask."""

from enum import StrEnum, unique


@unique
class PartitionStatus(StrEnum):
    """Whether a majority can be reached, by all that gossip knows."""

    QUORUM_REACHABLE = "quorum-reachable"
    QUORUM_LOST = "quorum-lost"
    STALEMATE = "stalemate"
    """Exactly half of an even number: the other half may think the same."""
    UNKNOWN = "unknown"
    """The node has only just begun."""


def partition_status(reachable: int, members: int, *, is_settled: bool) -> PartitionStatus:
    """``reachable`` and ``members`` count this node itself."""
    if not is_settled:
        return PartitionStatus.UNKNOWN
    if 2 * reachable > members:
        return PartitionStatus.QUORUM_REACHABLE
    return PartitionStatus.STALEMATE if 2 * reachable == members else PartitionStatus.QUORUM_LOST
