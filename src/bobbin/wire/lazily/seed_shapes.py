"""The shapes of the seed's form: what the decoder checks, and what the encoder is given.

A message has a ``type`` and an operation an ``op`` among its fields, a node is named by ``slot_id``, and bytes are
base64 texts. What the seed does not say, this form says in its manner: ``resync_request``, ``outbox_ack``,
``crdt_sync``, and a blob as an object where bytes would be.
"""

from typing import TypeAlias

from msgspec import UNSET, Struct, UnsetType

from bobbin.reactive.messages import Edge, NodeId, NodeState, PeerId, Stamp
from bobbin.wire.lazily.canonical_shapes import Blob

Payload: TypeAlias = bytes | Blob


class SeedNode(Struct, gc=False, forbid_unknown_fields=True):
    """A node of a snapshot. Its payload is always written, null where there is none."""

    slot_id: NodeId
    type_tag: str
    state: NodeState
    payload: Payload | UnsetType | None = UNSET


class SeedSnapshot(Struct, forbid_unknown_fields=True, tag_field="type", tag="snapshot"):
    """The whole graph."""

    epoch: int
    nodes: list[SeedNode]
    edges: tuple[Edge, ...]
    roots: tuple[NodeId, ...]


class SeedCellSet(Struct, gc=False, forbid_unknown_fields=True, tag_field="op", tag="cell_set"):
    """See ``messages.CellSet``."""

    slot_id: NodeId
    payload: Payload


class SeedSlotValue(Struct, gc=False, forbid_unknown_fields=True, tag_field="op", tag="slot_value"):
    """See ``messages.SlotValue``."""

    slot_id: NodeId
    payload: Payload


class SeedInvalidate(Struct, gc=False, forbid_unknown_fields=True, tag_field="op", tag="invalidate"):
    """See ``messages.Invalidate``."""

    slot_id: NodeId


class SeedNodeAdd(Struct, gc=False, forbid_unknown_fields=True, tag_field="op", tag="node_add"):
    """See ``messages.NodeAdd``. A payload that there is not is not written, and may be null."""

    slot_id: NodeId
    type_tag: str
    payload: Payload | UnsetType | None = UNSET


class SeedNodeRemove(Struct, gc=False, forbid_unknown_fields=True, tag_field="op", tag="node_remove"):
    """See ``messages.NodeRemove``."""

    slot_id: NodeId


class SeedEdgeAdd(Struct, gc=False, forbid_unknown_fields=True, tag_field="op", tag="edge_add"):
    """See ``messages.EdgeAdd``."""

    dependent: NodeId
    dependency: NodeId


class SeedEdgeRemove(Struct, gc=False, forbid_unknown_fields=True, tag_field="op", tag="edge_remove"):
    """See ``messages.EdgeRemove``."""

    dependent: NodeId
    dependency: NodeId


SeedOperation: TypeAlias = (
    SeedCellSet | SeedSlotValue | SeedInvalidate | SeedNodeAdd | SeedNodeRemove | SeedEdgeAdd | SeedEdgeRemove
)


class SeedDelta(Struct, forbid_unknown_fields=True, tag_field="type", tag="delta"):
    """What one flush changed."""

    base_epoch: int
    epoch: int
    ops: list[SeedOperation]


class SeedCrdtOperation(Struct, gc=False, forbid_unknown_fields=True, kw_only=True):
    """The state of one replicated cell. Its key is always written; one that is left out is read as null."""

    slot_id: NodeId
    key: str | UnsetType | None = UNSET
    stamp: Stamp
    payload: Payload


class SeedCrdtSync(Struct, forbid_unknown_fields=True, kw_only=True, tag_field="type", tag="crdt_sync"):
    """See ``messages.CrdtSync``."""

    frontier: tuple[tuple[PeerId, Stamp], ...] | UnsetType = UNSET
    ops: list[SeedCrdtOperation]


class SeedResyncRequest(Struct, forbid_unknown_fields=True, tag_field="type", tag="resync_request"):
    """See ``messages.ResyncRequest``."""

    from_epoch: int


class SeedOutboxAck(Struct, forbid_unknown_fields=True, tag_field="type", tag="outbox_ack"):
    """See ``messages.OutboxAck``."""

    through_epoch: int


SeedMessage: TypeAlias = SeedSnapshot | SeedDelta | SeedCrdtSync | SeedResyncRequest | SeedOutboxAck


class SeedPayload(Struct, frozen=True, forbid_unknown_fields=True):
    """``IpcPayload``: a value by itself, with its tag. Inside frames the two are fields side by side."""

    type_tag: str
    bytes: bytes
