"""How much is on its way at once."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from bobbin.runtime.send_window import LATE_SECONDS, SOON_SECONDS, SendWindow

SIZE = 100


class Traffic:
    """Who is on the way, in the order of their going."""

    def __init__(self, bytes_max: int, bytes_min: int) -> None:
        self.window = SendWindow(bytes_min=bytes_min, bytes_max=bytes_max)
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

    async def fail(self, *, count: int = 1) -> None:
        for _ in range(count):
            self.window.fail(SIZE)
        await self.rest()

    @staticmethod
    async def rest() -> None:
        for _ in range(5):
            await asyncio.sleep(0)

    async def _go(self, name: int, size: int) -> None:
        await self.window.enter(size)
        self.gone.append(name)


def run(story: Callable[[Traffic], Awaitable[None]], *, bytes_max: int = 1_000, bytes_min: int = SIZE) -> None:
    async def tell() -> None:
        traffic = Traffic(bytes_max, bytes_min)
        await story(traffic)
        for task in traffic.tasks.values():
            task.cancel()

    asyncio.run(tell())


def test_what_comes_back_soon_makes_room() -> None:
    async def story(traffic: Traffic) -> None:
        await traffic.send(*range(20))
        assert traffic.gone == [0]
        await traffic.back()
        assert traffic.gone == [0, 1, 2]
        await traffic.back(count=2)
        assert traffic.gone == [0, 1, 2, 3, 4, 5, 6]

    run(story)


def test_there_is_room_for_some_from_the_beginning_and_after_whatever_happens() -> None:
    async def story(traffic: Traffic) -> None:
        await traffic.send(*range(20))
        assert len(traffic.gone) == 3
        await traffic.fail(count=3)
        assert len(traffic.gone) == 6
        await traffic.back()
        assert len(traffic.gone) == 8, "one came back soon, so two may go"
        await traffic.back(LATE_SECONDS + 9, count=4)
        assert len(traffic.gone) == 8 + 3

    run(story, bytes_min=3 * SIZE)


def test_there_is_an_end_to_it() -> None:
    async def story(traffic: Traffic) -> None:
        await traffic.send(*range(40))
        for _ in range(12):
            await traffic.back()
        assert len(traffic.gone) == 12 + 5

    run(story, bytes_max=5 * SIZE)


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


@pytest.mark.parametrize("seconds", [0.6, 1.5, 40.0])
def test_where_everything_takes_long_nothing_is_late(seconds: float) -> None:
    """What lies between two nodes is not mended by sending less: there, more has to be on its way."""

    async def story(traffic: Traffic) -> None:
        await traffic.send(*range(200))
        for _ in range(20):
            await traffic.back(seconds)
        assert len(traffic.gone) == 20 + 10
        await traffic.back(9 * seconds, count=10)
        assert len(traffic.gone) == 20 + 10 + 1, "that was late even there"

    run(story)


def test_a_way_that_has_become_long_is_known_after_a_while() -> None:
    async def story(traffic: Traffic) -> None:
        await traffic.send(*range(1_000))
        await traffic.back(0.001)
        for _ in range(200):
            await traffic.back(3.0)
        gone = len(traffic.gone)
        await traffic.back(3.0)
        assert len(traffic.gone) - gone == 1
        assert gone - 201 == 10, "there is room again"

    run(story)


def test_what_says_nothing_of_the_way_changes_nothing() -> None:
    async def story(traffic: Traffic) -> None:
        await traffic.send(*range(40))
        await traffic.back()
        await traffic.back(count=2)
        await traffic.back(None, count=4)
        assert len(traffic.gone) == 7 + 4

    run(story)


def test_after_a_failure_few_go_until_one_comes_back() -> None:
    async def story(traffic: Traffic) -> None:
        await traffic.send(*range(40))
        await traffic.back()
        await traffic.back(count=2)
        await traffic.fail()
        assert len(traffic.gone) == 7
        await traffic.fail(count=3)
        assert len(traffic.gone) == 8

    run(story)


def test_whoever_is_let_in_goes_before_who_comes_later() -> None:
    """Also where the later one finds room before the earlier one has woken up."""

    async def story(traffic: Traffic) -> None:
        await traffic.send(0, 1)
        traffic.window.leave(SIZE, 0.0)
        await traffic.send(2)
        assert traffic.gone == [0, 1, 2]

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
            traffic.window.leave(SIZE)
        traffic.tasks[1].cancel()
        await traffic.rest()
        assert traffic.gone == ([0, 2] if is_let_in else [0])
        if not is_let_in:
            await traffic.back(None)
            assert traffic.gone == [0, 2]
        await traffic.send(3)
        assert traffic.gone == [0, 2]
        await traffic.back(None)
        assert traffic.gone == [0, 2, 3]

    run(story)
