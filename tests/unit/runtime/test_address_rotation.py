"""Which of several ways is tried next: all of them once in a round, from the one that worked last."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bobbin.errors import UsageError
from bobbin.runtime.address_rotation import Rotation


def _round(rotation: Rotation) -> list[int]:
    """The ways of what is left of a round in which all fail."""
    tried = [rotation.at]
    while rotation.move_on():
        tried.append(rotation.at)
    return tried


def test_a_single_way_is_a_round() -> None:
    rotation = Rotation()
    assert [_round(rotation) for _ in range(3)] == [[0], [0], [0]]


def test_all_are_tried_in_their_order_before_the_round_is_over() -> None:
    rotation = Rotation(3)
    assert [_round(rotation), _round(rotation)] == [[0, 1, 2], [0, 1, 2]]


def test_after_a_loss_the_next_way_comes_first_and_the_lost_one_not_again() -> None:
    rotation = Rotation(3, at=1)
    rotation.work()
    assert rotation.move_on()
    assert _round(rotation) == [2, 0]
    assert rotation.at == 1, "the next round begins with the one that worked last"


def test_what_worked_last_comes_first() -> None:
    rotation = Rotation(3)
    rotation.move_on()
    rotation.work()
    assert _round(rotation) == [1, 2], "the first one was tried in this round"
    assert _round(rotation) == [1, 2, 0]


def test_links_that_do_not_last_do_not_go_round_for_ever() -> None:
    rotation = Rotation(2)
    moves = []
    for _ in range(6):
        rotation.work()
        moves.append(rotation.move_on())
    assert moves == [True, False] * 3, "there is a wait in each round, although every link came up"


def test_after_a_link_that_lasted_every_other_way_is_tried_at_once() -> None:
    rotation = Rotation(3)
    rotation.move_on()
    rotation.move_on()
    rotation.work()
    rotation.start_over()
    assert _round(rotation) == [2, 0, 1]


@pytest.mark.parametrize(("count", "at"), [(0, 0), (-1, 0), (2, 2), (2, -1)])
def test_what_makes_no_sense_is_refused(count: int, at: int) -> None:
    with pytest.raises(UsageError):
        Rotation(count, at=at)


@given(st.integers(1, 6), st.lists(st.sampled_from(["fail", "short", "lasting"]), max_size=60))
def test_no_way_is_tried_twice_in_a_round_and_none_is_left_out(count: int, ends: list[str]) -> None:
    rotation, tried, worked = Rotation(count), set[int](), 0
    for end in ends:
        rotation.check()
        assert rotation.at not in tried
        if end != "fail":
            rotation.work()
            worked = rotation.at
        if end == "lasting":
            rotation.start_over()
            tried.clear()
        tried.add(rotation.at)
        if not rotation.move_on():
            assert tried == set(range(count))
            assert rotation.at == worked
            tried.clear()
