"""What a node of a cluster counts."""

from collections import Counter

from bobbin.cluster.monitoring import ClusterMetrics, Count, Metric, Reading
from bobbin.cluster.raft.effects import Role
from bobbin.runtime.cluster_meter import GAUGES, ClusterMeter, judge, reading_text
from bobbin.runtime.health import Condition


class _Node:
    role = Role.LEADER

    def __init__(self) -> None:
        self.metrics = ClusterMetrics()

    def gauges(self) -> dict[str, float]:
        return dict.fromkeys(GAUGES, 3.0)

    def counts(self) -> dict[str, int]:
        return {"elections_won": 2}

    def healths(self) -> Counter[str]:
        return Counter({"healthy": 1, "failed": 1})

    def readings(self) -> tuple[Reading, ...]:
        return self.metrics.readings(10)

    def problems(self) -> list[str]:
        return []


def test_every_figure_is_shown() -> None:
    node = _Node()
    node.metrics.time("sync", 2_000_000_000)
    node.metrics.note(Count.HEARTBEATS_ANSWERED, 5, 9)
    node.metrics.note(Count.HEARTBEATS_FAILED, 5, 1)
    text = ClusterMeter(node).expose().decode()
    for name in GAUGES:
        assert f"\nbobbin_cluster_{name} 3.0" in text
    assert 'bobbin_cluster_role{role="leader"} 1.0' in text
    assert 'bobbin_cluster_role{role="follower"} 0.0' in text
    assert 'bobbin_cluster_members{health="failed"} 1.0' in text
    assert 'bobbin_cluster_figure{metric="heartbeat_success_rate"} 0.9' in text
    assert 'bobbin_cluster_level{metric="heartbeat_success_rate"} 1.0' in text
    assert 'bobbin_cluster_level{metric="quorum_lost_events"} 0.0' in text
    assert 'bobbin_cluster_events_total{event="elections_won"} 2.0' in text
    assert "bobbin_cluster_sync_seconds_sum 2.0" in text


def test_a_node_is_ok_degraded_failing_or_stopping() -> None:
    metrics = ClusterMetrics()
    fine = metrics.readings(10)
    assert judge([], fine, is_halted=False, is_stopping=False).condition is Condition.OK
    assert judge(["x"], fine, is_halted=False, is_stopping=False).condition is Condition.DEGRADED
    assert judge(["x"], fine, is_halted=True, is_stopping=False).condition is Condition.FAILING
    assert judge(["x"], fine, is_halted=True, is_stopping=True).condition is Condition.STOPPING
    metrics.note(Count.QUORUM_LOSSES, 5)
    lost = judge([], metrics.readings(10), is_halted=False, is_stopping=False)
    assert lost.condition is Condition.DEGRADED
    assert lost.reasons == ("quorum_lost_events is 1 (critical)",)


def test_a_figure_in_words() -> None:
    reading = ClusterMetrics().reading(Metric.FAST_PATH_RATE, 0)
    assert reading_text(reading) == "fast_path_rate is none (fine)"
