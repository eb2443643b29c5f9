from collections.abc import Callable

import pytest

from bobbin.errors import UsageError
from bobbin.reactive.graph import DrainExhausted, EffectsFailed, Graph


def test_effects_are_scheduled_and_not_inline() -> None:
    """RX-156."""
    graph = Graph()
    cell, other = graph.cell(0), graph.cell(0)
    log: list[str] = []

    def first() -> None:
        log.append(f"first {cell.get()}")
        other.set(cell.get())
        log.append("first done")

    graph.effect(first)
    graph.effect(lambda: log.append(f"second {other.get()}"))
    log.clear()
    cell.set(1)
    assert log == ["first 1", "first done", "second 1"]


def test_an_effect_sees_what_it_has_just_written() -> None:
    graph = Graph()
    cell = graph.cell(0)
    double = graph.slot(lambda: cell.get() * 2)
    trigger = graph.cell(0)
    seen: list[int] = []

    def act() -> None:
        cell.set(trigger.get())
        seen.append(double.peek())

    graph.effect(act)
    trigger.set(5)
    assert seen == [0, 10]


def test_an_effect_that_reads_a_signal_runs_in_every_batch() -> None:
    """RX-158."""
    graph = Graph()
    cell = graph.cell(0)
    signal = graph.signal(lambda: cell.get() * 10)
    seen: list[int] = []
    graph.effect(lambda: seen.append(signal.get()))
    for value in range(1, 5):
        with graph.batch():
            cell.set(value)
    assert seen == [0, 10, 20, 30, 40]


def test_a_loop_through_effects_stops_and_is_named() -> None:
    """RX-156."""
    graph = Graph(drain_max=50)
    cell = graph.cell(0)
    bystander = graph.cell(0)
    seen: list[int] = []
    graph.effect(lambda: seen.append(bystander.get()))

    def act() -> None:
        if cell.get():
            cell.set(cell.get() + 1)

    effect = graph.effect(act)
    with pytest.raises(DrainExhausted) as exhausted:
        cell.set(1)
    assert exhausted.value.effects == (effect.name,)
    assert cell.get() == 51
    # It is not due at some later, unrelated flush.
    bystander.set(1)
    assert (cell.get(), seen) == (51, [0, 1])
    cell.set(0)
    assert cell.get() == 0


def test_a_first_run_hears_of_what_it_writes_after_reading() -> None:
    graph = Graph()
    cell = graph.cell(0)
    seen: list[int] = []

    def act() -> None:
        seen.append(cell.get())
        if cell.get() < 3:
            cell.set(cell.get() + 1)

    graph.effect(act)
    assert seen == [0, 1, 2, 3]


def test_effects_that_make_effects_are_bounded_too() -> None:
    graph = Graph(drain_max=20)
    made: list[int] = []

    def act() -> None:
        made.append(1)
        graph.effect(act)

    with pytest.raises(DrainExhausted):
        graph.effect(act)
    assert len(made) == 20


def test_a_wide_cascade_is_no_loop() -> None:
    graph = Graph(drain_max=3)
    cells = [graph.cell(0) for _ in range(100)]
    source = graph.cell(0)
    seen: list[int] = []
    for cell in cells:
        graph.effect(lambda cell=cell: cell.set(source.get()))  # type: ignore[misc]
        graph.effect(lambda cell=cell: seen.append(cell.get()))  # type: ignore[misc]
    seen.clear()
    source.set(1)
    assert seen == [1] * 100


@pytest.mark.parametrize("drain_max", [0, -1])
def test_a_graph_needs_a_round(drain_max: int) -> None:
    with pytest.raises(UsageError):
        Graph(drain_max=drain_max)


def test_a_failing_effect_does_not_stop_the_others() -> None:
    graph = Graph()
    cell = graph.cell(1)
    seen: list[int] = []

    def failing(error: Exception) -> Callable[[], None]:
        def act() -> None:
            if not cell.get():
                raise error

        return act

    one = graph.effect(failing(ValueError("one")))
    graph.effect(lambda: seen.append(cell.get()))
    other = graph.effect(failing(KeyError("other")))
    with pytest.raises(EffectsFailed) as failed:
        cell.set(0)
    assert [name for name, _ in failed.value.errors] == [one.name, other.name]
    assert [type(error) for _, error in failed.value.errors] == [ValueError, KeyError]
    assert seen == [1, 0]
    assert cell.get() == 0
    # They stay, and run again.
    cell.set(2)
    with pytest.raises(EffectsFailed):
        cell.set(0)


def test_a_failing_clean_up_does_not_stop_its_effect() -> None:
    graph = Graph()
    cell = graph.cell(1)
    seen: list[int] = []

    def act() -> Callable[[], None]:
        seen.append(cell.get())

        def clean_up() -> None:
            raise ValueError

        return clean_up

    graph.effect(act)
    with pytest.raises(EffectsFailed):
        cell.set(2)
    assert seen == [1, 2]


def test_an_effect_that_fails_at_once_is_not_made() -> None:
    graph = Graph()
    cell = graph.cell(0)
    with pytest.raises(EffectsFailed):
        graph.effect(lambda: 1 // cell.get())
    assert len(graph) == 1
    assert not cell.readers


def test_exhaustion_and_failures_are_told_together() -> None:
    graph = Graph(drain_max=5)
    cell = graph.cell(0)

    def act() -> None:
        if cell.get():
            cell.set(cell.get() + 1)
            raise ValueError

    graph.effect(act)
    with pytest.raises(DrainExhausted) as exhausted:
        cell.set(1)
    assert isinstance(exhausted.value.__cause__, EffectsFailed)


def test_what_was_due_at_an_interruption_runs_next_time() -> None:
    graph = Graph()
    cell, other = graph.cell(0), graph.cell(0)
    seen: list[int] = []

    def act() -> None:
        if cell.get() == 1:
            raise KeyboardInterrupt

    graph.effect(act)
    graph.effect(lambda: seen.append(cell.get()))
    signal = graph.signal(lambda: cell.get() * 2)
    with pytest.raises(KeyboardInterrupt):
        cell.set(1)
    assert seen == [0]
    other.set(1)
    assert seen == [0, 1]
    assert signal.last_value == 2


def test_signals_are_computed_once_even_if_effects_write() -> None:
    """RX-153."""
    graph = Graph()
    cell, other = graph.cell(0), graph.cell(0)
    runs: list[tuple[int, int]] = []
    graph.effect(lambda: other.set(cell.get()))
    graph.signal(lambda: runs.append((cell.get(), other.get())))
    runs.clear()
    with graph.batch():
        cell.set(1)
        cell.set(2)
    assert runs == [(2, 2)]
