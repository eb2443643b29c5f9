"""What a person watches in a cluster: six figures with the steps at which they become a warning or critical.

Counters of the machines only rise, so they tell nothing of now. This takes what they rose by, with the moment, into
windows of a minute and an hour; a figure is what the window holds. A share of nothing is no figure, and nothing is
wrong with it. Nothing is decided by what stands here.
"""

from collections import deque
from enum import Enum, IntEnum
from typing import Final

from msgspec import Struct

from bobbin.cluster.raft.fast_path import FastPathStats
from bobbin.cluster.raft.stats import RaftStats
from bobbin.cluster.timing import Timing

MINUTE_NS: Final = 60 * 1_000_000_000
HOUR_NS: Final = 60 * MINUTE_NS
HEALTHY_SHARE: Final = 0.9
"""Of heartbeats, and of quorum checks, that must be exceeded."""
_GRAINS: Final = 1_000
"""Events closer than this part of a window are kept as one, so that a window has at most so many."""


class Level(IntEnum):
    """How bad a figure is."""

    FINE = 0
    WARNING = 1
    CRITICAL = 2


class Metric(Enum):
    """What is watched."""

    HEARTBEAT_SUCCESS_RATE = "heartbeat_success_rate"
    FAST_PATH_RATE = "fast_path_rate"
    COMMIT_RATE = "commit_rate"
    CONFLICT_RATE = "conflict_rate"
    DEADLOCKS_DETECTED = "deadlocks_detected"
    QUORUM_LOST_EVENTS = "quorum_lost_events"


class Threshold(Struct, frozen=True, kw_only=True):
    """The two steps of a figure. A figure at a step has not passed it."""

    warning: float
    critical: float
    is_floor: bool = False
    """Low figures are bad ones."""
    warning_window_ns: int = MINUTE_NS
    critical_window_ns: int = MINUTE_NS

    def level(self, figure: float | None, critical_figure: float | None = None) -> Level:
        """How bad a figure is; the second one is given where the windows of the two steps differ."""
        if self._is_past(figure if critical_figure is None else critical_figure, self.critical):
            return Level.CRITICAL
        return Level.WARNING if self._is_past(figure, self.warning) else Level.FINE

    def _is_past(self, figure: float | None, step: float) -> bool:
        if figure is None:
            return False
        return figure < step if self.is_floor else figure > step


THRESHOLDS: Final = {
    Metric.HEARTBEAT_SUCCESS_RATE: Threshold(warning=0.95, critical=0.80, is_floor=True),
    Metric.FAST_PATH_RATE: Threshold(warning=0.50, critical=0.20, is_floor=True),
    Metric.COMMIT_RATE: Threshold(warning=0.80, critical=0.50, is_floor=True),
    Metric.CONFLICT_RATE: Threshold(warning=0.10, critical=0.30),
    Metric.DEADLOCKS_DETECTED: Threshold(warning=0, critical=10),
    Metric.QUORUM_LOST_EVENTS: Threshold(warning=0, critical=0, warning_window_ns=HOUR_NS),
}


class Window:
    """How many events there were lately. The clock is the caller's, and does not go back."""

    def __init__(self, length_ns: int) -> None:
        self._length_ns = length_ns
        self._events: deque[tuple[int, int]] = deque()
        """Moments, ascending, and how many events there were at each."""
        self._count = 0

    def add(self, now_ns: int, count: int) -> None:
        """So many events have happened just now."""
        if count <= 0:
            return
        self._count += count
        if self._events and now_ns - self._events[-1][0] < self._length_ns // _GRAINS:
            first_ns, before = self._events[-1]
            self._events[-1] = (first_ns, before + count)
        else:
            self._forget(now_ns)
            self._events.append((now_ns, count))

    def count(self, now_ns: int) -> int:
        """Events of the time before ``now_ns``."""
        self._forget(now_ns)
        return self._count

    def _forget(self, now_ns: int) -> None:
        while self._events and now_ns - self._events[0][0] >= self._length_ns:
            self._count -= self._events.popleft()[1]


class Reading(Struct, frozen=True, kw_only=True):
    """A figure, and what it means."""

    metric: Metric
    value: float | None
    """None where nothing was counted."""
    level: Level


class Count(Enum):
    """What goes into windows."""

    HEARTBEATS_ANSWERED = "heartbeats_answered"
    HEARTBEATS_FAILED = "heartbeats_failed"
    QUORUM_CHECKS = "quorum_checks"
    QUORUM_LOSSES = "quorum_losses"
    FAST_PATH_ACCEPTED = "fast_path_accepted"
    BLOCKS_JUDGED = "blocks_judged"
    TRANSACTIONS_COMMITTED = "transactions_committed"
    TRANSACTIONS_ABORTED = "transactions_aborted"
    TRANSACTIONS_CONFLICTING = "transactions_conflicting"
    DEADLOCKS = "deadlocks"


