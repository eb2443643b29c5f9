"""What a transaction does to the store of a shard, operation by operation.

Each operation has one *affected key*, by which it is locked, compared and sent to a shard, and one *storage key*, under
which its effect stands. Both are worked out here and nowhere else: whoever locked one key and wrote another would undo
what somebody else has done.

===========================================  ============  ======================================
operation                                    affected key  storage key
===========================================  ============  ======================================
Put, Delete, Update, CompareAndSwap,
CounterAdd, SetAdd                           the key       the key
Embed, VectorAdd, Average                    the key       ``emb:`` and the key
NodeCreate, NodeDelete                       the key       ``node:`` and the key
EdgeCreate                                   its source    ``edge:source:target:kind``
TableInsert, TableUpdate, TableDelete        the table     ``table:table:row``
===========================================  ============  ======================================

Two different things never share a storage key: keys of the first line must not begin like the others, and where a colon
within a source, a target or a table would be taken for one between them it is written ``%3A``, and ``%`` is ``%25``.
"""

from hashlib import sha256
from math import isfinite
from struct import Struct as Layout
from struct import pack
from typing import Final, TypeAlias, assert_never, get_args, get_type_hints

from msgspec import Struct

from bobbin.cluster.geometry import Embedding

KEY_BYTES_MAX: Final = 4_096
VALUE_BYTES_MAX: Final = 1_048_576
OPERATIONS_MAX: Final = 1_000
"""In one transaction, and in one block."""


class Put(Struct, frozen=True, array_like=True, forbid_unknown_fields=True, gc=False, tag=1):
    """Set a key, whatever it held."""

    key: bytes
    data: bytes


class Delete(Struct, frozen=True, array_like=True, forbid_unknown_fields=True, gc=False, tag=2):
    """Take a key away; one that is not there is away already."""

    key: bytes


class Update(Struct, frozen=True, array_like=True, forbid_unknown_fields=True, gc=False, tag=3):
    """Set a key that is there. One that is not there is a recorded refusal."""

    key: bytes
    data: bytes


class CompareAndSwap(Struct, frozen=True, array_like=True, forbid_unknown_fields=True, gc=False, tag=4):
    """Set a key if it holds what is expected; a missing key compares as empty bytes. Else a recorded refusal."""

    key: bytes
    expected: bytes
    data: bytes


class Embed(Struct, frozen=True, array_like=True, forbid_unknown_fields=True, gc=False, tag=5):
    """Give a key a vector."""

    key: bytes
    vector: Embedding


class NodeCreate(Struct, frozen=True, array_like=True, forbid_unknown_fields=True, gc=False, tag=6):
    """A node of a graph."""

    key: bytes
    label: str


class NodeDelete(Struct, frozen=True, array_like=True, forbid_unknown_fields=True, gc=False, tag=7):
    """Take a node away; its edges stand on their own."""

    key: bytes


class EdgeCreate(Struct, frozen=True, array_like=True, forbid_unknown_fields=True, gc=False, tag=8):
    """An edge between two nodes; it belongs to the one where it begins."""

    source: bytes
    target: bytes
    kind: str


class TableInsert(Struct, frozen=True, array_like=True, forbid_unknown_fields=True, gc=False, tag=9):
    """A row, stored under the hash of this operation."""

    table: bytes
    values: tuple[bytes, ...]


class TableUpdate(Struct, frozen=True, array_like=True, forbid_unknown_fields=True, gc=False, tag=10):
    """Set a row that is there. One that is not there is a recorded refusal."""

    table: bytes
    row: bytes
    values: tuple[bytes, ...]


class TableDelete(Struct, frozen=True, array_like=True, forbid_unknown_fields=True, gc=False, tag=11):
    """Take a row away; one that is not there is away already."""

    table: bytes
    row: bytes


class CounterAdd(Struct, frozen=True, array_like=True, forbid_unknown_fields=True, gc=False, tag=12):
    """Add to a whole number; an absent one is 0. Declared commutative."""

    key: bytes
    amount: int


class SetAdd(Struct, frozen=True, array_like=True, forbid_unknown_fields=True, gc=False, tag=13):
    """Put a member into a set. Declared commutative."""

    key: bytes
    member: bytes


