"""The asynchronous driver: bounded and open exchanges over a link, and every way that one can end."""

import asyncio
import threading
from collections.abc import Awaitable, Callable

import pytest

from bobbin.errors import UsageError
from bobbin.interlace.config import Bounded, Config, Open
from bobbin.interlace.effects import Effect, FixedPoint, Notify, Send
from bobbin.interlace.events import Event, Now, Persisted
from bobbin.interlace.limits import SECOND_NS, Limits, Service
from bobbin.interlace.machine import InterlaceMachine
from bobbin.interlace.messages import Advertise, Hello, Message, Request, Setup, Transfer
from bobbin.interlace.reasons import Abort, LimitReached, Reason
from bobbin.interlace.result import Result
from bobbin.interlace.state import Awaits
from bobbin.runtime.exchange import Exchange, Link, LinkEnded
from bobbin.runtime.memory_link import memory_link
from tests.policy_worlds import EVERYTHING
from tests.support.byte_streams import until
from tests.support.exchanges import (
    BY_GROUP,
    START_NS,
    Against,
    SetClock,
    Watched,
    config,
    hashes,
    meet,
    record,
    records,
    selector,
)
from tests.support.linked import Threads


class _Two:
    """Two exchanges over one link in memory, each with what was told of it."""

    def __init__(self, left: Config, right: Config, here: Watched, there: Watched) -> None:
        self.clock = SetClock()
        self.fixed_points = {"left": 0, "right": 0}
        self.said: list[tuple[str, Message]] = []
        one, other = memory_link()
        self.left = self._exchange("left", left, here, one)
        self.right = self._exchange("right", right, there, other)

    def _exchange(self, name: str, made: Config, holdings: Watched, link: Link) -> Exchange:
        def observe(event: Event, effects: tuple[Effect, ...]) -> None:
            del event
            for effect in effects:
                if isinstance(effect, Notify) and isinstance(effect.notice, FixedPoint):
                    self.fixed_points[name] += 1
                if isinstance(effect, Send):
                    self.said.append((name, effect.message))

        return Exchange(InterlaceMachine(made, holdings), holdings, link, clock=self.clock, observers=[observe])

    async def run(self, between: Callable[["_Two"], Awaitable[None]] | None = None) -> tuple[Result, Result]:
        """Both to their end, with something done while they run."""
        tasks = [asyncio.create_task(self.left.run()), asyncio.create_task(self.right.run())]
        if between is not None:
            await between(self)
        left, right = await asyncio.gather(*tasks)
        return left, right

    async def at_rest(self, times: int = 1) -> None:
        await until(lambda: min(self.fixed_points.values()) >= times)


def _two(here: Watched, there: Watched, rules: str = EVERYTHING, *, lifecycle: Bounded | Open | None = None,
         service: Service | None = None) -> _Two:  # fmt: skip
    life, serving = lifecycle or Bounded(), service or Service()
    return _Two(
        config(rules, initiator=True, lifecycle=life, service=serving, cursor_key="k"),
        config(rules, initiator=False, lifecycle=life, service=serving, cursor_key="k"),
        here,
        there,
    )


# ---- to the end -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "service", [Service(), Service(list_outright_max=1, chunk_records_max=1, request_records_max=9)]
)
def test_a_bounded_exchange_does_what_a_pair_does(service: Service) -> None:
    """IL-223, IL-224, IL-284: the same messages, the same results, the same stores."""
    here, there = Watched(records(30)), Watched(records(30, first=20))
    two = _two(here, there, service=service)
    results = asyncio.run(two.run())
    meeting = meet(records(30), records(30, first=20), service=service, cursor_key="k")
    assert results == meeting.run()
    assert set(here.records) == set(meeting.here.records)
    for side in ("left", "right"):
        assert [message for name, message in two.said if name == side] == [
            message for name, message in meeting.said if name == side
        ]
    assert set(here.cursors) == {"k"}


def test_both_sides_can_have_much_to_say_at_once() -> None:
    """ILC-097, IL-201: neither waits for the other to be done, in parts much smaller than what is moved."""
    here, there = Watched(records(60, size=500)), Watched(records(60, first=60, size=500))
    service = Service(chunk_records_max=1, unsettled_records_max=1)
    left, right = asyncio.run(_two(here, there, service=service).run())
    assert left.fixed_point
    assert right.fixed_point
    assert set(here.records) == set(there.records) == hashes(records(120, size=500))


