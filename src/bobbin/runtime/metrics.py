"""What a node counts, for Prometheus. ``docs/metrics.md`` describes every figure; a test holds it to this file.

Labels are words of this program (directions, phases, reasons), never words of a peer, so there are never many of them,
and nobody outside can make more. Who the peers are is not told here; ``/links`` tells it, to those who may ask.
"""

from typing import Final

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.process_collector import ProcessCollector

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"

_STEP_SECONDS: Final = (0.0005, 0.001, 0.002, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)


class Meter:
    """The figures of one node. Counting may be done in any thread."""

    def __init__(self) -> None:
        registry = self.registry = CollectorRegistry()
        ProcessCollector(registry=registry)
        self.links_open: Final = Gauge(
            "bobbin_links_open", "Links on which a peer has been let in.", ["direction"], registry=registry
        )
        self.links: Final = Counter(
            "bobbin_links", "Links that are over, by how they ended.", ["end"], registry=registry
        )
        self.refused: Final = Counter(
            "bobbin_refused_links", "Links on which nobody was let in, by reason.", ["reason"], registry=registry
        )
        self.connects_failed: Final = Counter(
            "bobbin_connects_failed", "Attempts to reach a followed peer that found no stream.", registry=registry
        )
        self.records: Final = Counter(
            "bobbin_records", "Records stored from peers (in) and sent to them (out).", ["direction"], registry=registry
        )
        self.rejected: Final = Counter(
            "bobbin_rejected", "Records that came and were not taken, by reason.", ["reason"], registry=registry
        )
        self.bytes: Final = Counter(
            "bobbin_bytes", "Bytes of streams, by direction and phase.", ["direction", "phase"], registry=registry
        )
        self.fixed_points: Final = Counter("bobbin_fixed_points", "Fixed points that were reached.", registry=registry)
        self.slowed: Final = Counter(
            "bobbin_slowed", "Times that a peer had to wait because it was too fast.", registry=registry
        )
        self.step_seconds: Final = Histogram(
            "bobbin_step_seconds",
            "How long the jobs of the thread took that works on the store.",
            registry=registry,
            buckets=_STEP_SECONDS,
        )
        self.steps_waiting: Final = Gauge("bobbin_steps_waiting", "Jobs that wait for that thread.", registry=registry)
        self.store_records: Final = Gauge("bobbin_store_records", "Records in the store.", registry=registry)
        self.store_bytes: Final = Gauge("bobbin_store_bytes", "Size of the store's file.", registry=registry)
        self.quarantined: Final = Gauge("bobbin_store_quarantined", "Rows of the quarantine.", registry=registry)
        self.arrivals: Final = Counter(
            "bobbin_messages_taken_in", "Messages of tangles that came as records.", registry=registry
        )
        self.arrivals_failed: Final = Counter(
            "bobbin_messages_failed", "Times that looking for messages among records failed.", registry=registry
        )
        self.peers: Final = Gauge("bobbin_peers", "Known peers.", registry=registry)
        self.condition: Final = Gauge(
            "bobbin_condition", "How the node is: 1 at the present condition.", ["condition"], registry=registry
        )
        self.followed: Final = Gauge("bobbin_followed_peers", "Peers that are to be followed.", registry=registry)
        self.unlinked: Final = Gauge(
            "bobbin_followed_peers_unlinked", "Peers that are to be followed and have no link.", registry=registry
        )
        self.reloads: Final = Counter("bobbin_reloads", "Reloads of settings and peers.", registry=registry)
        self.reloads_failed: Final = Counter(
            "bobbin_reloads_failed", "Changes of settings and peers that were not taken up.", registry=registry
        )
        for direction in ("in", "out"):
            # Shown from the start, so that a rate over them has no gap.
            self.links_open.labels(direction)
            self.records.labels(direction)

    def expose(self) -> bytes:
        """Everything, in the text format of Prometheus."""
        return generate_latest(self.registry)
