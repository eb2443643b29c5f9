"""The seven tests, each at its bounds, and in their order."""

from math import sqrt

import pytest
from msgspec import structs

from bobbin.cluster.conflicts.classify import (
    ACTIONS,
    DEFAULT,
    ConflictClass,
    ConflictResult,
    MergeAction,
    Thresholds,
    class_of,
    detect_conflict,
)
from bobbin.cluster.conflicts.delta import DeltaVector
from bobbin.cluster.geometry import Embedding
from bobbin.errors import UsageError

_K = (b"k",)


def _pair(cosine: float, *, keys: tuple[tuple[bytes, ...], tuple[bytes, ...]] = (_K, _K)) -> ConflictResult:
    """Of two vectors in a plane with about this cosine. Both positions are shared, unless the cosine is 1 or -1."""
    other = Embedding.dense((cosine, sqrt(1.0 - cosine * cosine)))
    return detect_conflict(DeltaVector.of(Embedding.dense((1.0, 1e-5)), keys[0]), DeltaVector.of(other, keys[1]))


def _class(cosine: float, jaccard: float, *, all_keys: bool = False, any_key: bool = False) -> ConflictClass:
    return class_of(cosine, jaccard, DEFAULT, shares_all=all_keys, shares_any=all_keys or any_key)


def test_identical_begins_at_its_bound_and_needs_every_key_of_both() -> None:
    assert _class(0.99, 1.0, all_keys=True) is ConflictClass.IDENTICAL
    assert _class(0.9899, 1.0, all_keys=True) is ConflictClass.CONFLICTING
    assert _class(1.0, 1.0, any_key=True) is ConflictClass.CONFLICTING
    assert _pair(1.0).conflict_class is ConflictClass.IDENTICAL
    assert _pair(1.0, keys=(_K, (b"k", b"l"))).conflict_class is ConflictClass.CONFLICTING
    assert _pair(1.0, keys=((b"k", b"l"), _K)).conflict_class is ConflictClass.CONFLICTING
    assert _pair(0.98).conflict_class is ConflictClass.CONFLICTING


def test_opposite_begins_at_its_bound_and_needs_every_key_of_both() -> None:
    assert _class(-0.95, 1.0, all_keys=True) is ConflictClass.OPPOSITE
    assert _class(-0.9499, 1.0, all_keys=True) is ConflictClass.CONFLICTING
    assert _pair(-1.0).conflict_class is ConflictClass.OPPOSITE


def test_a_strongly_negative_cosine_without_all_keys_falls_through() -> None:
    assert _class(-1.0, 0.5, any_key=True) is ConflictClass.CONFLICTING
    assert _class(-1.0, 0.4, any_key=True) is ConflictClass.AMBIGUOUS
    assert _class(-1.0, 0.4) is ConflictClass.LOW_CONFLICT
    assert _pair(-1.0, keys=(_K, (b"k", b"l"))).conflict_class is not ConflictClass.OPPOSITE
    assert _pair(-1.0, keys=((b"k", b"l"), _K)).conflict_class is not ConflictClass.OPPOSITE


@pytest.mark.parametrize(("cosine", "jaccard"), [(0.0, 0.0), (0.0999, 0.4999), (-0.0999, 0.0)])
def test_orthogonal_is_below_both_bounds_whatever_the_keys(cosine: float, jaccard: float) -> None:
    assert _class(cosine, jaccard) is ConflictClass.ORTHOGONAL
    assert _class(cosine, jaccard, any_key=True) is ConflictClass.ORTHOGONAL
    assert _class(cosine, jaccard, all_keys=True) is ConflictClass.ORTHOGONAL


@pytest.mark.parametrize(("cosine", "jaccard"), [(0.1, 0.0), (-0.1, 0.0), (-0.5, 0.0), (0.0, 0.5)])
def test_what_reaches_a_bound_is_not_orthogonal(cosine: float, jaccard: float) -> None:
    assert _class(cosine, jaccard) is not ConflictClass.ORTHOGONAL


@pytest.mark.parametrize("jaccard", [0.0, 0.3, 0.5, 1.0])
def test_a_like_direction_conflicts_at_any_jaccard(jaccard: float) -> None:
    assert _class(0.7, jaccard) is ConflictClass.CONFLICTING
    assert _class(0.98, jaccard, all_keys=True) is ConflictClass.CONFLICTING


@pytest.mark.parametrize("cosine", [-1.0, -0.3, 0.0, 0.05, 0.3, 0.69])
def test_like_positions_conflict_at_any_cosine_that_was_not_classed_before(cosine: float) -> None:
    assert _class(cosine, 0.5) is ConflictClass.CONFLICTING
    assert _class(cosine, 0.4999) is not ConflictClass.CONFLICTING


def test_a_shared_key_without_other_conflict_is_ambiguous_unless_merging_is_allowed() -> None:
    assert _class(0.5, 0.2, any_key=True) is ConflictClass.AMBIGUOUS
    allowed = Thresholds(merges_shared_keys=True)
    assert class_of(0.5, 0.2, allowed, shares_all=False, shares_any=True) is ConflictClass.LOW_CONFLICT
    assert class_of(0.7, 0.2, allowed, shares_all=False, shares_any=True) is ConflictClass.CONFLICTING
    assert not DEFAULT.merges_shared_keys