# ---- open -----------------------------------------------------------------------------------------------------------


def test_an_open_exchange_is_woken_by_the_store() -> None:
    """IL-230, IL-231, IL-232, IL-236."""
    here, there = Watched(records(2)), Watched()
    two = _two(here, there, lifecycle=Open())

    async def between(two: _Two) -> None:
        await two.at_rest()
        assert set(there.records) == hashes(records(2))
        here.put(record(9))
        two.left.wake()
        two.left.wake()
        await two.at_rest(2)
        assert record(9).hash in there.records
        there.put(record(10))
        two.right.wake()
        await two.at_rest(3)
        assert record(10).hash in here.records
        two.left.cancel()

    left, right = asyncio.run(two.run(between))
    assert left.reason is Reason.CANCELLED
    assert right.fixed_point


def test_a_wake_up_may_come_from_another_thread() -> None:
    """IL-232."""
    here, there = Watched(), Watched()

    async def between(two: _Two) -> None:
        await two.at_rest()
        here.put(record(1))
        thread = threading.Thread(target=two.left.wake)
        thread.start()
        await until(lambda: record(1).hash in there.records)
        thread.join()
        two.right.cancel()

    left, right = asyncio.run(_two(here, there, lifecycle=Open()).run(between))
    assert right.reason is Reason.CANCELLED
    assert left.reason in (None, Reason.LINK_LOST)


@pytest.mark.parametrize("way", ["subscribe", "poll"])
def test_commits_and_other_processes_are_listened_to(way: str) -> None:
    """IL-232, IL-231: by subscription while it runs, and by looking."""
    here, there = Watched(), Watched()
    listeners: list[Callable[[], None]] = []
    undone: list[bool] = []
    changed: list[bool] = []

    def subscribe(listener: Callable[[], None]) -> Callable[[], None]:
        listeners.append(listener)
        return lambda: undone.append(True)

    one, other = memory_link()
    clock = SetClock()
    left = Exchange(
        InterlaceMachine(config(lifecycle=Open()), here),
        here,
        one,
        clock=clock,
        subscribe=subscribe if way == "subscribe" else None,
        changed_elsewhere=(lambda: bool(changed and changed.pop())) if way == "poll" else None,
        poll_seconds=0,
    )
    right = Exchange(InterlaceMachine(config(initiator=False, lifecycle=Open()), there), there, other, clock=clock)

    async def run() -> None:
        tasks = [asyncio.create_task(left.run()), asyncio.create_task(right.run())]
        await until(lambda: len(here.doings) >= 2)
        here.put(record(1))
        changed.append(True)
        for listener in listeners:
            listener()
        await until(lambda: record(1).hash in there.records)
        left.cancel()
        await asyncio.gather(*tasks)

    asyncio.run(run())
    assert undone == ([True] if way == "subscribe" else [])


@pytest.mark.parametrize("sides", [("left",), ("right",), ("left", "right")], ids="+".join)
def test_operands_change_on_either_side_or_both(sides: tuple[str, ...]) -> None:
    """IL-045, IL-233, IL-235."""
    here, there = Watched([*records(2), *records(2, first=10, group="x")]), Watched()
    two = _two(here, there, BY_GROUP, lifecycle=Open())

    async def between(two: _Two) -> None:
        await two.at_rest()
        for name in sides:
            (two.left if name == "left" else two.right).change_operand(selector(EVERYTHING))
        await two.at_rest(2)
        if len(sides) == 2:
            await until(lambda: len(there.records) == 4)
        two.left.cancel()

    asyncio.run(two.run(between))
    assert set(there.records) == (hashes(here.records.values()) if len(sides) == 2 else hashes(records(2)))
    setups = [message.operand.module for _, message in two.said if isinstance(message, Setup)]
    assert setups.count(selector(EVERYTHING).identifier) >= len(sides)


def test_a_bounded_exchange_keeps_its_operand() -> None:
    """ILC-131."""
    one, _ = memory_link()
    exchange = Exchange(InterlaceMachine(config(), Watched()), Watched(), one, clock=SetClock())
    with pytest.raises(UsageError):
        exchange.change_operand(selector(BY_GROUP))
    exchange.wake()  # before it runs there is nothing to wake


