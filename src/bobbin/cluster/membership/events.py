"""What a membership machine hears."""

from typing import TypeAlias

from msgspec import Struct

from bobbin.cluster.geometry import Embedding
from bobbin.cluster.membership.messages import GossipMessage
from bobbin.cluster.names import NodeId


class Tick(Struct, frozen=True):
    """Time has passed: due by ``WakeAt`` at the latest, allowed at any moment."""


class Heard(Struct, frozen=True):
    """A message whose sender is proven."""

    sender: NodeId
    message: GossipMessage


class PeersChanged(Struct, frozen=True):
    """Who belongs to the cluster, by the log; where each one is, if it said so."""

    peers: tuple[tuple[NodeId, Embedding | None], ...]


class IncarnationPersisted(Struct, frozen=True):
    """What ``PersistIncarnation`` asked for is durable."""

    incarnation: int


class PersistFailed(Struct, frozen=True):
    """It could not be made durable; the machine asks again later and says nothing that rests on it."""

    reason: str


Event: TypeAlias = Tick | Heard | PeersChanged | IncarnationPersisted | PersistFailed
