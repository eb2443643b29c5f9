import pytest

from bobbin.cluster.chain.holdings import Held, Holds, parts_of, result_of, vector_of
from bobbin.cluster.geometry import Embedding
from bobbin.cluster.operations import (
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
)

_OLD = Held(Holds.BYTES, b"old")
_VECTOR = Embedding(4, (0, 2), (1.0, -4.0))


def _done(operation: Operation, present: Held | None = None) -> Held:
    result = result_of(operation, present)
    assert isinstance(result, Held)
    return result


def test_put_sets_whatever_was_there() -> None:
    for present in (None, _OLD, Held(Holds.NUMBER, b"5")):
        assert _done(Put(b"k", b"new"), present) == Held(Holds.BYTES, b"new")


def test_deletes_leave_nothing_whether_or_not_something_was_there() -> None:
    for operation in (Delete(b"k"), NodeDelete(b"k"), TableDelete(b"t", b"r")):
        assert result_of(operation, None) is None
        assert result_of(operation, _OLD) is None


def test_an_update_of_nothing_is_refused() -> None:
    assert _done(Update(b"k", b"new"), _OLD) == Held(Holds.BYTES, b"new")
    assert isinstance(result_of(Update(b"k", b"new"), None), str)
    assert isinstance(result_of(TableUpdate(b"t", b"r", (b"1",)), None), str)
    assert parts_of(_done(TableUpdate(b"t", b"r", (b"1", b"")), Held(Holds.ROW, b"")).value) == [b"1", b""]


def test_a_swap_needs_the_expected_value_and_a_missing_key_compares_as_empty() -> None:
    assert _done(CompareAndSwap(b"k", b"old", b"new"), _OLD).value == b"new"
    assert isinstance(result_of(CompareAndSwap(b"k", b"other", b"new"), _OLD), str)
    assert isinstance(result_of(CompareAndSwap(b"k", b"", b"new"), _OLD), str)
    assert _done(CompareAndSwap(b"k", b"", b"new"), None).value == b"new"
    assert _done(CompareAndSwap(b"k", b"", b"new"), Held(Holds.BYTES, b"")).value == b"new"
    assert isinstance(result_of(CompareAndSwap(b"k", b"old", b"new"), None), str)


def test_a_counter_counts_from_zero() -> None:
    five = _done(CounterAdd(b"k", 5))
    assert five == Held(Holds.NUMBER, b"5")
    assert _done(CounterAdd(b"k", -7), five) == Held(Holds.NUMBER, b"-2")
    assert isinstance(result_of(CounterAdd(b"k", 1), _OLD), str)
    largest = _done(CounterAdd(b"k", 2**63 - 1))
    assert isinstance(result_of(CounterAdd(b"k", 1), largest), str)
    assert _done(CounterAdd(b"k", -1), largest).value == b"%d" % (2**63 - 2)


def test_a_set_has_each_member_once_in_order() -> None:
    one = _done(SetAdd(b"k", b"b"))
    two = _done(SetAdd(b"k", b"a"), one)
    assert two == _done(SetAdd(b"k", b"b"), _done(SetAdd(b"k", b"a")))
    assert _done(SetAdd(b"k", b"a"), two) == two
    assert parts_of(two.value) == [b"a", b"b"]
    assert isinstance(result_of(SetAdd(b"k", b"a"), _OLD), str)
    full = _done(SetAdd(b"k", bytes(1_048_572)))
    assert isinstance(result_of(SetAdd(b"k", b"more"), full), str)


def test_vectors_are_set_added_and_averaged() -> None:
    stood = _done(Embed(b"k", _VECTOR))
    assert (stood.holds, vector_of(stood.value)) == (Holds.VECTOR, _VECTOR)
    added = _done(VectorAdd(b"k", Embedding(4, (1, 2), (3.0, 4.0))), stood)
    assert vector_of(added.value) == Embedding(4, (0, 1), (1.0, 3.0))
    half = _done(Average(b"k", Embedding(4, (0,), (3.0,))), stood)
    assert vector_of(half.value) == Embedding(4, (0, 2), (2.0, -2.0))
    assert vector_of(_done(VectorAdd(b"k", _VECTOR)).value) == _VECTOR
    assert vector_of(_done(Average(b"k", _VECTOR)).value) == Embedding(4, (0, 2), (0.5, -2.0))


@pytest.mark.parametrize("make", [VectorAdd, Average])
def test_a_vector_of_another_dimension_is_refused(make: type[VectorAdd] | type[Average]) -> None:
    stood = Held(Holds.VECTOR, encode_embedding(_VECTOR))
    assert isinstance(result_of(make(b"k", Embedding(5, (0,), (1.0,))), stood), str)


def test_a_vector_does_not_grow_without_end() -> None:
    long = Embedding(4, (0,), (999_999.0,))
    assert isinstance(result_of(VectorAdd(b"k", long), _done(Embed(b"k", long))), str)


def test_graphs_and_rows() -> None:
    assert _done(NodeCreate(b"k", "Stadt")) == Held(Holds.NODE, b"Stadt")
    assert _done(EdgeCreate(b"a", b"b", "t")) == Held(Holds.EDGE, b"")
    row = _done(TableInsert(b"t", (b"", b"x")))
    assert (row.holds, parts_of(row.value)) == (Holds.ROW, [b"", b"x"])
    assert parts_of(b"") == []