class _Jumping:
    """A clock that is far later each time, so that a timer is over at once."""

    def __init__(self, step_seconds: int) -> None:
        self._step_ns = step_seconds * SECOND_NS
        self._calls = 0

    def __call__(self) -> Now:
        self._calls += 1
        return Now(tai_ns=START_NS, monotonic_ns=self._calls * self._step_ns)


def test_ticks_wake_an_open_exchange() -> None:
    """IL-232, IL-036, IL-170: what waits for a time is exchanged when the clocks of both have reached it."""
    rules = "SelectAdvertised(P,S) :- Advertised(P,S).\nSelectHave(P) :- Have(P), StartTAI(S), TickTAI(T), Lt(S,T).\n"
    here, there = Watched(records(1)), Watched()
    two = _two(here, there, rules, lifecycle=Open())

    async def between(two: _Two) -> None:
        await two.at_rest()
        assert not there.records
        two.clock.move(10)
        two.left.wake()  # the loop looks at its clock again
        two.right.wake()
        await until(lambda: bool(there.records))
        two.left.cancel()

    asyncio.run(two.run(between))
    assert set(there.records) == hashes(records(1))


# ---- ends -----------------------------------------------------------------------------------------------------------


class _Silent:
    """A peer that never says a word."""

    def __init__(self) -> None:
        self.said: list[Message] = []
        self.closed = False

    async def send(self, message: Message) -> None:
        self.said.append(message)

    async def receive(self, awaits: Awaits) -> Message:
        del awaits
        await asyncio.Event().wait()
        raise LinkEnded

    async def close(self, why: Reason | None = None) -> None:
        del why
        self.closed = True


def _alone(link: Link, *, clock: Callable[[], Now] | None = None, service: Service | None = None) -> Result:
    holdings = Watched(records(2))
    machine = InterlaceMachine(config(service=service or Service()), holdings)
    exchange = Exchange(machine, holdings, link, clock=clock or SetClock())
    return asyncio.run(exchange.run())


def test_a_phase_that_takes_too_long_ends_the_exchange() -> None:
    """IL-267, IL-282."""
    link = _Silent()
    result = _alone(link, clock=_Jumping(31))
    assert result.reason is Reason.PHASE_TIMEOUT
    assert link.closed
    assert [type(message) for message in link.said] == [Setup]


class _Answering(_Silent):
    """A peer whose first word is an error."""

    def __init__(self, error: Exception) -> None:
        super().__init__()
        self._error = error

    async def receive(self, awaits: Awaits) -> Message:
        del awaits
        raise self._error


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (Abort(Reason.MALFORMED_BLOCK, "no block"), Reason.MALFORMED_BLOCK),
        (LimitReached(Reason.OVERSIZED_BLOCK, "max_fact_block_size", "too large"), Reason.OVERSIZED_BLOCK),
        (LinkEnded(), Reason.LINK_LOST),
        (ConnectionResetError(), Reason.LINK_LOST),
    ],
)
def test_what_reading_can_bring(error: Exception, reason: Reason) -> None:
    """IL-261, IL-268, IL-224."""
    link = _Answering(error)
    assert _alone(link).reason is reason
    assert link.closed


_SUMMARISING = Service(list_outright_max=1)
"""A summary calls for another block, in which a peer may ask."""


class _Asking(_Silent):
    """A peer that asks and asks. It takes our first words, and after them only as many as it has patience for."""

    def __init__(self, patience: int) -> None:
        super().__init__()
        against = Against(config(service=_SUMMARISING), Watched(records(2)))
        hello = against.to_hello()
        self._script: list[Message] = [against.setup(), hello, Advertise()]
        self._patience = patience
        self.asked = 0

    async def send(self, message: Message) -> None:
        self.said.append(message)
        if len(self.said) > self._patience:
            await asyncio.Event().wait()

    async def receive(self, awaits: Awaits) -> Message:
        del awaits
        await asyncio.sleep(0)
        if self._script:
            return self._script.pop(0)
        self.asked += 1
        return Advertise(lists=("aa",))


