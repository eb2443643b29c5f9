"""The shapes of the form that published peers speak: what the decoder checks, and what the encoder is given.

One-key objects name the variant: ``{"Snapshot": {...}}``, ``{"CellSet": {...}}``, ``{"Payload": [...]}``. JSON and
MessagePack have the same names, so both codecs share what is here and in ``canonical_model``, which goes between these
and the model. An object with a field too many or too few is refused by the decoder; that an object has exactly one of
its variants, ``check_one`` says.
"""

from typing import Final, Literal, TypeAlias

from msgspec import UNSET, Struct, UnsetType, field, structs

from bobbin.reactive.messages import Backend, BlobRef, Edge, NodeId, PeerId, Stamp, is_key
from bobbin.wire.lazily.faults import Fault, FrameFault

OPAQUE: Final = "Opaque"
"""The state of a node without a value."""

_Bytes: TypeAlias = list[int] | bytes
"""Numbers, or a base64 text where that was agreed on."""


class Blob(Struct, gc=False, forbid_unknown_fields=True):
    """``ShmBlobRef``."""

    offset: int
    length: int = field(name="len")
    generation: int
    epoch: int
    checksum: int
    backend: Backend | UnsetType | None = UNSET
    """Neither nothing nor null is written; both are shared memory."""

    @property
    def fields(self) -> int:
        """How many were given."""
        return 5 + (self.backend is not UNSET)

    @property
    def reference(self) -> BlobRef:
        """Of the model."""
        backend = self.backend or Backend.SHM
        return BlobRef(self.offset, self.length, self.generation, self.epoch, self.checksum, backend)


class State(Struct, gc=False, forbid_unknown_fields=True):
    """``NodeState``, where it is not the bare text ``Opaque``: one of the two."""

    payload: _Bytes | UnsetType = field(name="Payload", default=UNSET)
    shared_blob: Blob | UnsetType = field(name="SharedBlob", default=UNSET)


class Content(Struct, gc=False, forbid_unknown_fields=True):
    """``IpcValue``: one of the two."""

    inline: _Bytes | UnsetType = field(name="Inline", default=UNSET)
    shared_blob: Blob | UnsetType = field(name="SharedBlob", default=UNSET)


class StatedNode(Struct, gc=False, forbid_unknown_fields=True):
    """``NodeSnapshot``, and the body of ``NodeAdd``."""

    node: NodeId
    type_tag: str
    state: State | Literal["Opaque"]
    key: str | UnsetType | None = UNSET


class SnapshotBody(Struct, forbid_unknown_fields=True):
    """Of ``Snapshot``."""

    epoch: int
    nodes: list[StatedNode]
    edges: tuple[Edge, ...]
    roots: tuple[NodeId, ...]


class Written(Struct, gc=False, forbid_unknown_fields=True):
    """The body of ``CellSet``, ``SlotValue`` and ``QueuePush``."""

    node: NodeId
    payload: Content


class Named(Struct, gc=False, forbid_unknown_fields=True):
    """The body of ``Invalidate``, ``NodeRemove``, ``QueuePop`` and ``QueueClose``."""

    node: NodeId


class AnyOperation(Struct, gc=False, forbid_unknown_fields=True, rename="pascal"):
    """``DeltaOp``: one of them."""

    cell_set: Written | UnsetType = UNSET
    slot_value: Written | UnsetType = UNSET
    invalidate: Named | UnsetType = UNSET
    node_add: StatedNode | UnsetType = UNSET
    node_remove: Named | UnsetType = UNSET
    edge_add: Edge | UnsetType = UNSET
    edge_remove: Edge | UnsetType = UNSET
    queue_push: Written | UnsetType = UNSET
    queue_pop: Named | UnsetType = UNSET
    queue_close: Named | UnsetType = UNSET


class DeltaBody(Struct, forbid_unknown_fields=True):
    """Of ``Delta``."""

    base_epoch: int
    epoch: int
    ops: list[AnyOperation]


class CrdtOp(Struct, gc=False, forbid_unknown_fields=True, kw_only=True):
    """``CrdtOp``. Its key is always written; one that is left out is read as null."""

    node: NodeId
    key: str | UnsetType | None = UNSET
    stamp: Stamp
    state: Content


class CrdtSyncBody(Struct, forbid_unknown_fields=True, kw_only=True):
    """Of ``CrdtSync``."""

    frontier: tuple[tuple[PeerId, Stamp], ...] | UnsetType = UNSET
    ops: list[CrdtOp]


class ResyncRequestBody(Struct, forbid_unknown_fields=True):
    """Of ``ResyncRequest``."""

    from_epoch: int


class OutboxAckBody(Struct, forbid_unknown_fields=True):
    """Of ``OutboxAck``."""

    through_epoch: int


class AnyMessage(Struct, forbid_unknown_fields=True, rename="pascal"):
    """``IpcMessage``: one of them."""

    snapshot: SnapshotBody | UnsetType = UNSET
    delta: DeltaBody | UnsetType = UNSET
    crdt_sync: CrdtSyncBody | UnsetType = UNSET
    resync_request: ResyncRequestBody | UnsetType = UNSET
    outbox_ack: OutboxAckBody | UnsetType = UNSET


def blob_of(reference: BlobRef) -> Blob:
    """The shape of a blob."""
    backend = UNSET if reference.backend is Backend.SHM else reference.backend
    return Blob(
        reference.offset,
        reference.length,
        reference.generation,
        reference.epoch,
        reference.checksum,
        backend,
    )


def check_key(key: str | None) -> None:
    """Refuse a text by which no node can be named."""
    if key is not None and not is_key(key):
        raise FrameFault(Fault.MALFORMED, f"not the path of a node: {key[:80]!r}")


def check_one(variants: State | Content | AnyOperation | AnyMessage) -> None:
    """Refuse an object that has none of its variants, or several."""
    values = structs.astuple(variants)
    given = len(values) - values.count(UNSET)
    if given != 1:
        raise FrameFault(Fault.MALFORMED, f"an object with one key that names a variant was expected, not with {given}")
