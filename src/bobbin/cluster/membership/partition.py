"""What a node can reach of its cluster, as a report. Nothing waits for it: votes, writes and heartbeats do not ask."""

from enum import StrEnum, unique


@unique
class PartitionStatus(StrEnum):
    """Whether a majority of those who vote can be reached, by all that gossip knows."""

    QUORUM_REACHABLE = "quorum-reachable"
    QUORUM_LOST = "quorum-lost"
    STALEMATE = "stalemate"
    """Exactly half of an even number: the other half may think the same."""
    UNKNOWN = "unknown"
    """The node has only just begun, or knows of nobody who votes."""


def partition_status(reachable: int, voters: int, *, is_settled: bool) -> PartitionStatus:
    """Both count this node itself, where it votes. Whoever only listens counts for nothing."""
    if not is_settled or not voters:
        return PartitionStatus.UNKNOWN
    if 2 * reachable > voters:
        return PartitionStatus.QUORUM_REACHABLE
    return PartitionStatus.STALEMATE if 2 * reachable == voters else PartitionStatus.QUORUM_LOST
