import math
import re
from itertools import combinations
from typing import get_args

import msgspec
import pytest

from bobbin.cluster import operations
from bobbin.cluster.geometry import Embedding
from bobbin.cluster.operations import (
    COMMUTATIVE,
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
    ReadVersion,
    SetAdd,
    TableDelete,
    TableInsert,
    TableUpdate,
    Transaction,
    Update,
    VectorAdd,
    affected_key,
    commutative_tag,
    edge_key,
    encode_operation,
    lock_names,
    operation_digest,
    row_key,
    storage_key,
    why_invalid,
    why_mistyped,
    why_operation_invalid,
    why_vector_invalid,
)
from tests.vectors.load import load

_VECTOR = Embedding(4, (1, 3), (0.5, -2.0))
ALL: list[tuple[Operation, bytes, bytes]] = [
    (Put(b"k", b"v"), b"k", b"k"),
    (Delete(b"k"), b"k", b"k"),
    (Update(b"k", b"v"), b"k", b"k"),
    (CompareAndSwap(b"k", b"", b"v"), b"k", b"k"),
    (Embed(b"k", _VECTOR), b"k", b"emb:k"),
    (NodeCreate(b"k", "label"), b"k", b"node:k"),
    (NodeDelete(b"k"), b"k", b"node:k"),
    (EdgeCreate(b"a", b"b", "t"), b"a", b"edge:a:b:t"),
    (TableInsert(b"t", (b"1", b"2")), b"t", b"table:t:" + operation_digest(TableInsert(b"t", (b"1", b"2")))),
    (TableUpdate(b"t", b"row", (b"3",)), b"t", b"table:t:row"),
    (TableDelete(b"t", b"row"), b"t", b"table:t:row"),
    (CounterAdd(b"k", -5), b"k", b"k"),
    (SetAdd(b"k", b"m"), b"k", b"k"),
    (VectorAdd(b"k", _VECTOR), b"k", b"emb:k"),
    (Average(b"k", _VECTOR), b"k", b"emb:k"),
]


def test_every_kind_of_operation_is_in_the_table() -> None:
    assert [type(operation) for operation, _, _ in ALL] == list(get_args(Operation))


@pytest.mark.parametrize(("operation", "affected", "stored"), ALL, ids=lambda value: type(value).__name__)
def test_each_operation_has_one_affected_and_one_storage_key(
    operation: Operation, affected: bytes, stored: bytes
) -> None:
    assert affected_key(operation) == affected
    assert storage_key(operation) == stored
    assert lock_names(Transaction(bytes(16), (operation,))) == tuple(sorted({affected, stored}))
    assert why_operation_invalid(operation) is None


def test_keys_with_colons_are_not_taken_for_others() -> None:
    assert edge_key(b"a:b", b"c", "t") == b"edge:a%3Ab:c:t" != edge_key(b"a", b"b:c", "t")
    assert edge_key(b"a%3Ab", b"c", "t") != edge_key(b"a:b", b"c", "t")
    assert row_key(b"t:u", b"r") != row_key(b"t", b"u:r")


@pytest.mark.parametrize("key", [b"emb:k", b"node:k", b"edge:a:b:t", b"table:t:r"])
@pytest.mark.parametrize(
    "make",
    [
        lambda key: Put(key, b""),
        Delete,
        lambda key: Update(key, b""),
        lambda key: CompareAndSwap(key, b"", b""),
        lambda key: CounterAdd(key, 1),
        lambda key: SetAdd(key, b""),
    ],
)
def test_plain_keys_never_stand_where_others_store(key: bytes, make: object) -> None:
    assert "must not begin with" in (why_operation_invalid(make(key)) or "")  # type: ignore[operator]


def test_reads_are_locked_too() -> None:
    asked = Transaction(bytes(16), (Put(b"b", b""),), (ReadVersion(b"a", 1), ReadVersion(b"emb:c", 0)))
    assert lock_names(asked) == (b"a", b"b", b"emb:c")


def test_the_tags_in_the_bytes_are_those_of_the_messages() -> None:
    for operation, _, _ in ALL:
        assert (
            encode_operation(operation)[0] == type(operation).__struct_config__.tag == msgspec.to_builtins(operation)[0]
        )
    tags: dict[type[Operation], object] = {kind: kind.__struct_config__.tag for kind in COMMUTATIVE}
    for operation, _, _ in ALL:
        assert commutative_tag(operation) == tags.get(type(operation), 0)