class VectorAdd(Struct, frozen=True, array_like=True, forbid_unknown_fields=True, gc=False, tag=14):
    """Add to the vector of a key; an absent one is zero. Declared commutative."""

    key: bytes
    vector: Embedding


class Average(Struct, frozen=True, array_like=True, forbid_unknown_fields=True, gc=False, tag=15):
    """Move an averaged register half of the way to a vector. The one place where an average is meant."""

    key: bytes
    vector: Embedding


Operation: TypeAlias = (
    Put
    | Delete
    | Update
    | CompareAndSwap
    | Embed
    | NodeCreate
    | NodeDelete
    | EdgeCreate
    | TableInsert
    | TableUpdate
    | TableDelete
    | CounterAdd
    | SetAdd
    | VectorAdd
    | Average
)
COMMUTATIVE: Final = (CounterAdd, SetAdd, VectorAdd)
"""Operations whose order does not matter among operations of the same kind on the same key."""


class ReadVersion(Struct, frozen=True, array_like=True, forbid_unknown_fields=True, gc=False):
    """A key that a transaction has read, and what it saw."""

    key: bytes
    """A storage key."""
    version: int
    """The height of the block that wrote it; 0 for a key that was not there."""


class Transaction(Struct, frozen=True, array_like=True, forbid_unknown_fields=True, gc=False):
    """What somebody wants to be done on one shard, all or nothing."""

    id: bytes
    """16 bytes, the same on all shards of one transaction: see ``transactions.names``."""
    operations: tuple[Operation, ...]
    reads: tuple[ReadVersion, ...] = ()
    """By key, ascending. Versions decide: whatever was written since refuses the transaction."""
    since: int = 0
    """The height of the shard when the transaction began there."""
    born_ms: int = 0
    """When its owner first tried, by the owner's clock; kept over retries. For choosing victims alone."""
    priority: int = 0
    """Low is important."""


RESERVED: Final = (b"emb:", b"node:", b"edge:", b"table:")
"""How storage keys of operations begin that are more than a key and its value."""
STORAGE_KEY_BYTES_MAX: Final = 40_000
"""Three keys with every byte written as three, and what stands between them, are shorter."""
VECTOR_DIMENSION_MAX: Final = 65_536
VECTOR_LENGTH_MAX: Final = 1_000_000.0
AMOUNT_MAX: Final = 2**63 - 1
TABLE_VALUES_MAX: Final = 1_000
"""Of one row."""
READS_MAX: Final = 10_000
"""Of one transaction."""
HEIGHT_MAX: Final = 2**63 - 1
TRANSACTION_ID_BYTES: Final = 16

_OPERATION_TAG: Final = b"bobbin-chain-operation/v1"
LENGTH: Final = Layout(">I")
"""Of whatever is not of a fixed one."""
_AMOUNT: Final = Layout(">q")
_FIRST: Final = {kind: bytes((tag,)) for tag, kind in enumerate(get_args(Operation), start=1)}
"""The tag of each operation, as above."""
_TYPES: Final = {kind: get_type_hints(kind) for kind in _FIRST}
"""What the fields of each are."""
_WORDS: Final = {bytes: "bytes", str: "a str", int: "a whole number (int)"}
_PUT: Final = _FIRST[Put]
TAGGED_PUT: Final = _OPERATION_TAG + _PUT
"""What stands before the key of a put when it is hashed; between key and data stands nothing but their lengths."""
_AROUND_PUT: Final = 100
"""Heads of nine arrays and byte strings and five numbers, each of them of at most nine bytes, come to less."""


# ---- bytes ---------------------------------------------------------------------------------------------------------


