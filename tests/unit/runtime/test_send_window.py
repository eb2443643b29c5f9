"""How much is on its way at once."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from bobbin.runtime.send_window import LATE_SECONDS, SOON_SECONDS, SendWindow

SIZE = 100


class Traffic:
    """Who is on the way, in the order of their going."""

    def __init__(self, bytes_max: int = 1_000) -> None:
        self.window = SendWindow(bytes_max=bytes_max)
        self.gone: list[int] = []
        self.tasks: dict[int, asyncio.Task[None]] = {}

    async def send(self, *names: int, size: int = SIZE) -> None:
        for name in names:
            self.tasks[name] = asyncio.create_task(self._go(name, size))
        await self.rest()

    async def back(self, seconds: float | None = 0.0, *, count: int = 1, size: int = SIZE) -> None:
        for _ in range(count):
            self.window.leave(size, seconds)
        await self.rest()

    @staticmethod
    async def rest() -> None:
        for _ in range(5):
            await asyncio.sleep(0)

    async def _go(self, name: int, size: int) -> None:
        await self.window.enter(size)
        self.gone.append(name)


def run(story: Callable[[Traffic], Awaitable[None]], bytes_max: int = 1_000) -> None:
    async def tell() -> None:
        traffic = Traffic(bytes_max)
        await story(traffic)
        for task in traffic.tasks.values():
            task.cancel()

    asyncio.run(tell())


def test_the_first_goes_alone_and_what_comes_back_soon_makes_room() -> None:
    async def story(traffic: Traffic) -> None:
        await traffic.send(*range(20))
        assert traffic.gone == [0]
        await traffic.back()
        assert traffic.gone == [0, 1, 2]
        await traffic.back(count=2)
        assert traffic.gone == [0, 1, 2, 3, 4, 5, 6]

    run(story)


def test_there_is_an_end_to_it() -> None:
    async def story(traffic: Traffic) -> None:
        await traffic.send(*range(40))
        for _ in range(12):
            await traffic.back()
        assert len(traffic.gone) == 12 + 5

    run(story, 5 * SIZE)


def test_what_comes_back_late_takes_room_away_and_in_between_it_stays() -> None:
    async def story(traffic: Traffic) -> None:
        await traffic.send(*range(40))
        await traffic.back()
        await traffic.back(count=2)
        assert len(traffic.gone) == 3 + 4
        await traffic.back(SOON_SECONDS + 0.01, count=4)
        assert len(traffic.gone) == 7 + 4
        await traffic.back(LATE_SECONDS + 0.01, count=2)
        assert len(traffic.gone) == 11, "two came back, and there is room for two less"
        await traffic.back(LATE_SECONDS + 9, count=2)
        assert len(traffic.gone) == 12, "one may always go"
        await traffic.back(LATE_SECONDS + 9)
        assert len(traffic.gone) == 13

    run(story)


def test_after_a_failure_one_goes_alone_again() -> None:
    async def story(traffic: Traffic) -> None:
        await traffic.send(*range(40))
        await traffic.back()
        await traffic.back(count=2)
        await traffic.back(None)
        assert len(traffic.gone) == 7
        await traffic.back(None, count=3)
        assert len(traffic.gone) == 8

    run(story)


def test_a_large_one_waits_until_it_is_alone_and_nobody_overtakes_it() -> None:
    async def story(traffic: Traffic) -> None:
        await traffic.send(0)
        await traffic.send(1, size=50 * SIZE)
        await traffic.send(2)
        assert traffic.gone == [0]
        await traffic.back()
        assert traffic.gone == [0, 1]
        await traffic.back(size=50 * SIZE)
        assert traffic.gone == [0, 1, 2]

    run(story)


@pytest.mark.parametrize("is_let_in", [False, True])
def test_whoever_goes_away_leaves_no_gap(*, is_let_in: bool) -> None:
    async def story(traffic: Traffic) -> None:
        await traffic.send(0, 1, 2)
        if is_let_in:
            traffic.window.leave(SIZE, LATE_SECONDS)
        traffic.tasks[1].cancel()
        await traffic.rest()
        assert traffic.gone == ([0, 2] if is_let_in else [0])
        if not is_let_in:
            await traffic.back(LATE_SECONDS)
            assert traffic.gone == [0, 2]
        await traffic.send(3)
        assert traffic.gone == [0, 2]
        await traffic.back(LATE_SECONDS)
        assert traffic.gone == [0, 2, 3]

    run(story)
