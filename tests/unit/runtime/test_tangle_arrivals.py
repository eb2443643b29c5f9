"""Messages that reach a running node as records: by whatever link, a few at a time, whatever fails."""

import asyncio
import io
import json
from collections.abc import Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest

from bobbin.errors import BobbinError
from bobbin.records.record import Record
from bobbin.runtime import tangle_arrivals as module
from bobbin.runtime.clock import tai_now
from bobbin.runtime.log import make_log
from bobbin.runtime.metrics import Meter
from bobbin.runtime.node_settings import Logging
from bobbin.runtime.roster import Roster
from bobbin.runtime.steps import Steps
from bobbin.runtime.tangle_arrivals import TangleArrivals
from bobbin.runtime.tangle_store import Taken, TangleStore
from bobbin.runtime.wakes import Wakes
from bobbin.store.base import StoreError
from bobbin.store.sqlite import SqliteStore, open_store
from tests.support.exchanges import record
from tests.support.nodes import Client, Running, key, peer, until
from tests.support.tangle_messages import Author
from tests.unit.runtime.tangle_stores import plex

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

_NODE: Final = key(1)
_BOB: Final = key(2)


class _Stage:
    """A store, the thread that works on it, and what looks at what comes."""

    def __init__(self, store: SqliteStore, pause_seconds: float) -> None:
        self.store = store
        self.output = io.StringIO()
        self.steps = Steps()
        self.meter = Meter()
        self.wakes = Wakes(store, self.steps)
        log = make_log(Logging(), output=self.output)
        self.arrivals = TangleArrivals(store, self.steps, self.wakes, self.meter, log=log, pause_seconds=pause_seconds)

    async def put(self, *records: Record) -> None:
        await self.steps.turn()(lambda: self.store.put_records(records))

    def count(self, name: str) -> float:
        value = self.meter.registry.get_sample_value(name)
        assert value is not None
        return value

    @property
    def taken_in(self) -> float:
        return self.count("bobbin_messages_taken_in_total")

    @property
    def failed(self) -> float:
        return self.count("bobbin_messages_failed_total")

    def events(self) -> list[str]:
        return [json.loads(line)["event"] for line in self.output.getvalue().splitlines()]


@asynccontextmanager
async def _running(path: Path, pause_seconds: float = 0.01) -> "AsyncIterator[_Stage]":
    with open_store(path, create=True, now=tai_now) as store:
        stage = _Stage(store, pause_seconds)
        await stage.wakes.start()
        await stage.arrivals.start()
        try:
            yield stage
        finally:
            await stage.arrivals.stop()
            await stage.wakes.stop()
            await stage.steps.close()
        assert list(store.check()) == []


def _run(scene: Callable[[], Awaitable[None]]) -> None:
    async def run() -> None:
        await scene()

    asyncio.run(run())


@pytest.fixture
def looks(monkeypatch: pytest.MonkeyPatch) -> list[Taken]:
    """What each look has taken in."""
    made: list[Taken] = []
    take = TangleStore.take_in_some

    def note(self: TangleStore, records_max: int) -> Taken:
        made.append(take(self, records_max))
        return made[-1]

    monkeypatch.setattr(TangleStore, "take_in_some", note)
    return made


def test_what_comes_over_a_link_becomes_messages_while_the_node_runs(tmp_path: Path) -> None:
    alice = Author("alice")
    feed = alice.feed(3)

    async def scene() -> None:
        roster = Roster([peer("bob", _BOB.verifier)])
        async with Running(tmp_path / "node", own=_NODE, roster=roster) as running:
            bob = Client(tmp_path / "bob", _BOB)
            bob.store.put_records([plex(message) for message in (*reversed(feed), alice.account)])
            await bob.run(running.open())
            bob.close()
            with open_store(tmp_path / "node" / "records.db", now=tai_now, read_only=True) as elsewhere:
                await until(lambda: TangleStore(elsewhere.tangles).state().messages == 5)
                tangles = TangleStore(elsewhere.tangles)
                assert tangles.proven(feed[0].id).topological() == [message.id for message in feed]
                assert tangles.waiting() == []
            assert (await running.node.status()).health == "ok"
            assert running.serving.meter.registry.get_sample_value("bobbin_messages_taken_in_total") == 5

    _run(scene)


def test_what_came_while_nothing_ran_is_looked_at_first(tmp_path: Path) -> None:
    alice = Author("alice")
    with open_store(tmp_path / "records.db", create=True, now=tai_now) as store:
        store.put_records([plex(alice.account)])

    async def scene() -> None:
        async with _running(tmp_path / "records.db") as stage:
            await until(lambda: stage.taken_in == 1)

    _run(scene)


def test_a_step_looks_at_a_few_and_then_nothing_is_done(
    tmp_path: Path, looks: list[Taken], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "RECORDS_MAX", 2)
    alice = Author("alice")
    feed = alice.feed(6)

    async def scene() -> None:
        async with _running(tmp_path / "records.db") as stage:
            await until(lambda: looks)
            await stage.put(plex(alice.account), *map(plex, feed), record(1))
            await until(lambda: stage.taken_in == 8)
            assert max(len(taken.came) for taken in looks) == 2
            # Its own commits wake it once more, and then it sleeps.
            await until(lambda: looks[-1].is_all)
            await asyncio.sleep(0.1)
            done = len(looks)
            assert done < 20
            await asyncio.sleep(0.1)
            assert len(looks) == done
            assert stage.failed == 0

    _run(scene)


