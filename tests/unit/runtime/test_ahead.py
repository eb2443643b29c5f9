"""Exchanges whose arrivals are checked elsewhere: order, failure, and what is waited for."""

import asyncio
import gc
import os
import signal
import weakref
from collections.abc import Callable
from pathlib import Path
from threading import Event

import pytest

from bobbin.errors import ResourceError
from bobbin.interlace.effects import Persist
from bobbin.interlace.events import Fate, PersistFailed, Settled
from bobbin.interlace.limits import Service
from bobbin.interlace.machine import InterlaceMachine
from bobbin.interlace.messages import Delivered
from bobbin.interlace.ports import Question
from bobbin.interlace.reasons import Reason
from bobbin.interlace.result import Result
from bobbin.interlace.schema import Schema
from bobbin.policy.claims import ClaimedField
from bobbin.records.ids import HashText
from bobbin.records.record import Plex
from bobbin.runtime import exchange
from bobbin.runtime.ahead import Storing
from bobbin.runtime.decisions import Decisions
from bobbin.runtime.exchange import Exchange
from bobbin.runtime.holdings import StoreHoldings
from bobbin.runtime.memory_link import MemoryLink, memory_link
from bobbin.runtime.workers import Validators
from bobbin.store.sqlite import open_store
from tests.conformance.samples import sealed
from tests.policy_worlds import EVERYTHING
from tests.support.byte_streams import until
from tests.support.exchanges import SetClock, Watched, config, hashes, records
from tests.unit.runtime.test_decisions import RUNTIME, prepared

SERVICE = Service(chunk_records_max=2, unsettled_records_max=6)


class _Checking:
    """Checks elsewhere, for as long as the test wants."""

    def __init__(self, holdings: Watched, *, declines: Callable[[int], bool] = lambda _: False) -> None:
        self.begun: list[Callable[[], None]] = []
        """What says of each that it is ready, in order."""
        self.finished: list[int] = []
        self.may_help = False
        self.helped = 0
        self.fails_at: int | None = None
        self._holdings = holdings
        self._declines = declines

    def help(self) -> bool:
        """Check the oldest, where the test wants it."""
        if not self.may_help or self.helped == len(self.begun):
            return False
        self.helped += 1
        self.begun[self.helped - 1]()
        return True

    def begin_persist(self, effect: Persist, ready: Callable[[], None]) -> Callable[[], tuple[Settled, ...]] | None:
        number = len(self.begun)
        self.begun.append(ready)
        if self._declines(number):
            return None

        def finish() -> tuple[Settled, ...]:
            self.finished.append(number)
            if number == self.fails_at:
                raise ResourceError("a worker process was killed", retry=True)
            return self._holdings.persist(effect)

        return finish


class _Fetching:
    """One side that fetches from another, whose arrivals are checked elsewhere."""

    def __init__(self, count: int, *, declines: Callable[[int], bool] = lambda _: False) -> None:
        self.here, self.there = Watched([]), Watched(records(count))
        self.checking = _Checking(self.here, declines=declines)
        self.ends: tuple[MemoryLink, MemoryLink] = memory_link()
        made = [config(EVERYTHING, initiator=one, service=SERVICE) for one in (True, False)]
        machines = InterlaceMachine(made[0], self.here), InterlaceMachine(made[1], self.there)
        clock = SetClock()
        self.left = Exchange(machines[0], self.here, self.ends[0], clock=clock, ahead=self.checking)
        self.right = Exchange(machines[1], self.there, self.ends[1], clock=clock)

    async def run(self, meanwhile: Callable[["_Fetching"], "asyncio.Future[None]"] | None = None) -> Result:
        tasks = [asyncio.create_task(self.left.run()), asyncio.create_task(self.right.run())]
        if meanwhile is not None:
            await meanwhile(self)
        return (await asyncio.gather(*tasks))[0]


async def _release_in_turn(fetching: _Fetching) -> None:
    """The last that was begun is ready first."""
    released = 0
    while len(fetching.here.records) < len(fetching.there.records):
        await until(lambda: len(fetching.checking.begun) > released or not fetching.there.records)  # noqa: B023
        for ready in reversed(fetching.checking.begun[released:]):
            ready()
        released = len(fetching.checking.begun)
        await asyncio.sleep(0.01)


def test_more_is_read_while_arrivals_are_checked_and_they_are_stored_in_order() -> None:
    async def run() -> None:
        fetching = _Fetching(20)

        async def meanwhile(one: _Fetching) -> None:
            await until(lambda: len(one.checking.begun) >= 3)
            assert not one.here.records, "nothing is stored before it has been checked"
            await _release_in_turn(one)

        result = await fetching.run(lambda one: asyncio.ensure_future(meanwhile(one)))
        assert result.fixed_point
        assert set(fetching.here.records) == set(hashes(records(20)))
        assert fetching.checking.finished == sorted(fetching.checking.finished)

    asyncio.run(run())


