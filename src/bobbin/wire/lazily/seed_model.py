"""Between the shapes of the seed's form and the model.

This form tells unset from dirty, which the other cannot. It has no keys on nodes and no queues: what has them is not
written as something else, but refused (see ``conversions``).
"""

from typing import assert_never

from msgspec import UNSET, UnsetType

from bobbin.errors import UsageError
from bobbin.reactive.messages import (
    CellSet,
    CrdtOperation,
    CrdtSync,
    Delta,
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
from bobbin.wire.lazily.canonical_shapes import blob_of, check_key
from bobbin.wire.lazily.faults import Fault, FrameFault
from bobbin.wire.lazily.seed_shapes import (
    Payload,
    SeedCellSet,
    SeedCrdtOperation,
    SeedCrdtSync,
    SeedDelta,
    SeedEdgeAdd,
    SeedEdgeRemove,
    SeedInvalidate,
    SeedMessage,
    SeedNode,
    SeedNodeAdd,
    SeedNodeRemove,
    SeedOperation,
    SeedOutboxAck,
    SeedResyncRequest,
    SeedSlotValue,
    SeedSnapshot,
)


class Reader:
    """Makes one message of its shape, and counts the fields that the objects of the shape have in all."""

    def __init__(self) -> None:
        self.fields = 0

    def message(self, shape: SeedMessage) -> Message:
        """The message, or ``FrameFault``. Its numbers are not checked yet."""
        match shape:
            case SeedSnapshot():
                return self._snapshot(shape)
            case SeedDelta():
                self.fields += 4
                operations = tuple([self._operation(one) for one in shape.ops])
                return Delta(shape.base_epoch, shape.epoch, operations)
            case SeedCrdtSync():
                return self._crdt_sync(shape)
            case SeedResyncRequest():
                self.fields += 2
                return ResyncRequest(shape.from_epoch)
            case SeedOutboxAck():
                self.fields += 2
                return OutboxAck(shape.through_epoch)
            case _:
                assert_never(shape)

    def _snapshot(self, shape: SeedSnapshot) -> Snapshot:
        self.fields += 5 + 4 * len(shape.nodes) + 2 * len(shape.edges)
        resolved = NodeState.RESOLVED
        nodes = []
        for node in shape.nodes:
            payload = node.payload
            # By far the most frequent, and there may be very many.
            if node.state is resolved and isinstance(payload, bytes):
                nodes.append(Node(node.slot_id, node.type_tag, resolved, payload))
            else:
                self.fields -= 1
                nodes.append(Node(node.slot_id, node.type_tag, node.state, self._stated(node)))
        return Snapshot(shape.epoch, tuple(nodes), shape.edges, shape.roots)

    def _stated(self, node: SeedNode) -> Value | None:
        value = self._optional(node.payload)
        if (value is None and node.state is NodeState.RESOLVED) or (
            value is not None and node.state is NodeState.UNSET
        ):
            detail = "has no payload" if value is None else "has a payload"
            raise FrameFault(Fault.MALFORMED, f"the node {node.slot_id} is {node.state.value} and {detail}")
        return value

    def _optional(self, payload: Payload | UnsetType | None) -> Value | None:
        if payload is UNSET:
            return None
        self.fields += 1
        return None if payload is None else self._value(payload)

    def _value(self, payload: Payload) -> Value:
        if isinstance(payload, bytes):
            return payload
        self.fields += payload.fields
        return payload.reference

    def _operation(self, shape: SeedOperation) -> Operation:
        self.fields += 3
        match shape:
            case SeedCellSet():
                return CellSet(shape.slot_id, self._value(shape.payload))
            case SeedSlotValue():
                return SlotValue(shape.slot_id, self._value(shape.payload))
            case SeedInvalidate():
                self.fields -= 1
                return Invalidate(shape.slot_id)
            case SeedNodeAdd():
                return NodeAdd(shape.slot_id, shape.type_tag, self._optional(shape.payload))
            case SeedNodeRemove():
                self.fields -= 1
                return NodeRemove(shape.slot_id)
            case SeedEdgeAdd():
                return EdgeAdd(shape.dependent, shape.dependency)
            case SeedEdgeRemove():
                return EdgeRemove(shape.dependent, shape.dependency)
            case _:
                assert_never(shape)

    def _crdt_sync(self, shape: SeedCrdtSync) -> CrdtSync:
        self.fields += 2 + 6 * len(shape.ops)
        frontier = None
        if shape.frontier is not UNSET:
            frontier = shape.frontier
            self.fields += 1 + 3 * len(frontier)
        operations = [
            CrdtOperation(one.slot_id, self._key(one.key), one.stamp, self._value(one.payload)) for one in shape.ops
        ]
        return CrdtSync(tuple(operations), frontier)

    def _key(self, key: str | UnsetType | None) -> str | None:
        if key is UNSET:
            return None
        self.fields += 1
        check_key(key)
        return key


# ---- from the model -------------------------------------------------------------------------------------------------


def shape_of(message: Message) -> SeedMessage:
    """The shape that an encoder writes, or ``UsageError`` where this form cannot say it."""
    match message:
        case Snapshot():
            nodes = [_node(node) for node in message.nodes]
            return SeedSnapshot(message.epoch, nodes, message.edges, message.roots)
        case Delta():
            return SeedDelta(message.base_epoch, message.epoch, [_operation(one) for one in message.operations])
        case CrdtSync():
            frontier = UNSET if message.frontier is None else message.frontier
            ops = [
                SeedCrdtOperation(slot_id=one.id, key=one.key, stamp=one.stamp, payload=_payload(one.state))
                for one in message.operations
            ]
            return SeedCrdtSync(frontier=frontier, ops=ops)
        case ResyncRequest():
            return SeedResyncRequest(message.from_epoch)
        case OutboxAck():
            return SeedOutboxAck(message.through_epoch)
        case _:
            assert_never(message)


def _node(node: Node) -> SeedNode:
    if node.key is not None:
        raise UsageError(f"this form has no keys, and the node {node.id} has one")
    return SeedNode(node.id, node.tag, node.state, None if node.value is None else _payload(node.value))


def _payload(value: Value) -> Payload:
    return value if isinstance(value, bytes) else blob_of(value)


def _operation(operation: Operation) -> SeedOperation:
    match operation:
        case CellSet():
            return SeedCellSet(operation.id, _payload(operation.value))
        case SlotValue():
            return SeedSlotValue(operation.id, _payload(operation.value))
        case Invalidate():
            return SeedInvalidate(operation.id)
        case NodeAdd():
            if operation.key is not None:
                raise UsageError(f"this form has no keys, and the node {operation.id} has one")
            payload = UNSET if operation.value is None else _payload(operation.value)
            return SeedNodeAdd(operation.id, operation.tag, payload)
        case NodeRemove():
            return SeedNodeRemove(operation.id)
        case EdgeAdd():
            return SeedEdgeAdd(operation.dependent, operation.dependency)
        case EdgeRemove():
            return SeedEdgeRemove(operation.dependent, operation.dependency)
        case QueuePush() | QueuePop() | QueueClose():
            raise UsageError(f"this form has no queues, and the node {operation.id} is one")
        case _:
            assert_never(operation)