def test_what_waits_is_taken_with_what_it_waited_for(tmp_path: Path) -> None:
    alice = Author("alice")
    moot, first = alice.feed(1)

    async def scene() -> None:
        async with _running(tmp_path / "records.db") as stage:
            await stage.put(plex(first), plex(moot))
            await until(lambda: stage.taken_in == 1)
            await stage.put(plex(alice.account))
            await until(lambda: stage.taken_in == 3)

    _run(scene)


def test_what_is_in_memory_is_let_go_when_it_is_too_much(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "RECORDS_MAX", 2)
    monkeypatch.setattr(module, "TANGLES_MAX", 3)
    alice = Author("alice")
    loaded: list[int] = []
    step = module._step

    def note(tangles: TangleStore) -> Taken:
        taken = step(tangles)
        loaded.append(tangles.shelf.loaded)
        return taken

    monkeypatch.setattr(module, "_step", note)
    moot, *posts = alice.feed(2)
    roots = [alice.root({"text": f"{number}"}) for number in range(12)]

    async def scene() -> None:
        async with _running(tmp_path / "records.db") as stage:
            await stage.put(plex(alice.account), plex(posts[1]), plex(moot), *map(plex, roots))
            await until(lambda: stage.taken_in == 14)
            # What waits is known all the same.
            await stage.put(plex(posts[0]))
            await until(lambda: stage.taken_in == 16)
            assert 0 < max(loaded) <= 3
            assert stage.failed == 0

    _run(scene)


def test_the_log_says_how_much_is_not_kept_in_mind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "TANGLE_WAITING_KNOWN_MAX", 2)
    _, *posts = Author("alice").feed(5)

    async def scene() -> None:
        async with _running(tmp_path / "records.db") as stage:
            await stage.put(*map(plex, posts))
            await until(lambda: "too-much-waits" in stage.events())
            assert '"records":3' in stage.output.getvalue().replace(" ", "")

    _run(scene)


@pytest.mark.parametrize(
    ("error", "event", "comes_back"),
    [
        (StoreError("another process holds it", retry=True), "messages-not-taken-in", True),
        (StoreError("it is damaged", retry=False), "messages-not-taken-in", False),
        (BobbinError("something else"), "messages-not-taken-in", False),
        (RuntimeError("a mistake"), "taking-in-crashed", False),
    ],
)
def test_whatever_fails_is_told_and_ends_nothing(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    error: Exception,
    event: str,
    comes_back: bool,  # noqa: FBT001
) -> None:
    alice = Author("alice")
    take = TangleStore.take_in_some
    failures = [error]

    def fail_once(self: TangleStore, records_max: int) -> Taken:
        if failures:
            raise failures.pop()
        return take(self, records_max)

    monkeypatch.setattr(TangleStore, "take_in_some", fail_once)
    with open_store(tmp_path / "records.db", create=True, now=tai_now) as store:
        store.put_records([plex(alice.account)])

    async def scene() -> None:
        async with _running(tmp_path / "records.db") as stage:
            await until(lambda: stage.failed == 1)
            if not comes_back:
                await asyncio.sleep(0.1)
                assert stage.taken_in == 0
                await stage.put(record(1))
            await until(lambda: stage.taken_in == 1)
            assert stage.events() == [event]

    _run(scene)


def test_failures_one_after_the_other_have_pauses_between_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tried: list[int] = []

    def fail(self: TangleStore, records_max: int) -> Taken:
        del self
        tried.append(records_max)
        raise StoreError("busy", retry=True)

    monkeypatch.setattr(TangleStore, "take_in_some", fail)

    async def scene() -> None:
        async with _running(tmp_path / "records.db", pause_seconds=60.0) as stage:
            await until(lambda: stage.failed == 1)
            for number in range(5):
                await stage.put(record(number))
            await asyncio.sleep(0.1)
            assert len(tried) == 1

    _run(scene)


def test_a_store_without_tangles_is_left_alone(tmp_path: Path) -> None:
    async def scene() -> None:
        with open_store(tmp_path / "records.db", create=True, now=tai_now) as store:
            steps = Steps()
            wakes = Wakes(store, steps)
            arrivals = TangleArrivals(object(), steps, wakes, Meter(), log=make_log())  # type: ignore[arg-type]
            await arrivals.start()
            assert len(wakes) == 0
            await arrivals.stop()
            await steps.close()

    _run(scene)


def test_it_ends_with_the_thread_that_works_on_the_store(tmp_path: Path) -> None:
    async def scene() -> None:
        async with _running(tmp_path / "records.db") as stage:
            await stage.wakes.stop()
            await stage.steps.close()
            stage.arrivals._changed.set()
            task = stage.arrivals._task
            assert task is not None
            await until(task.done)
            assert stage.failed == 0

    _run(scene)
