import pytest

from bobbin.errors import UsageError
from bobbin.profile import STAMP_AHEAD_US_MAX
from bobbin.reactive.crdt.clock import STAMP_AHEAD, HybridClock, StampRefused
from bobbin.reactive.messages import U64_MAX, PeerId, Stamp

US, THEM = PeerId(1), PeerId(2)


def _at(wall: int, logical: int) -> HybridClock:
    return HybridClock(US, since=Stamp(wall, logical, US))


@pytest.mark.parametrize(
    ("before", "now", "after"),
    [
        pytest.param((10, 3), 11, (11, 0), id="the wall clock went on"),
        pytest.param((10, 3), 10, (10, 4), id="it stands"),
        pytest.param((10, 3), 5, (10, 4), id="it went back"),
    ],
)
def test_a_write_of_our_own(before: tuple[int, int], now: int, after: tuple[int, int]) -> None:
    """RX-132."""
    assert _at(*before).tick(now) == Stamp(*after, US)


@pytest.mark.parametrize(
    ("before", "remote", "now", "after"),
    [
        pytest.param((10, 3), (10, 7), 10, (10, 8), id="all tie, theirs counted further"),
        pytest.param((10, 9), (10, 7), 4, (10, 10), id="both tie, ours counted further"),
        pytest.param((10, 3), (8, 7), 9, (10, 4), id="ours is the greatest"),
        pytest.param((10, 3), (12, 7), 11, (12, 8), id="theirs is the greatest"),
        pytest.param((10, 3), (12, 7), 12, (12, 8), id="theirs ties with the wall clock"),
        pytest.param((10, 3), (9, 7), 10, (10, 4), id="ours ties with the wall clock"),
        pytest.param((10, 3), (12, 7), 13, (13, 0), id="the wall clock is the greatest"),
    ],
)
def test_a_stamp_that_came(before: tuple[int, int], remote: tuple[int, int], now: int, after: tuple[int, int]) -> None:
    """RX-132."""
    assert _at(*before).observe(Stamp(*remote, THEM), now) == Stamp(*after, US)


def test_a_stamp_at_the_bound_is_taken_and_one_beyond_it_changes_nothing() -> None:
    clock = _at(5, 0)
    beyond = Stamp(101 + STAMP_AHEAD_US_MAX, 0, THEM)
    with pytest.raises(StampRefused, match="peer 2") as refused:
        clock.observe(beyond, 100)
    assert refused.value.code == STAMP_AHEAD
    assert refused.value.stamp == beyond
    assert clock.last == Stamp(5, 0, US)
    assert clock.observe(Stamp(100 + STAMP_AHEAD_US_MAX, 0, THEM), 100) > Stamp(100 + STAMP_AHEAD_US_MAX, 0, THEM)


def test_a_counter_at_its_end_goes_on_in_the_next_microsecond() -> None:
    clock = _at(5, 0)
    assert clock.observe(Stamp(10, U64_MAX, THEM), 1) == Stamp(11, 0, US)
    assert clock.tick(1) == Stamp(11, 1, US)


def test_a_machine_beyond_all_time_is_told_so() -> None:
    with pytest.raises(UsageError, match="clock of this machine"):
        HybridClock(US).tick(U64_MAX + 1)
