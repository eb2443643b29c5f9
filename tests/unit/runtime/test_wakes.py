"""Waking links: once for many commits, for other processes' commits too, and never after the undo."""

import asyncio
from pathlib import Path

from bobbin.runtime.clock import tai_now
from bobbin.runtime.steps import Steps
from bobbin.runtime.wakes import Wakes
from bobbin.store.sqlite import open_store
from tests.support.exchanges import record
from tests.support.nodes import until


def test_commits_that_follow_each_other_closely_wake_once(tmp_path: Path) -> None:
    async def run() -> None:
        steps = Steps()
        with open_store(tmp_path / "records.db", create=True, now=tai_now) as store:
            wakes = Wakes(store, steps)
            await wakes.start()
            woken: list[str] = []
            wakes.subscribe(lambda: woken.append("one"))
            undo = wakes.subscribe(lambda: woken.append("other"))

            def commit_many() -> None:
                for number in range(10):
                    store.put_records([record(number)])

            turn = steps.turn()
            # The loop does not run while these are made, since it waits in a thread's place.
            job = asyncio.ensure_future(turn(commit_many))
            await job
            await until(lambda: woken)
            assert woken.count("one") == woken.count("other") <= 10
            undo()
            undo()
            assert len(wakes) == 1
            woken.clear()
            await turn(lambda: store.put_records([record(100)]))
            await until(lambda: woken)
            assert set(woken) == {"one"}
            await wakes.stop()
            await steps.close()

    asyncio.run(run())


def test_a_note_before_the_last_one_was_told_is_the_same_note(tmp_path: Path) -> None:
    async def run() -> None:
        steps = Steps()
        with open_store(tmp_path / "records.db", create=True, now=tai_now) as store:
            wakes = Wakes(store, steps)
            await wakes.start()
            woken: list[int] = []
            wakes.subscribe(lambda: woken.append(1))
            for _ in range(50):
                wakes._note()
            await asyncio.sleep(0)
            await asyncio.sleep(0)
            assert woken == [1]
            await wakes.stop()
            await steps.close()

    asyncio.run(run())


def test_what_another_process_commits_is_noticed(tmp_path: Path) -> None:
    async def run() -> None:
        steps = Steps()
        path = tmp_path / "records.db"
        with open_store(path, create=True, now=tai_now) as store, open_store(path, now=tai_now) as elsewhere:
            wakes = Wakes(store, steps, poll_seconds=0.01)
            await wakes.start()
            woken: list[int] = []
            wakes.subscribe(lambda: woken.append(1))
            await asyncio.to_thread(elsewhere.put_records, [record(1)])
            await until(lambda: woken)
            await wakes.stop()
            await steps.close()

    asyncio.run(run())
