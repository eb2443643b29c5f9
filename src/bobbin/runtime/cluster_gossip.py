"""Drives the membership machine of a node: its timer, its messages, and the incarnation that it makes durable.

It runs by itself with the members of the configuration in force (CL-119). What it finds out is reported: in the status,
in metrics, in the audit log. No vote, no write and no heartbeat asks for it.
"""

from collections.abc import Callable
from functools import partial
from time import monotonic_ns
from typing import Final, TypeAlias, assert_never

from bobbin.cluster.geometry import Embedding
from bobbin.cluster.membership.effects import (
    Flapping,
    Healed,
    HealthChanged,
    PersistIncarnation,
    Send,
    WakeAt,
)
from bobbin.cluster.membership.events import (
    Event,
    Heard,
    IncarnationPersisted,
    PeersChanged,
    PersistFailed,
    Tick,
)
from bobbin.cluster.membership.machine import MembershipMachine
from bobbin.cluster.membership.messages import GossipMessage
from bobbin.cluster.names import NodeId
from bobbin.errors import BobbinError
from bobbin.runtime.cluster_clock import Wake

Say: TypeAlias = Callable[[NodeId, GossipMessage], None]
Keep: TypeAlias = Callable[[int, Callable[[BobbinError | None], None]], None]
"""Makes an incarnation durable, and says when it is, or why it cannot be."""
Notice: TypeAlias = Callable[[HealthChanged | Healed | Flapping], None]


class Gossip:
    """One node's membership machine, running."""

    def __init__(self, machine: MembershipMachine, *, say: Say, keep: Keep, notice: Notice) -> None:
        self.machine: Final = machine
        self._say: Final = say
        self._keep: Final = keep
        self._notice: Final = notice
        self._wake: Final = Wake(self._tick)
        self._is_running = False

    def start(self) -> None:
        """Begin."""
        self._is_running = True
        self._feed(Tick())

    def stop(self) -> None:
        """Say nothing more."""
        self._is_running = False
        self._wake.stop()

    def hear(self, sender: NodeId, message: GossipMessage) -> None:
        """Something that the gateway has let in."""
        self._feed(Heard(sender, message))

    def know(self, peers: tuple[tuple[NodeId, Embedding | None], ...]) -> None:
        """Who belongs to the cluster has changed."""
        self._feed(PeersChanged(peers))

    def _tick(self) -> None:
        self._feed(Tick())

    def _feed(self, event: Event) -> None:
        if not self._is_running:
            return
        for effect in self.machine.step(event, now_ns=monotonic_ns()):
            match effect:
                case Send(to, message):
                    self._say(to, message)
                case PersistIncarnation(incarnation):
                    self._keep(incarnation, partial(self._kept, incarnation))
                case HealthChanged() | Healed() | Flapping():
                    self._notice(effect)
                case WakeAt(at_ns):
                    self._wake.at(at_ns)
                case _:
                    assert_never(effect)

    def _kept(self, incarnation: int, failed: BobbinError | None) -> None:
        self._feed(IncarnationPersisted(incarnation) if failed is None else PersistFailed(str(failed)))
