"""What a key holds, and what each operation makes of it.

An operation either leads to what the key holds from then on, or is refused by what it meets: a swap that finds another
value, an update of nothing, an addition to something that is no number. A refusal changes nothing and is recorded; the
other operations of the transaction are done all the same. Nothing here raises, and nothing depends on anything but the
operation and what the key held: every node comes to the same result.
"""

from enum import IntEnum
from struct import Struct as Layout
from struct import unpack_from
from typing import Final, assert_never

from msgspec import Struct

from bobbin.cluster.geometry import Embedding, combine
from bobbin.cluster.operations import (
    AMOUNT_MAX,
    VALUE_BYTES_MAX,
    VECTOR_LENGTH_MAX,
    Average,
    CompareAndSwap,
    CounterAdd,
    Delete,
    EdgeCreate,
    Embed,
    NodeCreate,
    NodeDelete,
    Operation,
    Put,
    SetAdd,
    TableDelete,
    TableInsert,
    TableUpdate,
    Update,
    VectorAdd,
    encode_embedding,
    sized,
)

_LENGTH: Final = Layout(">I")


class Holds(IntEnum):
    """What the bytes of a value mean."""

    NOTHING = 0
    """The key was taken away."""
    BYTES = 1
    VECTOR = 2
    NODE = 3
    EDGE = 4
    ROW = 5
    NUMBER = 6
    """In decimal digits."""
    SET = 7


class Held(Struct, frozen=True, array_like=True, forbid_unknown_fields=True, gc=False):
    """What a key holds."""

    holds: Holds
    value: bytes


def result_of(operation: Operation, present: Held | None) -> Held | str | None:
    """What the key holds afterwards, None for nothing; or a sentence that says why the operation was refused."""
    match operation:
        case Put(data=data):
            return Held(Holds.BYTES, data)
        case Delete() | NodeDelete() | TableDelete():
            return None
        case Update(data=data):
            return "there is nothing to update" if present is None else Held(Holds.BYTES, data)
        case CompareAndSwap(expected=expected, data=data):
            found = b"" if present is None else present.value
            return Held(Holds.BYTES, data) if found == expected else "the key holds another value than the one expected"
        case CounterAdd(amount=amount):
            return _counted(present, amount)
        case SetAdd(member=member):
            return _joined(present, member)
        case Embed(vector=vector):
            return Held(Holds.VECTOR, encode_embedding(vector))
        case VectorAdd(vector=vector):
            return _moved(present, vector, 1.0, 1.0)
        case Average(vector=vector):
            return _moved(present, vector, 0.5, 0.5)
        case NodeCreate(label=label):
            return Held(Holds.NODE, label.encode())
        case EdgeCreate():
            return Held(Holds.EDGE, b"")
        case TableInsert(values=values):
            return Held(Holds.ROW, b"".join(map(sized, values)))
        case TableUpdate(values=values):
            return (
                "there is no such row to update" if present is None else Held(Holds.ROW, b"".join(map(sized, values)))
            )
        case _:
            assert_never(operation)


def _counted(present: Held | None, amount: int) -> Held | str:
    if present is None:
        return Held(Holds.NUMBER, b"%d" % amount)
    if present.holds is not Holds.NUMBER:
        return "the key holds no number to add to"
    total = int(present.value) + amount
    if not -AMOUNT_MAX <= total <= AMOUNT_MAX:
        return "the number would have more than 64 bits"
    return Held(Holds.NUMBER, b"%d" % total)


def _joined(present: Held | None, member: bytes) -> Held | str:
    if present is not None and present.holds is not Holds.SET:
        return "the key holds no set to add to"
    members = [] if present is None else parts_of(present.value)
    value = b"".join(map(sized, sorted({*members, member})))
    return (
        Held(Holds.SET, value) if len(value) <= VALUE_BYTES_MAX else f"the set would have over {VALUE_BYTES_MAX} bytes"
    )


def _moved(present: Held | None, vector: Embedding, kept: float, taken: float) -> Held | str:
    stood = Embedding.zero(vector.dimension) if present is None else vector_of(present.value)
    if stood.dimension != vector.dimension:
        return f"the vector of the key has {stood.dimension} dimensions, not {vector.dimension}"
    moved = combine(stood, vector, kept, taken)
    if not moved.norm <= VECTOR_LENGTH_MAX:
        return f"the vector would be longer than {VECTOR_LENGTH_MAX:,.0f}"
    return Held(Holds.VECTOR, encode_embedding(moved))


# ---- values as they are read back ------------------------------------------------------------------------------------


def vector_of(value: bytes) -> Embedding:
    """The vector in a value that holds one."""
    dimension, size = unpack_from(">II", value)
    numbers = unpack_from(f">{size}I{size}d", value, 8)
    return Embedding(dimension, numbers[:size], numbers[size:])


def parts_of(value: bytes) -> list[bytes]:
    """The members of a set, ascending, or the values of a row."""
    parts = []
    at = 0
    while at < len(value):
        (size,) = _LENGTH.unpack_from(value, at)
        at += _LENGTH.size
        parts.append(value[at : at + size])
        at += size
    return parts