def test_no_two_operations_share_bytes() -> None:
    more: list[Operation] = [
        Put(b"kv", b""),
        Put(b"", b"kv"),
        CompareAndSwap(b"k", b"v", b""),
        TableInsert(b"t", (b"12",)),
        TableInsert(b"t", (b"1", b"", b"2")),
        TableInsert(b"t", ()),
        EdgeCreate(b"ab", b"", "t"),
        EdgeCreate(b"a", b"bt", ""),
        CounterAdd(b"k", 5),
        Embed(b"k", Embedding(5, (1, 3), (0.5, -2.0))),
        Embed(b"k", Embedding(4, (1,), (0.5,))),
    ]
    every = [operation for operation, _, _ in ALL] + more
    for one, other in combinations(every, 2):
        assert encode_operation(one) != encode_operation(other)
        assert operation_digest(one) != operation_digest(other)


def _transaction(*given: Operation, **fields: object) -> Transaction:
    return Transaction(bytes(16), given, **fields)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("wrong", "reason"),
    [
        (Put(b"", b""), "1 to 4096 bytes"),
        (Put(bytes(4_097), b""), "1 to 4096 bytes"),
        (Put(b"k", bytes(1_048_577)), "at most 1048576 bytes"),
        (CompareAndSwap(b"k", bytes(1_048_577), b""), "at most 1048576 bytes"),
        (SetAdd(b"k", bytes(1_048_577)), "at most 1048576 bytes"),
        (EdgeCreate(b"a", bytes(4_097), "t"), "1 to 4096 bytes"),
        (EdgeCreate(b"a", b"b", "t" * 4_097), "at most 4096 bytes"),
        (NodeCreate(b"k", "\ud800"), "cannot be written down|can be written down"),
        (TableUpdate(b"t", b"", ()), "1 to 4096 bytes"),
        (TableDelete(b"t", bytes(4_097)), "1 to 4096 bytes"),
        (TableInsert(b"t", (b"",) * 1_001), "at most 1000 values"),
        (TableInsert(b"t", (bytes(1_000_000), bytes(100_000))), "at most 1048576 bytes"),
        (CounterAdd(b"k", 2**63), "64 bits"),
        (CounterAdd(b"k", -(2**63)), "64 bits"),
        (Embed(b"k", Embedding(4, (1,), (math.nan,))), "not finite"),
        (VectorAdd(b"k", Embedding(4, (1,), (math.inf,))), "not finite"),
        (Average(b"k", Embedding(4, (1, 1), (1.0, 1.0))), "ascend"),
        (Embed(b"k", Embedding(4, (4,), (1.0,))), "below its dimension"),
        (Embed(b"k", Embedding(4, (1,), ())), "as many positions"),
        (Embed(b"k", Embedding(0, (), ())), "1 to 65536 dimensions"),
        (Embed(b"k", Embedding(5, (1,), (1.0,))), "5 dimensions, where 4 are due"),
        (Embed(b"k", Embedding(4, (1,), (1_000_001.0,))), "longer than"),
    ],
)
def test_operations_that_make_no_sense_are_named(wrong: Operation, reason: str) -> None:
    found = why_invalid(_transaction(wrong), dimension=4)
    assert found is not None
    assert any(part in found for part in reason.split("|"))


@pytest.mark.parametrize("key_bytes", [0, 1, 4_096, 4_097])
@pytest.mark.parametrize("data_bytes", [0, 1_048_576, 1_048_577])
@pytest.mark.parametrize("beginning", [b"", b"emb:", b"node:", b"edge:", b"table:"])
def test_whoever_puts_a_value_at_a_plain_key_is_asked_the_same(
    key_bytes: int, data_bytes: int, beginning: bytes
) -> None:
    key, data = beginning.ljust(key_bytes, b"k")[:key_bytes], bytes(data_bytes)
    is_right = 0 < key_bytes <= 4_096 and data_bytes <= 1_048_576 and not (beginning and key.startswith(beginning))
    for operation in (Put(key, data), Update(key, data), SetAdd(key, data)):
        found = why_invalid(_transaction(operation))
        assert (found is None) == is_right
        assert why_operation_invalid(operation) == found


