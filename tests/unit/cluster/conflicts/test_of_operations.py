from collections.abc import Callable

import pytest

from bobbin.cluster.conflicts.delta import DeltaVector
from bobbin.cluster.conflicts.of_operations import AMOUNT_MAX, LENGTH_MAX, delta_of, direction
from bobbin.cluster.geometry import Embedding, cosine
from bobbin.cluster.operations import (
    Average,
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
    VectorAdd,
    storage_key,
    vector_key,
)

_STOOD = Embedding.dense((1.0, 1.0, 0.0, 0.0))
_VECTOR = Embedding.dense((3.0, 0.0, 0.0, 2.0))
_DIRECTIONS = [49, 58, 120, 51, 15]
_BITS = ["0x1.5c00000000000p+5", "0x1.1666666666666p+3", "-0x1.44ccccccccccap+4"]


def _before(**vectors: Embedding) -> Callable[[bytes], Embedding | None]:
    return {vector_key(name.encode()): vector for name, vector in vectors.items()}.get


def _delta(*operations: Operation, dimension: int = 4, **vectors: Embedding) -> DeltaVector:
    return delta_of(operations, _before(**vectors), dimension, tx=b"t")


def test_nothing_moves_nothing() -> None:
    assert _delta() == DeltaVector(Embedding.zero(4), (), b"t")


def test_giving_a_vector_moves_it_from_where_it_stood() -> None:
    assert _delta(Embed(b"a", _VECTOR), a=_STOOD).delta == Embedding.dense((2.0, -1.0, 0.0, 2.0))
    assert _delta(Embed(b"a", _VECTOR)).delta == _VECTOR
    assert _delta(Embed(b"a", _STOOD), a=_STOOD).is_zero


def test_adding_to_a_vector_moves_it_by_what_is_added() -> None:
    assert _delta(VectorAdd(b"a", _VECTOR), a=_STOOD).delta == _VECTOR


def test_an_averaged_register_moves_half_of_the_way() -> None:
    assert _delta(Average(b"a", _VECTOR), a=_STOOD).delta == Embedding.dense((1.0, -0.5, 0.0, 1.0))


def test_operations_on_one_key_follow_one_another() -> None:
    moved = _delta(Embed(b"a", _VECTOR), VectorAdd(b"a", _STOOD), Embed(b"a", _STOOD), a=_STOOD)
    assert moved.is_zero
    twice = _delta(Average(b"a", _VECTOR), Average(b"a", _VECTOR), a=_STOOD)
    assert twice.delta == Embedding.dense((1.5, -0.75, 0.0, 1.5))


@pytest.mark.parametrize(
    ("operation", "size"),
    [
        (Put(b"a", b"1"), 1.0),
        (SetAdd(b"a", b"m"), 1.0),
        (NodeCreate(b"a", "person"), 1.0),
        (EdgeCreate(b"a", b"b", "knows"), 1.0),
        (TableInsert(b"a", (b"v",)), 1.0),
        (Delete(b"a"), -1.0),
        (NodeDelete(b"a"), -1.0),
        (TableDelete(b"a", b"r"), -1.0),
        (CounterAdd(b"a", 7), 7.0),
        (CounterAdd(b"a", -7), -7.0),
    ],
)
def test_any_other_operation_is_a_unit_along_its_key(operation: Operation, size: float) -> None:
    found = _delta(operation, dimension=128)
    place = direction(storage_key(operation), 128)
    assert found.delta == Embedding(128, (place,), (size,))
    assert found.keys == (b"a",)


def test_the_amount_of_a_counter_has_a_bound_in_its_vector() -> None:
    found = _delta(CounterAdd(b"a", 10 * AMOUNT_MAX))
    assert found.delta.norm == LENGTH_MAX
    assert _delta(CounterAdd(b"a", -(10**12)), CounterAdd(b"a", AMOUNT_MAX)).is_zero
    assert _delta(CounterAdd(b"a", 0)).is_zero


def test_directions_are_the_same_for_ever() -> None:
    assert [direction(key, 128) for key in (b"", b"a", b"k1", b"emb:x", bytes(range(256)))] == _DIRECTIONS
    assert len({direction(b"%d" % number, 65_536) for number in range(300)}) > 290


def test_a_change_that_is_too_long_is_shortened_and_keeps_its_direction() -> None:
    large = Embedding.dense((8e5, -6e5))
    found = _delta(VectorAdd(b"a", large), VectorAdd(b"b", large), dimension=2).delta
    assert found.norm <= 1_000_000.0
    assert found.norm == pytest.approx(LENGTH_MAX)
    assert cosine(found, large) == pytest.approx(1.0)


def test_values_that_no_double_holds_still_make_a_finite_change() -> None:
    huge = Embedding.dense((1.7e308, 1.0))
    found = _delta(VectorAdd(b"a", huge), VectorAdd(b"a", huge), dimension=2).delta
    assert found.norm == pytest.approx(LENGTH_MAX)


def test_a_larger_vector_makes_the_change_larger() -> None:
    assert _delta(Put(b"p", b""), Embed(b"a", Embedding.dense((0.0,) * 8 + (1.0,)))).delta.dimension == 9


def test_what_is_too_small_to_matter_is_dropped() -> None:
    assert _delta(VectorAdd(b"a", Embedding.dense((1.0, 1e-7)))).delta == Embedding(4, (0,), (1.0,))


def test_keys_are_the_affected_ones() -> None:
    found = _delta(EdgeCreate(b"from", b"to", "t"), TableInsert(b"table", ()), Put(b"key", b""), Delete(b"key"))
    assert found.keys == (b"from", b"key", b"table")


def test_the_result_is_the_same_to_the_bit() -> None:
    operations = [VectorAdd(b"%d" % number, Embedding.dense((0.1 * number, 0.3, -0.7))) for number in range(1, 30)]
    found = delta_of(operations, lambda _: None, 3)
    assert [value.hex() for value in found.delta.values] == _BITS
