from collections.abc import Callable

import pytest

from bobbin.errors import UsageError
from bobbin.reactive.graph import (
    Cell,
    DisposedNode,
    EffectsFailed,
    Graph,
    IncomparableValue,
    MutationInComputation,
    ReadingSourceSlot,
    Signal,
)
from bobbin.reactive.graph.marks import UNSET
from bobbin.reactive.messages import NodeState


class _Counted:
    """A computation that counts how often it runs, and fails on request."""

    def __init__(self, compute: Callable[[], int]) -> None:
        self._compute = compute
        self.runs = 0
        self.failures = 0

    def __call__(self) -> int:
        self.runs += 1
        if self.failures:
            self.failures -= 1
            raise ZeroDivisionError
        return self._compute()


# ---- cells ----------------------------------------------------------------------------------------------------------


def test_a_cell_has_what_was_written() -> None:
    cell = Graph().cell(1)
    cell.set(2)
    assert cell.get() == 2
    cell.update(lambda value: value * 10)
    assert cell.get() == cell.peek() == cell.last_value == 20
    assert cell.state == NodeState.RESOLVED


def test_an_equal_write_reaches_nobody() -> None:
    """RX-034, RX-156: by value, and there is no way around it."""
    graph = Graph()
    cell = graph.cell([1, 2])
    runs: list[list[int]] = []
    graph.effect(lambda: runs.append(cell.get()))
    first = cell.get()
    cell.set([1, 2])
    assert len(runs) == 1
    assert cell.get() is first
    cell.set([1, 3])
    assert runs == [[1, 2], [1, 3]]


def test_a_value_of_another_type_is_another_value() -> None:
    graph = Graph()
    cell: Cell[object] = graph.cell(object())
    runs: list[object] = []
    graph.effect(lambda: runs.append(cell.get()))
    cell.set(1)
    cell.set(True)
    cell.set(1.0)
    assert [type(value) for value in runs] == [object, int, bool, float]


class _Incomparable:
    def __eq__(self, other: object) -> bool:
        raise ValueError("ambiguous")

    __hash__ = None  # type: ignore[assignment]  # as for arrays


def test_values_that_cannot_be_compared_are_others_at_the_end_of_a_batch() -> None:
    graph = Graph()
    cell: Cell[object] = graph.cell(_Incomparable())
    seen: list[object] = []
    graph.effect(lambda: seen.append(cell.get()))
    with graph.batch():
        cell.set(None)
        cell.set(_Incomparable())
    assert len(seen) == 2


def test_values_that_cannot_be_compared_are_refused() -> None:
    graph = Graph()
    first = _Incomparable()
    cell = graph.cell(first)
    with pytest.raises(IncomparableValue, match="cell 0"):
        cell.set(_Incomparable())
    assert cell.get() is first
    number = graph.cell(0)

    def compute() -> _Incomparable:
        number.get()
        return _Incomparable()

    slot = graph.slot(compute)
    slot.get()
    number.set(1)
    with pytest.raises(IncomparableValue, match="slot 2"):
        slot.get()


# ---- slots ----------------------------------------------------------------------------------------------------------


def test_a_slot_is_computed_when_it_is_read_and_then_kept() -> None:
    graph = Graph()
    cell = graph.cell(1)
    compute = _Counted(lambda: cell.get() + 1)
    slot = graph.slot(compute)
    assert compute.runs == 0
    assert (slot.state, slot.last_value) == (NodeState.UNSET, UNSET)
    assert [slot.get(), slot.get(), slot.peek()] == [2, 2, 2]
    assert compute.runs == 1
    cell.set(5)
    assert compute.runs == 1
    assert (slot.state, slot.last_value) == (NodeState.DIRTY, 2)
    assert slot.get() == 6
    assert compute.runs == 2


def test_a_memo_is_a_slot() -> None:
    graph = Graph()
    assert type(graph.memo(int)) is type(graph.slot(int))


def test_what_is_peeked_at_is_no_dependency() -> None:
    graph = Graph()
    one, other = graph.cell(1), graph.cell(10)
    inner = graph.slot(lambda: other.get() + 1)
    slot = graph.slot(lambda: one.get() + other.peek() + inner.peek())
    assert slot.get() == 22
    other.set(20)
    assert slot.get() == 22
    one.set(2)
    assert slot.get() == 43
    assert slot.sources == [one]


