"""A suspicion, and how long its subject has to contradict (Lifeguard).

The time is ``suspicion_timeout_ms`` as long as one node alone suspects. Every further node that says so of its own
knowledge shortens it, each counted once, down to half after ``indirect_ping_count`` of them. A node in poor health
gives more time, by the factor of its score when the suspicion began.
"""

from math import log
from typing import Final

from msgspec import Struct

from bobbin.cluster.membership.local_health import LocalHealth
from bobbin.cluster.names import MILLISECOND_NS, NodeId
from bobbin.cluster.settings import GossipConfig

LEAST_SHARE: Final = 0.5
"""Of the full time, however many confirm."""


def share(confirmations: int, enough: int) -> float:
    """What part of the full time is left with so many confirmations; ``enough`` of them bring it to the least."""
    counted = min(confirmations, enough)
    return 1.0 - (1.0 - LEAST_SHARE) * log(counted + 1) / log(enough + 1)


class Suspicion(Struct, kw_only=True):
    """Of one node, at one incarnation."""

    incarnation: int
    began_ns: int
    full_ns: int
    """Without confirmations."""
    enough: int
    reporters: set[NodeId]
    """Who says so of its own knowledge."""
    due_ns: int

    @staticmethod
    def begin(config: GossipConfig, health: LocalHealth, incarnation: int, now_ns: int) -> "Suspicion":
        """Nobody has vouched for it yet: it may be hearsay."""
        full = health.stretch(config.suspicion_timeout_ms * MILLISECOND_NS)
        return Suspicion(
            incarnation=incarnation,
            began_ns=now_ns,
            full_ns=full,
            enough=config.indirect_ping_count,
            reporters=set(),
            due_ns=now_ns + full,
        )

    @property
    def confirmations(self) -> int:
        """Reporters beyond the first."""
        return max(0, len(self.reporters) - 1)

    def report(self, reporter: NodeId) -> bool:
        """Somebody could not reach the subject; False where it has said so before."""
        if reporter in self.reporters:
            return False
        self.reporters.add(reporter)
        self.due_ns = self.began_ns + int(self.full_ns * share(self.confirmations, self.enough))
        return True

    def postpone(self, by_ns: int) -> None:
        """Time in which this node slept does not count against another."""
        self.began_ns += by_ns
        self.due_ns += by_ns