_SHARES: Final = {
    Metric.HEARTBEAT_SUCCESS_RATE: (Count.HEARTBEATS_ANSWERED, (Count.HEARTBEATS_ANSWERED, Count.HEARTBEATS_FAILED)),
    Metric.FAST_PATH_RATE: (Count.FAST_PATH_ACCEPTED, (Count.BLOCKS_JUDGED,)),
    Metric.COMMIT_RATE: (
        Count.TRANSACTIONS_COMMITTED,
        (Count.TRANSACTIONS_COMMITTED, Count.TRANSACTIONS_ABORTED),
    ),
    Metric.CONFLICT_RATE: (
        Count.TRANSACTIONS_CONFLICTING,
        (Count.TRANSACTIONS_COMMITTED, Count.TRANSACTIONS_ABORTED),
    ),
}
"""Figures that are shares: of what, in all of what."""
_EVENTS: Final = {
    Metric.DEADLOCKS_DETECTED: Count.DEADLOCKS,
    Metric.QUORUM_LOST_EVENTS: Count.QUORUM_LOSSES,
}
"""Figures that are numbers of events."""


class ClusterMetrics:
    """One node's figures, from all its parts."""

    def __init__(self) -> None:
        self.timings: dict[str, Timing] = {}
        """By what was timed."""
        self._minute = {count: Window(MINUTE_NS) for count in Count}
        self._hour = {count: Window(HOUR_NS) for count in Count}
        self._seen: dict[Count, int] = {}
        """What the counters of the machines stood at when they were last looked at."""

    # ---- what happened ----------------------------------------------------------------------------------------------

    def note(self, count: Count, now_ns: int, events: int = 1) -> None:
        """Something has happened, so many times."""
        self._minute[count].add(now_ns, events)
        self._hour[count].add(now_ns, events)

    def time(self, what: str, duration_ns: int) -> None:
        """Something took so long."""
        self.timings.setdefault(what, Timing()).add(duration_ns)

    def observe_raft(self, stats: RaftStats, now_ns: int) -> None:
        """Take in what a raft machine has counted since the last time. Do so every few seconds."""
        self._rise(Count.HEARTBEATS_ANSWERED, stats.heartbeats_answered, now_ns)
        self._rise(Count.HEARTBEATS_FAILED, stats.heartbeats_failed, now_ns)
        self._rise(Count.QUORUM_CHECKS, stats.quorum_checks, now_ns)
        self._rise(Count.QUORUM_LOSSES, stats.quorum_losses, now_ns)

    def observe_fast_path(self, stats: FastPathStats, now_ns: int) -> None:
        """Take in what a validator has counted since the last time."""
        self._rise(Count.FAST_PATH_ACCEPTED, stats.accepted, now_ns)
        self._rise(Count.BLOCKS_JUDGED, stats.accepted + stats.rejected + stats.full_required, now_ns)

    def _rise(self, count: Count, value: int, now_ns: int) -> None:
        before = self._seen.get(count, 0)
        # A counter that has fallen is that of a new machine.
        self.note(count, now_ns, value - before if value >= before else value)
        self._seen[count] = value

    # ---- what it comes to -------------------------------------------------------------------------------------------

    def reading(self, metric: Metric, now_ns: int) -> Reading:
        """One figure as it stands."""
        threshold = THRESHOLDS[metric]
        if metric in _SHARES:
            part, whole = _SHARES[metric]
            value = self._share(part, whole, now_ns)
            return Reading(metric=metric, value=value, level=threshold.level(value))
        for_warning = self._count(_EVENTS[metric], threshold.warning_window_ns, now_ns)
        for_critical = self._count(_EVENTS[metric], threshold.critical_window_ns, now_ns)
        return Reading(metric=metric, value=for_warning, level=threshold.level(for_warning, for_critical))

    def readings(self, now_ns: int) -> tuple[Reading, ...]:
        """Every figure."""
        return tuple(self.reading(metric, now_ns) for metric in Metric)

    def is_healthy(self, now_ns: int) -> bool:
        """Heartbeats are answered, no quorum was lost within the minute, and few were within the hour."""
        beats = self.reading(Metric.HEARTBEAT_SUCCESS_RATE, now_ns).value
        checks = self._hour[Count.QUORUM_CHECKS].count(now_ns)
        losses = self._hour[Count.QUORUM_LOSSES].count(now_ns)
        return (
            (beats is None or beats > HEALTHY_SHARE)
            and not self._minute[Count.QUORUM_LOSSES].count(now_ns)
            and (not checks or (checks - losses) / checks > HEALTHY_SHARE)
        )

    def _share(self, part: Count, whole: tuple[Count, ...], now_ns: int) -> float | None:
        total = sum(self._minute[count].count(now_ns) for count in whole)
        return self._minute[part].count(now_ns) / total if total else None

    def _count(self, count: Count, window_ns: int, now_ns: int) -> int:
        return (self._minute if window_ns == MINUTE_NS else self._hour)[count].count(now_ns)