def test_some_may_be_stored_at_once_while_others_are_checked() -> None:
    async def run() -> None:
        fetching = _Fetching(20, declines=lambda number: number % 2 == 1)
        result = await fetching.run(lambda one: asyncio.ensure_future(_release_in_turn(one)))
        assert result.fixed_point
        assert set(fetching.here.records) == set(hashes(records(20)))

    asyncio.run(run())


def test_a_worker_that_dies_ends_the_exchange_by_name_and_nothing_more_is_finished() -> None:
    async def run() -> None:
        fetching = _Fetching(20)
        fetching.checking.fails_at = 1

        async def meanwhile(one: _Fetching) -> None:
            await until(lambda: len(one.checking.begun) >= 3)
            for ready in one.checking.begun:
                ready()

        result = await fetching.run(lambda one: asyncio.ensure_future(meanwhile(one)))
        assert result.reason is Reason.STORE
        assert "killed" in result.detail
        assert fetching.checking.finished == [0, 1]
        assert result.received == frozenset(fetching.here.records)

    asyncio.run(run())


@pytest.mark.parametrize("how", ["cancelled", "link lost"])
def test_what_is_being_checked_when_it_ends_is_stored_first(how: str) -> None:
    async def run() -> None:
        fetching = _Fetching(20)

        async def meanwhile(one: _Fetching) -> None:
            await until(lambda: len(one.checking.begun) >= 3)
            if how == "cancelled":
                one.left.cancel()
            else:
                await one.ends[1].close()
            await asyncio.sleep(0.05)
            assert not one.here.records
            for ready in list(one.checking.begun):
                ready()

        result = await fetching.run(lambda one: asyncio.ensure_future(meanwhile(one)))
        assert result.reason in (Reason.CANCELLED, Reason.LINK_LOST)
        assert fetching.here.records
        assert result.received == frozenset(fetching.here.records)

    asyncio.run(run())


def test_without_anybody_to_check_nothing_is_begun() -> None:
    storing = Storing(None, lambda: None)
    assert not storing.begin(Persist(()))
    assert not storing
    assert not storing.is_ready


# ---- bytes on their way ---------------------------------------------------------------------------------------------


def _persist(some: list[Plex]) -> Persist:
    return Persist(tuple(Delivered(record=one.hash, raw=one.raw) for one in some))


def test_bytes_are_counted_until_they_are_stored() -> None:
    some = records(5)
    checking = _Checking(Watched([]), declines=lambda number: number == 1)
    storing = Storing(checking, lambda: None)
    assert storing.begin(_persist(some[:2]))
    assert not storing.begin(_persist(some[2:3])), "what is stored at once is on no way"
    assert storing.begin(_persist(some[3:]))
    sizes = [len(one.raw) for one in some]
    assert storing.size == sum(sizes[:2] + sizes[3:])
    storing.finish()
    assert storing.size == sum(sizes[3:])
    storing.finish()
    assert storing.size == 0


def test_what_was_stored_is_let_go_of_without_a_search_for_circles() -> None:
    class Knowing:
        """Keeps what is to be told together with what is to be stored, as worker processes do."""

        def begin_persist(self, effect: Persist, ready: Callable[[], None]) -> Callable[[], tuple[Settled, ...]]:
            held.append(weakref.ref(ready))

            def finish() -> tuple[Settled, ...]:
                assert effect.arrivals
                ready()
                return ()

            return finish

        def help(self) -> bool:
            return False

    held: list[weakref.ref[Callable[[], None]]] = []
    storing = Storing(Knowing(), lambda: None)
    gc.disable()
    try:
        assert storing.begin(_persist(records(1)))
        assert held[0]() is not None
        storing.finish()
        assert held[0]() is None
    finally:
        gc.enable()


def test_what_is_given_up_counts_no_more() -> None:
    checking = _Checking(Watched([]))
    checking.fails_at = 0
    storing = Storing(checking, lambda: None)
    for one in records(3):
        assert storing.begin(_persist([one]))
    assert storing.finish() == PersistFailed("a worker process was killed", may_pass=True)
    assert storing.size == 0


