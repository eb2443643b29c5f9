"""What listeners are told, case by case."""

from contextlib import suppress

import pytest

from bobbin.reactive.graph import Cell, Flush, Graph, Slot, StillPending
from bobbin.reactive.messages import Edge, NodeId


class _Listening:
    """A graph with two cells, a memo and what is below it, and what was told of it."""

    def __init__(self) -> None:
        self.graph = Graph()
        self.one, self.other = self.graph.cell(1), self.graph.cell(2)
        self.memo: Slot[int] = self.graph.memo(lambda: self.one.get() // 10)
        self.below: Slot[int] = self.graph.slot(lambda: self.memo.get() + 1)
        self.below.get()
        self.heard: list[Flush] = []
        self.wanted: set[NodeId] = set()
        self.graph.on_flush(self.heard.append, wanted=lambda node: node.id in self.wanted)

    def take(self) -> Flush:
        """The one flush since the last call."""
        (flush,) = self.heard
        self.heard.clear()
        return flush


def test_writes_are_told_once_with_the_last_value() -> None:
    world = _Listening()
    with world.graph.batch():
        world.other.set(5)
        world.other.set(6)
    assert world.take() == Flush(cells=(world.other,))


@pytest.mark.parametrize("values", [(2,), (5, 2), (3, 4, 2)])
def test_what_comes_back_to_what_it_was_is_no_news(values: tuple[int, ...]) -> None:
    """RX-034."""
    world = _Listening()
    with world.graph.batch():
        for value in values:
            world.other.set(value)
    assert world.heard == []


def test_reads_of_what_is_known_are_no_news() -> None:
    world = _Listening()
    world.below.get()
    world.one.get()
    assert world.heard == []


def test_stale_is_told_once_and_fresh_again_too() -> None:
    world = _Listening()
    world.one.set(20)
    assert world.take() == Flush(cells=(world.one,), stale=(world.memo, world.below))
    world.one.set(30)
    assert world.take() == Flush(cells=(world.one,))
    assert world.below.get() == 4
    assert set(world.take().slots) == {world.memo, world.below}


def test_an_equal_memo_leaves_what_is_below_it_as_it_was() -> None:
    """RX-035: neither a value of its own nor staleness below, although nothing below was computed."""
    world = _Listening()
    world.wanted.add(world.memo.id)
    world.one.set(2)
    assert world.take() == Flush(cells=(world.one,))
    world.one.set(10)
    assert world.take() == Flush(cells=(world.one,), slots=(world.memo,), stale=(world.below,))


def test_what_is_found_fresh_without_being_computed_is_told_too() -> None:
    world = _Listening()
    world.one.set(3)
    assert world.take().stale == (world.memo, world.below)
    assert world.below.get() == 1
    assert set(world.take().slots) == {world.memo, world.below}
    world.one.set(4)
    world.heard.clear()
    # Now by asking for the memo alone: what is below needs no computation either.
    world.memo.get()
    assert world.take().slots == (world.memo,)
    with world.graph.batch():
        world.below.get()
    assert world.take().slots == (world.below,)


def test_stale_for_now_and_fresh_at_the_end_is_a_value_only() -> None:
    world = _Listening()
    world.wanted |= {world.memo.id, world.below.id}
    world.one.set(50)
    flush = world.take()
    assert (flush.cells, set(flush.slots), flush.stale) == ((world.one,), {world.memo, world.below}, ())


def test_a_node_is_told_at_most_once_however_many_ways_lead_to_it() -> None:
    """RX-037."""
    world = _Listening()
    both: Slot[int] = world.graph.slot(lambda: world.one.get() + world.other.get() + world.below.get())
    world.wanted.add(both.id)
    world.graph.compute([both.id])
    world.heard.clear()
    with world.graph.batch():
        world.one.set(77)
        world.other.set(78)
    flush = world.take()
    told = [*flush.cells, *flush.slots, *flush.stale]
    assert len(set(told)) == len(told) == 5


def test_edges_are_told_as_they_come_and_go() -> None:
    """RX-160."""
    world = _Listening()
    graph = world.graph
    signal = graph.signal(lambda: world.one.get() if world.other.get() > 5 else 0)
    assert world.take().edges_added == (Edge(signal.id, world.other.id),)
    world.other.set(6)
    flush = world.take()
    assert (set(flush.edges_added), flush.edges_removed) == ({Edge(signal.id, world.one.id)}, ())
    world.other.set(0)
    flush = world.take()
    assert (flush.edges_added, flush.edges_removed) == ((), (Edge(signal.id, world.one.id),))


def test_edges_that_come_with_an_equal_value_are_told_too() -> None:
    world = _Listening()
    signal = world.graph.signal(lambda: world.one.get() * 0 if world.other.get() > 5 else 0)
    world.heard.clear()
    world.other.set(6)
    assert world.take() == Flush(cells=(world.other,), edges_added=(Edge(signal.id, world.one.id),))


def test_edges_of_removed_nodes_go_unsaid() -> None:
    world = _Listening()
    world.memo.dispose()
    assert world.take() == Flush(removed=(world.memo.id,), stale=(world.below,))


def test_an_id_may_go_and_come_in_one_flush() -> None:
    """RX-030."""
    world = _Listening()
    current: list[Cell[int]] = [world.other]
    reader = world.graph.signal(lambda: current[0].get() + world.one.get())
    world.heard.clear()
    with world.graph.batch():
        world.other.dispose()
        current[0] = world.graph.cell(7, id=world.other.id)
        world.one.set(3)
    flush = world.take()
    assert flush.removed == (world.other.id,)
    assert flush.added == (current[0],)
    assert (flush.edges_added, flush.edges_removed) == ((Edge(reader.id, world.other.id),), ())
    assert flush.slots == (reader,)


def test_what_came_and_went_in_one_flush_is_no_news() -> None:
    world = _Listening()
    with world.graph.batch():
        world.graph.cell(1).dispose()
        world.graph.effect(int)
    assert world.heard == []


def test_what_went_is_told_once() -> None:
    world = _Listening()
    world.other.dispose()
    assert world.take() == Flush(removed=(world.other.id,))
    world.graph.cell(5, id=world.other.id)
    assert world.take().removed == ()


def test_what_has_no_value_yet_is_not_told_stale() -> None:
    world = _Listening()
    slot = world.graph.slot(lambda: 1 // (world.other.get() - 2))
    world.heard.clear()
    with pytest.raises(ZeroDivisionError):
        slot.get()
    assert world.take() == Flush(edges_added=(Edge(slot.id, world.other.id),))


class _Waiting:
    """A slot that reads an asynchronous one and, after it, a slot below a memo; all computed, then one write."""

    def __init__(self) -> None:
        self.graph = graph = Graph()
        cell = graph.cell(1)

        async def compute() -> int:
            return cell.get() // 100

        self.memo: Slot[int] = graph.memo(lambda: cell.get() // 10)
        self.below: Slot[int] = graph.slot(lambda: self.memo.get() + 1)
        self.slow = graph.async_slot(compute)
        self.both: Slot[int] = graph.slot(lambda: self.slow.get() + self.below.get())
        self.heard: list[Flush] = []
        graph.on_flush(self.heard.append)
        with suppress(StillPending):
            self.both.get()
        _finish(graph)
        assert self.both.get() == 1
        cell.set(2)
        self.heard.clear()


def _finish(graph: Graph) -> None:
    """End the run that is on its way."""
    (run,) = graph.take_starts()
    coroutine = run.begin()
    with pytest.raises(StopIteration) as end:
        graph.step(run, lambda: coroutine.send(None))
    graph.resolve(run, end.value.value)


def test_what_waits_for_a_run_is_not_taken_for_fresh() -> None:
    graph = Graph()
    cell = graph.cell(1)

    async def compute() -> int:
        return cell.get() // 100

    slow = graph.async_slot(compute)
    below = graph.slot(lambda: slow.get() + 1)
    heard: list[Flush] = []
    graph.on_flush(heard.append, wanted=lambda _: True)
    graph.compute([below.id])
    _finish(graph)
    assert below.get() == 1
    heard.clear()
    cell.set(2)
    assert heard == [Flush(cells=(cell,), stale=(slow, below))]
    with pytest.raises(StillPending):
        below.get()
    _finish(graph)
    assert set(heard[-1].slots) == {slow, below}


def test_what_is_found_fresh_on_the_way_to_something_else_is_told() -> None:
    world = _Waiting()
    with pytest.raises(StillPending):
        world.both.get()
    world.memo.get()
    world.heard.clear()
    _finish(world.graph)
    (flush,) = [flush for flush in world.heard if flush.slots]
    assert set(flush.slots) == {world.slow, world.both, world.below}


def test_a_node_that_was_never_shown_a_value_is_unset_until_it_has_one() -> None:
    world = _Listening()
    with world.graph.batch():
        slot = world.graph.slot(world.other.get)
        slot.get()
        world.other.set(4)
    assert world.take() == Flush(added=(slot,), edges_added=(Edge(slot.id, world.other.id),), cells=(world.other,))
    slot.get()
    assert world.take() == Flush(slots=(slot,))


def test_long_stale_lines_are_looked_at_once() -> None:
    """Each node is asked about once, whatever the order: else this takes forever."""
    graph = Graph()
    cell = graph.cell(0)
    nodes: list[Slot[int]] = [graph.slot(cell.get)]
    for _ in range(3000):
        before = nodes[-1]
        nodes.append(graph.slot(lambda before=before: before.get() + before.peek()))  # type: ignore[misc]
    nodes[-1].get()
    heard: list[Flush] = []
    graph.on_flush(heard.append)
    cell.set(1)
    assert len(heard[0].stale) == 3001
