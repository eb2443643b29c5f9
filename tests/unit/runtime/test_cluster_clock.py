"""Time as the machines of a node have it."""

import asyncio
import time

import pytest

from bobbin.cluster.names import MILLISECOND_NS
from bobbin.runtime.cluster_clock import SteadyClock, Wake

_HOUR_NS = 3_600 * 1_000 * MILLISECOND_NS


def test_a_wall_clock_that_is_set_moves_no_date() -> None:
    wall, forward = [50 * _HOUR_NS], [0]
    clock = SteadyClock(wall_ns=lambda: wall[0], forward_ns=lambda: forward[0])
    began = clock.now_ms()
    assert began == 50 * _HOUR_NS // MILLISECOND_NS
    for jump in (_HOUR_NS, -2 * _HOUR_NS):
        wall[0] += jump
        assert clock.now_ms() == began
    forward[0] = 7 * MILLISECOND_NS
    assert clock.now_ms() == began + 7


def test_the_time_for_which_the_machine_slept_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    real, slept = time.clock_gettime_ns, [0]
    monkeypatch.setattr(time, "clock_gettime_ns", lambda kind: real(kind) + slept[0] * (kind == time.CLOCK_BOOTTIME))
    clock = SteadyClock()
    before = clock.now_ms()
    slept[0] = _HOUR_NS
    assert clock.now_ms() - before >= _HOUR_NS // MILLISECOND_NS


def test_a_wake_comes_once_and_not_before_its_time() -> None:
    async def run() -> list[int]:
        woken: list[int] = []
        done = asyncio.Event()

        def call() -> None:
            woken.append(time.monotonic_ns())
            done.set()

        wake = Wake(call)
        wake.at(time.monotonic_ns())
        # Later, and later again: only the last moment counts.
        due = time.monotonic_ns() + 30 * MILLISECOND_NS
        wake.at(due)
        await done.wait()
        assert woken[0] >= due
        await asyncio.sleep(0)
        return woken

    assert len(asyncio.run(run())) == 1


def test_an_earlier_moment_takes_the_place_of_a_later_one() -> None:
    async def run() -> None:
        done = asyncio.Event()
        wake = Wake(done.set)
        wake.at(time.monotonic_ns() + _HOUR_NS)
        wake.at(0)
        await asyncio.wait_for(done.wait(), 60)

    asyncio.run(run())


def test_a_wake_that_was_stopped_does_not_come() -> None:
    async def run() -> bool:
        done = asyncio.Event()
        wake = Wake(done.set)
        wake.at(0)
        wake.stop()
        wake.stop()
        for _ in range(3):
            await asyncio.sleep(0)
        return done.is_set()

    assert not asyncio.run(run())
