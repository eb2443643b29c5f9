import pytest
from msgspec.structs import replace

from bobbin.cluster.monitoring import (
    HOUR_NS,
    MINUTE_NS,
    THRESHOLDS,
    ClusterMetrics,
    Count,
    Level,
    Metric,
    Reading,
    Window,
)
from bobbin.cluster.raft.effects import Alarm
from bobbin.cluster.raft.fast_path import FastPathStats
from bobbin.cluster.raft.messages import AppendAnswer
from bobbin.cluster.raft.stats import RaftStats
from bobbin.cluster.timing import Timing
from tests.support.raft_cluster import PLAIN, RaftCluster, name

_FINE, _WARNING, _CRITICAL = Level.FINE, Level.WARNING, Level.CRITICAL
_SECOND_NS = MINUTE_NS // 60


def _level(metrics: ClusterMetrics, metric: Metric, now_ns: int = 0) -> Level:
    return metrics.reading(metric, now_ns).level


# ---- thresholds -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("metric", "figure", "level"),
    [
        (Metric.HEARTBEAT_SUCCESS_RATE, 1.0, _FINE),
        (Metric.HEARTBEAT_SUCCESS_RATE, 0.95, _FINE),
        (Metric.HEARTBEAT_SUCCESS_RATE, 0.9499, _WARNING),
        (Metric.HEARTBEAT_SUCCESS_RATE, 0.80, _WARNING),
        (Metric.HEARTBEAT_SUCCESS_RATE, 0.7999, _CRITICAL),
        (Metric.FAST_PATH_RATE, 0.50, _FINE),
        (Metric.FAST_PATH_RATE, 0.4999, _WARNING),
        (Metric.FAST_PATH_RATE, 0.20, _WARNING),
        (Metric.FAST_PATH_RATE, 0.1999, _CRITICAL),
        (Metric.COMMIT_RATE, 0.80, _FINE),
        (Metric.COMMIT_RATE, 0.7999, _WARNING),
        (Metric.COMMIT_RATE, 0.50, _WARNING),
        (Metric.COMMIT_RATE, 0.4999, _CRITICAL),
        (Metric.CONFLICT_RATE, 0.0, _FINE),
        (Metric.CONFLICT_RATE, 0.10, _FINE),
        (Metric.CONFLICT_RATE, 0.1001, _WARNING),
        (Metric.CONFLICT_RATE, 0.30, _WARNING),
        (Metric.CONFLICT_RATE, 0.3001, _CRITICAL),
        (Metric.DEADLOCKS_DETECTED, 0, _FINE),
        (Metric.DEADLOCKS_DETECTED, 1, _WARNING),
        (Metric.DEADLOCKS_DETECTED, 10, _WARNING),
        (Metric.DEADLOCKS_DETECTED, 11, _CRITICAL),
    ],
)
def test_the_steps_of_each_figure(metric: Metric, figure: float, level: Level) -> None:
    assert THRESHOLDS[metric].level(figure) is level


@pytest.mark.parametrize("metric", list(Metric))
def test_nothing_counted_is_nothing_wrong(metric: Metric) -> None:
    reading = ClusterMetrics().reading(metric, 0)
    assert reading.level is _FINE
    assert not reading.value


# ---- figures --------------------------------------------------------------------------------------------------------


def test_the_share_of_heartbeats_is_of_those_answered_or_failed() -> None:
    metrics, stats = ClusterMetrics(), RaftStats()
    stats.heartbeats_answered, stats.heartbeats_failed = 95, 5
    metrics.observe_raft(stats, 0)
    assert metrics.reading(Metric.HEARTBEAT_SUCCESS_RATE, 0) == Reading(
        metric=Metric.HEARTBEAT_SUCCESS_RATE, value=0.95, level=_FINE
    )
    stats.heartbeats_failed += 1
    metrics.observe_raft(stats, 0)
    assert _level(metrics, Metric.HEARTBEAT_SUCCESS_RATE) is _WARNING
    stats.heartbeats_failed += 18
    metrics.observe_raft(stats, 0)
    assert _level(metrics, Metric.HEARTBEAT_SUCCESS_RATE) is _CRITICAL


def test_what_was_counted_before_the_window_does_not_count() -> None:
    metrics, stats = ClusterMetrics(), RaftStats()
    stats.heartbeats_failed = 1_000
    metrics.observe_raft(stats, 0)
    stats.heartbeats_answered = 10
    metrics.observe_raft(stats, MINUTE_NS - 1)
    assert _level(metrics, Metric.HEARTBEAT_SUCCESS_RATE, MINUTE_NS - 1) is _CRITICAL
    assert metrics.reading(Metric.HEARTBEAT_SUCCESS_RATE, MINUTE_NS).value == 1.0