def test_transactions_that_make_no_sense_are_named() -> None:
    assert why_invalid(Transaction(b"short", ())) is not None
    assert why_invalid(_transaction(*[Put(b"k", b"")] * 1_001)) is not None
    assert why_invalid(_transaction(*[Put(b"k", b"")] * 1_000)) is None
    assert why_invalid(_transaction(since=-1)) is not None
    assert why_invalid(_transaction(born_ms=2**63)) is not None
    assert why_invalid(_transaction(priority=2**63)) is not None
    twice = (ReadVersion(b"a", 1), ReadVersion(b"a", 1))
    assert why_invalid(_transaction(reads=twice)) is not None
    assert why_invalid(_transaction(reads=(ReadVersion(b"b", 0), ReadVersion(b"a", 0)))) is not None
    assert why_invalid(_transaction(reads=(ReadVersion(b"a", -1),))) is not None
    assert why_invalid(_transaction(reads=(ReadVersion(bytes(40_001), 0),))) is not None
    many = tuple(ReadVersion(number.to_bytes(4, "big"), 0) for number in range(10_001))
    assert why_invalid(_transaction(reads=many)) is not None
    assert why_invalid(_transaction(reads=many[1:])) is None


def test_the_longest_storage_keys_can_be_read() -> None:
    longest = EdgeCreate(b":" * 4_096, b"%" * 4_096, "t" * 4_096)
    assert why_operation_invalid(longest) is None
    assert len(storage_key(longest)) <= operations.STORAGE_KEY_BYTES_MAX


def test_any_dimension_will_do_where_none_is_due() -> None:
    assert why_vector_invalid(Embedding(65_536, (65_535,), (1.0,))) is None
    assert why_vector_invalid(Embedding(65_537, (), ())) is not None


def test_the_bytes_are_the_ones_fixed_for_ever() -> None:
    vectors = load("cluster/chain.json")["operations"]
    for (operation, _, _), vector in zip(ALL, vectors, strict=True):
        assert encode_operation(operation).hex() == vector["bytes"], vector["kind"]
        assert operation_digest(operation).hex() == vector["digest"]


@pytest.mark.parametrize(
    ("operation", "wrong"),
    [
        (Put(b"k", "v"), "the data of Put is bytes, not str"),  # type: ignore[arg-type]
        (Delete(None), "the key of Delete is bytes, not NoneType"),  # type: ignore[arg-type]
        (CounterAdd(b"k", 1.5), r"the amount of CounterAdd is a whole number \(int\), not float"),  # type: ignore[arg-type]
        (CounterAdd(b"k", amount=True), "not bool"),
        (NodeCreate(b"k", b"label"), "the label of NodeCreate is a str, not bytes"),  # type: ignore[arg-type]
        (TableInsert(b"t", [b"v"]), "the values of TableInsert are a tuple of bytes"),  # type: ignore[arg-type]
        (TableInsert(b"t", (b"v", 1)), "the values of TableInsert are a tuple of bytes"),  # type: ignore[arg-type]
        (VectorAdd(b"k", [1.0]), "the vector of VectorAdd: a vector is an Embedding, not list"),  # type: ignore[arg-type]
        (Embed(b"k", Embedding(4, [0], [1.0])), "a tuple of positions"),  # type: ignore[arg-type]
        (Embed(b"k", Embedding(4, (0.0,), (1.0,))), "positions of a vector are whole"),  # type: ignore[arg-type]
        (Embed(b"k", Embedding(4, (0,), (True,))), "values of a vector are floats"),
        (b"put", "an operation is one of those in bobbin.cluster.operations, not bytes"),
    ],
)
def test_a_wrong_type_is_named(operation: Operation, wrong: str) -> None:
    found = why_mistyped(operation)
    assert found is not None
    assert re.search(wrong, found)


def test_right_types_are_right() -> None:
    vector = Embedding.of(4, {0: 1.0, 1: 2})
    right = (Put(b"k", b""), CounterAdd(b"k", 2), EdgeCreate(b"s", b"t", "kind"), TableUpdate(b"t", b"r", (b"v",)))
    assert [why_mistyped(operation) for operation in (*right, Average(b"k", vector))] == [None] * 5