def encode_operation(operation: Operation) -> bytes:
    """The one way to write a valid operation down: its tag, then each field with its length or number of parts."""
    if type(operation) is Put:  # by far the most, so before all others; the same in what follows
        key, data = operation.key, operation.data
        return b"".join((_PUT, LENGTH.pack(len(key)), key, LENGTH.pack(len(data)), data))
    first = _FIRST[type(operation)]
    match operation:
        case Put(key=key, data=data) | Update(key=key, data=data) | SetAdd(key=key, member=data):
            return first + sized(key) + sized(data)
        case Delete(key=key) | NodeDelete(key=key):
            return first + sized(key)
        case CompareAndSwap(key=key, expected=expected, data=data):
            return first + sized(key) + sized(expected) + sized(data)
        case CounterAdd(key=key, amount=amount):
            return first + sized(key) + _AMOUNT.pack(amount)
        case Embed() | VectorAdd() | Average():
            return first + sized(operation.key) + encode_embedding(operation.vector)
        case NodeCreate(key=key, label=label):
            return first + sized(key) + sized(label.encode())
        case EdgeCreate(source=source, target=target, kind=kind):
            return first + sized(source) + sized(target) + sized(kind.encode())
        case TableInsert(table=table, values=values):
            return first + sized(table) + _all_sized(values)
        case TableUpdate(table=table, row=row, values=values):
            return first + sized(table) + sized(row) + _all_sized(values)
        case TableDelete(table=table, row=row):
            return first + sized(table) + sized(row)
        case _:
            assert_never(operation)


def encode_embedding(vector: Embedding) -> bytes:
    """Dimension and number of values, then all positions, then all values as doubles; most significant bytes first."""
    size = len(vector.positions)
    return pack(f">II{size}I{size}d", vector.dimension, size, *vector.positions, *vector.values)


def operation_digest(operation: Operation) -> bytes:
    """SHA-256 under a tag of its own. A leaf of a block's transaction root, and the id of a row that is inserted."""
    if type(operation) is Put:
        key, data = operation.key, operation.data
        return sha256(b"".join((TAGGED_PUT, LENGTH.pack(len(key)), key, LENGTH.pack(len(data)), data))).digest()
    return sha256(_OPERATION_TAG + encode_operation(operation)).digest()


def sized(part: bytes) -> bytes:
    """Bytes with their length before them."""
    return LENGTH.pack(len(part)) + part


def _all_sized(parts: tuple[bytes, ...]) -> bytes:
    return LENGTH.pack(len(parts)) + b"".join(map(sized, parts))


def bytes_of_put(transaction: Transaction) -> int | None:
    """At most so many bytes does a transaction of one put take in a message; None for one that is not so plain.

    Its numbers are such as a message can have.
    """
    operations = transaction.operations
    if len(operations) == 1 and not transaction.reads:
        operation = operations[0]
        if type(operation) is Put:
            return len(transaction.id) + len(operation.key) + len(operation.data) + _AROUND_PUT
    return None


# ---- keys ----------------------------------------------------------------------------------------------------------


def affected_key(operation: Operation) -> bytes:
    """By which an operation is locked, compared with others and sent to a shard."""
    if type(operation) is Put:
        return operation.key
    match operation:
        case EdgeCreate(source=source):
            return source
        case TableInsert(table=table) | TableUpdate(table=table) | TableDelete(table=table):
            return table
        case _:
            return operation.key


def storage_key(operation: Operation) -> bytes:
    """Where the effect of an operation stands. Each operation has one such place and changes no other."""
    if type(operation) is Put:
        return operation.key
    match operation:
        case Put() | Delete() | Update() | CompareAndSwap() | CounterAdd() | SetAdd():
            return operation.key
        case Embed() | VectorAdd() | Average():
            return vector_key(operation.key)
        case NodeCreate() | NodeDelete():
            return node_key(operation.key)
        case EdgeCreate(source=source, target=target, kind=kind):
            return edge_key(source, target, kind)
        case TableInsert(table=table):
            return row_key(table, operation_digest(operation))
        case TableUpdate(table=table, row=row) | TableDelete(table=table, row=row):
            return row_key(table, row)
        case _:
            assert_never(operation)


def vector_key(key: bytes) -> bytes:
    """Where the vector of a key stands."""
    return b"emb:" + key


def node_key(key: bytes) -> bytes:
    """Where a node stands."""
    return b"node:" + key


def edge_key(source: bytes, target: bytes, kind: str) -> bytes:
    """Where an edge stands."""
    return b"edge:" + _escaped(source) + b":" + _escaped(target) + b":" + kind.encode()


def row_key(table: bytes, row: bytes) -> bytes:
    """Where a row stands."""
    return b"table:" + _escaped(table) + b":" + row


def _escaped(part: bytes) -> bytes:
    return part.replace(b"%", b"%25").replace(b":", b"%3A")


