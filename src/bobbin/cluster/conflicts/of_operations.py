"""The change that operations make, as a vector. Every node works it out again, and to the same bits.

An operation on a vector contributes its effect on the vector, from what the key holds at that point: ``Embed`` and
``Average`` the way they move it, ``VectorAdd`` what it adds. Any other operation contributes one unit at a position
that follows from its storage key, with the sign turned for one that takes something away; an addition to a counter
contributes its amount.

The positions are sums of doubles in the order of the operations. A change that would be longer than ``LENGTH_MAX`` is
shortened to it and keeps its direction: nothing that is valid by itself adds up to a header that nobody accepts.
"""

from collections.abc import Callable, Sequence
from hashlib import blake2b
from typing import Final, assert_never

from bobbin.cluster.conflicts.delta import NO_TX, DeltaVector, sparsified
from bobbin.cluster.geometry import Embedding, combine
from bobbin.cluster.operations import (
    Average,
    CounterAdd,
    Delete,
    Embed,
    NodeDelete,
    Operation,
    Put,
    TableDelete,
    VectorAdd,
    affected_key,
    storage_key,
)

AMOUNT_MAX: Final = 1_000_000
"""Of one addition to a counter, in size."""
LENGTH_MAX: Final = 999_999.0
"""Just below the largest magnitude that messages may have."""
_VALUE_MAX: Final = 1e150
"""Its square is still a double, so lengths can be worked out."""
_DIRECTION: Final = blake2b(digest_size=4, person=b"bobbin-direction")
"""Copied for each key, which costs less than to make one."""


def delta_of(
    operations: Sequence[Operation],
    before: Callable[[bytes], Embedding | None],
    dimension: int,
    *,
    tx: bytes = NO_TX,
) -> DeltaVector:
    """``before`` gives the vector at a storage key before the first operation; None for none.

    The result has this dimension, or that of the largest vector among the operations.
    """
    return DeltaVector(change_of(operations, before, dimension), tuple(sorted(set(map(affected_key, operations)))), tx)


def change_of(
    operations: Sequence[Operation], before: Callable[[bytes], Embedding | None], dimension: int
) -> Embedding:
    """The same, without whose keys it touches: the vector alone."""
    moved: dict[int, float] = {}
    held: dict[bytes, Embedding] = {}
    largest = dimension
    new_hasher, as_number = _DIRECTION.copy, int.from_bytes
    for operation in operations:
        if type(operation) is Put:  # by far the most, so before all others, and without a call of ``direction``
            hasher = new_hasher()
            hasher.update(operation.key)
            at = as_number(hasher.digest(), "little") % dimension
            moved[at] = moved.get(at, 0.0) + 1.0  # what is as large as its bound stays as it is
        elif isinstance(operation, Embed | VectorAdd | Average):
            key = storage_key(operation)
            stood = held[key] if key in held else before(key) or Embedding.zero(dimension)
            move = _move(operation, stood)
            held[key] = combine(stood, move)
            largest = max(largest, move.dimension)
            for at, value in zip(move.positions, move.values, strict=True):
                moved[at] = _bounded(moved.get(at, 0.0) + value)
        else:
            at = direction(storage_key(operation), dimension)
            moved[at] = _bounded(moved.get(at, 0.0) + _size(operation))
    return sparsified(_shortened(Embedding.of(largest, moved)))


def _bounded(value: float) -> float:
    return value if -_VALUE_MAX <= value <= _VALUE_MAX else max(-_VALUE_MAX, min(_VALUE_MAX, value))


def direction(key: bytes, dimension: int) -> int:
    """The position that stands for a storage key."""
    hasher = _DIRECTION.copy()
    hasher.update(key)
    return int.from_bytes(hasher.digest(), "little") % dimension


def _move(operation: Embed | VectorAdd | Average, stood: Embedding) -> Embedding:
    match operation:
        case Embed(vector=vector):
            return combine(vector, stood, 1.0, -1.0)
        case VectorAdd(vector=vector):
            return vector
        case Average(vector=vector):
            return combine(vector, stood, 0.5, -0.5)
        case _:
            assert_never(operation)


def _size(operation: Operation) -> float:
    """Of one that moves no vector and is no put."""
    match operation:
        case CounterAdd(amount=amount):
            return float(max(-AMOUNT_MAX, min(AMOUNT_MAX, amount)))
        case Delete() | NodeDelete() | TableDelete():
            return -1.0
        case _:
            return 1.0


def _shortened(vector: Embedding) -> Embedding:
    length = vector.norm
    if length <= LENGTH_MAX:
        return vector
    factor = LENGTH_MAX / length
    return vector.mapped(lambda value: value * factor)
