"""Snapshots and changes of live graphs."""

from collections.abc import Callable

import pytest

from bobbin.errors import UsageError
from bobbin.reactive.change import Change
from bobbin.reactive.graph import Cell, EffectsFailed, Graph, Slot
from bobbin.reactive.messages import (
    CellSet,
    Edge,
    EdgeAdd,
    EdgeRemove,
    Invalidate,
    Node,
    NodeAdd,
    NodeId,
    NodeRemove,
    NodeState,
    SlotValue,
    Snapshot,
)
from bobbin.reactive.replica import Replica
from bobbin.reactive.source import GraphSource, UnwritableValues
from bobbin.reactive.type_tags import TypeTags

TAGS = TypeTags.standard()


def number(value: int) -> bytes:
    """As ``i64`` writes it."""
    return TAGS.encode("i64", value)


class _Told:
    """A graph, its source, and what that told."""

    def __init__(self, make: Callable[[Graph], None] = lambda _: None) -> None:
        self.graph = Graph()
        make(self.graph)
        self.wanted: set[NodeId] = set()
        self.source = GraphSource(self.graph, TAGS, wanted=self.wanted.__contains__)
        self.changes: list[Change] = []
        self.source.on_change(self.changes.append)

    def cell(self, value: int) -> Cell[int]:
        return self.graph.cell(value, tag="i64")

    def slot(self, compute: Callable[[], int], *, wanted: bool = True) -> Slot[int]:
        """A slot that somebody may read, or nobody."""
        with self.graph.batch():
            slot = self.graph.slot(compute, tag="i64")
            if wanted:
                self.wanted.add(slot.id)
        return slot

    def take(self) -> Change:
        """The one change since the last call."""
        (change,) = self.changes
        self.changes.clear()
        return change


# ---- snapshots ------------------------------------------------------------------------------------------------------


def test_a_snapshot_lists_every_node_once_with_its_edges_and_roots() -> None:
    """RX-016, RX-017, RX-018, RX-040, RX-041."""
    told = _Told()
    cell = told.cell(1)
    source_slot = told.graph.source_slot(lambda: 7, tag="i64")
    signal = told.graph.signal(lambda: cell.get() + 1, tag="i64", key="a/b")
    unset = told.slot(lambda: signal.get() + 1, wanted=False)
    told.graph.cell("not for others")
    assert told.source.snapshot() == Snapshot(
        told.source.epoch,
        (
            Node(cell.id, "i64", NodeState.RESOLVED, number(1)),
            Node(source_slot.id, "i64", NodeState.RESOLVED, number(7)),
            Node(signal.id, "i64", NodeState.RESOLVED, number(2), "a/b"),
            Node(unset.id, "i64", NodeState.UNSET),
        ),
        (Edge(dependent=signal.id, dependency=cell.id),),
        (cell.id, source_slot.id),
    )


def test_what_keeps_a_signal_computed_is_nobody_elses_affair() -> None:
    """RX-044: nor are effects, and nodes without a tag."""
    told = _Told()
    cell = told.cell(1)
    hidden = told.graph.slot(cell.get)
    signal = told.graph.signal(lambda: cell.get() + hidden.get(), tag="i64")
    told.graph.effect(signal.get)
    snapshot = told.source.snapshot()
    assert [node.id for node in snapshot.nodes] == [cell.id, signal.id]
    assert snapshot.edges == (Edge(signal.id, cell.id),)


def test_a_source_takes_over_what_is_there() -> None:
    """RX-044."""

    def make(graph: Graph) -> None:
        cell = graph.cell(1, tag="i64")
        signal = graph.signal(cell.get, tag="i64")
        graph.slot(cell.get, tag="i64")
        hidden = graph.signal(signal.get)
        graph.effect(hidden.get)

    told = _Told(make)
    snapshot = told.source.snapshot()
    assert snapshot.epoch == 0
    assert [node.state for node in snapshot.nodes] == [NodeState.RESOLVED, NodeState.RESOLVED, NodeState.UNSET]
    assert snapshot.edges == (Edge(NodeId(1), NodeId(0)),)


def test_what_is_wanted_of_it_is_computed_at_once() -> None:
    graph = Graph()
    cell = graph.cell(1, tag="i64")
    slot = graph.slot(cell.get, tag="i64")
    source = GraphSource(graph, TAGS, wanted=lambda _: True)
    assert source.snapshot().nodes[1] == Node(slot.id, "i64", NodeState.RESOLVED, number(1))
    assert source.epoch == 0


def test_a_stale_node_is_shown_with_what_it_was() -> None:
    told = _Told()
    cell = told.cell(1)
    slot = told.slot(cell.get, wanted=False)
    slot.get()
    cell.set(2)
    assert told.source.snapshot().nodes[1] == Node(slot.id, "i64", NodeState.DIRTY, number(1))


def test_storage_that_moves_changes_no_id() -> None:
    """RX-002."""
    told = _Told()
    cells = [told.cell(value) for value in range(4)]
    cells[0].dispose()
    cells[2].dispose()
    told.cell(10)
    assert [(node.id, node.value) for node in told.source.snapshot().nodes] == [
        (1, number(1)),
        (3, number(3)),
        (4, number(10)),
    ]


