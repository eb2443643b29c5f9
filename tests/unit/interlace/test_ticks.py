"""Shared ticks: aligned, never back, and never further than both clocks."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bobbin.errors import UsageError
from bobbin.interlace.ticks import Ticks
from bobbin.records import tai

_START = "1640995200:500000000"
_START_NS = tai.parse(_START)
_SECOND = tai.NANOSECONDS
_INTERVAL = 10 * _SECOND


def _at(nanoseconds: int) -> str:
    return tai.render(_START_NS + nanoseconds)


@pytest.fixture
def ticks() -> Ticks:
    return Ticks(_START, _INTERVAL)


def test_il_160_everything_begins_at_the_start(ticks: Ticks) -> None:
    """IL-160."""
    ticks.check()
    assert ticks.passed == 0
    assert (ticks.tick, ticks.local_ready, ticks.peer_ready) == (_START, _START, _START)
    assert ticks.next_at() == _START_NS + _INTERVAL


def test_il_115_the_clock_reaches_a_tick_not_before_its_time(ticks: Ticks) -> None:
    """IL-115."""
    assert not ticks.reach(_START_NS + _INTERVAL - 1)
    assert ticks.local_ready == _START
    assert ticks.reach(_START_NS + _INTERVAL)
    assert ticks.local_ready == _at(_INTERVAL)
    assert not ticks.reach(_START_NS + 2 * _INTERVAL - 1)


def test_a_clock_that_jumps_reaches_the_latest_tick(ticks: Ticks) -> None:
    assert ticks.reach(_START_NS + 35 * _SECOND)
    assert ticks.local_ready == _at(30 * _SECOND)
    assert ticks.next_at() == _START_NS + 40 * _SECOND


def test_a_clock_that_is_set_back_changes_nothing(ticks: Ticks) -> None:
    ticks.reach(_START_NS + 20 * _SECOND)
    for now in (_START_NS + 10 * _SECOND, _START_NS - 1, 0):
        assert not ticks.reach(now)
    assert ticks.local_ready == _at(20 * _SECOND)


def test_il_163_a_tick_before_the_start_is_ignored(ticks: Ticks) -> None:
    """IL-163, ILC-121: aligned, and still too early."""
    assert ticks.accept(_at(-_INTERVAL)) == f"the tick {_at(-_INTERVAL)} lies before the start {_START}"
    assert ticks.peer_ready == _START


def test_il_164_a_tick_that_goes_back_is_ignored(ticks: Ticks) -> None:
    """IL-164, ILC-121. The same one again is valid."""
    assert ticks.accept(_at(2 * _INTERVAL)) is None
    assert ticks.accept(_at(_INTERVAL)) is not None
    assert ticks.accept(_START) is not None
    assert ticks.accept(_at(2 * _INTERVAL)) is None
    assert ticks.peer_ready == _at(2 * _INTERVAL)


@pytest.mark.parametrize("off", [1, -1, _SECOND, _INTERVAL // 2])
def test_il_165_a_misaligned_tick_is_ignored(ticks: Ticks, off: int) -> None:
    """IL-165, ILC-121."""
    assert ticks.accept(_at(3 * _INTERVAL + off)) is not None
    assert ticks.peer_ready == _START


def test_il_165_alignment_carries_into_the_seconds() -> None:
    """IL-165: 0.7 s after half past is 1.2 s."""
    ticks = Ticks(_START, 700_000_000)
    assert ticks.accept("1640995201:200000000") is None
    assert ticks.accept("1640995201:900000000") is None
    assert ticks.accept("1640995202:700000000") is not None
    assert ticks.peer_ready == "1640995201:900000000"


def test_il_166_the_peers_future_moves_nothing_of_ours(ticks: Ticks) -> None:
    """IL-166."""
    assert ticks.accept(_at(1_000 * _INTERVAL)) is None
    assert (ticks.local_ready, ticks.tick, ticks.next_at()) == (_START, _START, _START_NS + _INTERVAL)


def test_il_167_the_shared_tick_is_the_smaller_one(ticks: Ticks) -> None:
    """IL-167."""
    ticks.reach(_START_NS + 3 * _INTERVAL)
    assert ticks.tick == _START
    ticks.accept(_at(2 * _INTERVAL))
    assert ticks.tick == _at(2 * _INTERVAL)
    ticks.accept(_at(5 * _INTERVAL))
    assert ticks.tick == _at(3 * _INTERVAL)
    assert ticks.passed == 3


def test_il_161_a_peer_that_never_says_a_tick_leaves_time_where_it_is(ticks: Ticks) -> None:
    """IL-161."""
    for number in range(5):
        ticks.reach(_START_NS + number * _INTERVAL)
    assert ticks.tick == _START
    ticks.check()


def test_il_064_both_sides_have_the_same_tick() -> None:
    """IL-064: once each has what the other said."""
    here, there = Ticks(_START, _INTERVAL), Ticks(_START, _INTERVAL)
    here.reach(_START_NS + 25 * _SECOND)
    there.reach(_START_NS + 47 * _SECOND)
    assert here.accept(there.local_ready) is None
    assert there.accept(here.local_ready) is None
    assert here.tick == there.tick == _at(20 * _SECOND)


@pytest.mark.parametrize(
    "text", ["", "soon", "1640995210", "1640995210:5", "99999999999:000000000", "１640995210:500000000"]
)
def test_what_is_no_time_is_ignored_with_a_reason(ticks: Ticks, text: str) -> None:
    why = ticks.accept(text)
    assert why is not None
    assert "TAI" in why
    assert ticks.peer_ready == _START


def test_at_the_end_of_time_there_are_no_more_ticks() -> None:
    ticks = Ticks(tai.render(tai.TAI_MAX - 15), 10)
    assert ticks.reach(tai.TAI_MAX * 2)
    assert ticks.local_ready == tai.render(tai.TAI_MAX - 5)
    assert not ticks.reach(tai.TAI_MAX * 3)
    assert ticks.accept(tai.render(tai.TAI_MAX)) is not None
    ticks.check()


@pytest.mark.parametrize(("start", "interval_ns"), [(_START, 0), (_START, -1), ("soon", 1)])
def test_a_start_and_an_interval_make_sense(start: str, interval_ns: int) -> None:
    with pytest.raises(UsageError):
        Ticks(start, interval_ns)


@given(
    st.integers(1, 2**64 - 1) | st.integers(1, 5 * _SECOND),
    st.lists(st.tuples(st.booleans(), st.integers(-(2**40), 2**70) | st.integers(-3, 40)), max_size=30),
)
def test_il_168_no_tick_ever_goes_back(interval_ns: int, moves: list[tuple[bool, int]]) -> None:
    """IL-168: whatever the clock and the peer say."""
    ticks = Ticks(_START, interval_ns)
    before = (_START, _START, _START)
    for local, number in moves:
        if local:
            moved = ticks.reach(_START_NS + number * interval_ns // 3)
            assert moved == (ticks.local_ready != before[1])
        else:
            moment = _START_NS + number * interval_ns // 2
            text = tai.render(moment) if 0 <= moment <= tai.TAI_MAX else str(moment)
            taken = ticks.accept(text) is None
            assert not taken or ticks.peer_ready == text
            assert taken or ticks.peer_ready == before[2]
        now = (ticks.tick, ticks.local_ready, ticks.peer_ready)
        assert all(later >= earlier for earlier, later in zip(before, now, strict=True))
        before = now
        ticks.check()
