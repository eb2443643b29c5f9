"""What a node of a cluster counts, for Prometheus, and how it is in one word. ``docs/cluster.md`` describes it.

Figures are read from the node when somebody asks. Labels are words of this program (roles, healths, names of figures),
never ids of nodes, so there are never many of them.
"""

from collections import Counter
from collections.abc import Iterator
from typing import Final, Protocol

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric, SummaryMetricFamily
from prometheus_client.process_collector import ProcessCollector
from prometheus_client.registry import Collector

from bobbin.cluster.monitoring import ClusterMetrics, Level, Reading
from bobbin.cluster.raft.effects import Role
from bobbin.runtime.health import Condition, Health

_PREFIX: Final = "bobbin_cluster_"
_SECOND_NS: Final = 1_000_000_000

GAUGES: Final = {
    "term": "The present term.",
    "commit_index": "The last entry that is committed, as this node knows.",
    "applied_index": "The last entry that is applied here.",
    "last_index": "The last entry of the log.",
    "first_index": "The first entry that the log still holds.",
    "snapshot_index": "The last entry that the newest snapshot stands in for.",
    "voters": "Nodes that vote.",
    "learners": "Nodes that only listen.",
    "linked": "Other nodes to which there is a channel.",
    "lag_entries": "Committed entries that the slowest voter lacks, as its leader knows; 0 elsewhere.",
    "keys": "Keys in the table.",
    "clients": "Open channels of clients.",
    "writes_waiting": "Writes that are neither done nor refused.",
    "chain_height": "Blocks of the chain of this shard.",
    "chain_floor": "The lowest height that can still be read.",
    "parts_promised": "Parts of transactions that this shard has promised and that are not decided.",
    "transactions_coordinated": "Transactions over several shards that this one coordinates and that are not over.",
    "transactions_waiting": "Requests about transactions that are not answered.",
    "reads_blocked": "Reads that wait for a transaction over several shards to be over.",
    "healthy": "1 where heartbeats are answered and no quorum was lost lately, else 0.",
}
"""Figures that rise and fall, by name."""


class Metered(Protocol):
    """A node, as far as it is counted here."""

    @property
    def metrics(self) -> ClusterMetrics: ...

    @property
    def role(self) -> Role: ...

    def gauges(self) -> dict[str, float]:
        """What ``GAUGES`` names."""
        ...

    def counts(self) -> dict[str, int]:
        """What only rises."""
        ...

    def healths(self) -> Counter[str]:
        """How many other members are how, by gossip."""
        ...

    def readings(self) -> tuple[Reading, ...]:
        """The figures with a warning and a critical step."""
        ...

    def problems(self) -> list[str]: ...


class _Figures(Collector):
    def __init__(self, node: Metered) -> None:
        self._node: Final = node

    def collect(self) -> Iterator[Metric]:
        node = self._node
        for name, gauge in node.gauges().items():
            yield GaugeMetricFamily(_PREFIX + name, GAUGES.get(name, "A figure of what is attached."), value=gauge)
        role = GaugeMetricFamily(_PREFIX + "role", "1 at the present role.", labels=["role"])
        for one in Role:
            role.add_metric([one.value], one is node.role)
        yield role
        members = GaugeMetricFamily(_PREFIX + "members", "Other members by their health.", labels=["health"])
        for health, count in sorted(node.healths().items()):
            members.add_metric([health], count)
        yield members
        value = GaugeMetricFamily(_PREFIX + "figure", "Figures that have a warning step.", labels=["metric"])
        level = GaugeMetricFamily(_PREFIX + "level", "0 fine, 1 warning, 2 critical.", labels=["metric"])
        for reading in node.readings():
            if reading.value is not None:
                value.add_metric([reading.metric.value], reading.value)
            level.add_metric([reading.metric.value], reading.level)
        yield value
        yield level
        events = CounterMetricFamily(_PREFIX + "events", "What has happened, by name.", labels=["event"])
        for name, count in sorted(node.counts().items()):
            events.add_metric([name], count)
        yield events
        for what, timing in sorted(node.metrics.timings.items()):
            yield SummaryMetricFamily(
                f"{_PREFIX}{what}_seconds",
                f"How long it took: {what}.",
                count_value=timing.count,
                sum_value=timing.total_ns / _SECOND_NS,
            )


class ClusterMeter:
    """The figures of one node."""

    def __init__(self, node: Metered) -> None:
        self._node: Final = node
        self._registry: Final = CollectorRegistry()
        self._registry.register(_Figures(node))
        ProcessCollector(registry=self._registry)

    def expose(self) -> bytes:
        """Everything, in the text format of Prometheus."""
        return generate_latest(self._registry)


def judge(problems: list[str], readings: tuple[Reading, ...], *, is_halted: bool, is_stopping: bool) -> Health:
    """How a node is. A node that has halted is failing; everything else that is wrong is no reason to restart it."""
    if is_stopping:
        return Health(condition=Condition.STOPPING)
    reasons = [*problems, *(reading_text(one) for one in readings if one.level is not Level.FINE)]
    if is_halted:
        return Health(condition=Condition.FAILING, reasons=tuple(reasons))
    return Health(condition=Condition.DEGRADED if reasons else Condition.OK, reasons=tuple(reasons))


def reading_text(reading: Reading) -> str:
    """A figure that has passed a step, in words."""
    value = "none" if reading.value is None else f"{reading.value:.3g}"
    return f"{reading.metric.value} is {value} ({reading.level.name.lower()})"