def test_the_counters_of_a_new_machine_begin_at_zero() -> None:
    metrics, stats = ClusterMetrics(), RaftStats()
    stats.heartbeats_answered = 100
    metrics.observe_raft(stats, 0)
    fresh = RaftStats()
    fresh.heartbeats_answered, fresh.heartbeats_failed = 50, 50
    metrics.observe_raft(fresh, 1)
    assert metrics.reading(Metric.HEARTBEAT_SUCCESS_RATE, 1).value == 150 / 200


def test_the_share_of_the_fast_path_is_of_all_blocks_judged() -> None:
    metrics = ClusterMetrics()
    metrics.observe_fast_path(FastPathStats(accepted=1, rejected=1, full_required=2, refused=9, audits=9), 0)
    assert metrics.reading(Metric.FAST_PATH_RATE, 0).value == 0.25
    assert _level(metrics, Metric.FAST_PATH_RATE) is _WARNING


def test_the_shares_of_commits_and_conflicts_are_of_finished_transactions() -> None:
    metrics = ClusterMetrics()
    metrics.note(Count.TRANSACTIONS_COMMITTED, 0, 7)
    metrics.note(Count.TRANSACTIONS_ABORTED, 0, 3)
    metrics.note(Count.TRANSACTIONS_CONFLICTING, 0, 2)
    assert metrics.reading(Metric.COMMIT_RATE, 0).value == 0.7
    assert metrics.reading(Metric.CONFLICT_RATE, 0).value == 0.2
    assert _level(metrics, Metric.COMMIT_RATE) is _WARNING
    assert _level(metrics, Metric.CONFLICT_RATE) is _WARNING


def test_deadlocks_count_by_the_minute_and_not_since_the_start() -> None:
    metrics = ClusterMetrics()
    for second in range(600):
        if second % 6 == 0:
            metrics.note(Count.DEADLOCKS, second * _SECOND_NS)
    assert metrics.reading(Metric.DEADLOCKS_DETECTED, 599 * _SECOND_NS).value == 10
    assert _level(metrics, Metric.DEADLOCKS_DETECTED, 599 * _SECOND_NS) is _WARNING
    metrics.note(Count.DEADLOCKS, 599 * _SECOND_NS)
    assert _level(metrics, Metric.DEADLOCKS_DETECTED, 599 * _SECOND_NS) is _CRITICAL
    assert _level(metrics, Metric.DEADLOCKS_DETECTED, 660 * _SECOND_NS) is _FINE


def test_a_lost_quorum_is_critical_for_a_minute_and_a_warning_for_an_hour() -> None:
    metrics, stats = ClusterMetrics(), RaftStats()
    stats.quorum_checks = 50
    metrics.observe_raft(stats, 0)
    assert _level(metrics, Metric.QUORUM_LOST_EVENTS) is _FINE
    stats.quorum_losses = 1
    metrics.observe_raft(stats, 5)
    for moment, level in [
        (5, _CRITICAL),
        (5 + MINUTE_NS - 1, _CRITICAL),
        (5 + MINUTE_NS, _WARNING),
        (5 + HOUR_NS - 1, _WARNING),
        (5 + HOUR_NS, _FINE),
    ]:
        metrics.observe_raft(stats, moment)
        assert _level(metrics, Metric.QUORUM_LOST_EVENTS, moment) is level


def test_all_figures_are_read_together() -> None:
    assert [reading.metric for reading in ClusterMetrics().readings(0)] == list(Metric)
    assert set(THRESHOLDS) == set(Metric)


def test_timings_are_kept_by_what_was_timed() -> None:
    metrics = ClusterMetrics()
    metrics.time("election", 3)
    metrics.time("election", 5)
    metrics.time("sync", 1)
    assert metrics.timings == {"election": Timing(2, 8, 3, 5), "sync": Timing(1, 1, 1, 1)}


# ---- health ---------------------------------------------------------------------------------------------------------


def _health(*, answered: int = 100, failed: int = 0, checks: int = 100, losses: int = 0, later_ns: int = 0) -> bool:
    metrics, stats = ClusterMetrics(), RaftStats()
    stats.quorum_checks, stats.quorum_losses = checks, losses
    metrics.observe_raft(stats, 0)
    stats.heartbeats_answered, stats.heartbeats_failed = answered, failed
    metrics.observe_raft(stats, later_ns)
    return metrics.is_healthy(later_ns)


def test_a_cluster_is_healthy_when_heartbeats_and_quorum_checks_pass() -> None:
    assert _health()
    assert _health(answered=0, checks=0)
    assert _health(answered=91, failed=9)
    assert not _health(answered=90, failed=10)


def test_a_cluster_with_a_lost_quorum_is_not_healthy() -> None:
    assert not _health(checks=1_000, losses=1)
    assert not _health(checks=1_000, losses=1, later_ns=MINUTE_NS - 1)
    assert _health(checks=1_000, losses=1, later_ns=MINUTE_NS)