class _Running:
    """A clock that goes on by some milliseconds whenever it is read."""

    def __init__(self) -> None:
        self._read = 0

    def __call__(self) -> Now:
        self._read += 1
        return Now(tai_ns=START_NS, monotonic_ns=self._read * 2_000_000)


@pytest.mark.slow
def test_a_peer_that_asks_without_reading_gets_one_answer() -> None:
    """IL-267, IL-037: what is not out yet does not pile up, and the phase ends when its time is over."""
    link = _Asking(patience=4)
    result = _alone(link, clock=_Jumping(1), service=_SUMMARISING)
    assert result.reason is Reason.PHASE_TIMEOUT
    assert link.asked <= 4


def test_a_peer_that_never_falls_silent_does_not_outrun_the_time() -> None:
    """IL-267, IL-282: the end of a phase comes before the next word of the peer."""
    link = _Asking(patience=1_000_000)
    result = _alone(link, clock=_Running(), service=_SUMMARISING)
    assert result.reason is Reason.PHASE_TIMEOUT


class _Refusing(_Silent):
    async def send(self, message: Message) -> None:
        del message
        raise LimitReached(Reason.OVERSIZED_BLOCK, "max_fact_block_size", "too large")


def test_a_block_that_does_not_go_through_is_named() -> None:
    """IL-268, IL-047."""
    result = _alone(_Refusing())
    assert (result.reason, result.limit) == (Reason.OVERSIZED_BLOCK, "max_fact_block_size")


class _Cut:
    """One end of a link that breaks after so many messages, in one direction or both."""

    def __init__(self, link: Link, after: int) -> None:
        self._link = link
        self._left = after

    async def send(self, message: Message) -> None:
        await self._count()
        await self._link.send(message)

    async def receive(self, awaits: Awaits) -> Message:
        await self._count()
        return await self._link.receive(awaits)

    async def close(self, why: Reason | None = None) -> None:
        del why
        await self._link.close()

    async def _count(self) -> None:
        if not self._left:
            await self._link.close()
            raise LinkEnded
        self._left -= 1


@pytest.mark.parametrize("after", range(24))
def test_a_peer_may_go_at_any_moment(after: int) -> None:
    """IL-224, IL-236, IL-256, IL-273: both sides end, and what they report is what they have."""
    before = {"left": records(3), "right": records(3, first=10)}
    here, there = Watched(before["left"]), Watched(before["right"])
    one, other = memory_link()
    clock, service = SetClock(), Service(chunk_records_max=1)
    left = Exchange(InterlaceMachine(config(service=service), here), here, _Cut(one, after), clock=clock)
    right = Exchange(InterlaceMachine(config(service=service, initiator=False), there), there, other, clock=clock)

    async def run() -> tuple[Result, Result]:
        async with asyncio.timeout(60):
            return await asyncio.gather(left.run(), right.run())

    for result, holdings, name in zip(asyncio.run(run()), (here, there), ("left", "right"), strict=True):
        assert result.fixed_point is (result.reason is None)
        assert result.reason in (None, Reason.LINK_LOST)
        assert result.received == set(holdings.records) - hashes(before[name])


def test_a_side_that_only_sends_notices_that_the_peer_is_gone() -> None:
    """IL-224: it reads nothing at that moment, and does not wait for its phase to run out."""
    some = records(20)
    holdings = Watched(some)

    class Leaving(_Silent):
        """Asks for everything, has nothing to give, and goes after the first part."""

        async def send(self, message: Message) -> None:
            if isinstance(message, Transfer):
                raise LinkEnded
            self.said.append(message)

        async def receive(self, awaits: Awaits) -> Message:
            await until(lambda: bool(self.said) and awaits is not Awaits.NOTHING)
            match awaits:
                case Awaits.SETUP:
                    return Against(config()).setup()
                case Awaits.HELLO:
                    await until(lambda: any(isinstance(message, Hello) for message in self.said))
                    return next(message for message in self.said if isinstance(message, Hello))
                case Awaits.ADVERTISE:
                    return Advertise()
                case Awaits.REQUEST:
                    return Request(records=tuple(sorted(hashes(some))))
                case _:
                    return Transfer(last=True)

    service = Service(chunk_records_max=1)
    exchange = Exchange(InterlaceMachine(config(service=service), holdings), holdings, Leaving(), clock=SetClock())

    async def run() -> Result:
        async with asyncio.timeout(20):
            return await exchange.run()

    assert asyncio.run(run()).reason is Reason.LINK_LOST


