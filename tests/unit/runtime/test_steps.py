"""The thread of the steps: order, fairness, errors, and its end."""

import asyncio
import gc
import threading
import time
import traceback
import weakref
from functools import partial

import pytest

from bobbin.runtime.steps import Steps, StepsClosed
from tests.support.nodes import until


def test_jobs_are_done_in_one_thread_that_is_not_the_loops() -> None:
    async def run() -> None:
        steps = Steps()
        seen = {await steps.turn()(threading.get_ident) for _ in range(5)}
        assert len(seen) == 1
        assert threading.get_ident() not in seen
        await steps.close()

    asyncio.run(run())


def test_what_a_job_raises_comes_back_and_the_next_one_is_done() -> None:
    async def run() -> None:
        steps = Steps()
        turn = steps.turn()
        with pytest.raises(ZeroDivisionError):
            await turn(lambda: 1 // 0)
        with pytest.raises(RuntimeError, match="ran out"):
            await turn(lambda: next(iter(())))
        assert await turn(lambda: 7) == 7
        await steps.close()

    asyncio.run(run())


def test_an_error_is_gone_with_the_last_who_has_it() -> None:
    """It holds what the job was about, and must not wait for the collector to let go of that."""

    class Failure(Exception):
        pass

    def job() -> None:
        raise Failure

    async def run() -> weakref.ref[Failure] | None:
        steps, found = Steps(), None
        try:
            await steps.turn()(job)
        except Failure as error:
            names = [frame.name for frame in traceback.extract_tb(error.__traceback__)]
            assert names[-1] == "job", "where it was raised is still said"
            found = weakref.ref(error)
        await steps.close()
        return found

    gc.disable()
    try:
        found = asyncio.run(run())
        assert found is not None
        assert found() is None
    finally:
        gc.enable()


def test_of_those_that_wait_the_one_that_has_used_least_goes_first() -> None:
    async def run() -> None:
        steps = Steps()
        heavy, light, idle = steps.turn(), steps.turn(), steps.turn()
        await heavy(lambda: time.sleep(0.05))
        done: list[str] = []
        begun, gate = threading.Event(), threading.Event()

        def block() -> None:
            begun.set()
            gate.wait()

        blocked = asyncio.ensure_future(idle(block))
        await until(begun.is_set)
        assert steps.busy_seconds > 0
        # All of these wait together; the heavy one came first.
        waiting = [heavy(lambda: done.append("heavy")), light(lambda: done.append("light"))]
        jobs = [asyncio.ensure_future(one) for one in waiting]
        await asyncio.sleep(0)
        assert len(steps) == 2
        gate.set()
        await asyncio.gather(blocked, *jobs)
        assert done == ["light", "heavy"]
        assert heavy.used_ns > light.used_ns
        await steps.close()

    asyncio.run(run())


def test_who_was_away_does_not_save_up_turns() -> None:
    async def run() -> None:
        steps = Steps()
        busy, away = steps.turn(), steps.turn()
        busy.position = 10**12
        await busy(lambda: None)
        await away(lambda: None)
        assert away.position >= 10**12, "it goes on from where the others are"
        await steps.close()

    asyncio.run(run())


def test_every_job_is_timed() -> None:
    async def run() -> None:
        took: list[float] = []
        steps = Steps(timed=took.append)
        for _ in range(3):
            await steps.turn()(lambda: None)
        await steps.close()
        assert len(took) == 3
        assert all(seconds >= 0 for seconds in took)
        assert steps.busy_seconds == 0

    asyncio.run(run())


def test_closing_does_what_waits_and_then_takes_nothing_more() -> None:
    async def run() -> None:
        steps = Steps()
        done: list[int] = []
        jobs = [asyncio.ensure_future(steps.turn()(partial(done.append, number))) for number in range(10)]
        await asyncio.sleep(0)
        await steps.close()
        await asyncio.gather(*jobs)
        assert sorted(done) == list(range(10))
        with pytest.raises(StepsClosed):
            await steps.turn()(lambda: None)

    asyncio.run(run())


def test_whoever_stops_waiting_disturbs_nobody() -> None:
    async def run() -> None:
        steps = Steps()
        gate = threading.Event()
        left = asyncio.ensure_future(steps.turn()(gate.wait))
        await asyncio.sleep(0)
        left.cancel()
        await asyncio.wait({left})
        gate.set()
        assert await steps.turn()(lambda: "on") == "on"
        await steps.close()

    asyncio.run(run())
