"""What can happen at one end of a link between a graph and whoever watches it.

Some happen at both ends, some only where the graph is (``PublisherEvent``) or only where the mirror is
(``MirrorEvent``).
"""

from typing import TypeAlias

from msgspec import Struct

from bobbin.reactive.change import Change
from bobbin.reactive.handshake import Capabilities
from bobbin.reactive.messages import CellSet, Message, NodeId
from bobbin.reactive.permissions import RemoteOp


class Opened(Struct, frozen=True):
    """There is a connection, and whoever is at its other end is authenticated, where anybody is."""


class Greeted(Struct, frozen=True):
    """The other end's handshake."""

    capabilities: Capabilities


class Received(Struct, frozen=True):
    """The other end's next message."""

    message: Message


class Undecodable(Struct, frozen=True):
    """What came is no message, or not all of one."""

    code: str
    detail: str


class Lost(Struct, frozen=True):
    """The connection is gone."""


class Asked(Struct, frozen=True):
    """The observer wants something done to a node."""

    op: RemoteOp


class Sent(Struct, frozen=True):
    """The transport has taken messages that it was given by ``Send``."""

    count: int = 1


class Changed(Struct, frozen=True):
    """The graph has changed, and what is known of it all has, too: see ``publisher.take_change``."""

    change: Change


class PermissionsChanged(Struct, frozen=True):
    """What the observer may read is not what it was."""


class Woke(Struct, frozen=True):
    """The time of a ``Wake`` is over."""

    token: int


class WriteCells(Struct, frozen=True):
    """Somebody here wants cells of the graph written, all of them at once."""

    writes: tuple[CellSet, ...]


class TooLong(Struct, frozen=True):
    """A frame of writes is longer than one may be on this link. One without writes has gone out in its place."""

    epoch: int
    """Of the frame, as it was given by ``Send``."""
    detail: str


class Trigger(Struct, frozen=True):
    """Somebody here wants an effect of the graph to run."""

    node: NodeId


PublisherEvent: TypeAlias = (
    Opened | Greeted | Received | Undecodable | Lost | Asked | Sent | Changed | PermissionsChanged
)
MirrorEvent: TypeAlias = Opened | Greeted | Received | Undecodable | Lost | Woke | WriteCells | TooLong | Trigger
