from math import inf, pi, sqrt

import pytest

from bobbin.cluster.geometry import Embedding, angle, bias, combine, cosine, distance, dot, total

_EAST = Embedding.dense((1.0, 0.0, 0.0))
_NORTH = Embedding.dense((0.0, 2.0, 0.0))
_WEST = Embedding.dense((-3.0, 0.0, 0.0))
_ZERO = Embedding(3, (), ())


def test_a_dense_vector_keeps_no_zeros() -> None:
    assert Embedding.dense((0.0, 1.5, 0.0, -2.0)) == Embedding(4, (1, 3), (1.5, -2.0))
    assert Embedding.dense((3.0, 4.0)).norm == 5.0
    assert _ZERO.norm == 0.0


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [
        (_EAST, _EAST, 1.0),
        (_EAST, _NORTH, 0.0),
        (_EAST, _WEST, -1.0),
        (Embedding.dense((1.0, 1.0)), Embedding.dense((1.0, 0.0)), 1 / sqrt(2)),
        (_EAST, _ZERO, 0.0),
        (_ZERO, _ZERO, 0.0),
    ],
)
def test_cosine_compares_directions_and_takes_zero_for_unlike(
    one: Embedding, other: Embedding, expected: float
) -> None:
    assert cosine(one, other) == cosine(other, one) == pytest.approx(expected)


def test_cosine_of_vectors_of_unlike_dimensions_pads_the_shorter() -> None:
    assert cosine(Embedding.dense((1.0,)), Embedding.dense((1.0, 0.0, 0.0))) == 1.0


def test_cosine_never_leaves_its_range() -> None:
    vector = Embedding.dense(tuple(0.1 * number for number in range(1, 40)))
    assert cosine(vector, vector) <= 1.0
    assert angle(vector, vector) >= 0.0


@pytest.mark.parametrize("huge", [1e200, inf])
def test_what_would_not_be_finite_is_unlike(huge: float) -> None:
    vector = Embedding(2, (0, 1), (huge, huge))
    assert cosine(vector, vector) == 0.0


def test_angles() -> None:
    assert angle(_EAST, _EAST) == 0.0
    assert angle(_EAST, _NORTH) == pytest.approx(pi / 2)
    assert angle(_EAST, _WEST) == pytest.approx(pi)


def test_bias_is_between_zero_and_one_and_half_for_the_unknown() -> None:
    assert bias(_EAST, _EAST) == 1.0
    assert bias(_EAST, _WEST) == 0.0
    assert bias(_EAST, _NORTH) == 0.5
    assert bias(None, _EAST) == bias(_EAST, None) == bias(None, None) == 0.5


def test_a_sparse_vector_keeps_no_zeros_and_is_in_order() -> None:
    assert Embedding.of(9, {7: 1.0, 2: -1.0, 4: 0.0}) == Embedding(9, (2, 7), (-1.0, 1.0))
    assert Embedding.zero(3).is_zero
    assert Embedding(2, (0,), (0.0,)).is_zero
    assert not _EAST.is_zero
    assert _NORTH.mapped(lambda value: value - 2.0) == _ZERO
    assert _NORTH.by_position() == {1: 2.0}


def test_sums_do_not_depend_on_the_order_of_their_terms() -> None:
    terms = [1e16, 1.0, -1e16, 1e-3]
    assert total(terms) == total(terms[::-1]) == 1.001
    assert total([1e308, 1e308]) == inf
    assert total([inf, -inf]) == inf
    long = Embedding.dense((1e8, 1.0, 1e8))
    other = Embedding.dense((1e8, 1.0, -1e8))
    assert dot(long, other) == dot(other, long) == 1.0


def test_vectors_are_combined_and_the_shorter_is_padded() -> None:
    assert combine(_EAST, _NORTH) == Embedding.dense((1.0, 2.0, 0.0))
    assert combine(Embedding.dense((1.0,)), _NORTH, 3.0, -0.5) == Embedding.dense((3.0, -1.0, 0.0))
    assert combine(_EAST, _EAST, 1.0, -1.0) == _ZERO
    assert distance(_EAST, _WEST) == 4.0
    assert distance(_EAST, Embedding.dense((1.0, 0.0, 0.0, 2.0))) == 2.0


def test_vectors_of_ones_have_the_cosine_that_counting_gives() -> None:
    for size in range(1, 200):
        one, other = (
            Embedding.of(400, dict.fromkeys(range(size), 1.0)),
            Embedding.of(400, dict.fromkeys(range(size - 1, 2 * size - 1), 1.0)),
        )
        assert cosine(one, other) == 1 / size


def test_the_cosine_of_very_long_and_very_short_vectors() -> None:
    short, long = Embedding.dense((3e-150, 4e-150)), Embedding.dense((3e150, 4e150))
    assert cosine(short, short) == pytest.approx(1.0)
    assert cosine(long, long) == pytest.approx(1.0)
    assert cosine(short, long) == pytest.approx(1.0)
