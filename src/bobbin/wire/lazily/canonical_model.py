"""Between the shapes of the form that published peers speak and the model.

======================  =========================================================================================
shape                   model
======================  =========================================================================================
``{"Payload": [...]}``  a resolved node with these bytes
``"Opaque"``            a node without a value: unset. Published peers also say so of what cannot be serialised;
                        the two cannot be told apart
======================  =========================================================================================

The form has no dirty nodes; ``conversions`` says how they are told instead.
"""

from collections.abc import Callable
from typing import Final, Literal, TypeAlias, assert_never

from msgspec import UNSET, UnsetType

from bobbin.errors import UsageError
from bobbin.reactive.messages import (
    BlobRef,
    CellSet,
    CrdtOperation,
    CrdtSync,
    Delta,
    Edge,
    EdgeAdd,
    EdgeRemove,
    Invalidate,
    Message,
    Node,
    NodeAdd,
    NodeRemove,
    NodeState,
    Operation,
    OutboxAck,
    QueueClose,
    QueuePop,
    QueuePush,
    ResyncRequest,
    SlotValue,
    Snapshot,
    Value,
)
from bobbin.wire.lazily.canonical_shapes import (
    OPAQUE,
    AnyMessage,
    AnyOperation,
    Blob,
    Content,
    CrdtOp,
    CrdtSyncBody,
    DeltaBody,
    Named,
    OutboxAckBody,
    ResyncRequestBody,
    SnapshotBody,
    State,
    StatedNode,
    Written,
    blob_of,
    check_key,
    check_one,
)
from bobbin.wire.lazily.faults import Fault, FrameFault

_Pack: TypeAlias = Callable[[bytes], list[int] | bytes]
"""How bytes are given to the encoder: as numbers, or as they are, which JSON writes as base64."""


class Reader:
    """Makes one message of its shape, and counts the fields that the objects of the shape have in all."""

    def __init__(self, *, base64: bool) -> None:
        """``base64``: whether bytes may be texts."""
        self.fields = 0
        self._base64: Final = base64

    def message(self, shape: AnyMessage) -> Message:
        """The message, or ``FrameFault``. Its numbers are not checked yet."""
        check_one(shape)
        try:
            return self._message(shape)
        except (ValueError, OverflowError) as error:
            raise FrameFault(Fault.MALFORMED, f"bytes are numbers from 0 to 255: {error}") from error

    def _message(self, shape: AnyMessage) -> Message:
        self.fields += 1
        if shape.snapshot is not UNSET:
            return self._snapshot(shape.snapshot)
        if shape.delta is not UNSET:
            self.fields += 3
            operations = tuple([self._operation(one) for one in shape.delta.ops])
            return Delta(shape.delta.base_epoch, shape.delta.epoch, operations)
        if shape.crdt_sync is not UNSET:
            return self._crdt_sync(shape.crdt_sync)
        self.fields += 1
        if shape.resync_request is not UNSET:
            return ResyncRequest(shape.resync_request.from_epoch)
        assert shape.outbox_ack is not UNSET
        return OutboxAck(shape.outbox_ack.through_epoch)

    def _snapshot(self, body: SnapshotBody) -> Snapshot:
        self.fields += 4 + 4 * len(body.nodes) + 2 * len(body.edges)
        resolved = NodeState.RESOLVED
        kinds = (list, bytes) if self._base64 else list
        nodes = []
        for node in body.nodes:
            state = node.state
            # Bytes and no key: by far the most frequent, and there may be very many.
            if node.key is UNSET and isinstance(state, State) and isinstance(state.payload, kinds):
                if state.shared_blob is not UNSET:
                    check_one(state)
                nodes.append(Node(node.node, node.type_tag, resolved, bytes(state.payload)))
            else:
                self.fields -= 4
                value, key = self._stated(node)
                known = NodeState.UNSET if value is None else resolved
                nodes.append(Node(node.node, node.type_tag, known, value, key))
        return Snapshot(body.epoch, tuple(nodes), body.edges, body.roots)

    def _stated(self, node: StatedNode) -> tuple[Value | None, str | None]:
        """The value and the key of a node."""
        self.fields += 3
        key = self._key(node.key)
        state = node.state
        if not isinstance(state, State):
            return None, key
        check_one(state)
        self.fields += 1
        return (self._blob(state.shared_blob) if state.payload is UNSET else self._bytes(state.payload)), key

    def _content(self, content: Content) -> Value:
        check_one(content)
        self.fields += 1
        return self._blob(content.shared_blob) if content.inline is UNSET else self._bytes(content.inline)

    def _bytes(self, given: list[int] | bytes) -> bytes:
        if isinstance(given, list):
            return bytes(given)
        if not self._base64:
            raise FrameFault(Fault.MALFORMED, "bytes are an array of numbers on this link, not a text")
        return given

    def _blob(self, blob: Blob | UnsetType) -> BlobRef:
        assert blob is not UNSET
        self.fields += blob.fields
        return blob.reference

    def _key(self, key: str | UnsetType | None) -> str | None:
        if key is UNSET:
            return None
        self.fields += 1
        check_key(key)
        return key

    def _operation(self, shape: AnyOperation) -> Operation:
        check_one(shape)
        self.fields += 3
        if shape.cell_set is not UNSET:
            return CellSet(shape.cell_set.node, self._content(shape.cell_set.payload))
        if shape.slot_value is not UNSET:
            return SlotValue(shape.slot_value.node, self._content(shape.slot_value.payload))
        if shape.edge_add is not UNSET:
            return EdgeAdd(shape.edge_add.dependent, shape.edge_add.dependency)
        if shape.edge_remove is not UNSET:
            return EdgeRemove(shape.edge_remove.dependent, shape.edge_remove.dependency)
        if shape.queue_push is not UNSET:
            return QueuePush(shape.queue_push.node, self._content(shape.queue_push.payload))
        if shape.node_add is not UNSET:
            self.fields -= 2
            value, key = self._stated(shape.node_add)
            return NodeAdd(shape.node_add.node, shape.node_add.type_tag, value, key)
        self.fields -= 1
        if shape.invalidate is not UNSET:
            return Invalidate(shape.invalidate.node)
        if shape.node_remove is not UNSET:
            return NodeRemove(shape.node_remove.node)
        if shape.queue_pop is not UNSET:
            return QueuePop(shape.queue_pop.node)
        assert shape.queue_close is not UNSET
        return QueueClose(shape.queue_close.node)

    def _crdt_sync(self, body: CrdtSyncBody) -> CrdtSync:
        self.fields += 1 + 6 * len(body.ops)
        frontier = None
        if body.frontier is not UNSET:
            frontier = body.frontier
            self.fields += 1 + 3 * len(frontier)
        operations = [CrdtOperation(op.node, self._key(op.key), op.stamp, self._content(op.state)) for op in body.ops]
        return CrdtSync(tuple(operations), frontier)