def test_cancelling_waits_for_what_is_being_stored() -> None:
    """IL-224, IL-273: the end comes after the fate of everything that was received."""
    here, there = Watched(records(6)), Watched()
    one, other = memory_link()
    clock, service = SetClock(), Service(chunk_records_max=1)
    events: list[str] = []
    right = Exchange(
        InterlaceMachine(config(service=service, initiator=False), there),
        there,
        other,
        clock=clock,
        observers=[lambda event, _: _cancel_at_first(event, events, right)],
    )
    left = Exchange(InterlaceMachine(config(service=service), here), here, one, clock=clock)

    async def run() -> tuple[Result, Result]:
        return await asyncio.gather(left.run(), right.run())

    _, result = asyncio.run(run())
    assert result.reason is Reason.CANCELLED
    assert result.received == set(there.records)
    assert 0 < len(there.records) < 6


def _cancel_at_first(event: Event, events: list[str], exchange: Exchange) -> None:
    events.append(type(event).__name__)
    if isinstance(event, Persisted) and events.count("Persisted") == 1:
        exchange.cancel()


def test_limits_end_both_sides() -> None:
    """IL-281, ILC-126."""
    here, there = Watched(records(9)), Watched()
    one, other = memory_link()
    clock, limits, service = SetClock(), Limits(max_loop_iterations=3), Service(request_records_max=1)
    sides = [
        Exchange(InterlaceMachine(config(limits=limits, service=service), here), here, one, clock=clock),
        Exchange(
            InterlaceMachine(config(limits=limits, service=service, initiator=False), there), there, other, clock=clock
        ),
    ]

    async def run() -> list[Result]:
        return list(await asyncio.gather(*(side.run() for side in sides)))

    results = asyncio.run(run())
    assert {result.reason for result in results} == {Reason.LOOP_LIMIT}
    assert len(there.records) == 3


# ---- work elsewhere -------------------------------------------------------------------------------------------------


def test_steps_and_the_store_stay_in_the_thread_that_they_are_given() -> None:
    work = Threads()
    here, there = Watched(records(20)), Watched(records(20, first=10))
    for holdings in (here, there):
        holdings.before_evaluate = work.note
        holdings.before_load = lambda _: work.note()
    one, other = memory_link()
    clock, service = SetClock(), Service(chunk_records_max=2)
    undone: list[int] = []

    def subscribe(wake: Callable[[], None]) -> Callable[[], None]:
        del wake
        work.note()
        return lambda: undone.append(threading.get_ident())

    sides = [
        Exchange(
            InterlaceMachine(config(service=service, initiator=initiator), holdings),
            holdings,
            link,
            clock=clock,
            observers=[lambda event, effects: work.note()],  # noqa: ARG005
            subscribe=subscribe,
            work=work,
        )
        for initiator, holdings, link in ((True, here, one), (False, there, other))
    ]

    async def run() -> list[Result]:
        return list(await asyncio.gather(*(side.run() for side in sides)))

    with work.executor:
        results = asyncio.run(run())
    meeting = meet(records(20), records(20, first=10), service=service)
    assert tuple(results) == meeting.run()
    assert len(work.touched) == 1
    assert work.touched == set(undone)
    assert threading.get_ident() not in work.touched


def test_a_cancelled_exchange_waits_for_the_job_that_it_has_begun() -> None:
    """What uses the store at that moment must be done before whoever cancels gives the store away."""
    work = Threads()
    here = Watched(records(2))
    begun, may_end, ended = threading.Event(), threading.Event(), threading.Event()
    one, _ = memory_link()

    def slow(event: Event, effects: tuple[Effect, ...]) -> None:
        del event, effects
        begun.set()
        assert may_end.wait(20)
        ended.set()

    exchange = Exchange(InterlaceMachine(config(), here), here, one, clock=SetClock(), observers=[slow], work=work)

    async def run() -> None:
        task = asyncio.create_task(exchange.run())
        await asyncio.get_running_loop().run_in_executor(None, begun.wait, 20)
        task.cancel()
        await asyncio.sleep(0)
        may_end.set()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert ended.is_set()

    with work.executor:
        asyncio.run(run())
