"""The report on what can be reached."""

from pathlib import Path

import pytest

import bobbin.cluster
from bobbin.cluster.membership.partition import PartitionStatus, partition_status

REACHABLE, LOST = PartitionStatus.QUORUM_REACHABLE, PartitionStatus.QUORUM_LOST


@pytest.mark.parametrize(
    ("reachable", "voters", "status"),
    [
        (1, 1, REACHABLE),
        (2, 3, REACHABLE),
        (1, 3, LOST),
        (3, 4, REACHABLE),
        (2, 4, PartitionStatus.STALEMATE),
        (1, 4, LOST),
        (3, 5, REACHABLE),
        (2, 5, LOST),
        (1, 2, PartitionStatus.STALEMATE),
    ],
)
def test_a_majority_is_reachable_and_half_is_a_stalemate(reachable: int, voters: int, status: PartitionStatus) -> None:
    assert partition_status(reachable, voters, is_settled=True) is status
    assert partition_status(reachable, voters, is_settled=False) is PartitionStatus.UNKNOWN


def test_without_voters_nothing_is_known() -> None:
    assert partition_status(0, 0, is_settled=True) is PartitionStatus.UNKNOWN


def test_consensus_does_not_ask_for_it() -> None:
    """No vote, write or heartbeat can wait for a report that consensus cannot see."""
    folder = Path(next(iter(bobbin.cluster.__path__))) / "raft"
    texts = {path.name: path.read_text("utf-8") for path in folder.glob("*.py")}
    assert len(texts) > 3
    assert [name for name, text in texts.items() if "cluster.membership" in text] == []
