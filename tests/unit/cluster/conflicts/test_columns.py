import numpy as np
import pytest

from bobbin.cluster.conflicts.columns import columns_of, row_sums
from bobbin.cluster.conflicts.delta import DeltaVector
from bobbin.cluster.geometry import Embedding

_DELTAS = [
    DeltaVector(Embedding(9, (1, 4, 8), (3.0, 0.0, 4.0)), (b"b", b"z")),
    DeltaVector(Embedding.zero(9), ()),
    DeltaVector(Embedding(9, (0,), (1e200,)), (b"a", b"b", b"c")),
]


def test_rows_hold_what_the_changes_hold_without_zeros() -> None:
    columns, keys = columns_of(_DELTAS)
    assert columns.rows == 3
    assert columns.counts.tolist() == [2, 0, 1]
    assert columns.positions.tolist() == [1, 8, 0]
    assert columns.embedding(0) == Embedding(9, (1, 8), (3.0, 4.0))
    assert columns.embedding(1) == Embedding(0, (), ())
    assert keys == [b"a", b"b", b"c", b"z"]
    assert columns.key_counts.tolist() == [2, 0, 3]
    assert [keys[number] for number in columns.key_numbers.tolist()] == [b"b", b"z", b"a", b"b", b"c"]


def test_lengths_and_what_is_odd_about_them() -> None:
    columns, _ = columns_of(_DELTAS)
    lengths = columns.lengths()
    assert lengths.tolist() == pytest.approx([5.0, 0.0, np.inf])
    assert columns.is_odd(lengths).tolist() == [False, False, True]


def test_some_rows_are_columns_of_their_own() -> None:
    columns, _ = columns_of(_DELTAS)
    part = columns.slice(1, 3)
    assert part.rows == 2
    assert part.embedding(1) == Embedding(1, (0,), (1e200,))
    assert part.key_counts.tolist() == [0, 3]
    assert columns.slice(1, 1).rows == 0


def test_no_changes_are_no_rows() -> None:
    columns, keys = columns_of([])
    assert (columns.rows, keys) == (0, [])
    assert columns.lengths().tolist() == []


def test_empty_rows_have_the_sum_zero_wherever_they_are() -> None:
    starts = np.array([0, 0, 2, 2, 3, 3])
    assert row_sums(np.array([1.0, 2.0, 4.0]), starts).tolist() == [0.0, 3.0, 0.0, 4.0, 0.0]


def test_whole_rows_have_exact_squares_and_others_none() -> None:
    deltas = [
        DeltaVector(Embedding.dense(values), ())
        for values in ((1.0, 1.0, 1.0), (1.0, 0.5), (), (8_192.0,), (8_193.0,), (-3.0, 4.0))
    ]
    assert columns_of(deltas)[0].whole_squares().tolist() == [3.0, 0.0, 0.0, 2.0**26, 0.0, 25.0]
