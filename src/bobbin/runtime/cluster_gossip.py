"""Drives the membership machine of a node: its timer, its messages, and the incarnation that it makes durable.

It runs by itself with the members of the configuration in force (CL-119). What it finds out is reported: in the status,
in metrics, in the audit log. No vote, no write and no heartbeat asks for it.

A member that comes back is merged with: the two show each other their whole views, which would otherwise take some
rounds of gossip.
"""

from collections.abc import Callable, Iterable
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
from bobbin.cluster.membership.merging import (
    AskDecisions,
    MergeConfig,
    MergeEffect,
    MergeEnded,
    OfferData,
    PartitionMerge,
    ShowView,
)
from bobbin.cluster.membership.messages import GossipMessage, Health, Sync
from bobbin.cluster.names import MILLISECOND_NS, NodeId
from bobbin.errors import BobbinError
from bobbin.runtime.cluster_clock import Wake

Say: TypeAlias = Callable[[NodeId, GossipMessage], None]
Keep: TypeAlias = Callable[[int, Callable[[BobbinError | None], None]], None]
"""Makes an incarnation durable, and says when it is, or why it cannot be."""
Notice: TypeAlias = Callable[[HealthChanged | Healed | Flapping], None]
Ask: TypeAlias = Callable[[NodeId], None]
"""Lets those that wait for the decision on a transaction ask for it: a member is back that may know."""


class Gossip:
    """One node's membership machine, running."""

    def __init__(
        self,
        machine: MembershipMachine,
        *,
        say: Say,
        keep: Keep,
        notice: Notice,
        merging: MergeConfig | None = None,
        ask: Ask | None = None,
    ) -> None:
        self.machine: Final = machine
        self.merges: Final = PartitionMerge(merging or MergeConfig(), view=lambda: machine.table.states)
        """Nothing is declared as replicated here: views are merged, and nothing else."""
        self._ask: Final = ask
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
        for gone in self.machine.embeddings.keys() - {node for node, _ in peers}:
            self.merges.left(gone)
        self._feed(PeersChanged(peers))

    def _tick(self) -> None:
        self._feed(Tick())

    def _feed(self, event: Event) -> None:
        if not self._is_running:
            return
        now_ns = monotonic_ns()
        now_ms = now_ns // MILLISECOND_NS
        if isinstance(event, Heard):
            # Before the table has it, so that what differs can be told.
            states = event.message.states if isinstance(event.message, Sync) else None
            self._merge(self.merges.heard(event.sender, states, now_ms=now_ms))
        elif isinstance(event, Tick):
            self._merge(self.merges.tick(now_ms=now_ms))
        for effect in self.machine.step(event, now_ns=now_ns):
            match effect:
                case Send(to, message):
                    self._say(to, message)
                case PersistIncarnation(incarnation):
                    self._keep(incarnation, partial(self._kept, incarnation))
                case HealthChanged(node=node, after=after):
                    self._notice(effect)
                    if after is Health.FAILED:
                        self._merge(self.merges.failed(node, now_ms=now_ms))
                case Healed(node=node):
                    self._notice(effect)
                    self._merge(self.merges.healed(node, now_ms=now_ms))
                case Flapping():
                    self._notice(effect)
                case WakeAt(at_ns):
                    self._wake.at(at_ns)
                case _:
                    assert_never(effect)

    def _merge(self, effects: Iterable[MergeEffect]) -> None:
        for effect in effects:
            match effect:
                case ShowView(peer):
                    self._show_view(peer)
                case AskDecisions(peer):
                    if self._ask is not None:
                        self._ask(peer)
                case OfferData() | MergeEnded():
                    # Nothing is declared, and how it ended stands in the figures of the merges.
                    pass
                case _:
                    assert_never(effect)

    def _show_view(self, peer: NodeId) -> None:
        """All that is held of all members, in messages of the usual size."""
        machine = self.machine
        states = tuple(machine.table.states.values())
        most = machine.config.max_states_per_message
        for first in range(0, len(states), most):
            some = states[first : first + most]
            self._say(peer, Sync(sender=machine.node, states=some, sender_time=machine.table.time))

    def _kept(self, incarnation: int, failed: BobbinError | None) -> None:
        self._feed(IncarnationPersisted(incarnation) if failed is None else PersistFailed(str(failed)))
