import asyncio
import threading
from collections.abc import Coroutine
from itertools import pairwise

import pytest

from bobbin.errors import ResourceError, UsageError
from bobbin.reactive.graph import EffectsFailed, Graph, StillPending
from bobbin.runtime.reactive_context import Changes, ChangesMissed, ReactiveContext, RunCancelled


def _run(coroutine: Coroutine[object, object, None]) -> None:
    asyncio.run(asyncio.wait_for(coroutine, 60))


def test_ids_say_nothing_of_other_nodes() -> None:
    """Neither how many there are nor which came first; and all of them are numbers that JavaScript has exactly."""
    with ReactiveContext().batch() as graph:
        ids = [graph.cell(number).id for number in range(200)]
    assert len(set(ids)) == len(ids)
    assert max(ids) < 2**53
    assert min(abs(one - other) for one, other in pairwise(ids)) > len(ids)
    assert ids != sorted(ids)


# ---- threads --------------------------------------------------------------------------------------------------------


def test_threads_write_one_after_the_other_and_see_whole_batches() -> None:
    context = ReactiveContext()
    with context.batch() as graph:
        one, other = graph.cell(0), graph.cell(0)
        difference = graph.slot(lambda: one.get() - other.get())
        seen: list[int] = []
        graph.effect(lambda: seen.append(difference.get()))
    start = threading.Barrier(4)

    def write() -> None:
        start.wait()
        for _ in range(200):
            with context.batch():
                one.update(lambda value: value + 1)
                other.update(lambda value: value + 1)
            context.update(one, lambda value: value + 1)
            context.update(other, lambda value: value + 1)

    def read() -> None:
        start.wait()
        for _ in range(300):
            with context.entered():
                assert difference.get() == one.get() - other.get()

    threads = [threading.Thread(target=write) for _ in range(3)]
    threads.append(threading.Thread(target=read))
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert context.get(one) == context.get(other) == 3 * 200 * 2
    assert context.get(difference) == 0
    assert set(seen) <= {0, 1, 2, 3, -1, -2, -3}
    assert seen[-1] == 0


def test_effects_may_use_the_context_themselves() -> None:
    context = ReactiveContext(Graph())
    with context.batch() as graph:
        cell, copy = graph.cell(1), graph.cell(0)
        graph.effect(lambda: context.set(copy, cell.get()))
    context.set(cell, 5)
    assert context.get(copy) == 5


# ---- runs -----------------------------------------------------------------------------------------------------------


def test_asynchronous_slots_are_driven() -> None:
    async def scenario() -> None:
        async with ReactiveContext() as context:
            with context.batch() as graph:
                cell, other = graph.cell(2), graph.cell(3)

                async def multiply() -> int:
                    value = cell.get()
                    await asyncio.sleep(0)
                    return value * other.get()

                product = graph.async_slot(multiply)
                below = graph.slot(lambda: product.get() + 1)
            assert await context.value(below) == 7
            context.set(other, 4)
            with pytest.raises(StillPending):
                context.get(below)
            assert await context.value(below) == 9
            assert await context.value(cell) == 2

    _run(scenario())


def test_a_run_that_is_overtaken_is_cancelled() -> None:
    async def scenario() -> None:
        log: list[str] = []
        begun = asyncio.Event()
        async with ReactiveContext() as context:
            with context.batch() as graph:
                cell = graph.cell(1)

                async def wait() -> int:
                    value = cell.get()
                    if value == 1:
                        try:
                            begun.set()
                            await asyncio.Event().wait()
                        except asyncio.CancelledError:
                            log.append("cancelled")
                            raise
                    return value

                slot = graph.async_slot(wait)
                graph.effect(lambda: log.append(f"is {slot.get()}"))
            await begun.wait()
            context.set(cell, 2)
            assert await context.value(slot) == 2
            await asyncio.sleep(0)
        assert sorted(log) == ["cancelled", "is 2"]

    _run(scenario())


def test_a_failed_run_is_raised_and_tried_again() -> None:
    async def scenario() -> None:
        attempts: list[int] = []
        async with ReactiveContext() as context:

            async def fetch() -> int:
                attempts.append(1)
                await asyncio.sleep(0)
                if len(attempts) < 3:
                    raise ConnectionError("down")
                return 5

            with context.batch() as graph:
                slot = graph.async_slot(fetch)
            for _ in range(2):
                with pytest.raises(ConnectionError):
                    await context.value(slot)
            assert await context.value(slot) == 5
        assert len(attempts) == 3

    _run(scenario())


def test_a_run_may_catch_what_it_waits_for() -> None:
    async def scenario() -> None:
        async with ReactiveContext() as context:

            async def fails() -> None:
                raise ConnectionError

            async def fetch() -> int:
                try:
                    await asyncio.ensure_future(fails())
                except ConnectionError:
                    return -1
                return 1

            with context.batch() as graph:
                slot = graph.async_slot(fetch)
            assert await context.value(slot) == -1

    _run(scenario())


def test_a_run_that_was_cancelled_by_others_has_failed() -> None:
    async def scenario() -> None:
        async with ReactiveContext() as context:

            async def fetch() -> int:
                raise asyncio.CancelledError

            with context.batch() as graph:
                slot = graph.async_slot(fetch)
            with pytest.raises(RunCancelled):
                await context.value(slot)

    _run(scenario())


