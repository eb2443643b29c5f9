from math import pi, sqrt

import pytest

from bobbin.cluster.conflicts.delta import (
    NO_TX,
    DeltaVector,
    jaccard,
    overlap_coefficient,
    overlapping_keys,
    sparsified,
    weighted_jaccard,
)
from bobbin.cluster.geometry import Embedding, angle, cosine, dot

_ZERO = Embedding.zero(4)


def _delta(values: tuple[float, ...], *keys: bytes, tx: bytes = b"t") -> DeltaVector:
    return DeltaVector.of(Embedding.dense(values), keys, tx)


def test_a_change_has_its_keys_in_order_and_each_once() -> None:
    assert _delta((1.0,), b"b", b"a", b"b").keys == (b"a", b"b")


def test_sparsification_drops_what_is_below_a_millionth_and_nothing_else() -> None:
    vector = Embedding.dense((1e-6, -1e-6, 9.99e-7, -9.99e-7, 1.0))
    assert sparsified(vector) == Embedding(5, (0, 1, 4), (1e-6, -1e-6, 1.0))
    assert DeltaVector.of(vector).delta == sparsified(vector)
    assert sparsified(vector, 0.5).positions == (4,)


def test_a_sum_has_both_changes_in_full_the_keys_of_both_and_no_transaction() -> None:
    joined = _delta((1.0, 2.0), b"a").add(_delta((0.0, -2.0, 5.0), b"b", tx=b"u"))
    assert joined == DeltaVector(Embedding(3, (0, 2), (1.0, 5.0)), (b"a", b"b"), NO_TX)


def test_an_average_weighs_both_and_has_the_keys_of_both() -> None:
    mean = _delta((1.0, 0.0), b"a").weighted_average(_delta((5.0, 8.0), b"b"), 3.0, 1.0)
    assert mean == DeltaVector(Embedding.dense((2.0, 2.0)), (b"a", b"b"), NO_TX)


def test_an_average_without_weight_is_the_zero_change() -> None:
    assert _delta((1.0,), b"a").weighted_average(_delta((2.0,), b"b"), 0.0, 0.0).is_zero
    assert _delta((1.0,), b"a").weighted_average(_delta((2.0,), b"b"), 1.0, -1.0).is_zero


def test_scaling_keeps_keys_and_transaction() -> None:
    assert _delta((1.0, -2.0), b"a").scale(-3.0) == _delta((-3.0, 6.0), b"a")


@pytest.mark.parametrize("direction", [(1.0, 1.0, 0.0), (0.0, 0.0, 2.0), (3.0, -1.0, 7.0)])
def test_projecting_leaves_nothing_along_the_direction(direction: tuple[float, ...]) -> None:
    change = _delta((4.0, 2.0, -5.0), b"a", b"b")
    along = Embedding.dense(direction)
    left = change.project_non_conflicting(along)
    assert dot(left.delta, along) == pytest.approx(0.0, abs=1e-12)
    assert not left.is_zero
    assert (left.keys, left.tx) == (change.keys, change.tx)


def test_projecting_takes_away_the_component_and_not_the_direction_itself() -> None:
    left = _delta((4.0, 2.0)).project_non_conflicting(Embedding.dense((0.0, 10.0)))
    assert left.delta == Embedding(2, (0,), (4.0,))


def test_projecting_along_nothing_changes_nothing() -> None:
    change = _delta((4.0, 2.0), b"a")
    assert change.project_non_conflicting(_ZERO) == change


@pytest.mark.parametrize(
    ("one", "other", "share"),
    [
        ((1.0, 1.0, 0.0), (0.0, 5.0, 1.0), 1 / 3),
        ((1.0, 1.0), (-3.0, 1e-9), 1.0),
        ((1.0, 0.0), (0.0, 1.0), 0.0),
        ((1.0, 0.0), (0.0, 0.0), 0.0),
        ((0.0, 0.0), (0.0, 0.0), 1.0),
    ],
)
def test_jaccard_is_over_positions_that_are_not_zero(
    one: tuple[float, ...], other: tuple[float, ...], share: float
) -> None:
    here, there = Embedding.dense(one), Embedding.dense(other)
    assert jaccard(here, there) == jaccard(there, here) == share


def test_a_zero_that_is_written_out_is_no_position() -> None:
    assert jaccard(Embedding(3, (0, 1), (1.0, 0.0)), Embedding(3, (1, 2), (1.0, 1.0))) == 0.0
    assert overlap_coefficient(Embedding(3, (0, 1), (1.0, 0.0)), Embedding(3, (1,), (1.0,))) == 0.0


def test_weighted_jaccard_sets_the_smaller_sizes_against_the_larger() -> None:
    assert weighted_jaccard(Embedding.dense((1.0, -4.0)), Embedding.dense((3.0, 2.0))) == 3 / 7
    assert weighted_jaccard(_ZERO, _ZERO) == 1.0
    assert weighted_jaccard(_ZERO, Embedding.dense((1.0,))) == 0.0


def test_overlap_is_a_share_of_the_smaller() -> None:
    assert overlap_coefficient(Embedding.dense((1.0, 1.0, 1.0, 1.0)), Embedding.dense((0.0, 1.0, 1.0))) == 1.0
    assert overlap_coefficient(_ZERO, _ZERO) == 1.0
    assert overlap_coefficient(_ZERO, Embedding.dense((1.0,))) == 0.0


def test_shared_keys_ascend() -> None:
    assert overlapping_keys(_delta((1.0,), b"c", b"a", b"x"), _delta((1.0,), b"a", b"b", b"c")) == (b"a", b"c")


def test_cosine_is_clamped_and_zero_for_what_has_no_direction() -> None:
    ones = Embedding.dense((1.0, 1.0, 1.0))
    one, like = Embedding.dense((0.9, 0.6, 0.2)), Embedding.dense((0.9 * 0.7, 0.6 * 0.7, 0.2 * 0.7))
    assert dot(one, like) / sqrt(one.square * like.square) > 1.0
    assert cosine(one, like) == cosine(ones, ones) == 1.0
    assert cosine(ones, Embedding.dense((-1.0, -1.0, -1.0))) == -1.0
    assert cosine(ones, _ZERO) == cosine(_ZERO, ones) == cosine(_ZERO, _ZERO) == 0.0
    assert cosine(Embedding.dense((1e200, 1e200)), Embedding.dense((1e200, 1.0))) == 0.0
    assert angle(ones, ones) == 0.0
    assert angle(Embedding.dense((1.0,)), Embedding.dense((-1.0,))) == pi
    assert angle(_ZERO, ones) == pi / 2
