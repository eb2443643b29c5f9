"""The numbers of a message: every one is a u64, exact or refused, and ids are within what the peer can hold."""

from collections.abc import Iterator
from itertools import chain
from typing import assert_never

from bobbin.errors import UsageError
from bobbin.reactive.messages import (
    U64_MAX,
    BlobRef,
    CellSet,
    CrdtSync,
    Delta,
    EdgeAdd,
    EdgeRemove,
    Message,
    NodeAdd,
    Operation,
    OutboxAck,
    QueuePush,
    ResyncRequest,
    SlotValue,
    Snapshot,
    Value,
)
from bobbin.wire.lazily.faults import Fault, FrameFault


def check_received(message: Message) -> None:
    """Refuse a message of a peer that has a number that is no u64."""
    for number in chain(ids_of(message), _others_of(message)):
        if not 0 <= number <= U64_MAX:
            raise FrameFault(Fault.OUT_OF_RANGE, f"ids, epochs and counts lie between 0 and 2^64 - 1, not at {number}")


def check_sent(message: Message, id_max: int) -> None:
    """Refuse to send an id that the peer cannot hold."""
    if id_max < U64_MAX:
        for number in ids_of(message):
            if number > id_max:
                raise UsageError(f"the peer holds no ids above {id_max} exactly, and here is {number}")


def ids_of(message: Message) -> Iterator[int]:
    """Every id of a node and of a peer in a message."""
    match message:
        case Snapshot():
            for node in message.nodes:
                yield node.id
            for edge in message.edges:
                yield edge.dependent
                yield edge.dependency
            yield from message.roots
        case Delta():
            for operation in message.operations:
                yield from _ids_of_operation(operation)
        case CrdtSync():
            for one in message.operations:
                yield one.id
                yield one.stamp.peer
            for peer, stamp in message.frontier or ():
                yield peer
                yield stamp.peer
        case ResyncRequest() | OutboxAck():
            pass
        case _:
            assert_never(message)


def _ids_of_operation(operation: Operation) -> tuple[int, ...]:
    if isinstance(operation, EdgeAdd | EdgeRemove):
        return operation.dependent, operation.dependency
    return (operation.id,)


def _others_of(message: Message) -> Iterator[int]:
    """Every number that is no id."""
    match message:
        case Snapshot():
            yield message.epoch
            for node in message.nodes:
                yield from _numbers_of_value(node.value)
        case Delta():
            yield message.base_epoch
            yield message.epoch
            for operation in message.operations:
                yield from _numbers_of_value(value_of(operation))
        case CrdtSync():
            for one in message.operations:
                yield one.stamp.wall_time
                yield one.stamp.logical
                yield from _numbers_of_value(one.state)
            for _, stamp in message.frontier or ():
                yield stamp.wall_time
                yield stamp.logical
        case ResyncRequest():
            yield message.from_epoch
        case OutboxAck():
            yield message.through_epoch
        case _:
            assert_never(message)


def value_of(operation: Operation) -> Value | None:
    """The value that an operation carries, if it carries one."""
    if isinstance(operation, CellSet | SlotValue | NodeAdd | QueuePush):
        return operation.value
    return None


def _numbers_of_value(value: Value | None) -> tuple[int, ...]:
    if isinstance(value, BlobRef):
        return value.offset, value.length, value.generation, value.epoch, value.checksum
    return ()
