from collections.abc import Callable

import pytest

from bobbin.errors import UsageError
from bobbin.reactive.graph import DisposedNode, EffectsFailed, Flush, Graph
from bobbin.reactive.messages import U64_MAX, NodeId, NodeState

# ---- ids and keys ---------------------------------------------------------------------------------------------------


def test_ids_are_not_places_and_do_not_come_back_by_themselves() -> None:
    """RX-002: whatever is stored or freed, a live node keeps its id, and nobody gets one that another had."""
    graph = Graph()
    nodes = [graph.cell(number) for number in range(5)]
    keeper = nodes[3]
    for node in nodes:
        if node is not keeper:
            node.dispose()
    later = [graph.cell(number) for number in range(5)]
    assert keeper.id == NodeId(3)
    assert [node.id for node in later] == [5, 6, 7, 8, 9]
    assert graph.node(NodeId(3)) is keeper
    assert graph.node(NodeId(0)) is None


def test_ids_may_be_drawn_and_one_that_is_taken_is_drawn_again() -> None:
    drawn = iter([7, 7, 3, 7, 3, 9])
    graph = Graph(draw_id=lambda: next(drawn))
    assert [graph.cell(0).id for _ in range(3)] == [7, 3, 9]


def test_an_id_may_be_chosen_if_it_is_free() -> None:
    graph = Graph()
    chosen = graph.cell(1, id=NodeId(2))
    assert [graph.cell(0).id for _ in range(3)] == [0, 1, 3]
    assert graph.cell(0, id=NodeId(U64_MAX)).id == U64_MAX
    for wrong in (-1, U64_MAX + 1, 2):
        with pytest.raises(UsageError):
            graph.cell(0, id=NodeId(wrong))
    chosen.dispose()
    assert graph.cell(7, id=NodeId(2)).get() == 7


def test_a_recycled_id_inherits_nothing() -> None:
    """RX-155."""
    graph = Graph()
    source = graph.cell(1)
    old = graph.slot(source.get, id=NodeId(50))
    reader = graph.slot(lambda: old.get() + 1)
    runs: list[int] = []
    effect = graph.effect(lambda: runs.append(reader.get()))
    old.dispose()
    new = graph.cell(99, id=NodeId(50))
    assert not new.readers
    with pytest.raises(DisposedNode):
        old.get()
    with pytest.raises(DisposedNode):
        reader.get()
    new.set(100)
    assert runs == [2]
    # Disposing of the old one again does not reach the new one.
    old.dispose()
    assert graph.node(NodeId(50)) is new
    assert effect.sources == [reader]


def test_keys_are_paths_and_unique() -> None:
    graph = Graph()
    cell = graph.cell(1, key="a/b")
    assert graph.keyed("a/b") is cell
    for wrong in ("a/b", "", "a//b", "/", "x" * 1025):
        with pytest.raises(UsageError):
            graph.cell(2, key=wrong)
    cell.dispose()
    assert graph.keyed("a/b") is None
    assert graph.slot(int, key="a/b").key == "a/b"


# ---- batches --------------------------------------------------------------------------------------------------------


def test_nested_batches_flush_once_at_the_outermost_end() -> None:
    """RX-010."""
    graph = Graph()
    one, other = graph.cell(1), graph.cell(2)
    seen: list[int] = []
    graph.effect(lambda: seen.append(one.get() + other.get()))
    with graph.batch():
        one.set(10)
        with graph.batch():
            other.set(20)
        assert seen == [3]
        assert one.get() == 10
    assert seen == [3, 30]


def test_what_is_written_in_a_batch_can_be_read_in_it() -> None:
    graph = Graph()
    cell = graph.cell(1)
    double = graph.slot(lambda: cell.get() * 2)
    assert double.get() == 2
    with graph.batch():
        cell.set(5)
        assert double.get() == 10
        cell.set(6)
        assert double.peek() == 12
    assert double.get() == 12


def test_a_batch_that_comes_back_to_where_it_was_runs_nothing() -> None:
    graph = Graph()
    cell = graph.cell(1)
    seen: list[int] = []
    graph.effect(lambda: seen.append(cell.get()))
    with graph.batch():
        cell.set(2)
        cell.set(1)
    assert seen == [1]


def test_a_batch_that_raises_keeps_what_it_wrote() -> None:
    graph = Graph()
    cell = graph.cell(1)
    seen: list[int] = []
    graph.effect(lambda: seen.append(cell.get()))

    def change() -> None:
        with graph.batch():
            cell.set(2)
            raise KeyError

    with pytest.raises(KeyError):
        change()
    assert seen == [1, 2]
    assert graph.depth == 0


def test_effects_and_signals_made_in_a_batch_run_at_its_end() -> None:
    graph = Graph()
    cell = graph.cell(1)
    seen: list[int] = []
    with graph.batch():
        graph.effect(lambda: seen.append(cell.get()))
        signal = graph.signal(cell.get)
        cell.set(2)
        assert seen == []
        assert signal.state == NodeState.UNSET
    assert seen == [2]
    assert signal.last_value == 2


# ---- disposal -------------------------------------------------------------------------------------------------------


