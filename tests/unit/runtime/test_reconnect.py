"""When a link is tried again, and when not."""

import asyncio
from random import Random

import pytest

from bobbin.errors import BobbinError, PeerError, ResourceError, UsageError
from bobbin.runtime.address_rotation import Rotation
from bobbin.runtime.introduction import NotAdmitted, NotIntroduced, Refusal
from bobbin.runtime.reconnect import Backoff, Lost, Once, keep, may_help
from bobbin.transport.base import TransportError


class _Longest(Random):
    """Always chooses the upper end."""

    def uniform(self, a: float, b: float) -> float:
        del a
        return b


def test_waits_double_up_to_a_bound_and_start_over() -> None:
    backoff = Backoff(first_seconds=1, longest_seconds=5, random=_Longest())
    assert [backoff.wait_seconds() for _ in range(5)] == [1, 2, 4, 5, 5]
    assert backoff.settle(was_good=True, seconds=5)
    assert backoff.wait_seconds() == 1


@pytest.mark.parametrize(
    ("longest", "was_good", "seconds", "starts_over"),
    [
        (5, True, 5, True),
        (5, True, 4.9, False),
        (5, False, 500, False),
        (300, True, 60, True),
        (300, True, 59, False),
    ],
)
def test_waits_start_over_only_after_a_link_that_was_good_and_lasted(
    *, longest: float, was_good: bool, seconds: float, starts_over: bool
) -> None:
    backoff = Backoff(first_seconds=1, longest_seconds=longest, random=_Longest())
    backoff.wait_seconds()
    assert backoff.settle(was_good=was_good, seconds=seconds) is starts_over
    assert backoff.wait_seconds() == (1 if starts_over else 2)


def test_a_wait_is_anything_up_to_its_bound() -> None:
    random = Random(4)
    waits = [Backoff(first_seconds=8, longest_seconds=8, random=random).wait_seconds() for _ in range(400)]
    assert all(0 <= wait <= 8 for wait in waits)
    assert min(waits) < 1
    assert max(waits) > 7


@pytest.mark.parametrize(("first", "longest"), [(0.0, 1.0), (2.0, 1.0), (-1.0, 1.0)])
def test_waits_that_make_no_sense_are_refused(first: float, longest: float) -> None:
    with pytest.raises(UsageError):
        Backoff(first_seconds=first, longest_seconds=longest)


@pytest.mark.parametrize(
    ("error", "helps"),
    [
        (TransportError("nobody listens", retry=True), True),
        (TransportError("another certificate", retry=False), False),
        (NotIntroduced(Refusal.CLOSED, "gone"), True),
        (PeerError("negotiation-failure", "a wrong proof"), True),
        (NotAdmitted("wrong-peer", "somebody else"), False),
        (UsageError("no such thing"), False),
    ],
)
def test_what_trying_again_may_mend(error: BobbinError, helps: bool) -> None:  # noqa: FBT001 -- from a table
    assert may_help(error) is helps


class _Script:
    """Links that end one after the other."""

    def __init__(self, *ends: Once | BobbinError) -> None:
        self._ends = iter(ends)
        self.told: list[Lost] = []
        self.slept: list[float] = []

    async def once(self) -> Once:
        end = next(self._ends)
        if isinstance(end, BobbinError):
            raise end
        return end

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)

    def run(self, rotation: Rotation | None = None) -> None:
        backoff = Backoff(first_seconds=1, longest_seconds=60, random=_Longest())
        asyncio.run(keep(self.once, backoff=backoff, rotation=rotation, tell=self.told.append, sleep=self.sleep))


def test_links_are_tried_again_until_that_cannot_help() -> None:
    script = _Script(
        ResourceError("nobody listens", retry=True),
        Once(was_good=False, why="link-lost"),
        ResourceError("nobody listens", retry=True),
        Once(was_good=True, why="link-lost", seconds=59),
        Once(was_good=True, why="link-lost", seconds=60),
        ResourceError("nobody listens", retry=True),
        NotAdmitted("wrong-peer", "somebody else answers"),
    )
    with pytest.raises(NotAdmitted, match="somebody else answers"):
        script.run()
    assert script.slept == [1, 2, 4, 8, 1, 2]
    assert [lost.attempts for lost in script.told] == [1, 2, 3, 4, 1, 2]
    assert [lost.why for lost in script.told][:2] == ["nobody listens", "link-lost"]


def test_with_several_addresses_there_is_a_wait_only_after_all_of_them() -> None:
    script = _Script(
        Once(was_good=True, why="first lost"),
        Once(was_good=True, why="second lost"),
        Once(was_good=True, why="third lost"),
        Once(was_good=True, why="lasting one lost", seconds=60),
        ResourceError("neither of the other two", retry=True),
        NotAdmitted("wrong-peer", "somebody else answers"),
    )
    with pytest.raises(NotAdmitted):
        script.run(Rotation(3))
    assert [lost.is_next for lost in script.told] == [True, True, False, True, False]
    assert [lost.at for lost in script.told] == [0, 1, 2, 0, None], "the one that was lost, and not the next one"
    assert script.slept == [0, 0, 1, 0, 1]


def test_keeping_can_be_cancelled_while_it_waits() -> None:
    async def run() -> None:
        async def once() -> Once:
            return Once(was_good=True, why="link-lost")

        told = asyncio.Event()
        task = asyncio.create_task(
            keep(
                once,
                backoff=Backoff(first_seconds=600, longest_seconds=600, random=_Longest()),
                tell=lambda _: told.set(),
            )
        )
        await told.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(run())
