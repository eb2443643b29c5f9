"""What nodes tell each other about each other."""

from enum import IntEnum
from typing import TypeAlias, assert_never

from msgspec import Struct

from bobbin.cluster.names import NodeId


class Health(IntEnum):
    """In the order of severity: at one incarnation the worse word stands (CL-101)."""

    UNKNOWN = 0
    HEALTHY = 1
    DEGRADED = 2
    """Suspected."""
    FAILED = 3


class GossipNodeState(Struct, frozen=True, array_like=True):
    """What is said of one node."""

    node: NodeId
    health: Health
    timestamp: int
    """Lamport time of the writer."""
    incarnation: int
    writer: NodeId
    """Whose word it is; breaks ties."""


class Sync(Struct, frozen=True, kw_only=True):
    """What the sender holds of some nodes, the most recently stamped first."""

    sender: NodeId
    states: tuple[GossipNodeState, ...]
    sender_time: int
    """Its Lamport time; nothing that it holds is stamped later."""


class Suspect(Struct, frozen=True, kw_only=True):
    """The reporter could not reach a node: told to everybody, and to the suspect by whoever contacts it."""

    reporter: NodeId
    suspect: NodeId
    incarnation: int


class Alive(Struct, frozen=True, kw_only=True):
    """A node's word about itself, at an incarnation that is durable."""

    node_id: NodeId
    incarnation: int


class Ping(Struct, frozen=True, kw_only=True):
    """A direct probe, on one's own behalf or on that of ``PingReq``."""

    origin: NodeId
    sequence: int


class Pong(Struct, frozen=True, kw_only=True):
    """The answer to a ``Ping``, with its number."""

    responder: NodeId
    sequence: int


class PingReq(Struct, frozen=True, kw_only=True):
    """Please probe a node for me; the number is that of my own probe."""

    origin: NodeId
    target: NodeId
    sequence: int


class PingAck(Struct, frozen=True, kw_only=True):
    """What became of a ``PingReq``. A failure is told too: it shows that the asker itself is well connected."""

    origin: NodeId
    target: NodeId
    sequence: int
    success: bool


class BidirectionalProbe(Struct, frozen=True, kw_only=True):
    """Asked of a node that had failed: its answer proves both directions."""

    origin: NodeId
    id: int
    time_ms: int
    """By the origin's own forward clock; the answerer does not read it."""


class BidirectionalAck(Struct, frozen=True, kw_only=True):
    """The answer to a ``BidirectionalProbe``, with its id."""

    origin: NodeId
    id: int
    responder: NodeId


GossipMessage: TypeAlias = (
    Sync | Suspect | Alive | Ping | Pong | PingReq | PingAck | BidirectionalProbe | BidirectionalAck
)


def speaker(message: GossipMessage) -> NodeId | None:
    """In whose name a message is said; None where it does not say."""
    match message:
        case Sync(sender=node) | Suspect(reporter=node) | Alive(node_id=node):
            return node
        case Ping(origin=node) | PingReq(origin=node) | BidirectionalProbe(origin=node):
            return node
        case Pong(responder=node) | BidirectionalAck(responder=node):
            return node
        case PingAck():
            return None
        case _:
            assert_never(message)
