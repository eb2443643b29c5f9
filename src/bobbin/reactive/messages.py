"""What two ends of a link say about a graph, free of any codec.

One model, several forms: ``wire.lazily`` writes these as the seed's JSON, as the JSON that published peers speak, and
as MessagePack. A message that exists is well formed (ids are u64, keys are paths); whether it fits what came before is
the mirror's affair.

Where the forms differ, the model is the richer one. The seed tells *unset* from *dirty*, published peers have keys,
queues, CRDT frames and requests; a codec says what it cannot carry.
"""

from enum import StrEnum, unique
from typing import Final, NewType, TypeAlias

from msgspec import Struct

NodeId = NewType("NodeId", int)
"""The name of a node on the wire, a u64. It is not where the node is stored: see ``graph``."""
PeerId = NewType("PeerId", int)
"""A u64, bound to an authenticated connection."""

U64_MAX: Final = 2**64 - 1
SAFE_INTEGER_MAX: Final = 2**53 - 1
"""The largest id that goes to a peer that holds numbers as JavaScript does."""
KEY_BYTES_MAX: Final = 1024
KEY_SEGMENTS_MAX: Final = 32


@unique
class Backend(StrEnum):
    """Where the bytes of a blob lie."""

    SHM = "shm"
    ARROW = "arrow"
    IN_PROCESS = "in_process"


class BlobRef(Struct, frozen=True, gc=False):
    """Bytes that lie in an arena both sides can see, instead of in the frame."""

    offset: int
    """Of the header, not of the bytes."""
    length: int
    generation: int
    epoch: int
    checksum: int
    backend: Backend = Backend.SHM


Value: TypeAlias = bytes | BlobRef
"""Of a node. What the bytes mean, its type tag says; the channel moves them as they are."""


@unique
class NodeState(StrEnum):
    """How far a node's value is known."""

    RESOLVED = "resolved"
    DIRTY = "dirty"
    """There is a value, if any, and it is stale."""
    UNSET = "unset"


class Node(Struct, frozen=True, gc=False):
    """One node of a snapshot."""

    id: NodeId
    tag: str
    state: NodeState
    value: Value | None = None
    """None when unset; a dirty node may have its last value."""
    key: str | None = None


class Edge(Struct, frozen=True, gc=False, forbid_unknown_fields=True):
    """``dependent`` reads ``dependency``. Every form writes it under these names, and so codecs use it as it is."""

    dependent: NodeId
    dependency: NodeId


class Snapshot(Struct, frozen=True):
    """The whole graph, as far as the receiver may see it."""

    epoch: int
    nodes: tuple[Node, ...]
    edges: tuple[Edge, ...]
    roots: tuple[NodeId, ...]
    """Cells and source slots."""


class CellSet(Struct, frozen=True, gc=False):
    """A write that changed the value of a cell."""

    id: NodeId
    value: Value


class SlotValue(Struct, frozen=True, gc=False):
    """A recomputation that gave another value."""

    id: NodeId
    value: Value


class Invalidate(Struct, frozen=True, gc=False):
    """Stale, and not computed again."""

    id: NodeId


class NodeAdd(Struct, frozen=True, gc=False):
    """A node that was not there before; without a value it is unset."""

    id: NodeId
    tag: str
    value: Value | None = None
    key: str | None = None


class NodeRemove(Struct, frozen=True, gc=False):
    """A node that is gone, with its edges."""

    id: NodeId


class EdgeAdd(Struct, frozen=True, gc=False):
    """``dependent`` now reads ``dependency``."""

    dependent: NodeId
    dependency: NodeId


class EdgeRemove(Struct, frozen=True, gc=False):
    """``dependent`` no longer reads ``dependency``."""

    dependent: NodeId
    dependency: NodeId


class QueuePush(Struct, frozen=True, gc=False):
    """Published peers have queue nodes; here they are carried and not kept."""

    id: NodeId
    value: Value


class QueuePop(Struct, frozen=True, gc=False):
    """See ``QueuePush``."""

    id: NodeId


class QueueClose(Struct, frozen=True, gc=False):
    """See ``QueuePush``."""

    id: NodeId


Operation: TypeAlias = (
    CellSet | SlotValue | Invalidate | NodeAdd | NodeRemove | EdgeAdd | EdgeRemove | QueuePush | QueuePop | QueueClose
)


class Delta(Struct, frozen=True):
    """What one outermost flush changed, in the order in which it is to be applied."""

    base_epoch: int
    epoch: int
    """``base_epoch`` + 1 by the seed's rule; more is possible where both sides agreed to it."""
    operations: tuple[Operation, ...]


class Stamp(Struct, frozen=True, order=True, gc=False, forbid_unknown_fields=True):
    """A moment of a hybrid logical clock. The order of the fields is the order of moments.

    Every form writes it under these names, and so codecs use it as it is.
    """

    wall_time: int
    """Microseconds."""
    logical: int
    peer: PeerId


class CrdtOperation(Struct, frozen=True, gc=False):
    """The state of one replicated cell at a moment."""

    id: NodeId
    key: str | None
    stamp: Stamp
    state: Value


class CrdtSync(Struct, frozen=True):
    """States of replicated cells, and how far the sender has seen each peer."""

    operations: tuple[CrdtOperation, ...]
    frontier: tuple[tuple[PeerId, Stamp], ...] | None = None
    """None or nothing: as it was."""


class ResyncRequest(Struct, frozen=True, gc=False):
    """Please send a snapshot; the last epoch that fitted is ``from_epoch``."""

    from_epoch: int


class OutboxAck(Struct, frozen=True, gc=False):
    """Frames up to and with ``through_epoch`` need not be kept."""

    through_epoch: int


Message: TypeAlias = Snapshot | Delta | CrdtSync | ResyncRequest | OutboxAck


def is_key(text: str) -> bool:
    """Whether a text is a path by which a node can be named."""
    segments = text.split("/")
    return all(segments) and len(segments) <= KEY_SEGMENTS_MAX and len(text.encode()) <= KEY_BYTES_MAX