@pytest.mark.parametrize("cosine", [0.1, 0.4, 0.6999, -0.1, -0.9])
def test_what_remains_is_low_conflict_and_may_be_merged(cosine: float) -> None:
    assert _class(cosine, 0.4999) is ConflictClass.LOW_CONFLICT
    assert ConflictClass.LOW_CONFLICT.is_mergeable
    assert ACTIONS[ConflictClass.LOW_CONFLICT] is not MergeAction.REJECT


def test_the_tests_are_tried_in_order() -> None:
    assert _class(1.0, 0.0, all_keys=True) is ConflictClass.IDENTICAL
    assert _class(-1.0, 1.0, all_keys=True) is ConflictClass.OPPOSITE
    together = Thresholds(orthogonal=0.9, conflicting=0.9, identical=0.9, opposite=-0.9)
    assert class_of(0.9, 0.0, together, shares_all=True, shares_any=True) is ConflictClass.IDENTICAL
    assert class_of(0.89, 0.4, together, shares_all=True, shares_any=True) is ConflictClass.ORTHOGONAL


def test_only_conflicting_and_ambiguous_cannot_be_merged() -> None:
    refused = {one for one in ConflictClass if not one.is_mergeable}
    assert refused == {ConflictClass.CONFLICTING, ConflictClass.AMBIGUOUS}
    assert {one for one, action in ACTIONS.items() if action is MergeAction.REJECT} == refused


def test_a_result_says_all_that_was_found() -> None:
    one = DeltaVector.of(Embedding.dense((1.0, 1.0, 0.0)), (b"a", b"b"), b"1")
    other = DeltaVector.of(Embedding.dense((0.0, 1.0, 1.0)), (b"b", b"c"), b"2")
    found = detect_conflict(one, other)
    assert found.conflict_class is ConflictClass.AMBIGUOUS
    assert found.cosine == pytest.approx(0.5)
    assert found.jaccard == 1 / 3
    assert found.overlapping_keys == (b"b",)
    assert found.action is MergeAction.REJECT


@pytest.mark.parametrize(
    ("cosine", "action"), [(1.0, MergeAction.DEDUPLICATE), (-1.0, MergeAction.CANCEL), (0.8, MergeAction.REJECT)]
)
def test_actions_follow_from_classes(cosine: float, action: MergeAction) -> None:
    assert _pair(cosine).action is action


def test_low_conflict_is_a_sum_and_an_average_only_for_averaged_registers() -> None:
    one = DeltaVector.of(Embedding.dense((1.0, 1.0, 1.0, 0.0)), (b"a",))
    other = DeltaVector.of(Embedding.dense((0.0, 0.0, 1.0, 1.0)), (b"b",))
    found = detect_conflict(one, other)
    assert found.conflict_class is ConflictClass.LOW_CONFLICT
    assert found.action is MergeAction.VECTOR_ADD
    averaged = detect_conflict(one, other, averaged=True)
    assert averaged.action is MergeAction.WEIGHTED_AVERAGE
    assert detect_conflict(one, one, averaged=True).action is MergeAction.DEDUPLICATE


@pytest.mark.parametrize("keys", [(), _K])
def test_zero_vectors_are_orthogonal_to_everything(keys: tuple[bytes, ...]) -> None:
    nothing = DeltaVector.of(Embedding.zero(3), keys)
    something = DeltaVector.of(Embedding.dense((1.0, 0.0, 0.0)), keys)
    for one, other in ((nothing, nothing), (nothing, something), (something, nothing)):
        found = detect_conflict(one, other)
        assert found.conflict_class is ConflictClass.ORTHOGONAL
        assert found.cosine == 0.0
        assert found.overlapping_keys == keys


def test_nearly_identical_is_conflicting_when_keys_are_not_all_shared() -> None:
    assert 0.99 < _pair(0.995).cosine < 1.0
    assert _pair(0.995).conflict_class is ConflictClass.IDENTICAL
    assert _pair(0.995, keys=(_K, (b"l",))).conflict_class is ConflictClass.CONFLICTING
    assert _class(0.995, 0.0) is ConflictClass.CONFLICTING


@pytest.mark.parametrize("length", [2, 3, 40])
def test_the_smaller_vector_is_padded_in_both_orders(length: int) -> None:
    short = DeltaVector.of(Embedding.dense((3.0, 4.0)), (b"a",))
    padded = DeltaVector.of(Embedding(length, (0, 1), (3.0, 4.0)), (b"a",))
    wide = DeltaVector.of(Embedding(length, (0, length - 1), (1.0, 2.0)), (b"b",))
    assert detect_conflict(short, wide) == detect_conflict(padded, wide)
    assert detect_conflict(wide, short) == detect_conflict(wide, padded)
    assert detect_conflict(wide, short).cosine == detect_conflict(short, wide).cosine


@pytest.mark.parametrize(
    "wrong",
    [
        {"orthogonal": 0.0},
        {"orthogonal": 0.8},
        {"conflicting": 0.995},
        {"identical": 1.01},
        {"opposite": -0.05},
        {"opposite": -1.5},
        {"structural": 0.0},
        {"structural": 1.5},
        {"orthogonal": float("nan")},
        {"structural": float("nan")},
    ],
)
def test_thresholds_out_of_order_are_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(UsageError):
        structs.replace(DEFAULT, **wrong)


def test_thresholds_are_settings() -> None:
    assert class_of(0.6, 0.0, Thresholds(conflicting=0.6), shares_all=False, shares_any=False) is (
        ConflictClass.CONFLICTING
    )
    assert class_of(0.0, 0.3, Thresholds(structural=0.3), shares_all=False, shares_any=False) is (
        ConflictClass.CONFLICTING
    )
