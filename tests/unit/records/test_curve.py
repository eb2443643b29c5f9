"""The few curve operations, against affine arithmetic."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from bobbin.records import curve
from tests.properties.effort import scaled
from tests.unit.records import reference_curve as reference

SCALARS = st.integers(1, reference.N - 1) | st.sampled_from([1, 2, 3, reference.N - 1, reference.N - 2, 2**128, 2**255])
SLOW = scaled(0.25)

NO_POINT_X = 5
"""5³ + 7 has no square root."""

LARGE_X = next(x for x in range(reference.N, reference.N + 100) if reference.lift(x))
"""The x-coordinate of a point, and not below the order: one in 2¹²⁸ has it, so it must be looked for."""


def scalar_bytes(value: int) -> bytes:
    return value.to_bytes(32, "big")


def compressed(point: reference.Point) -> bytes | None:
    return None if point is None else bytes([2 + point[1] % 2]) + scalar_bytes(point[0])


def test_the_constants() -> None:
    assert curve.FIELD_PRIME == reference.P
    assert curve.ORDER == reference.N
    assert reference.multiply(reference.N - 1, reference.G) == (reference.G[0], reference.P - reference.G[1])


@pytest.mark.parametrize(
    ("value", "expected"), [(0, False), (1, True), (reference.N - 1, True), (reference.N, False), (2**256 - 1, False)]
)
def test_which_numbers_are_scalars(value: int, *, expected: bool) -> None:
    assert curve.is_scalar(scalar_bytes(value)) is expected


@SLOW
@given(SCALARS)
def test_multiples_of_the_generator(scalar: int) -> None:
    x, odd = curve.multiply_generator(scalar_bytes(scalar))
    assert (int.from_bytes(x, "big"), odd) == (
        (point := reference.multiply(scalar, reference.G)) and (point[0], point[1] % 2)
    )


@given(SCALARS)
def test_negation(scalar: int) -> None:
    assert curve.negate(scalar_bytes(scalar)) == scalar_bytes(reference.N - scalar)


@given(SCALARS, SCALARS, SCALARS)
def test_multiply_and_add(first: int, second: int, addend: int) -> None:
    expected = (first * second + addend) % reference.N
    if expected:
        assert curve.multiply_add(*map(scalar_bytes, (first, second, addend))) == scalar_bytes(expected)


@SLOW
@given(st.integers(0, 2 * reference.N), st.integers(0, 2 * reference.N), SCALARS)
@example(0, 0, 1)
@example(0, 7, 1)
@example(7, 0, 1)
@example(reference.N, reference.N, 1)
@example(1, reference.N - 1, 1)  # G - G is infinity, if G has even y
@example(5, 2**256, 3)
def test_the_plain_sum(generator_scalar: int, point_scalar: int, secret: int) -> None:
    scalar, public = reference.of_scalar(secret)
    total = reference.multiply(generator_scalar + point_scalar * scalar, reference.G)
    assert curve.combine(generator_scalar, public, point_scalar) == compressed(total)


def test_the_plain_sum_needs_a_point() -> None:
    assert curve.combine(1, scalar_bytes(NO_POINT_X), 1) is None
    assert curve.combine(1, scalar_bytes(reference.P + 1), 1) is None


def test_the_plain_sum_takes_coordinates_above_the_order() -> None:
    total = reference.add(reference.multiply(3, reference.G), reference.multiply(4, reference.lift(LARGE_X)))
    assert curve.combine(3, scalar_bytes(LARGE_X), 4) == compressed(total)


@SLOW
@given(SCALARS, SCALARS, st.integers(0, reference.N - 1))
def test_recovery_is_the_formula_of_ecdsa(secret: int, scalar: int, message: int) -> None:
    _, public = reference.of_scalar(secret)
    x = int.from_bytes(public, "big")
    inverse = pow(x, -1, reference.N)
    expected = reference.add(
        reference.multiply(scalar * inverse, reference.lift(x)), reference.multiply(-message * inverse, reference.G)
    )
    assert curve.recover(public, scalar_bytes(scalar), scalar_bytes(message)) == compressed(expected)


def test_recovery_refuses_what_is_no_signature() -> None:
    one = scalar_bytes(1)
    assert curve.recover(scalar_bytes(NO_POINT_X), one, one) is None
    assert curve.recover(scalar_bytes(0), one, one) is None
    assert curve.recover(scalar_bytes(reference.N), one, one) is None
    assert curve.recover(reference.public_x(b"k" * 32), scalar_bytes(0), one) is None
