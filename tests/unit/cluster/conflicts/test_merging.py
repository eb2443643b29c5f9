"""Operations decide what vectors only suggest."""

import pytest

from bobbin.cluster.conflicts.classify import ConflictClass, ConflictResult, MergeAction, detect_conflict
from bobbin.cluster.conflicts.merging import action_of, commute, inverse, may_cancel, may_deduplicate
from bobbin.cluster.conflicts.of_operations import delta_of
from bobbin.cluster.geometry import Embedding
from bobbin.cluster.operations import (
    Average,
    CompareAndSwap,
    CounterAdd,
    Delete,
    Embed,
    Operation,
    Put,
    ReadVersion,
    SetAdd,
    TableInsert,
    Transaction,
    VectorAdd,
)

_VECTOR = Embedding.dense((1.0, -2.0, 0.0))


def _tx(id: bytes, *operations: Operation, reads: tuple[bytes, ...] = ()) -> Transaction:
    return Transaction(id, operations, tuple(ReadVersion(key, 1) for key in reads))


def _found(one: Transaction, other: Transaction) -> ConflictResult:
    here, there = (delta_of(each.operations, lambda _: None, 128, tx=each.id) for each in (one, other))
    return detect_conflict(here, there)


def _action(one: Transaction, other: Transaction) -> MergeAction:
    return action_of(one, other, _found(one, other))


def test_plus_one_and_plus_a_hundred_are_identical_and_both_are_done() -> None:
    one, other = _tx(b"1", CounterAdd(b"k", 1)), _tx(b"2", CounterAdd(b"k", 100))
    assert _found(one, other).conflict_class is ConflictClass.IDENTICAL
    assert not may_deduplicate(one, other)
    assert _action(one, other) is MergeAction.VECTOR_ADD


def test_two_clients_that_each_add_one_have_added_two() -> None:
    one, other = _tx(b"1", CounterAdd(b"k", 1)), _tx(b"2", CounterAdd(b"k", 1))
    assert not may_deduplicate(one, other)
    assert _action(one, other) is MergeAction.VECTOR_ADD


def test_the_same_write_is_done_once() -> None:
    one, other = _tx(b"1", Put(b"k", b"v")), _tx(b"2", Put(b"k", b"v"))
    assert may_deduplicate(one, other)
    assert _action(one, other) is MergeAction.DEDUPLICATE
    assert not may_deduplicate(one, _tx(b"2", Put(b"k", b"w")))
    assert _action(one, _tx(b"2", Put(b"k", b"w"))) is MergeAction.REJECT


def test_the_same_transaction_again_is_the_same_whatever_it_does() -> None:
    again = _tx(b"1", CounterAdd(b"k", 1), reads=(b"r",))
    assert may_deduplicate(again, again)
    assert not may_deduplicate(again, _tx(b"1", CounterAdd(b"k", 2), reads=(b"r",)))


@pytest.mark.parametrize(
    "operation",
    [
        CompareAndSwap(b"k", b"", b"mine"),
        VectorAdd(b"k", _VECTOR),
        Average(b"k", _VECTOR),
        CounterAdd(b"k", 0),
    ],
)
def test_what_does_something_again_when_it_is_repeated_is_not_done_once(operation: Operation) -> None:
    assert not may_deduplicate(_tx(b"1", operation), _tx(b"2", operation))


def test_two_that_read_before_they_wrote_the_same_are_two() -> None:
    reading = [_tx(id, Put(b"k", b"6"), reads=(b"k",)) for id in (b"1", b"2")]
    assert not may_deduplicate(*reading)
    assert not may_deduplicate(reading[0], _tx(b"2", Put(b"k", b"6")))


def test_a_key_that_is_touched_twice_is_not_done_once() -> None:
    assert not may_deduplicate(*(_tx(id, Put(b"k", b"v"), Delete(b"k")) for id in (b"1", b"2")))


def test_nearly_identical_with_all_keys_shared_and_other_operations_is_not_done_once() -> None:
    one = _tx(b"1", Embed(b"k", Embedding.dense((1.0, 0.0))))
    other = _tx(b"2", Embed(b"k", Embedding.dense((1.0, 0.02))))
    assert 0.99 < _found(one, other).cosine < 1.0
    assert _found(one, other).conflict_class is ConflictClass.IDENTICAL
    assert _action(one, other) is MergeAction.REJECT


def test_plus_five_and_minus_a_hundred_are_opposite_and_do_not_cancel() -> None:
    one, other = _tx(b"1", CounterAdd(b"k", 5)), _tx(b"2", CounterAdd(b"k", -100))
    assert _found(one, other).conflict_class is ConflictClass.OPPOSITE
    assert not may_cancel(one, other)
    assert _action(one, other) is MergeAction.VECTOR_ADD