def test_disposal_runs_no_effect_then_or_later() -> None:
    """RX-155: not at once, and not at the next flush, which is about something else."""
    graph = Graph()
    source, other = graph.cell(1), graph.cell(100)
    middle = graph.slot(lambda: source.get() + 10)
    below = graph.slot(lambda: middle.get() + 1)
    log: list[str] = []
    graph.effect(lambda: log.append(f"watch {below.get()}"))
    signal = graph.signal(lambda: below.get() * 2)
    graph.effect(lambda: log.append(f"keeper {other.get()}"))
    log.clear()
    middle.dispose()
    assert log == []
    assert signal.state == NodeState.DIRTY
    other.set(200)
    assert log == ["keeper 200"]
    for node in (below, signal):
        with pytest.raises(DisposedNode):
            node.get()


def test_a_survivor_still_hears_of_what_it_can_read() -> None:
    graph = Graph()
    doomed, kept = graph.cell(1), graph.cell(10)
    slot = graph.slot(lambda: kept.get() + (0 if kept.get() > 10 else doomed.get()))
    signal = graph.signal(lambda: slot.get() * 2)
    seen: list[int] = []
    graph.effect(lambda: seen.append(slot.get()))
    doomed.dispose()
    kept.set(20)
    assert seen == [11, 20]
    assert signal.last_value == 40


def test_who_made_do_with_a_failure_loses_its_value_too() -> None:
    graph = Graph()
    cell = graph.cell(0)
    failing = graph.slot(lambda: 1 // cell.get())

    def guarded() -> int:
        try:
            return failing.get()
        except ZeroDivisionError:
            return -1

    slot = graph.slot(guarded)
    assert slot.get() == -1
    cell.dispose()
    with pytest.raises(DisposedNode):
        slot.get()


def test_churn_leaves_no_trace() -> None:
    graph = Graph()
    topic = graph.cell(0)
    effects = [graph.effect(topic.get) for _ in range(8)]
    for cycle in range(200):
        effects[cycle % 8].dispose()
        effects[cycle % 8] = graph.effect(topic.get)
    assert len(topic.readers) == 8
    assert len(graph) == 9
    for effect in effects:
        effect.dispose()
    assert not topic.readers
    assert topic.live == 0


def test_what_was_written_before_it_went_reaches_nobody() -> None:
    graph = Graph()
    cell = graph.cell(1)
    slot = graph.slot(cell.get)
    slot.get()
    with graph.batch():
        cell.set(2)
        cell.dispose()
    with pytest.raises(DisposedNode):
        slot.get()


# ---- listeners ------------------------------------------------------------------------------------------------------


def test_listeners_hear_of_each_operation_once_and_in_order() -> None:
    graph = Graph()
    cell = graph.cell(0)
    log: list[tuple[str, int]] = []

    def answering(flush: Flush) -> None:
        log.append(("first", len(flush.cells)))
        if cell.get() == 1:
            cell.set(2)

    undo = graph.on_flush(answering)
    graph.on_flush(lambda _: log.append(("second", cell.get())))
    cell.set(1)
    # The second hears of both, in the order in which they were made.
    assert log == [("first", 1), ("second", 2), ("first", 1), ("second", 2)]
    undo()
    undo()
    log.clear()
    cell.set(3)
    assert log == [("second", 3)]


def test_a_failing_listener_is_reported_and_stops_nobody() -> None:
    graph = Graph()
    cell = graph.cell(0)
    heard: list[Flush] = []

    def fail(flush: Flush) -> None:
        raise ValueError(flush)

    graph.on_flush(fail)
    graph.on_flush(heard.append)
    with pytest.raises(EffectsFailed, match="a listener"):
        cell.set(1)
    assert len(heard) == 1


def test_listeners_come_at_rest_and_leave_nothing_behind() -> None:
    graph = Graph()
    with graph.batch(), pytest.raises(UsageError):
        graph.on_flush(lambda _: None)
    undo = graph.on_flush(lambda _: None)
    assert graph.touched is not None
    undo()
    assert graph.touched is None


def test_what_is_wanted_is_computed_in_the_flush_and_nothing_else() -> None:
    """RX-047."""
    graph = Graph()
    cell = graph.cell(1)
    runs: list[str] = []

    def computing(name: str) -> Callable[[], int]:
        def compute() -> int:
            runs.append(name)
            return cell.get()

        return compute

    wanted, other = graph.slot(computing("wanted")), graph.slot(computing("other"))
    other.get()
    wanted.get()
    graph.on_flush(lambda _: None, wanted=lambda node: node is wanted)
    runs.clear()
    cell.set(2)
    assert runs == ["wanted"]
    assert (wanted.state, other.state) == (NodeState.RESOLVED, NodeState.DIRTY)
    late = graph.slot(computing("late"))
    graph.compute([other.id, late.id, NodeId(999), cell.id])
    assert runs == ["wanted", "other", "late"]


def test_what_is_wanted_and_fails_is_left_stale() -> None:
    graph = Graph()
    cell = graph.cell(1)
    slot = graph.slot(lambda: 1 // cell.get())
    graph.on_flush(lambda _: None, wanted=lambda _: True)
    graph.compute([slot.id])
    states: list[NodeState] = []
    for value in (0, 1):
        cell.set(value)
        states.append(slot.state)
    assert states == [NodeState.DIRTY, NodeState.RESOLVED]
