import sys
from collections.abc import Callable
from types import FrameType
from typing import TYPE_CHECKING

import pytest

from bobbin.reactive.graph import Cell, CycleFound, EffectsFailed, Graph, Readable, Slot
from bobbin.reactive.graph.propagation import NESTING_MAX
from bobbin.reactive.messages import NodeState

if TYPE_CHECKING:
    from _typeshed import TraceFunction

DEEP = 10_000


def _chain(graph: Graph, first: Readable[int], length: int) -> list[Slot[int]]:
    """Slots that each add one to the one before."""

    def plus_one(node: Readable[int]) -> Callable[[], int]:
        return lambda: node.get() + 1

    nodes: list[Slot[int]] = []
    for _ in range(length):
        nodes.append(graph.slot(plus_one(nodes[-1] if nodes else first)))
    return nodes


def test_a_node_reached_by_many_ways_is_computed_once_and_sees_one_world() -> None:
    """RX-037."""
    graph = Graph()
    cell = graph.cell(1)
    double, triple = graph.slot(lambda: cell.get() * 2), graph.slot(lambda: cell.get() * 3)
    seen: list[tuple[int, int, int]] = []
    graph.effect(lambda: seen.append((cell.get(), double.get(), triple.get())))
    cell.set(2)
    with graph.batch():
        cell.set(3)
        cell.set(4)
    assert seen == [(1, 2, 3), (2, 4, 6), (4, 8, 12)]