def test_exact_inverses_cancel_in_any_order_of_operations() -> None:
    back = Embedding.dense((-1.0, 2.0, 0.0))
    one = _tx(b"1", CounterAdd(b"k", 5), VectorAdd(b"v", _VECTOR))
    other = _tx(b"2", VectorAdd(b"v", back), CounterAdd(b"k", -5))
    assert may_cancel(one, other)
    assert may_cancel(other, one)
    assert _action(one, other) is MergeAction.CANCEL
    assert not may_cancel(one, _tx(b"2", CounterAdd(b"k", -5)))
    assert not may_cancel(one, _tx(b"2", VectorAdd(b"v", back), CounterAdd(b"l", -5)))
    assert not may_cancel(one, _tx(b"2", *other.operations, reads=(b"k",)))


def test_nothing_but_additions_has_an_inverse() -> None:
    assert inverse(CounterAdd(b"k", -7)) == CounterAdd(b"k", 7)
    for operation in (Put(b"k", b""), Delete(b"k"), SetAdd(b"k", b"m"), Average(b"k", _VECTOR)):
        assert inverse(operation) is None
    assert not may_cancel(_tx(b"1", Put(b"k", b"")), _tx(b"2", Delete(b"k")))
    assert not may_cancel(_tx(b"1"), _tx(b"2"))


def test_low_conflict_on_other_keys_is_a_sum_and_nothing_is_halved() -> None:
    one = _tx(b"1", VectorAdd(b"a", Embedding.dense((1.0, 1.0, 1.0, 0.0))))
    other = _tx(b"2", VectorAdd(b"b", Embedding.dense((0.0, 0.0, 1.0, 1.0))))
    assert _found(one, other).conflict_class is ConflictClass.LOW_CONFLICT
    assert _action(one, other) is MergeAction.VECTOR_ADD


def test_two_averages_of_one_register_are_not_merged() -> None:
    one, other = (_tx(id, Average(b"k", _VECTOR)) for id in (b"1", b"2"))
    assert _action(one, other) is MergeAction.REJECT


def test_orthogonal_writes_of_one_key_are_not_merged() -> None:
    one = _tx(b"1", Embed(b"k", Embedding.dense((1.0, 0.0))))
    other = _tx(b"2", Embed(b"k", Embedding.dense((0.0, 1.0))))
    assert _found(one, other).conflict_class is ConflictClass.ORTHOGONAL
    assert _action(one, other) is MergeAction.REJECT
    empty = [_tx(id, Embed(b"k", Embedding.zero(2))) for id in (b"1", b"2")]
    assert _found(*empty).conflict_class is ConflictClass.ORTHOGONAL
    assert _action(*empty) is MergeAction.REJECT


def test_conflicting_directions_are_refused_unless_all_that_is_shared_commutes() -> None:
    near, nearer = Embedding.dense((1.0, 0.2)), Embedding.dense((1.0, 0.3))
    apart = [_tx(b"1", Embed(b"a", near)), _tx(b"2", Embed(b"b", nearer))]
    assert _found(*apart).conflict_class is ConflictClass.CONFLICTING
    assert _action(*apart) is MergeAction.REJECT
    adding = [_tx(b"1", VectorAdd(b"a", near), CounterAdd(b"c", 1)), _tx(b"2", VectorAdd(b"a", nearer))]
    assert _action(*adding) is MergeAction.VECTOR_ADD


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [
        (CounterAdd(b"k", 1), CounterAdd(b"k", 2), True),
        (SetAdd(b"k", b"a"), SetAdd(b"k", b"b"), True),
        (VectorAdd(b"k", _VECTOR), VectorAdd(b"k", _VECTOR), True),
        (CounterAdd(b"k", 1), SetAdd(b"k", b"b"), False),
        (CounterAdd(b"k", 1), Put(b"k", b"2"), False),
        (Put(b"k", b"2"), Put(b"l", b"2"), True),
        (TableInsert(b"t", (b"1",)), TableInsert(b"t", (b"2",)), False),
    ],
)
def test_what_commutes(one: Operation, other: Operation, *, expected: bool) -> None:
    assert commute(_tx(b"1", one), _tx(b"2", other)) is expected
    assert commute(_tx(b"2", other), _tx(b"1", one)) is expected


def test_a_key_that_one_has_read_does_not_commute_with_its_writer() -> None:
    assert not commute(_tx(b"1", CounterAdd(b"a", 1), reads=(b"k",)), _tx(b"2", CounterAdd(b"k", 1)))
    assert commute(_tx(b"1", CounterAdd(b"a", 1), reads=(b"k",)), _tx(b"2", CounterAdd(b"l", 1)))
