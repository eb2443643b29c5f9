"""What the health of a node means, and how it is found out whether the store can be written."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from bobbin.errors import ResourceError
from bobbin.interlace.limits import SECOND_NS
from bobbin.runtime.clock import tai_now
from bobbin.runtime.health import FAILURE_SECONDS, PROBE_SECONDS, Condition, Health, Writable, judge
from bobbin.runtime.steps import Steps
from bobbin.store.base import Store
from bobbin.store.sqlite import open_store


class _Clock:
    """Goes forward when it is told to."""

    def __init__(self) -> None:
        self.now_ns = 0

    def __call__(self) -> int:
        return self.now_ns

    def forward(self, seconds: float) -> None:
        self.now_ns += int(seconds * SECOND_NS)


def _with_store(tmp_path: Path, scene: Callable[[Store, Steps, Writable, _Clock], Awaitable[None]]) -> None:
    async def run() -> None:
        clock, steps = _Clock(), Steps()
        with open_store(tmp_path / "records.db", create=True, now=tai_now) as store:
            await scene(store, steps, Writable(store, steps.turn(), clock=clock), clock)
            await steps.close()

    asyncio.run(run())


def _health(writable: Writable, **changes: object) -> Health:
    values: dict[str, object] = {
        "stopping": False,
        "busy_seconds": 0.0,
        "followed": 0,
        "unlinked": {},
        "reload_failed": False,
    }
    return judge(writable=writable, **{**values, **changes})  # type: ignore[arg-type]


def _written(store: Store) -> int:
    return len(list(store.kept_rows("health")))


def test_each_condition_and_its_reasons(tmp_path: Path) -> None:
    async def scene(store: Store, steps: Steps, writable: Writable, clock: _Clock) -> None:
        del store, steps, clock
        assert _health(writable) == Health(condition=Condition.OK)
        assert (_health(writable).text, _health(writable).is_healthy) == ("ok", True)
        down = _health(writable, followed=3, unlinked={"link-lost": 1, "connect-failed": 1}, reload_failed=True)
        assert down.condition is Condition.DEGRADED
        assert down.is_healthy, "what is wrong elsewhere is mended by no restart"
        assert down.reasons == (
            "2 of 3 followed peers without a link (connect-failed 1, link-lost 1)",
            "the files on disk are not in force",
        )
        stuck = _health(writable, busy_seconds=99.0, followed=1, unlinked={"link-lost": 1})
        assert (stuck.condition, stuck.is_healthy) == (Condition.FAILING, False)
        assert stuck.text.startswith("one step has been going on for 99 seconds; 1 of 1 followed peers")
        stopping = _health(writable, stopping=True, busy_seconds=99.0)
        assert (stopping.condition, stopping.text, stopping.is_healthy) == (Condition.STOPPING, "stopping", False)

    _with_store(tmp_path, scene)


def test_the_store_is_written_now_and_then(tmp_path: Path) -> None:
    async def scene(store: Store, steps: Steps, writable: Writable, clock: _Clock) -> None:
        del steps
        await writable.look()
        assert _written(store) == 0, "it is not time yet"
        clock.forward(PROBE_SECONDS)
        await writable.look()
        assert _written(store) == 1
        assert _health(writable).condition is Condition.OK

    _with_store(tmp_path, scene)


def test_a_failure_of_a_link_stands_until_the_store_can_be_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scene(store: Store, steps: Steps, writable: Writable, clock: _Clock) -> None:
        del steps
        writable.note_failure("disk full")
        assert _health(writable) == Health(condition=Condition.FAILING, reasons=("the store failed: disk full",))

        def fail(*_: object) -> None:
            raise ResourceError("still full", retry=False)

        monkeypatch.setattr(type(store), "keep", fail)
        clock.forward(10 * FAILURE_SECONDS)
        await writable.look()
        assert _health(writable).text == "the store failed: still full"
        monkeypatch.undo()
        await writable.look()
        assert not _health(writable).is_healthy, "a small write may fit where a large one does not"
        clock.forward(FAILURE_SECONDS)
        await writable.look()
        assert _health(writable).condition is Condition.OK

    _with_store(tmp_path, scene)


def test_a_store_that_another_process_holds_is_no_broken_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def scene(store: Store, steps: Steps, writable: Writable, clock: _Clock) -> None:
        def busy(*_: object) -> None:
            raise ResourceError("another process writes", retry=True)

        monkeypatch.setattr(type(store), "keep", busy)
        clock.forward(PROBE_SECONDS)
        await writable.look()
        held = _health(writable)
        assert held.condition is Condition.DEGRADED
        assert held.text == "the store cannot be written now: another process writes"
        writable.note_success()
        assert _health(writable) == held, "perhaps it is that process which has stored something"
        monkeypatch.undo()
        await writable.look()
        assert _health(writable).condition is Condition.OK
        await steps.close()
        clock.forward(PROBE_SECONDS)
        await writable.look()
        assert _health(writable).condition is Condition.OK, "a node that has stopped has not failed"

    _with_store(tmp_path, scene)


def test_a_failure_that_may_pass_is_over_when_something_was_stored(tmp_path: Path) -> None:
    async def scene(store: Store, steps: Steps, writable: Writable, clock: _Clock) -> None:
        del store, steps
        writable.note_failure("no majority answers", may_pass=True)
        passing = _health(writable)
        assert passing.condition is Condition.DEGRADED
        assert passing.text == "the store cannot be written now: no majority answers"
        await writable.look()
        assert _health(writable) == passing, "the few bytes of a probe go through no log, so they prove little"
        writable.note_success()
        assert _health(writable).condition is Condition.OK
        writable.note_failure("no majority answers", may_pass=True)
        clock.forward(FAILURE_SECONDS)
        await writable.look()
        assert _health(writable).condition is Condition.OK, "nobody has met it again"

    _with_store(tmp_path, scene)


def test_what_does_not_pass_is_not_over_since_something_else_was_stored(tmp_path: Path) -> None:
    async def scene(store: Store, steps: Steps, writable: Writable, clock: _Clock) -> None:
        del store, steps, clock
        writable.note_failure("disk full")
        writable.note_failure("no majority answers", may_pass=True)
        assert _health(writable).reasons == (
            "the store failed: disk full",
            "the store cannot be written now: no majority answers",
        )
        writable.note_success()
        assert _health(writable) == Health(condition=Condition.FAILING, reasons=("the store failed: disk full",))

    _with_store(tmp_path, scene)