def lock_names(transaction: Transaction) -> tuple[bytes, ...]:
    """All that a transaction locks, ascending: affected and storage keys of its operations, and what it has read."""
    names = {read.key for read in transaction.reads}
    for operation in transaction.operations:
        names.add(affected_key(operation))
        names.add(storage_key(operation))
    return tuple(sorted(names))


def commutative_tag(operation: Operation) -> int:
    """The tag of an operation that is declared commutative; 0 for any other."""
    if type(operation) is Put:
        return 0
    match operation:
        case CounterAdd():
            return 12
        case SetAdd():
            return 13
        case VectorAdd():
            return 14
        case _:
            return 0


# ---- what is valid, whatever the state ------------------------------------------------------------------------------


def why_invalid(transaction: Transaction, *, dimension: int | None = None) -> str | None:
    """What is wrong with a transaction whatever the state is; ask before anything is done with it.

    ``dimension``: what all vectors must have, where it is known.
    """
    operations = transaction.operations
    if len(transaction.id) != TRANSACTION_ID_BYTES:
        return f"the id of a transaction has {TRANSACTION_ID_BYTES} bytes, not {len(transaction.id)}"
    if len(operations) > OPERATIONS_MAX:
        return f"a transaction has at most {OPERATIONS_MAX} operations, not {len(operations)}"
    if not (0 <= transaction.since <= HEIGHT_MAX and 0 <= transaction.born_ms <= HEIGHT_MAX):
        return "the beginning of a transaction is a number from 0 to 2^63 - 1"
    if not -AMOUNT_MAX <= transaction.priority <= AMOUNT_MAX:
        return "the priority of a transaction has 64 bits"
    wrong = _why_reads_invalid(transaction.reads) if transaction.reads else None
    if wrong is not None:
        return wrong
    for operation in operations:
        if type(operation) is Put:  # by far the most
            wrong = _why_value_invalid(operation.key, operation.data)
        else:
            wrong = why_operation_invalid(operation, dimension=dimension)
        if wrong is not None:
            return wrong
    return None


def _why_reads_invalid(reads: tuple[ReadVersion, ...]) -> str | None:
    if len(reads) > READS_MAX:
        return f"a transaction has at most {READS_MAX} reads, not {len(reads)}"
    last = b""
    for read in reads:
        if not last < read.key:
            return "the reads of a transaction ascend by key, each key once"
        if len(read.key) > STORAGE_KEY_BYTES_MAX:
            return f"a storage key has at most {STORAGE_KEY_BYTES_MAX} bytes, not {len(read.key)}"
        if not 0 <= read.version <= HEIGHT_MAX:
            return "the version of a read is a number from 0 to 2^63 - 1"
        last = read.key
    return None


def why_operation_invalid(operation: Operation, *, dimension: int | None = None) -> str | None:
    """What is wrong with an operation whatever the state is."""
    key = affected_key(operation)
    wrong = _why_key_invalid(key)
    if wrong is not None:
        return wrong
    match operation:
        case Put(data=data) | Update(data=data) | SetAdd(member=data):
            return _why_value_invalid(key, data)
        case CompareAndSwap(expected=expected, data=data):
            return _why_key_reserved(key) or _why_too_long(expected) or _why_too_long(data)
        case Delete():
            return _why_key_reserved(key)
        case CounterAdd(amount=amount):
            return _why_key_reserved(key) or _why_amount_invalid(amount)
        case Embed(vector=vector) | VectorAdd(vector=vector) | Average(vector=vector):
            return why_vector_invalid(vector, dimension=dimension)
        case NodeCreate(label=label):
            return _why_name_invalid(label)
        case EdgeCreate(target=target, kind=kind):
            return _why_key_invalid(target) or _why_name_invalid(kind)
        case TableInsert(values=values):
            return _why_values_invalid(values)
        case TableUpdate(row=row, values=values):
            return _why_row_invalid(row) or _why_values_invalid(values)
        case TableDelete(row=row):
            return _why_row_invalid(row)
        case NodeDelete():
            return None
        case _:
            assert_never(operation)