def test_dependencies_are_those_of_the_last_run() -> None:
    graph = Graph()
    choice, one, other = graph.cell("one"), graph.cell(1), graph.cell(2)
    compute = _Counted(lambda: one.get() if choice.get() == "one" else other.get())
    slot = graph.slot(compute)
    assert slot.get() == 1
    assert slot.sources == [choice, one]
    other.set(3)
    assert (slot.get(), compute.runs) == (1, 1)
    choice.set("other")
    assert slot.get() == 3
    assert slot.sources == [choice, other]
    assert not one.readers
    one.set(9)
    assert (slot.get(), compute.runs) == (3, 2)


def test_a_failed_computation_is_never_kept() -> None:
    """RX-154: the reader gets the error, the next read runs again, and the edges stay."""
    graph = Graph()
    cell = graph.cell(1)
    compute = _Counted(cell.get)
    slot = graph.slot(compute)
    assert slot.get() == 1
    compute.failures = 2
    cell.set(2)
    for runs in (2, 3):
        with pytest.raises(ZeroDivisionError):
            slot.get()
        assert compute.runs == runs
    assert slot.get() == 2
    assert (slot.sources, compute.runs) == ([cell], 4)
    cell.set(3)
    assert slot.get() == 3


def test_a_failure_is_met_once_in_one_read() -> None:
    graph = Graph()
    cell = graph.cell(0)
    failing = _Counted(lambda: 1 // cell.get())
    slot = graph.slot(failing)

    def compute() -> int:
        total = 0
        for _ in range(3):
            try:
                total += slot.get()
            except ZeroDivisionError:
                total -= 1
        return total

    reader = graph.slot(compute)
    assert (reader.get(), failing.runs) == (-3, 1)
    cell.set(1)
    assert (reader.get(), failing.runs) == (3, 2)


def test_who_made_do_with_a_failure_is_told_of_the_recovery() -> None:
    graph = Graph()
    failing = _Counted(lambda: 1)
    failing.failures = 1
    slot = graph.slot(failing)

    def compute() -> int:
        try:
            return slot.get()
        except ZeroDivisionError:
            return -1

    reader = graph.slot(compute)
    seen: list[int] = []
    graph.effect(lambda: seen.append(reader.get()))
    assert seen == [-1]
    # Nothing it reads has changed, but asked again it works.
    assert slot.get() == 1
    assert reader.get() == 1
    assert seen == [-1, 1]


def test_reads_in_a_batch_are_reads_of_their_own() -> None:
    graph = Graph()
    failing = _Counted(lambda: 1)
    failing.failures = 1
    slot = graph.slot(failing)
    with graph.batch():
        with pytest.raises(ZeroDivisionError):
            slot.get()
        assert slot.get() == 1


# ---- signals and source slots ---------------------------------------------------------------------------------------


def test_a_signal_is_computed_when_made_and_when_the_writer_returns() -> None:
    """RX-041, RX-153."""
    graph = Graph()
    cell = graph.cell(1)
    compute = _Counted(lambda: cell.get() + 10)
    signal = graph.signal(compute)
    assert (compute.runs, signal.state, signal.last_value) == (1, NodeState.RESOLVED, 11)
    cell.set(2)
    assert (compute.runs, signal.last_value) == (2, 12)
    assert (signal.get(), compute.runs) == (12, 2)


def test_a_signal_is_computed_once_in_a_batch() -> None:
    """RX-042, RX-153."""
    graph = Graph()
    one, other = graph.cell(1), graph.cell(2)
    compute = _Counted(lambda: one.get() + other.get())
    signal = graph.signal(compute)
    with graph.batch():
        one.set(10)
        other.set(20)
        one.set(11)
        assert compute.runs == 1
    assert (compute.runs, signal.last_value) == (2, 31)


def test_a_signal_that_is_disposed_of_stays_as_a_lazy_slot() -> None:
    """RX-153."""
    graph = Graph()
    cell = graph.cell(1)
    compute = _Counted(cell.get)
    signal = graph.signal(compute)
    signal.dispose()
    signal.dispose()
    cell.set(2)
    assert compute.runs == 1
    assert (signal.get(), compute.runs) == (2, 2)
    assert not signal.live
    assert not cell.live
    signal.remove()
    with pytest.raises(DisposedNode):
        signal.get()


def test_a_signal_that_cannot_be_computed_is_not_made() -> None:
    graph = Graph()
    cell = graph.cell(0)
    with pytest.raises(EffectsFailed) as failed:
        graph.signal(lambda: 1 // cell.get())
    assert isinstance(failed.value.errors[0][1], ZeroDivisionError)
    assert list(graph.nodes()) == [cell]
    assert not cell.readers


def test_a_signal_that_fails_later_says_so_and_recovers() -> None:
    graph = Graph()
    cell = graph.cell(1)
    signal: Signal[int] = graph.signal(lambda: 10 // cell.get())
    with pytest.raises(EffectsFailed, match="signal 1"):
        cell.set(0)
    assert signal.state == NodeState.DIRTY
    assert signal.last_value == 10
    cell.set(5)
    assert (signal.state, signal.last_value) == (NodeState.RESOLVED, 2)


def test_a_source_slot_is_a_root_and_reads_nothing() -> None:
    """RX-018."""
    graph = Graph()
    cell = graph.cell(1)
    source = graph.source_slot(lambda: 5)
    assert source.is_root
    assert cell.is_root
    assert not graph.slot(cell.get).is_root
    assert not graph.signal(cell.get).is_root
    assert source.last_value == 5
    with pytest.raises(EffectsFailed) as failed:
        graph.source_slot(lambda: cell.get() + 1)
    assert isinstance(failed.value.errors[0][1], ReadingSourceSlot)
    assert not any(node.kind == "source slot" and node is not source for node in graph.nodes())


# ---- effects --------------------------------------------------------------------------------------------------------


def test_an_effect_is_cleaned_up_after_before_it_runs_again_and_at_the_end() -> None:
    graph = Graph()
    cell = graph.cell(1)
    log: list[str] = []

    def act() -> Callable[[], None]:
        value = cell.get()
        log.append(f"run {value}")
        return lambda: log.append(f"clean {value}")

    effect = graph.effect(act)
    cell.set(2)
    effect.dispose()
    effect.dispose()
    cell.set(3)
    assert log == ["run 1", "clean 1", "run 2", "clean 2"]
    assert not cell.readers


def test_an_effect_may_dispose_of_itself() -> None:
    graph = Graph()
    cell = graph.cell(0)
    log: list[str] = []

    def act() -> Callable[[], None]:
        if cell.get() == 1:
            effect.dispose()
        log.append("run")
        return lambda: log.append("clean")

    effect = graph.effect(act)
    cell.set(1)
    cell.set(2)
    assert log == ["run", "clean", "run", "clean"]
    assert not cell.readers


def test_computations_only_read() -> None:
    graph = Graph()
    cell = graph.cell(1)
    other = graph.cell(1)

    def begin_batch() -> None:
        with graph.batch():
            pass

    attempts: list[Callable[[], object]] = [
        lambda: cell.set(2),
        lambda: cell.update(lambda value: value + 1),
        lambda: graph.cell(1),
        lambda: graph.effect(int),
        cell.dispose,
        graph.signal(other.get).dispose,
        begin_batch,
    ]
    for attempt in attempts:
        before = len(graph)
        slot = graph.slot(attempt)
        with pytest.raises(MutationInComputation):
            slot.get()
        # Also along a line that is kept computed, which is another way through the graph.
        slot.dispose()
        assert len(graph) == before
    assert cell.get() == 1

    def late() -> int:
        if other.get() == 2:
            cell.set(7)
        return 1

    graph.signal(late)
    with pytest.raises(EffectsFailed) as failed:
        other.set(2)
    assert isinstance(failed.value.errors[0][1], MutationInComputation)
    assert isinstance(failed.value.errors[0][1], UsageError)
    assert cell.get() == 1


def test_what_is_disposed_of_can_be_neither_read_nor_written() -> None:
    """RX-155."""
    graph = Graph()
    cell = graph.cell(1)
    slot = graph.slot(cell.get)
    reader = graph.slot(lambda: slot.get() + 1)
    assert reader.get() == 2
    slot.dispose()
    slot.dispose()
    for node in (slot, reader):
        with pytest.raises(DisposedNode, match="slot 1"):
            node.get()
        with pytest.raises(DisposedNode, match="slot 1"):
            node.peek()
    cell.dispose()
    with pytest.raises(DisposedNode, match="cell 0"):
        cell.get()
    with pytest.raises(DisposedNode, match="cell 0"):
        cell.set(2)