def test_whoever_knows_only_slots_has_every_value() -> None:
    """RX-040, RX-045, RX-048: of signals too, from what is told alone, and without a word of their own."""
    told = _Told()
    replica = Replica()
    assert replica.replace(told.source.snapshot()) is None
    kinds: set[str] = set()

    def apply(change: Change) -> None:
        assert replica.misfit(change.operations) is None
        replica.apply(change.operations)
        kinds.update(type(operation).__name__ for operation in change.operations)

    told.source.on_change(apply)
    cell = told.cell(1)
    slot = told.slot(lambda: cell.get() * 10)
    signal = told.graph.signal(lambda: slot.get() + 1, tag="i64")
    for value in range(2, 5):
        cell.set(value)
    assert [node.value for node in replica.nodes.values()] == [number(4), number(40), number(41)]
    assert replica.nodes[signal.id] == Node(signal.id, "i64", NodeState.RESOLVED, number(41))
    assert kinds == {"NodeAdd", "EdgeAdd", "CellSet", "SlotValue"}
    assert replica.roots == {cell.id}


# ---- changes --------------------------------------------------------------------------------------------------------


def test_one_change_for_one_flush_however_many_writes() -> None:
    """RX-010, RX-011."""
    told = _Told()
    one, other = told.cell(1), told.cell(2)
    told.changes.clear()
    epoch = told.source.epoch
    with told.graph.batch():
        one.set(5)
        with told.graph.batch():
            other.set(6)
        one.set(7)
    change = told.take()
    assert change.operations == (CellSet(one.id, number(7)), CellSet(other.id, number(6)))
    assert change.epoch == told.source.epoch == epoch + 1


def test_an_equal_write_and_an_empty_flush_are_no_change() -> None:
    """RX-011, RX-034."""
    told = _Told()
    cell = told.cell(1)
    slot = told.slot(cell.get)
    hidden = told.graph.cell(1)
    told.changes.clear()
    epoch = told.source.epoch
    cell.set(1)
    hidden.set(2)
    with told.graph.batch():
        pass
    with told.graph.batch():
        cell.set(2)
        cell.set(1)
    slot.get()
    assert (told.changes, told.source.epoch) == ([], epoch)


def test_slots_that_somebody_may_read_come_as_values() -> None:
    """RX-046, RX-048."""
    told = _Told()
    cell = told.cell(1)
    slot = told.slot(lambda: cell.get() * 2)
    assert told.source.snapshot().nodes[1].value == number(2)
    told.changes.clear()
    cell.set(2)
    assert told.take().operations == (CellSet(cell.id, number(2)), SlotValue(slot.id, number(4)))


def test_slots_that_nobody_may_read_stay_lazy() -> None:
    """RX-047."""
    told = _Told()
    cell = told.cell(1)
    runs: list[int] = []

    def compute() -> int:
        runs.append(1)
        return cell.get()

    slot = told.slot(compute, wanted=False)
    cell.set(2)
    assert runs == []
    slot.get()
    told.changes.clear()
    cell.set(3)
    cell.set(4)
    assert runs == [1]
    first, second = told.changes
    assert first.operations == (CellSet(cell.id, number(3)), Invalidate(slot.id))
    # It is known to be stale.
    assert second.operations == (CellSet(cell.id, number(4)),)


def test_slots_that_come_to_be_wanted_are_told() -> None:
    told = _Told()
    cell = told.cell(1)
    slot = told.slot(cell.get, wanted=False)
    told.changes.clear()
    told.source.resolve([slot.id, cell.id, NodeId(99)])
    assert told.take().operations == (EdgeAdd(slot.id, cell.id), SlotValue(slot.id, number(1)))
    told.source.resolve([slot.id])
    assert told.changes == []