def why_mistyped(operation: Operation) -> str | None:
    """Which field of an operation has a type that no message can have. For what a program made without a type checker.

    What came as bytes has the right types already.
    """
    if type(operation) not in _FIRST:
        return f"an operation is one of those in {__name__}, not {_type_of(operation)}"
    kind = type(operation).__name__
    for name, wanted in _TYPES[type(operation)].items():
        value = getattr(operation, name)
        if wanted is Embedding:
            wrong = why_vector_mistyped(value)
            if wrong is not None:
                return f"the {name} of {kind}: {wrong}"
        elif wanted in (bytes, str, int):
            if type(value) is not wanted:
                return f"the {name} of {kind} is {_WORDS[wanted]}, not {_type_of(value)}"
        elif type(value) is not tuple or any(type(one) is not bytes for one in value):
            return f"the {name} of {kind} are a tuple of bytes"
    return None


def why_vector_mistyped(vector: object) -> str | None:
    """The same of a vector."""
    if not isinstance(vector, Embedding):
        return f"a vector is an Embedding, not {_type_of(vector)}"
    parts = (vector.positions, vector.values)
    if type(vector.dimension) is not int or any(type(part) is not tuple for part in parts):
        return "a vector has a whole number of dimensions, a tuple of positions and a tuple of values"
    if any(type(position) is not int for position in vector.positions):
        return "the positions of a vector are whole numbers"
    if any(type(value) not in (float, int) for value in vector.values):
        return "the values of a vector are floats"
    return None


def _type_of(value: object) -> str:
    return type(value).__name__


def _why_value_invalid(key: bytes, data: bytes) -> str | None:
    """Of a value that is to stand at a plain key. Most are right, and that is found without another call."""
    if 0 < len(key) <= KEY_BYTES_MAX and len(data) <= VALUE_BYTES_MAX and not key.startswith(RESERVED):
        return None
    return _why_key_invalid(key) or _why_key_reserved(key) or _why_too_long(data)


def why_vector_invalid(vector: Embedding, *, dimension: int | None = None) -> str | None:
    """What is wrong with a vector that came from somebody."""
    if not 0 < vector.dimension <= VECTOR_DIMENSION_MAX:
        return f"a vector has 1 to {VECTOR_DIMENSION_MAX} dimensions, not {vector.dimension}"
    if dimension is not None and vector.dimension != dimension:
        return f"a vector of {vector.dimension} dimensions, where {dimension} are due"
    if len(vector.positions) != len(vector.values):
        return "a vector has as many positions as values"
    last = -1
    for position in vector.positions:
        if not last < position < vector.dimension:
            return "the positions of a vector ascend and lie below its dimension"
        last = position
    for value in vector.values:
        if not isfinite(value):
            return "a value of a vector is not finite"
    if vector.norm > VECTOR_LENGTH_MAX:
        return f"a vector is longer than {VECTOR_LENGTH_MAX:,.0f}"
    return None


def _why_key_invalid(key: bytes) -> str | None:
    return None if 0 < len(key) <= KEY_BYTES_MAX else f"a key has 1 to {KEY_BYTES_MAX} bytes, not {len(key)}"


def _why_amount_invalid(amount: int) -> str | None:
    return None if -AMOUNT_MAX <= amount <= AMOUNT_MAX else "an amount has 64 bits"


def _why_key_reserved(key: bytes) -> str | None:
    if key.startswith(RESERVED):
        return f"a plain key must not begin with {key.split(b':', 1)[0].decode()}:, where other operations store"
    return None


def _why_too_long(data: bytes) -> str | None:
    if len(data) > VALUE_BYTES_MAX:
        return f"a value has at most {VALUE_BYTES_MAX} bytes, not {len(data)}"
    return None


def _why_row_invalid(row: bytes) -> str | None:
    if not 0 < len(row) <= KEY_BYTES_MAX:
        return f"a row has an id of 1 to {KEY_BYTES_MAX} bytes, not {len(row)}"
    return None


def _why_name_invalid(name: str) -> str | None:
    try:
        size = len(name.encode())
    except UnicodeEncodeError:
        return "a label or kind is not a text that can be written down"
    return None if size <= KEY_BYTES_MAX else f"a label or kind has at most {KEY_BYTES_MAX} bytes, not {size}"


def _why_values_invalid(values: tuple[bytes, ...]) -> str | None:
    if len(values) > TABLE_VALUES_MAX:
        return f"a row has at most {TABLE_VALUES_MAX} values, not {len(values)}"
    size = sum(map(len, values))
    return None if size <= VALUE_BYTES_MAX else f"a row has at most {VALUE_BYTES_MAX} bytes, not {size}"
