from bobbin.cluster.raft.stats import RaftStats
from bobbin.cluster.timing import Timing


def test_every_counter_begins_at_zero_and_times_are_kept_apart() -> None:
    stats = RaftStats()
    assert {name: getattr(stats, name) for name in stats.__slots__} == dict.fromkeys(stats.__slots__, 0)
    assert (stats.election_times, stats.heartbeat_times) == (Timing(), Timing())