@pytest.mark.parametrize("readers", [1, 2])
def test_an_equal_result_ends_a_change(readers: int) -> None:
    """RX-035, RX-159: five writes through a memo of constant value cost nothing below it."""
    graph = Graph()
    cell = graph.cell(0)
    memos = [graph.memo(lambda: cell.get() // 100) for _ in range(readers)]
    runs = {"below": 0, "effect": 0}

    def below() -> int:
        runs["below"] += 1
        return sum(memo.get() for memo in memos)

    slot = graph.slot(below)

    def act() -> None:
        runs["effect"] += 1
        slot.get()

    graph.effect(act)
    for value in range(1, 6):
        cell.set(value)
    assert runs == {"below": 1, "effect": 1}
    cell.set(100)
    assert runs == {"below": 2, "effect": 2}


def test_an_equal_result_ends_a_change_also_where_nobody_watches() -> None:
    graph = Graph()
    cell = graph.cell(0)
    memo = graph.memo(lambda: cell.get() // 100)
    runs: list[int] = []
    slot = graph.slot(lambda: runs.append(memo.get()))
    slot.get()
    cell.set(5)
    slot.get()
    assert runs == [0]


def test_a_write_computes_nothing_that_nobody_needs() -> None:
    """RX-047: what no effect, signal or listener asks for stays lazy."""
    graph = Graph()
    cell = graph.cell(0)
    runs: list[int] = []
    slot = graph.slot(lambda: runs.append(cell.get()))
    slot.get()
    cell.set(1)
    assert runs == [0]
    assert slot.state == NodeState.DIRTY


def _lines_of(update: Callable[[], None]) -> int:
    """How many lines of Python a call takes. It is the same number each time, which a duration is not."""
    lines = 0

    def trace(frame: FrameType, event: str, argument: object) -> "TraceFunction":
        nonlocal lines
        del frame, argument
        lines += event == "line"
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        update()
    finally:
        sys.settrace(before)
    return lines


def _lines_of_an_update(others: int, *, told: bool) -> int:
    """How many lines of Python one update takes, in a graph with so many other nodes."""
    graph = Graph()
    other = graph.cell(0)
    for _ in range(others):
        slot = graph.slot(lambda: other.get() + 1)
        graph.effect(slot.get)
    cell = graph.cell(0)
    last = _chain(graph, cell, 3)[-1]
    graph.effect(last.get)
    if told:
        graph.on_flush(lambda _: None, wanted=lambda _: True)
    return _lines_of(lambda: cell.set(1))


@pytest.mark.parametrize("told", [False, True])
def test_the_work_of_an_update_does_not_grow_with_the_graph(*, told: bool) -> None:
    """RX-167: not by a line."""
    few = _lines_of_an_update(2, told=told)
    assert 0 < few < 400
    assert _lines_of_an_update(500, told=told) == few


def _lines_of_an_equal_memo(below: int) -> int:
    graph = Graph()
    cell = graph.cell(0)
    memo = graph.memo(lambda: cell.get() // 10)
    for _ in range(below):
        graph.effect(graph.slot(lambda: memo.get() + 1).get)
    return _lines_of(lambda: cell.set(1))


def test_the_work_of_a_change_that_comes_to_nothing_does_not_grow_with_what_is_below() -> None:
    """RX-167."""
    assert _lines_of_an_equal_memo(200) == _lines_of_an_equal_memo(2) > 0


def test_a_line_is_told_of_each_change_wherever_it_forks() -> None:
    graph = Graph()
    cell = graph.cell(0)
    trunk = _chain(graph, cell, 3)
    branches = [_chain(graph, trunk[-1], 2)[-1] for _ in range(3)]
    seen: list[list[int]] = []
    graph.effect(lambda: seen.append([branch.get() for branch in branches]))
    cell.set(10)
    assert seen == [[5, 5, 5], [15, 15, 15]]


def test_a_line_with_a_failure_in_it_is_told_all_the_same() -> None:
    graph = Graph()
    cell = graph.cell(1)
    failing = graph.slot(lambda: 10 // cell.get())

    def guarded() -> int:
        try:
            return failing.get()
        except ZeroDivisionError:
            return -1

    slot = graph.slot(guarded)
    seen: list[int] = []
    graph.effect(lambda: seen.append(slot.get()))
    cell.set(0)
    cell.set(0)
    cell.set(5)
    assert seen == [10, -1, 2]


# ---- depth ----------------------------------------------------------------------------------------------------------


def test_a_chain_may_be_longer_than_the_stack_is_deep() -> None:
    graph = Graph()
    cell = graph.cell(0)
    last = _chain(graph, cell, DEEP)[-1]
    assert last.get() == DEEP
    cell.set(1)
    assert last.get() == DEEP + 1


@pytest.mark.parametrize(("ways", "length"), [(1, DEEP), (2, DEEP // 3)])
def test_a_watched_chain_may_be_as_long(ways: int, length: int) -> None:
    """Once along the line and, where it forks at the root, by marks."""
    graph = Graph()
    cell = graph.cell(0)
    chains = [_chain(graph, cell, length)[-1] for _ in range(ways)]
    seen: list[int] = []
    graph.effect(lambda: seen.append(sum(chain.get() for chain in chains)))
    cell.set(1)
    assert seen == [length * ways, (length + 1) * ways]
    cell.dispose()
    assert len(seen) == 2


def test_computations_that_were_unwound_are_finished_and_not_counted_as_failed() -> None:
    graph = Graph()
    cell = graph.cell(0)
    runs: dict[int, int] = {}
    nodes: list[Readable[int]] = [cell]

    def counting(number: int) -> Callable[[], int]:
        def compute() -> int:
            runs[number] = runs.get(number, 0) + 1
            try:
                return nodes[number].get() + 1
            except Exception:  # noqa: BLE001 -- a computation that would swallow the unwinding if it could
                return -1

        return compute

    nodes.extend(graph.slot(counting(number)) for number in range(3 * NESTING_MAX))
    assert nodes[-1].get() == 3 * NESTING_MAX
    assert max(runs.values()) <= 2
    cell.set(1)
    before = dict(runs)
    assert nodes[-1].get() == 3 * NESTING_MAX + 1
    # What was computed before is asked from below, so nothing nests and nothing is unwound.
    assert all(runs[number] == before[number] + 1 for number in runs)


def test_a_line_that_comes_to_read_something_deep_finishes() -> None:
    graph = Graph()
    cell, root = graph.cell(0), graph.cell(0)
    deep = _chain(graph, root, 3 * NESTING_MAX)[-1]
    slot = graph.slot(lambda: deep.get() if cell.get() else -1)
    seen: list[int] = []
    graph.effect(lambda: seen.append(slot.get()))
    cell.set(1)
    assert seen == [-1, 3 * NESTING_MAX]


# ---- cycles ---------------------------------------------------------------------------------------------------------


def test_a_computation_that_needs_itself_is_refused_and_named() -> None:
    graph = Graph()
    nodes: list[Slot[int]] = []
    nodes.append(graph.slot(lambda: nodes[1].get() + 1))
    nodes.append(graph.slot(lambda: nodes[2].get() + 1))
    nodes.append(graph.slot(lambda: nodes[0].get() + 1))
    for node in nodes:
        with pytest.raises(CycleFound) as found:
            node.get()
        path = found.value.path
        assert path[0] == path[-1]
        assert len(path) == 4
        assert set(path) == {"slot 0", "slot 1", "slot 2"}
    alone: list[Slot[int]] = []
    alone.append(graph.slot(lambda: alone[0].get() + 1))
    with pytest.raises(CycleFound, match="slot 3 reads slot 3"):
        alone[0].get()


def _closing(graph: Graph, switch: Cell[int]) -> tuple[Slot[int], Slot[int]]:
    """Two slots that need each other while the switch is on."""
    nodes: list[Slot[int]] = []
    nodes.append(graph.slot(lambda: nodes[1].get() if switch.get() else 0))
    nodes.append(graph.slot(lambda: nodes[0].get() + 1))
    return nodes[0], nodes[1]


def test_a_cycle_that_closes_later_is_found_when_read_and_opens_again() -> None:
    graph = Graph()
    switch = graph.cell(0)
    first, second = _closing(graph, switch)
    assert second.get() == 1
    switch.set(1)
    for node in (first, second):
        with pytest.raises(CycleFound):
            node.get()
    switch.set(0)
    assert (first.get(), second.get()) == (0, 1)


def test_a_cycle_that_closes_along_a_line_is_found_at_once() -> None:
    graph = Graph()
    switch = graph.cell(0)
    _, second = _closing(graph, switch)
    seen: list[int] = []
    graph.effect(lambda: seen.append(second.get()))
    with pytest.raises(EffectsFailed) as failed:
        switch.set(1)
    assert isinstance(failed.value.errors[0][1], CycleFound)
    switch.set(0)
    assert seen == [1, 1]
    assert second.get() == 1


# ---- interruptions --------------------------------------------------------------------------------------------------


def test_an_interrupted_computation_leaves_nothing_wrong_behind() -> None:
    graph = Graph()
    cell = graph.cell(0)
    interrupts = [False]

    def compute() -> int:
        if interrupts[0]:
            raise KeyboardInterrupt
        return cell.get()

    slot = graph.slot(compute)
    below = graph.slot(lambda: slot.get() + 1)
    seen: list[int] = []
    graph.effect(lambda: seen.append(below.get()))
    interrupts[0] = True
    with pytest.raises(KeyboardInterrupt):
        cell.set(1)
    interrupts[0] = False
    assert below.get() == 2
    cell.set(2)
    assert seen[-1] == 3


def test_an_interrupted_read_keeps_no_failure_and_runs_nothing() -> None:
    graph = Graph()
    attempts: list[int] = []
    seen: list[int] = []

    def fails_once() -> int:
        attempts.append(1)
        return 10 // (len(attempts) - 1)

    slot = graph.slot(fails_once)

    def interrupted() -> int:
        try:
            return slot.get()
        except ZeroDivisionError:
            raise KeyboardInterrupt from None

    reader = graph.slot(interrupted)
    with pytest.raises(KeyboardInterrupt):
        reader.get()
    assert graph.depth == 0
    assert slot.get() == 10
    graph.effect(lambda: seen.append(reader.get()))
    assert (seen, len(attempts)) == ([10], 2)