# ---- from the model -------------------------------------------------------------------------------------------------


def shape_of(message: Message, *, base64: bool = False) -> AnyMessage:
    """The shape that an encoder writes, or ``UsageError`` where this form cannot say it."""
    pack: _Pack = bytes if base64 else list
    match message:
        case Snapshot():
            return AnyMessage(snapshot=_snapshot(message, pack))
        case Delta():
            operations = [_any_operation(one, pack) for one in message.operations]
            return AnyMessage(delta=DeltaBody(message.base_epoch, message.epoch, operations))
        case CrdtSync():
            frontier = UNSET if message.frontier is None else message.frontier
            ops = [
                CrdtOp(node=one.id, key=one.key, stamp=one.stamp, state=_content_of(one.state, pack))
                for one in message.operations
            ]
            return AnyMessage(crdt_sync=CrdtSyncBody(frontier=frontier, ops=ops))
        case ResyncRequest():
            return AnyMessage(resync_request=ResyncRequestBody(message.from_epoch))
        case OutboxAck():
            return AnyMessage(outbox_ack=OutboxAckBody(message.through_epoch))
        case _:
            assert_never(message)


def _snapshot(message: Snapshot, pack: _Pack) -> SnapshotBody:
    resolved = NodeState.RESOLVED
    # Bytes and no key: by far the most frequent, and there may be very many.
    nodes = [
        StatedNode(node.id, node.tag, State(pack(node.value)))
        if isinstance(node.value, bytes) and node.state is resolved and node.key is None
        else _stated_node(node, pack)
        for node in message.nodes
    ]
    return SnapshotBody(message.epoch, nodes, message.edges, message.roots)


def _stated_node(node: Node, pack: _Pack) -> StatedNode:
    if node.state is NodeState.DIRTY:
        raise UsageError(f"this form has no dirty nodes, and the node {node.id} is one")
    return StatedNode(node.id, node.tag, _state_of(node.value, pack), node.key or UNSET)


def _state_of(value: Value | None, pack: _Pack) -> State | Literal["Opaque"]:
    if isinstance(value, bytes):
        return State(pack(value))
    return OPAQUE if value is None else State(shared_blob=blob_of(value))


def _content_of(value: Value, pack: _Pack) -> Content:
    if isinstance(value, bytes):
        return Content(pack(value))
    return Content(shared_blob=blob_of(value))


def _any_operation(operation: Operation, pack: _Pack) -> AnyOperation:
    match operation:
        case CellSet():
            return AnyOperation(cell_set=Written(operation.id, _content_of(operation.value, pack)))
        case SlotValue():
            return AnyOperation(slot_value=Written(operation.id, _content_of(operation.value, pack)))
        case Invalidate():
            return AnyOperation(invalidate=Named(operation.id))
        case NodeAdd():
            state = _state_of(operation.value, pack)
            return AnyOperation(node_add=StatedNode(operation.id, operation.tag, state, operation.key or UNSET))
        case NodeRemove():
            return AnyOperation(node_remove=Named(operation.id))
        case EdgeAdd():
            return AnyOperation(edge_add=Edge(operation.dependent, operation.dependency))
        case EdgeRemove():
            return AnyOperation(edge_remove=Edge(operation.dependent, operation.dependency))
        case QueuePush():
            return AnyOperation(queue_push=Written(operation.id, _content_of(operation.value, pack)))
        case QueuePop():
            return AnyOperation(queue_pop=Named(operation.id))
        case QueueClose():
            return AnyOperation(queue_close=Named(operation.id))
        case _:
            assert_never(operation)
