"""The pace of one peer: what is free, what has to wait, and that nobody is cut off."""

import asyncio
from collections.abc import Iterable
from typing import cast

import pytest

from bobbin.interlace.effects import Arrived, FixedPoint, Notify
from bobbin.interlace.events import Flushed
from bobbin.interlace.limits import SECOND_NS
from bobbin.interlace.machine import InterlaceMachine
from bobbin.interlace.messages import Advertise, Message, Request, Setup
from bobbin.interlace.reasons import Reason
from bobbin.interlace.result import Result
from bobbin.interlace.state import Awaits, Phase
from bobbin.policy.operands import Operand, Origin
from bobbin.runtime.node_settings import LinkBounds
from bobbin.runtime.pace import WAIT_SECONDS_MAX, Pace, PacedLink
from tests.policy_worlds import BOB, DING_IDENTIFIER

_SETUP = Setup(index=0, operand=Operand(module=DING_IDENTIFIER, origin=Origin(BOB)))


class _Machine:
    def __init__(self) -> None:
        self.phase = Phase.IDLE


class _Says:
    """A link whose peer says what a test gives it."""

    def __init__(self, messages: Iterable[Message]) -> None:
        self._messages = iter(messages)
        self.sent: list[Message] = []
        self.is_closed = False

    async def send(self, message: Message) -> None:
        self.sent.append(message)

    async def receive(self, awaits: Awaits) -> Message:
        del awaits
        return next(self._messages)

    async def close(self, why: Reason | None = None) -> None:
        del why
        self.is_closed = True


class _World:
    def __init__(
        self, messages: Iterable[Message], *, rounds: int = 60, changes: int = 6, pace: Pace | None = None
    ) -> None:
        self.machine = _Machine()
        self.now_ns = 0
        self.used_ns = 0
        self.waits: list[float] = []
        self.slowed = 0
        bounds = LinkBounds(empty_rounds_per_minute_max=rounds, operand_changes_per_minute_max=changes)
        self.pace = pace or Pace(bounds, 0)
        self.says = _Says(messages)
        self.link = PacedLink(
            self.says,
            cast(InterlaceMachine, self.machine),
            self.pace,
            used_ns=lambda: self.used_ns,
            monotonic_ns=lambda: self.now_ns,
            sleep=self._sleep,
            slowed=self._note,
        )

    async def _sleep(self, seconds: float) -> None:
        self.waits.append(seconds)
        self.now_ns += int(seconds * SECOND_NS)

    def _note(self) -> None:
        self.slowed += 1

    def rest(self, received: Iterable[str] = ()) -> None:
        """The round is over."""
        names = tuple(received)
        if names:
            self.link.observe(Flushed(), (Notify(Arrived(names)),))
        result = Result(link=None, plan=None, peer=None, received=frozenset(names), fixed_point=True)
        self.link.observe(Flushed(), (Notify(FixedPoint(result)),))

    def hear(self) -> Message:
        return asyncio.run(self.link.receive(Awaits.ADVERTISE))


def test_empty_rounds_beyond_the_bound_wait_for_their_turn() -> None:
    world = _World([Advertise()] * 70, rounds=60)
    for _ in range(70):
        assert world.hear() == Advertise()
        world.rest()
    assert world.slowed == len(world.waits) == 10
    assert all(0.9 < wait < 1.1 for wait in world.waits)


def test_rounds_that_bring_records_are_free() -> None:
    world = _World([Advertise()] * 200, rounds=10)
    for number in range(200):
        world.hear()
        world.rest([f"record {number}"])
    assert world.waits == []


def test_rounds_of_this_side_are_free() -> None:
    world = _World([Advertise()] * 200, rounds=10)
    world.machine.phase = Phase.ADVERTISE
    for _ in range(200):
        world.hear()
        world.rest()
    assert world.waits == []


def test_a_round_that_took_long_counts_as_many() -> None:
    world = _World([Advertise()] * 3, rounds=60)
    world.hear()
    world.used_ns += 6 * SECOND_NS
    world.rest()
    world.hear()
    assert len(world.waits) == 1
    assert 1.5 < world.waits[0] < 2.5, "61 of 60 are used, and one more is wanted"


def test_changes_of_the_operand_beyond_the_bound_wait() -> None:
    world = _World([_SETUP] * 8, changes=6)
    for _ in range(8):
        world.hear()
    assert len(world.waits) == 2
    assert all(9.0 < wait <= WAIT_SECONDS_MAX for wait in world.waits)


def test_no_wait_is_so_long_that_it_breaks_a_link() -> None:
    world = _World([_SETUP] * 3, changes=1)
    for _ in range(3):
        world.hear()
    assert world.waits == [WAIT_SECONDS_MAX, WAIT_SECONDS_MAX]


def test_links_that_bring_nothing_count_for_the_peer_not_for_the_link() -> None:
    pace = Pace(LinkBounds(empty_rounds_per_minute_max=2), 0)
    waits = []
    for _ in range(4):
        world = _World([_SETUP, Advertise()], pace=pace)
        world.machine.phase = Phase.SETUP
        world.hear()
        world.machine.phase = Phase.ADVERTISE
        world.rest()
        world.hear()
        waits.append(len(world.waits))
    assert waits[:2] == [0, 0]
    assert waits[3] == 1


def test_a_link_that_breaks_off_counts_by_the_time_that_it_took() -> None:
    pace = Pace(LinkBounds(empty_rounds_per_minute_max=60), 0)
    dear, waiting = _World([_SETUP], pace=pace), _World([_SETUP], pace=pace)
    for world in (dear, waiting):
        world.machine.phase = Phase.SETUP
    dear.hear()
    dear.used_ns += 7 * SECOND_NS
    asyncio.run(dear.link.close())
    waiting.hear()
    assert waiting.waits == [pytest.approx(WAIT_SECONDS_MAX)], "71 of 60 are used"


def test_a_link_that_brought_records_and_broke_off_is_free() -> None:
    pace = Pace(LinkBounds(empty_rounds_per_minute_max=1), 0)
    for _ in range(3):
        world = _World([_SETUP], pace=pace)
        world.machine.phase = Phase.SETUP
        world.hear()
        world.used_ns += 7 * SECOND_NS
        world.link.observe(Flushed(), (Notify(Arrived(("record",))),))
        asyncio.run(world.link.close())
        assert world.waits == []


def test_everything_else_passes_as_it_is() -> None:
    world = _World([Request()])
    assert world.hear() == Request()
    asyncio.run(world.link.send(Request()))
    asyncio.run(world.link.close())
    assert world.says.sent == [Request()]
    assert world.says.is_closed