def test_an_equal_memo_is_not_told_and_what_is_below_stays_fresh() -> None:
    """RX-035, RX-102: whatever wrote the cell, a merge of replicas included."""
    told = _Told()
    cell = told.cell(1)
    memo = told.slot(lambda: cell.get() // 10)
    below = told.slot(lambda: memo.get() + 1, wanted=False)
    below.get()
    told.changes.clear()
    cell.set(2)
    assert told.take().operations == (CellSet(cell.id, number(2)),)


def test_a_memo_that_changed_is_told_before_what_is_below_it() -> None:
    """RX-036."""
    told = _Told()
    cell = told.cell(1)
    memo = told.slot(lambda: cell.get() // 10)
    below = told.slot(lambda: memo.get() + 1, wanted=False)
    below.get()
    told.changes.clear()
    cell.set(20)
    assert told.take().operations == (
        CellSet(cell.id, number(20)),
        SlotValue(memo.id, number(2)),
        Invalidate(below.id),
    )


def test_a_dependent_of_many_changed_cells_is_told_once() -> None:
    """RX-037."""
    told = _Told()
    cells = [told.cell(value) for value in range(8)]
    total = told.slot(lambda: sum(cell.get() for cell in cells))
    lazy = told.slot(lambda: sum(cell.get() for cell in cells), wanted=False)
    lazy.get()
    told.changes.clear()
    with told.graph.batch():
        for cell in cells:
            cell.set(cell.get() + 10)
    operations = told.take().operations
    assert operations[8:] == (SlotValue(total.id, number(108)), Invalidate(lazy.id))


def test_a_changed_signal_is_a_value_in_the_same_change() -> None:
    """RX-038, RX-042, RX-043."""
    told = _Told()
    cell = told.cell(10)
    signal = told.graph.signal(lambda: cell.get() // 10, tag="i64")
    told.changes.clear()
    cell.set(20)
    assert told.take().operations == (CellSet(cell.id, number(20)), SlotValue(signal.id, number(2)))
    cell.set(21)
    assert told.take().operations == (CellSet(cell.id, number(21)),)


def test_operations_come_in_the_documented_order() -> None:
    """RX-030, RX-160."""
    told = _Told()
    switch, one, other = told.cell(0), told.cell(1), told.cell(2)
    chosen = told.slot(lambda: one.get() if switch.get() else other.get())
    lazy = told.slot(switch.get, wanted=False)
    lazy.get()
    doomed = told.cell(5)
    told.changes.clear()
    with told.graph.batch():
        switch.set(1)
        doomed.dispose()
        reused = told.graph.cell("x", tag="string", id=doomed.id)
        new = told.graph.signal(lambda: switch.get() + 1, tag="i64", key="new")
    change = told.take()
    assert change.operations == (
        NodeRemove(doomed.id),
        NodeAdd(reused.id, "string", b"x"),
        NodeAdd(new.id, "i64", number(2), "new"),
        EdgeRemove(chosen.id, other.id),
        EdgeAdd(new.id, switch.id),
        EdgeAdd(chosen.id, one.id),
        CellSet(switch.id, number(1)),
        SlotValue(chosen.id, number(1)),
        Invalidate(lazy.id),
    )
    assert change.removed == (doomed.id,)
    assert [node.id for node in change.added] == [reused.id, new.id]
    assert change.edges_removed == (Edge(chosen.id, other.id),)


def test_a_removed_node_takes_its_edges_with_it() -> None:
    told = _Told()
    cell = told.cell(1)
    middle = told.slot(cell.get)
    below = told.slot(middle.get)
    told.changes.clear()
    middle.dispose()
    assert told.take().operations == (NodeRemove(middle.id), Invalidate(below.id))
    assert told.source.snapshot().edges == ()


def test_a_new_node_computed_from_hidden_things_is_no_root() -> None:
    """RX-018: its value comes as that of a slot, since no edge shows that it is one."""
    told = _Told()
    hidden = told.graph.cell(1)
    told.changes.clear()
    signal = told.graph.signal(hidden.get, tag="i64")
    assert told.take().operations == (NodeAdd(signal.id, "i64"), SlotValue(signal.id, number(1)))
    assert told.source.snapshot().roots == ()
    assert told.source.snapshot().nodes[0].value == number(1)


def test_a_value_with_the_same_bytes_is_no_change() -> None:
    told = _Told()
    cell: Cell[object] = told.graph.cell((1, 2), tag="json")
    told.changes.clear()
    cell.set([1, 2])
    assert told.changes == []


def test_values_that_cannot_be_written_are_stale_until_they_can() -> None:
    told = _Told()
    cell: Cell[object] = told.graph.cell(1, tag="i64")
    told.changes.clear()
    with pytest.raises(EffectsFailed) as failed:
        cell.set("text")
    assert isinstance(failed.value.errors[0][1], UnwritableValues)
    assert cell.get() == "text"
    assert told.take().operations == (Invalidate(cell.id),)
    assert told.source.snapshot().nodes == (Node(cell.id, "i64", NodeState.DIRTY, number(1)),)
    assert told.source.snapshot().roots == ()
    cell.set(1)
    assert told.source.snapshot().roots == (cell.id,)
    assert told.take().operations == (CellSet(cell.id, number(1)),)
    with pytest.raises(EffectsFailed):
        told.graph.cell("text", tag="i64", key="new")
    assert told.graph.keyed("new") is None
    added, removed = told.changes
    assert added.operations == (NodeAdd(NodeId(1), "i64", None, "new"),)
    assert removed.operations == (NodeRemove(NodeId(1)),)


def test_a_graph_with_such_values_has_no_source() -> None:
    graph = Graph()
    graph.cell("text", tag="i64")
    with pytest.raises(UsageError):
        GraphSource(graph, TAGS)
    assert graph.touched is None


def test_all_listeners_hear_and_may_leave() -> None:
    told = _Told()
    heard: list[Change] = []

    def fail(change: Change) -> None:
        raise ValueError(change.epoch)

    cell = told.cell(0)
    told.changes.clear()
    undo = told.source.on_change(fail)
    told.source.on_change(heard.append)
    with pytest.raises(EffectsFailed):
        cell.set(1)
    assert len(heard) == len(told.changes) == 1
    undo()
    cell.set(2)
    assert len(heard) == 2
    told.source.close()
    cell.set(3)
    assert len(heard) == 2
