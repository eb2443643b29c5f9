from typing import get_args

from bobbin.cluster.raft.events import Event, JointChange, Recovered
from tests.support.raft_cluster import names


def test_a_new_disk_holds_nothing() -> None:
    empty = Recovered()
    assert (empty.term, empty.voted_for, empty.snapshot, empty.entries, empty.lost) == (0, None, None, (), None)


def test_events_are_values() -> None:
    assert JointChange(1, names("d"), names("a")) == JointChange(1, names("d"), names("a"))
    assert len(get_args(Event)) == len(set(get_args(Event)))
