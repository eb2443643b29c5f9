from math import inf, pi, sqrt

import pytest

from bobbin.cluster.geometry import Embedding, angle, bias, cosine

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
