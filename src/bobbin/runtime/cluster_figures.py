"""The figures of a node, read from its parts when somebody asks."""

from typing import Protocol

from bobbin.cluster.monitoring import ClusterMetrics
from bobbin.cluster.raft.machine import RaftMachine
from bobbin.runtime.cluster_alarms import Alarms
from bobbin.runtime.cluster_audit import Audit
from bobbin.runtime.cluster_channels import Channels
from bobbin.runtime.cluster_disk import Disk
from bobbin.runtime.cluster_peers import Peers
from bobbin.runtime.cluster_requests import Requests
from bobbin.runtime.cluster_state import State


class Figured(Protocol):
    """A node, as far as it is counted here."""

    @property
    def machine(self) -> RaftMachine: ...

    @property
    def peers(self) -> Peers: ...

    @property
    def state(self) -> State: ...

    @property
    def channels(self) -> Channels: ...

    @property
    def requests(self) -> Requests: ...

    @property
    def disk(self) -> Disk: ...

    @property
    def audit(self) -> Audit: ...

    @property
    def metrics(self) -> ClusterMetrics: ...

    @property
    def alarms(self) -> Alarms: ...


def gauges_of(node: Figured, *, now_ns: int) -> dict[str, float]:
    """Figures that rise and fall."""
    machine = node.machine
    configuration = machine.configuration
    matches = [machine.progress[one].held_index for one in configuration.voters if one in machine.progress]
    return {
        "term": machine.term,
        "commit_index": machine.commit_index,
        "applied_index": machine.applied_index,
        "last_index": machine.last_index,
        "first_index": machine.first_index,
        "snapshot_index": 0 if machine.snapshot is None else machine.snapshot.last_index,
        "voters": len(configuration.voters),
        "learners": len(configuration.learners),
        "linked": sum(link.is_up for link in node.peers.links.values()),
        "lag_entries": machine.commit_index - min(matches, default=machine.commit_index),
        "keys": len(node.state.table),
        "clients": node.channels.clients,
        "writes_waiting": node.requests.waiting,
        "healthy": int(node.metrics.is_healthy(now_ns)),
    }


def counts_of(node: Figured) -> dict[str, int]:
    """What only rises, by name."""
    stats, links = node.machine.stats, node.peers.links.values()
    return {
        **{name: getattr(stats, name) for name in stats.__slots__},
        **{f"clients_{name}": count for name, count in node.requests.counts.items()},
        **{f"alarm_{code}": count for code, count in node.alarms.counts.items()},
        **{f"refused_{refusal.value}": count for refusal, count in node.peers.gateway.refused.items()},
        **{f"channel_{reason}": count for reason, count in node.channels.refused.items()},
        "syncs": node.disk.syncs,
        "disk_retries": node.disk.retries,
        "disk_failures": node.disk.failures,
        "messages_admitted": node.peers.gateway.admitted,
        "messages_sent": sum(link.counts.sent for link in links),
        "messages_dropped": sum(link.counts.dropped for link in links),
        "dials_failed": sum(link.counts.dials_failed for link in links),
        "inbox_dropped": node.machine.inbox_dropped,
        "audit_failures": node.audit.failures,
    }