async def _fail_after_a_run(context: ReactiveContext) -> None:
    async with context:

        async def fetch() -> int:
            return 0

        with context.batch() as graph:
            slot = graph.async_slot(fetch)
            graph.effect(lambda: 1 // slot.get())
        assert await context.value(slot) == 0


def test_effects_that_fail_after_a_run_are_reported() -> None:
    errors: list[Exception] = []
    _run(_fail_after_a_run(ReactiveContext(on_error=errors.append)))
    (error,) = errors
    assert isinstance(error, EffectsFailed)


def test_effects_that_fail_after_a_run_are_reported_to_the_event_loop_else() -> None:
    told: list[dict[str, object]] = []

    async def scenario() -> None:
        asyncio.get_running_loop().set_exception_handler(lambda _, about: told.append(about))
        await _fail_after_a_run(ReactiveContext())

    _run(scenario())
    assert isinstance(told[0]["exception"], EffectsFailed)


def test_runs_wait_for_an_event_loop_and_end_with_it() -> None:
    context = ReactiveContext()
    ended: list[str] = []

    async def hang() -> int:
        try:
            await asyncio.Event().wait()
        finally:
            ended.append("ended")
        return 1

    with context.batch() as graph:
        slot = graph.async_slot(hang, eager=True)

    async def without_loop() -> None:
        with pytest.raises(StillPending):
            await context.value(slot)

    _run(without_loop())

    async def scenario() -> None:
        async with context:
            with pytest.raises(UsageError):
                await context.__aenter__()
            await asyncio.sleep(0)
            await asyncio.sleep(0)
        assert ended == ["ended"]

    _run(scenario())


@pytest.mark.parametrize("pauses", [0, 3])
def test_a_run_that_its_event_loop_did_not_finish_begins_anew_in_the_next_one(pauses: int) -> None:
    """After no pause the run has not even begun: it was asked for, and its task has not had its turn."""
    context = ReactiveContext()
    begun: list[int] = []
    seen: list[int] = []

    async def scenario() -> None:
        finish = asyncio.Event()

        async def work() -> int:
            begun.append(cell.get())
            await finish.wait()
            return cell.get() * 10

        with context.batch() as graph:
            cell = graph.cell(1)
            slot = graph.async_slot(work)
            graph.effect(lambda: seen.append(slot.get()))
        async with context:
            for _ in range(pauses):
                await asyncio.sleep(0)
        assert len(begun) == (pauses > 0)
        assert slot.is_pending
        finish.set()
        async with context:
            assert await context.value(slot) == 10
            context.set(cell, 3)
            assert await context.value(slot) == 30
        assert seen == [10, 30]

    _run(scenario())


def test_runs_may_be_asked_for_from_other_threads() -> None:
    async def scenario() -> None:
        async with ReactiveContext() as context:
            with context.batch() as graph:
                cell = graph.cell(1)

                async def double() -> int:
                    await asyncio.sleep(0)
                    return cell.get() * 2

                slot = graph.async_slot(double, eager=True)
            async with context.changes(slot) as values:
                assert await anext(values) == 2
                await asyncio.to_thread(context.set, cell, 21)
                assert await anext(values) == 42

    _run(scenario())


def test_a_coroutine_must_not_wait_with_the_graph_in_hand() -> None:
    async def scenario() -> None:
        context = ReactiveContext()
        with context.batch() as graph:
            cell = graph.cell(1)
        inside, finish = asyncio.Event(), asyncio.Event()

        async def holding() -> None:
            with context.batch():
                cell.set(2)
                inside.set()
                await finish.wait()

        task = asyncio.create_task(holding())
        await inside.wait()
        with pytest.raises(UsageError, match="must not"):
            context.get(cell)
        finish.set()
        await task
        assert context.get(cell) == 2

    _run(scenario())


# ---- iterators ------------------------------------------------------------------------------------------------------


def test_an_iterator_gives_the_present_value_and_each_one_after() -> None:
    async def scenario() -> None:
        context = ReactiveContext()
        with context.batch() as graph:
            cell = graph.cell(1)
            tens = graph.slot(lambda: cell.get() // 10)
        async with context.changes(tens) as values:
            for value in (5, 20, 21, 30):
                context.set(cell, value)
            assert [await anext(values) for _ in range(3)] == [0, 2, 3]
            assert len(tens.readers) == 1
        assert not tens.readers
        with pytest.raises(StopAsyncIteration):
            await anext(values)

    _run(scenario())


def test_an_iterator_that_is_not_emptied_says_what_it_lost() -> None:
    async def scenario() -> None:
        context = ReactiveContext()
        with context.batch() as graph:
            cell = graph.cell(0)
        async with context.changes(cell, waiting_max=3) as values:
            for value in range(1, 10):
                context.set(cell, value)
            with pytest.raises(ChangesMissed) as missed:
                await anext(values)
            assert missed.value.count == 7
            assert isinstance(missed.value, ResourceError)
            assert [await anext(values) for _ in range(3)] == [7, 8, 9]

    _run(scenario())


def test_an_iterator_raises_a_failure_in_its_place_and_goes_on() -> None:
    async def scenario() -> None:
        context = ReactiveContext()
        with context.batch() as graph:
            cell = graph.cell(0)
            slot = graph.slot(lambda: 10 // cell.get())
        async with context.changes(slot) as values:
            context.set(cell, 5)
            with pytest.raises(ZeroDivisionError):
                await anext(values)
            assert await anext(values) == 2

    _run(scenario())


def test_iterators_are_bounded_and_used_as_such() -> None:
    async def scenario() -> None:
        context = ReactiveContext()
        with context.batch() as graph:
            cell = graph.cell(0)
        with pytest.raises(UsageError):
            context.changes(cell, waiting_max=0)
        unused: Changes[int] = context.changes(cell)
        with pytest.raises(UsageError):
            await anext(unused)
        async with unused as values:
            async for value in values:
                assert value == 0
                break

    _run(scenario())
