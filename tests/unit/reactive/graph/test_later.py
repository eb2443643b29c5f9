"""Asynchronous slots, driven by hand: no event loop, so every order of events is at the test's command."""

from collections.abc import Callable, Generator
from contextlib import suppress

import pytest

from bobbin.errors import UsageError
from bobbin.reactive.graph import AsyncSlot, EffectsFailed, Graph, MutationInComputation, Run, StillPending
from bobbin.reactive.messages import NodeState


class _Pause:
    """Something that a coroutine can wait for, until it is resumed by hand."""

    def __await__(self) -> Generator[None, int, int]:
        return (yield)


class _Fetching:
    """A graph with a cell, a slot that is computed from it elsewhere, and an effect that follows."""

    def __init__(self, *, watch: bool = True) -> None:
        self.graph = Graph()
        self.key = self.graph.cell("a")
        self.slot: AsyncSlot[str] = self.graph.async_slot(self._fetch)
        self.seen: list[str] = []
        self.other = self.graph.cell(0)
        if watch:
            self.graph.effect(lambda: self.seen.append(self.slot.get()))

    async def _fetch(self) -> str:
        key = self.key.get()
        await _Pause()
        return f"{key} {self.other.get()}"

    def start(self) -> Run:
        (run,) = self.graph.take_starts()
        return run


def _finish(graph: Graph, run: Run) -> bool:
    """Step a run to its end and hand in what came of it."""
    coroutine = run.begin()
    try:
        while True:
            graph.step(run, lambda: coroutine.send(None))
    except StopIteration as end:
        return graph.resolve(run, end.value)


def test_a_value_comes_when_it_has_been_computed() -> None:
    world = _Fetching()
    assert world.seen == []
    with pytest.raises(StillPending):
        world.slot.get()
    assert world.slot.is_pending
    assert world.slot.state == NodeState.UNSET
    assert _finish(world.graph, world.start())
    assert world.seen == ["a 0"]
    assert (world.slot.get(), world.slot.is_pending) == ("a 0", False)
    # Reads on both sides of the pause were noticed.
    assert world.slot.sources == [world.key, world.other]


def test_it_is_computed_again_after_a_change_and_not_before_it_is_read() -> None:
    world = _Fetching(watch=False)
    assert world.graph.take_starts() == []
    with pytest.raises(StillPending):
        world.slot.get()
    _finish(world.graph, world.start())
    world.other.set(1)
    assert world.graph.take_starts() == []
    assert world.slot.last_value == "a 0"
    with pytest.raises(StillPending):
        world.slot.get()
    _finish(world.graph, world.start())
    assert world.slot.get() == "a 1"


def test_a_late_result_of_an_older_run_is_dropped() -> None:
    world = _Fetching()
    old = world.start()
    coroutine = old.begin()
    world.graph.step(old, lambda: coroutine.send(None))
    world.key.set("b")
    new = world.start()
    assert (old.is_current, new.is_current) == (False, True)
    assert _finish(world.graph, new)
    assert not world.graph.resolve(old, "a late")
    assert not world.graph.fail(old, ValueError())
    assert world.seen == ["b 0"]
    # An obsolete run may still be stepped to its end, and nothing is noted of it.
    with pytest.raises(StopIteration):
        world.graph.step(old, lambda: coroutine.send(None))
    assert world.slot.sources == [world.key, world.other]


def test_a_late_result_is_dropped_also_while_the_newer_run_goes_on() -> None:
    world = _Fetching()
    old = world.start()
    coroutine = old.begin()
    world.graph.step(old, lambda: coroutine.send(None))
    world.key.set("b")
    new = world.start()
    assert not world.graph.resolve(old, "a late")
    assert not world.graph.fail(old, ValueError())
    assert world.seen == []
    assert new.is_current
    assert _finish(world.graph, new)
    assert world.seen == ["b 0"]
    coroutine.close()


def test_a_run_that_nobody_drives_any_longer_is_replaced_by_one_from_the_beginning() -> None:
    world = _Fetching()
    old = world.start()
    coroutine = old.begin()
    world.graph.step(old, lambda: coroutine.send(None))
    coroutine.close()
    world.graph.give_back(old)
    assert (old.is_current, world.slot.is_pending) == (False, True)
    assert not world.graph.resolve(old, "of the old one")
    assert _finish(world.graph, world.start())
    assert world.seen == ["a 0"]
    world.graph.give_back(old)
    assert world.graph.take_starts() == [], "it has its value"


def test_a_result_that_came_too_late_is_dropped_even_if_nobody_has_asked_again() -> None:
    world = _Fetching(watch=False)
    with pytest.raises(StillPending):
        world.slot.get()
    run = world.start()
    coroutine = run.begin()
    world.graph.step(run, lambda: coroutine.send(None))
    world.key.set("b")
    assert not world.graph.resolve(run, "a")
    assert not world.slot.is_pending
    with pytest.raises(StillPending):
        world.slot.get()
    assert _finish(world.graph, world.start())
    assert world.slot.get() == "b 0"


