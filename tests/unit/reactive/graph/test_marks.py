import pytest

from bobbin.reactive.graph.marks import CHECK, CLEAN, DIRTY, DISPOSED, FAILED, RUNNING, UNSET, WAITING, is_same


def test_the_order_of_marks_is_what_the_comparisons_take_it_for() -> None:
    assert not CLEAN
    assert CLEAN < WAITING < FAILED < CHECK < DIRTY < RUNNING < DISPOSED


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        (1, 1, True),
        ([1], [1], True),
        ("a", "b", False),
        (1, 1.0, False),
        (1, True, False),
        (None, None, True),
        (float("nan"), float("nan"), False),
        (UNSET, None, False),
    ],
)
def test_values_are_the_same_if_they_are_equal_and_of_one_type(one: object, other: object, *, same: bool) -> None:
    """RX-156."""
    assert is_same(one, other) is same


def test_an_object_is_the_same_as_itself_whatever_it_says() -> None:
    nan = float("nan")
    assert is_same(nan, nan)


def test_unset_has_a_name() -> None:
    assert repr(UNSET) == "UNSET"
