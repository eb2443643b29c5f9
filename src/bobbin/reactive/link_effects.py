"""What one end of a link wants done. A driver performs the effects of a step in the order in which they come.

``Write`` and ``Fire`` come before what is sent in the same step: an acknowledgement goes out only after what it
acknowledges was done.
"""

from typing import TypeAlias

from msgspec import Struct

from bobbin.reactive.handshake import Capabilities
from bobbin.reactive.messages import CellSet, CrdtSync, Message, NodeId
from bobbin.reactive.permissions import RemoteOp


class Greet(Struct, frozen=True):
    """Send our handshake."""

    capabilities: Capabilities


class Send(Struct, frozen=True):
    """Send a message. At the end where the graph is, ``Sent`` answers it once the transport has taken it."""

    message: Message


class Ask(Struct, frozen=True):
    """Send what somebody here wants done to a node."""

    op: RemoteOp


class Write(Struct, frozen=True):
    """Write these cells, in one batch. Every one of them is there, is a cell, and may be written by the peer."""

    writes: tuple[CellSet, ...]


class Fire(Struct, frozen=True):
    """Run an effect, which the peer may do."""

    node: NodeId


class Deliver(Struct, frozen=True):
    """States of replicated cells, for whoever merges them."""

    sync: CrdtSync


class Close(Struct, frozen=True):
    """End the connection. Nothing more is sent, and nothing more that comes is applied."""

    code: str
    """What failed: a field of the handshake, or a code."""
    detail: str


class Wake(Struct, frozen=True):
    """Answer with ``Woke`` after a while. An older token that comes late means nothing."""

    token: int
    after_ms: int


class Updated(Struct, frozen=True, kw_only=True):
    """The mirror has changed."""

    epoch: int
    nodes: tuple[NodeId, ...]
    """Those with another value or state, and new ones."""
    removed: tuple[NodeId, ...] = ()
    structure: bool = False
    """Whether nodes or edges came or went."""
    replaced: bool = False
    """Whether a snapshot has come: anything may be different."""


class Denied(Struct, frozen=True):
    """The peer wanted what it may not, or what makes no sense; it was not done."""

    op: RemoteOp
    reason: str


class Refused(Struct, frozen=True):
    """Something of the peer was dropped, and nothing changed by it."""

    code: str
    detail: str


class Behind(Struct, frozen=True):
    """The observer is too slow: a snapshot will replace what waited for it."""

    dropped: int
    """How many deltas that were waiting."""


Notice: TypeAlias = Denied | Refused | Behind


class Notify(Struct, frozen=True):
    """Tell whoever looks after this link. Never the peer."""

    notice: Notice


PublisherEffect: TypeAlias = Greet | Send | Write | Fire | Deliver | Close | Notify
MirrorEffect: TypeAlias = Greet | Send | Ask | Deliver | Close | Wake | Updated | Notify