def test_a_result_does_not_count_while_what_it_was_computed_from_is_in_doubt() -> None:
    graph = Graph()
    cell = graph.cell(1)

    async def fetch() -> int:
        return cell.get() * 10

    async def follow() -> int:
        value = below.get()
        await _Pause()
        return value

    slow = graph.async_slot(fetch)
    below = graph.slot(lambda: slow.get() + 1)
    with suppress(StillPending):
        below.get()
    _drive(graph)
    follower = graph.async_slot(follow)
    seen: list[int] = []
    graph.effect(lambda: seen.append(follower.get()))
    (run,) = graph.take_starts()
    coroutine = run.begin()
    graph.step(run, lambda: coroutine.send(None))
    cell.set(2)
    assert run.is_current
    with pytest.raises(StopIteration) as end:
        graph.step(run, lambda: coroutine.send(None))
    assert not graph.resolve(run, end.value.value)
    assert seen == []
    _drive(graph)
    for again in graph.take_starts():
        _finish(graph, again)
    assert seen == [21]


def test_a_run_goes_on_while_what_it_read_stays_equal() -> None:
    graph = Graph()
    seconds = graph.cell(0)
    minute = graph.memo(lambda: seconds.get() // 60)

    async def fetch() -> int:
        await _Pause()
        return minute.get()

    slot = graph.async_slot(fetch)
    seen: list[int] = []
    graph.effect(lambda: seen.append(slot.get()))
    (run,) = graph.take_starts()
    coroutine = run.begin()
    graph.step(run, lambda: coroutine.send(None))
    for second in range(1, 5):
        seconds.set(second)
        assert graph.take_starts() == []
    with pytest.raises(StopIteration):
        graph.step(run, lambda: coroutine.send(None))
    seconds.set(7)
    assert run.is_current
    assert graph.resolve(run, 0)
    assert seen == [0]
    seconds.set(60)
    assert len(graph.take_starts()) == 1


def test_a_value_that_came_stays_right_while_what_it_read_stays_equal() -> None:
    graph = Graph()
    seconds = graph.cell(0)
    minute = graph.memo(lambda: seconds.get() // 60)

    async def fetch() -> int:
        return minute.get() + 1

    slot = graph.async_slot(fetch)
    with pytest.raises(StillPending):
        slot.get()
    _drive(graph)
    seconds.set(5)
    assert slot.get() == 1
    assert graph.take_starts() == []


def test_an_equal_result_is_no_change_for_those_who_waited() -> None:
    graph = Graph()
    cell = graph.cell(1)

    async def compute() -> int:
        return cell.get() // 10

    slot = graph.async_slot(compute)
    below = graph.slot(lambda: slot.get() + 1)
    seen: list[int] = []
    graph.effect(lambda: seen.append(below.get()))
    assert _finish(graph, graph.take_starts()[0])
    assert seen == [1]
    cell.set(2)
    # The effect waits, and has not been run into the missing value.
    assert seen == [1]
    with pytest.raises(StillPending):
        below.get()
    assert _finish(graph, graph.take_starts()[0])
    assert (seen, below.get()) == ([1], 1)
    cell.set(20)
    assert _finish(graph, graph.take_starts()[0])
    assert (seen, below.get()) == ([1, 3], 3)


def test_who_waited_hears_of_what_else_has_changed_meanwhile() -> None:
    graph = Graph()
    cell = graph.cell(1)

    async def compute() -> int:
        return cell.get() // 10

    slow = graph.async_slot(compute)
    other = graph.slot(lambda: cell.get() * 2)
    both = graph.slot(lambda: (slow.get(), other.get()))
    seen: list[tuple[int, int]] = []
    graph.effect(lambda: seen.append(both.get()))
    _finish(graph, graph.take_starts()[0])
    assert seen == [(0, 2)]
    cell.set(2)
    assert seen == [(0, 2)]
    # What it waits for is what it was, and the other slot is not.
    _finish(graph, graph.take_starts()[0])
    assert seen == [(0, 2), (0, 4)]


def test_computations_and_runs_meet_a_failure_until_somebody_outside_asks_again() -> None:
    graph = Graph()
    attempts: list[int] = []

    async def fails() -> int:
        attempts.append(1)
        if len(attempts) == 1:
            raise ConnectionError
        return 7

    async def waits() -> int:
        return first.get() + 1

    first = graph.async_slot(fails)
    second = graph.async_slot(waits)
    seen: list[object] = []

    def act() -> None:
        try:
            seen.append(second.get())
        except ConnectionError:
            seen.append("down")

    graph.effect(act)
    _drive(graph)
    assert (seen, len(attempts)) == (["down"], 1)
    with pytest.raises(StillPending):
        second.get()
    _drive(graph)
    with pytest.raises(StillPending):
        first.get()
    _drive(graph)
    assert (seen[-1], len(attempts)) == (8, 2)


def test_who_made_do_without_the_value_is_computed_again_when_it_comes() -> None:
    graph = Graph()
    cell = graph.cell(1)

    async def compute() -> int:
        return cell.get() // 10

    slot = graph.async_slot(compute)

    def guarded() -> str:
        try:
            return f"is {slot.get()}"
        except StillPending:
            return "loading"

    view = graph.slot(guarded)
    seen: list[str] = []
    graph.effect(lambda: seen.append(view.get()))
    _finish(graph, graph.take_starts()[0])
    assert seen == ["loading", "is 0"]
    cell.set(2)
    # Asked by a computation that can wait, it would wait; this one is asked before it reads.
    assert seen[-1] == "is 0"
    _finish(graph, graph.take_starts()[0])
    assert view.get() == "is 0"


def test_a_failure_goes_to_those_who_wait_and_is_not_kept() -> None:
    world = _Fetching()
    with pytest.raises(EffectsFailed) as failed:
        world.graph.fail(world.start(), ConnectionError("down"))
    assert isinstance(failed.value.errors[0][1], ConnectionError)
    assert world.seen == []
    with pytest.raises(StillPending):
        world.slot.get()
    assert _finish(world.graph, world.start())
    assert world.seen == ["a 0"]


def test_an_eager_one_starts_by_itself() -> None:
    graph = Graph()
    cell = graph.cell(1)

    async def compute() -> int:
        return cell.get() * 2

    slot = graph.async_slot(compute, eager=True)
    assert _finish(graph, graph.take_starts()[0])
    cell.set(2)
    assert _finish(graph, graph.take_starts()[0])
    assert slot.get() == 4


def test_runs_only_read() -> None:
    world = _Fetching()
    run = world.start()
    with pytest.raises(MutationInComputation, match="asynchronous slot 1"):
        world.graph.step(run, lambda: world.key.set("b"))
    with pytest.raises(UsageError), world.graph.batch():
        world.graph.step(run, int)
    assert world.key.get() == "a"


def test_a_run_of_a_disposed_slot_counts_no_longer() -> None:
    world = _Fetching(watch=False)
    with pytest.raises(StillPending):
        world.slot.get()
    run = world.start()
    world.slot.dispose()
    assert not run.is_current
    assert not world.graph.resolve(run, "a")


def test_one_may_wait_for_another() -> None:
    graph = Graph()
    cell = graph.cell(1)

    async def first() -> int:
        return cell.get() + 1

    async def second() -> int:
        return one.get() * 10

    one = graph.async_slot(first)
    two = graph.async_slot(second)
    seen: list[int] = []
    graph.effect(lambda: seen.append(two.get()))
    _drive(graph)
    assert seen == [20]
    cell.set(2)
    _drive(graph)
    assert seen == [20, 30]


def test_what_a_computation_missed_is_there_when_the_value_turns_out_to_be_the_same() -> None:
    graph = Graph()
    cell = graph.cell(1)

    async def first() -> int:
        return cell.get() // 10

    async def second() -> int:
        return one.get() + 1

    one = graph.async_slot(first)
    two = graph.async_slot(second)
    for _ in range(3):
        with suppress(StillPending):
            two.get()
        _drive(graph)
    assert two.get() == 1
    cell.set(2)
    late = graph.slot(lambda: two.get() * 10)
    with pytest.raises(StillPending):
        late.get()
    for _ in range(3):
        _drive(graph)
        with suppress(StillPending):
            late.get()
    assert (two.get(), late.get()) == (1, 10)


def test_a_run_that_missed_a_value_is_begun_again_when_it_turns_out_to_be_the_same() -> None:
    graph = Graph()
    cell = graph.cell(1)

    async def fetch() -> int:
        return cell.get() // 10

    slow = graph.async_slot(fetch)
    below = graph.slot(lambda: slow.get() + 1)
    graph.effect(below.get)
    _drive(graph)

    async def follow() -> int:
        return below.get() + 1

    cell.set(2)
    (run,) = graph.take_starts()
    follower = graph.async_slot(follow)
    seen: list[int] = []
    graph.effect(lambda: seen.append(follower.get()))
    _drive(graph)
    assert seen == []
    _finish(graph, run)
    _drive(graph)
    assert seen == [2]


def _drive(graph: Graph) -> None:
    """As a driver would: runs that meet a missing value fail, and are begun again when it has come."""
    for _ in range(20):
        for run in graph.take_starts():
            coroutine = run.begin()
            step: Callable[[], object] = lambda coroutine=coroutine: coroutine.send(None)  # type: ignore[misc]  # noqa: E731
            try:
                while True:
                    graph.step(run, step)
            except StopIteration as end:
                graph.resolve(run, end.value)
            except (ConnectionError, StillPending) as error:
                graph.fail(run, error)