def test_a_cluster_that_often_lost_its_quorum_within_the_hour_is_not_healthy() -> None:
    assert not _health(checks=10, losses=1, later_ns=MINUTE_NS)
    assert _health(checks=11, losses=1, later_ns=MINUTE_NS)
    assert _health(checks=10, losses=1, later_ns=HOUR_NS)


# ---- windows --------------------------------------------------------------------------------------------------------


def test_an_event_counts_until_the_window_has_passed_over_it() -> None:
    window = Window(1_000)
    window.add(10, 1)
    window.add(500, 2)
    assert [window.count(moment) for moment in (500, 1_009, 1_010, 1_499, 1_500)] == [3, 3, 2, 2, 0]


def test_no_events_are_no_event() -> None:
    window = Window(1_000)
    window.add(10, 0)
    assert window.count(10) == 0


def test_a_window_holds_a_bounded_number_of_moments() -> None:
    window = Window(MINUTE_NS)
    step_ns = MINUTE_NS // 20_000
    for number in range(30_000):
        window.add(number * step_ns, 1)
    assert len(window._events) <= 1_001
    assert 19_900 <= window.count(29_999 * step_ns) <= 20_000


# ---- what a raft machine counts -------------------------------------------------------------------------------------


def _warnings(cluster: RaftCluster, node: str) -> list[str]:
    effects = cluster.members[name(node)].effects
    return [alarm.detail for alarm in effects if isinstance(alarm, Alarm) and alarm.code == "heartbeats-failed"]


def test_a_refusal_is_contact_and_no_failed_heartbeat() -> None:
    """A follower whose log differs answers every time; the leader goes back, and nothing is wrong with the link."""
    cluster, metrics = RaftCluster(), ClusterMetrics()
    cluster.elect("a")
    cluster.propose("a", *(b"%d" % number for number in range(50)))
    cluster.deliver()
    machine = cluster.machine("a")
    for _ in range(5):
        cluster.propose("a", b"more")
        cluster.lost = lambda mail: mail[1] == name("b")
        cluster.deliver()
        cluster.hear(
            "a",
            "b",
            AppendAnswer(
                term=machine.term,
                success=False,
                follower=name("b"),
                match_index=machine.progress[name("b")].next_index,
                round=machine.progress[name("b")].sent_round,
            ),
        )
    metrics.observe_raft(machine.stats, cluster.now_ns)
    assert machine.stats.backoffs > 0
    assert machine.stats.heartbeats_failed == 0
    assert metrics.reading(Metric.HEARTBEAT_SUCCESS_RATE, cluster.now_ns).value == 1.0
    assert _warnings(cluster, "a") == []


@pytest.mark.parametrize("failures_max", [3, 5])
def test_a_peer_that_stays_silent_counts_as_failed_and_gives_one_warning(failures_max: int) -> None:
    cluster = RaftCluster(config=replace(PLAIN, max_heartbeat_failures=failures_max))
    metrics = ClusterMetrics()
    cluster.elect("a")
    cluster.beat()
    machine = cluster.machine("a")
    sent = machine.stats.heartbeats_sent
    metrics.observe_raft(machine.stats, cluster.now_ns)
    cluster.isolate("b")
    counts = []
    for _ in range(8):
        cluster.beat()
        counts.append((machine.stats.heartbeats_failed, len(_warnings(cluster, "a"))))
    metrics.observe_raft(machine.stats, cluster.now_ns)
    assert machine.stats.heartbeats_sent - sent == 16
    assert counts == [(failed, int(failed >= failures_max)) for failed in range(8)]
    assert "b" in _warnings(cluster, "a")[0]
    assert _level(metrics, Metric.HEARTBEAT_SUCCESS_RATE, cluster.now_ns) is not _FINE
    assert cluster.leaders() == [name("a")]


def test_a_lost_quorum_and_the_step_down_are_counted() -> None:
    cluster, metrics = RaftCluster(), ClusterMetrics()
    cluster.elect("a")
    machine = cluster.machine("a")
    cluster.run(2_000)
    checks = machine.stats.quorum_checks
    assert checks >= 5
    assert (machine.stats.quorum_losses, machine.stats.step_downs) == (0, 0)
    cluster.isolate("b", "c")
    cluster.run(1_000)
    assert machine.stats.quorum_checks > checks
    assert (machine.stats.quorum_losses, machine.stats.step_downs) == (1, 1)
    metrics.observe_raft(machine.stats, cluster.now_ns)
    assert _level(metrics, Metric.QUORUM_LOST_EVENTS, cluster.now_ns) is _CRITICAL
    assert not metrics.is_healthy(cluster.now_ns)
