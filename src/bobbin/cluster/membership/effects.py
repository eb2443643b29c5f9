"""What a membership machine wants done, in the order in which a step returns it."""

from typing import TypeAlias

from msgspec import Struct

from bobbin.cluster.membership.messages import GossipMessage, Health
from bobbin.cluster.names import NodeId


class PersistIncarnation(Struct, frozen=True):
    """Make it durable, and answer; until then nothing is said at this incarnation."""

    incarnation: int


class Send(Struct, frozen=True):
    """Send, or lose."""

    to: NodeId
    message: GossipMessage


class HealthChanged(Struct, frozen=True):
    """For the audit log, and for whoever orders work by it."""

    node: NodeId
    before: Health
    after: Health
    incarnation: int


class Healed(Struct, frozen=True):
    """A node that had failed is back, and both directions are proven."""

    node: NodeId
    away_ms: int


class Flapping(Struct, frozen=True):
    """A node comes and goes, and is held back for so long."""

    node: NodeId
    transitions: int
    held_ms: int


class WakeAt(Struct, frozen=True):
    """A ``Tick`` is due by then. Each one replaces the one before."""

    at_ns: int


Effect: TypeAlias = PersistIncarnation | Send | HealthChanged | Healed | Flapping | WakeAt