def test_nothing_is_read_while_too_many_bytes_are_being_checked(monkeypatch: pytest.MonkeyPatch) -> None:
    """The machine bounds what is on its way in records, and these may be large: the driver bounds the bytes."""

    async def run() -> None:
        fetching = _Fetching(20)
        part = SERVICE.chunk_records_max * max(len(one.raw) for one in records(20))
        monkeypatch.setattr(exchange, "UNSETTLED_BYTES_MAX", part)

        async def meanwhile(one: _Fetching) -> None:
            await until(lambda: len(one.checking.begun) >= 2)
            for _ in range(1_000):
                await asyncio.sleep(0)
            assert len(one.checking.begun) == 2, "with the second part there is more than the bound"
            await _release_in_turn(one)

        result = await fetching.run(lambda one: asyncio.ensure_future(meanwhile(one)))
        assert result.fixed_point
        assert set(fetching.here.records) == set(hashes(records(20)))

    asyncio.run(run())


def test_while_nothing_can_be_read_the_exchange_helps_to_check() -> None:
    """Nobody else says that anything is ready: without help the exchange would wait for ever."""

    async def run() -> None:
        fetching = _Fetching(20)
        fetching.checking.may_help = True
        result = await asyncio.wait_for(fetching.run(), 60)
        assert result.fixed_point
        assert set(fetching.here.records) == set(hashes(records(20)))

    asyncio.run(run())


def test_what_is_to_be_done_at_the_end_is_done_while_the_peer_lets_go(monkeypatch: pytest.MonkeyPatch) -> None:
    async def run() -> None:
        may_go = asyncio.Event()
        done: list[str] = []
        fetching = _Fetching(3)
        fetching.checking.may_help = True
        end = fetching.ends[0]
        let_go = end.close

        async def linger(why: Reason | None = None) -> None:
            await let_go(why)
            await may_go.wait()
            done.append("gone")

        monkeypatch.setattr(end, "close", linger)

        def wind_up() -> None:
            done.append("wound up")
            may_go.set()

        ended = asyncio.gather(fetching.left.run(wind_up), fetching.right.run())
        assert all(result.fixed_point for result in await asyncio.wait_for(ended, 60))
        assert done == ["wound up", "gone"]

    asyncio.run(run())


def test_nothing_is_wound_up_after_a_failure() -> None:
    async def run() -> None:
        fetching = _Fetching(3, declines=lambda _: 1 // 0 == 0)
        done: list[None] = []
        ended = asyncio.gather(
            fetching.left.run(lambda: done.append(None)), fetching.right.run(), return_exceptions=True
        )
        assert isinstance((await asyncio.wait_for(ended, 60))[0], ZeroDivisionError)
        assert not done

    asyncio.run(run())


def test_arrivals_that_wait_for_a_worker_can_be_checked_here(tmp_path: Path) -> None:
    arrivals = tuple(Delivered(record=sealed(number).hash, raw=sealed(number).raw) for number in range(100, 180))
    ready = Event()
    with open_store(tmp_path / "records.db", create=True, now=lambda: 0) as store, Validators(1) as validators:
        holdings = StoreHoldings(Decisions(store), validators=validators)
        assert not holdings.help(), "there is nothing to do"
        os.kill(validators.process_ids[0], signal.SIGSTOP)
        finishes = [holdings.begin_persist(Persist(arrivals), ready.set) for _ in range(8)]
        helped = 0
        while holdings.help():
            helped += 1
        assert 5 <= helped <= 8, "the worker has a few in hand"
        os.kill(validators.process_ids[0], signal.SIGCONT)
        for finish in finishes:
            assert finish is not None
            assert {one.fate for one in finish()} <= {Fate.STORED, Fate.DUPLICATE}
        assert all(store.have(HashText(one.record)) for one in arrivals)
        assert not StoreHoldings(Decisions(store)).help()


def test_workers_start_when_much_is_going_to_be_asked_for(tmp_path: Path) -> None:
    claim = (ClaimedField("App", "0", "ding"), ClaimedField("Group", "0", "u"))
    claims: dict[str, tuple[ClaimedField, ...]] = {one.hash: claim for one in records(100)}
    with (
        open_store(tmp_path / "records.db", create=True, now=lambda: 0) as store,
        Validators(1, at_once=False) as validators,
    ):
        decisions = Decisions(store)
        holdings = StoreHoldings(decisions, validators=validators)
        holdings.begin(prepared(decisions), Schema(names=frozenset({"App", "Group"})), None)
        few = dict(list(claims.items())[:5])
        assert len(holdings.evaluate(Question(runtime=RUNTIME, claimed=few)).request_added) == 5
        assert not validators.process_ids
        assert len(holdings.evaluate(Question(runtime=RUNTIME, claimed=claims)).request_added) == 95
        assert len(validators.process_ids) == 1
