"""Ranges: every recorded row, and what an exact want leaves out."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bobbin.tangles.ranges import (
    EMPTY,
    Range,
    WantAll,
    WantFrom,
    WantNewest,
    Wish,
    estimate,
    exact_want_range,
    want_range,
)
from tests.vectors.load import load

_RANGES = st.tuples(st.integers(0, 30), st.integers(0, 30)).map(lambda pair: Range(*pair))


def _wish(goal: str | None, ghost_depth: int | None) -> Wish:
    if goal is None or goal == "none":
        return None
    if goal == "all":
        return WantAll()
    return WantNewest(int(goal.removeprefix("newest-"))) if goal.startswith("newest") else WantFrom(ghost_depth)


def test_recorded_estimates() -> None:
    for row in load("pzp/ranges/estimate.json")["rows"]:
        depths = Range(*row["range"])
        assert (depths.is_empty, estimate(depths)) == (row["empty"], row["estimate"])


def test_recorded_wants() -> None:
    rows = load("pzp/ranges/want-range.json")["rows"]
    assert len(rows) > 100
    for row in rows:
        local, remote = Range(*row["local_have"]), Range(*row["remote_have"])
        wanted = want_range(local, remote, _wish(row["goal"], row["min_ghost_depth"]))
        assert list(wanted) == row["want"], row


@pytest.mark.parametrize(
    ("local", "remote", "wanted"),
    [((2, 4), (1, 5), (3, 5)), ((4, 6), (1, 3), (1, 0)), ((1, 3), (6, 7), (6, 7)), ((5, 13), (2, 7), (11, 7))],
)
def test_the_newest_three(local: tuple[int, int], remote: tuple[int, int], wanted: tuple[int, int]) -> None:
    assert want_range(Range(*local), Range(*remote), WantNewest(3)) == wanted


def test_nothing_is_wanted_without_a_goal_or_of_a_peer_that_has_nothing() -> None:
    assert want_range(Range(0, 3), Range(0, 9), None) == EMPTY
    for wish in (WantAll(), WantNewest(3), WantFrom(0)):
        assert want_range(Range(0, 3), EMPTY, wish) == EMPTY
        assert exact_want_range(Range(0, 3), EMPTY, wish).is_empty


def test_a_set_that_needs_nothing_wants_nothing() -> None:
    assert want_range(Range(0, 0), Range(0, 9), WantFrom(None)) == EMPTY


def test_any_range_with_its_ends_crossed_is_empty() -> None:
    assert Range(11, 7).is_empty
    assert not Range(7, 7).is_empty
    assert 7 in Range(7, 7)
    assert 8 not in Range(7, 7)


@given(_RANGES, _RANGES, st.integers(0, 40))
def test_the_exact_newest_are_the_topmost_levels_of_both(local: Range, remote: Range, count: int) -> None:
    wanted = exact_want_range(local, remote, WantNewest(count))
    depths = {depth for depth in range(61) if depth in wanted}
    top = max([have.high for have in (local, remote) if not have.is_empty], default=0)
    assert depths == {depth for depth in range(61) if depth in remote and depth > top - count}


@given(_RANGES, _RANGES, st.one_of(st.just(WantAll()), st.builds(WantFrom, st.integers(0, 30))))
def test_other_exact_wants_are_the_same(local: Range, remote: Range, wish: Wish) -> None:
    assert exact_want_range(local, remote, wish) == want_range(local, remote, wish)
