"""What becomes of a message in a form that cannot carry all of it.

==========================  =========================================================================================
of the model                towards published peers, in JSON or MessagePack
==========================  =========================================================================================
unset, or added so          ``Opaque``
dirty, with a value         its last value one epoch earlier, and a delta that invalidates it: so nobody takes it for
                            fresh, and both sides are at the epoch of the snapshot afterwards
dirty, without a value, or  ``Opaque``
at epoch 0
==========================  =========================================================================================

Towards the seed's form the key of a node is dropped; it names the node for people and families, and the id stays. A
queue cannot be told there at all.
"""

from typing import Final

from msgspec import structs

from bobbin.errors import UsageError
from bobbin.reactive.messages import (
    Delta,
    Invalidate,
    Message,
    Node,
    NodeAdd,
    NodeState,
    Operation,
    QueueClose,
    QueuePop,
    QueuePush,
    Snapshot,
)

_QUEUES: Final = (QueuePush, QueuePop, QueueClose)


def to_canonical(message: Message) -> tuple[Message, ...]:
    """The messages, in order, that say the same to a published peer."""
    if not isinstance(message, Snapshot):
        return (message,)
    if all(node.state is not NodeState.DIRTY for node in message.nodes):
        return (message,)
    stale = [node.id for node in message.nodes if _is_stale(node)] if message.epoch else []
    nodes = tuple([_as_told(node, keep=bool(stale)) for node in message.nodes])
    if not stale:
        return (structs.replace(message, nodes=nodes),)
    before = message.epoch - 1
    invalidations = tuple([Invalidate(node) for node in stale])
    return structs.replace(message, epoch=before, nodes=nodes), Delta(before, message.epoch, invalidations)


def _is_stale(node: Node) -> bool:
    return node.state is NodeState.DIRTY and node.value is not None


def _as_told(node: Node, *, keep: bool) -> Node:
    """``keep``: whether an invalidation follows for whatever is stale."""
    if node.state is not NodeState.DIRTY:
        return node
    if keep and node.value is not None:
        return structs.replace(node, state=NodeState.RESOLVED)
    return structs.replace(node, state=NodeState.UNSET, value=None)


def to_seed(message: Message) -> tuple[Message, ...]:
    """The messages, in order, that say the same in the seed's form. Raises ``UsageError`` for a queue."""
    if isinstance(message, Snapshot) and any(node.key is not None for node in message.nodes):
        return (structs.replace(message, nodes=tuple([_without_key(node) for node in message.nodes])),)
    if isinstance(message, Delta):
        return (structs.replace(message, operations=tuple([_in_seed(one) for one in message.operations])),)
    return (message,)


def _without_key(node: Node) -> Node:
    return node if node.key is None else structs.replace(node, key=None)


def _in_seed(operation: Operation) -> Operation:
    if isinstance(operation, _QUEUES):
        raise UsageError(f"this form has no queues, and the node {operation.id} is one")
    if isinstance(operation, NodeAdd) and operation.key is not None:
        return structs.replace(operation, key=None)
    return operation
