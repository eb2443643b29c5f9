"""Asynchronous slots end where recomputing everything does, in whatever order their runs go on, end, fail or are late.

Runs are stepped by hand here, one pause at a time, between writes and reads, so that most of them are overtaken.
"""

from collections.abc import Callable, Coroutine, Generator
from dataclasses import dataclass, field
from typing import Final, TypeAlias

from hypothesis import given
from hypothesis import strategies as st

from bobbin.reactive.graph import Cell, Graph, Readable, Run, StillPending
from bobbin.reactive.graph.marks import CHECK
from tests.properties.effort import scaled

Outcome: TypeAlias = int | str


class _Pause:
    """Where a run can be left alone."""

    def __await__(self) -> Generator[None, None, None]:
        yield


@dataclass
class _World:
    """A graph, the formulas of its slots, and the runs that are on their way."""

    graph: Graph = field(default_factory=Graph)
    nodes: list[Readable[int]] = field(default_factory=list)
    values: dict[int, int] = field(default_factory=dict)
    formulas: dict[int, Callable[[Callable[[int], int]], int]] = field(default_factory=dict)
    runs: list[tuple[Run, Coroutine[object, object, object]]] = field(default_factory=list)
    seen: dict[int, list[Outcome]] = field(default_factory=dict)
    targets: dict[int, int] = field(default_factory=dict)

    def add_cell(self, value: int) -> None:
        self.values[len(self.nodes)] = value
        self.nodes.append(self.graph.cell(value))

    def add_slot(self, first: int, second: int, constant: int, *, is_async: bool) -> None:
        number = len(self.nodes)

        def formula(read: Callable[[int], int]) -> int:
            chosen = read(second) if read(first) % 3 else constant
            return 12 // (chosen % 5) if constant % 2 else chosen // 2

        async def compute() -> int:
            self.nodes[first].get()
            await _Pause()
            value = formula(lambda node: self.nodes[node].get())
            await _Pause()
            return value

        self.formulas[number] = formula
        if is_async:
            self.nodes.append(self.graph.async_slot(compute))
        else:
            self.nodes.append(self.graph.slot(lambda: formula(lambda node: self.nodes[node].get())))

    def add_effect(self, target: int) -> None:
        number = len(self.seen)
        self.seen[number] = []
        self.targets[number] = target

        def act() -> None:
            try:
                self.seen[number].append(self.nodes[target].get())
            except ZeroDivisionError:
                self.seen[number].append("failed")

        self.graph.effect(act)

    def outcome(self, number: int) -> Outcome:
        try:
            return self._compute(number)
        except ZeroDivisionError:
            return "failed"

    def _compute(self, number: int) -> int:
        return self.values[number] if number in self.values else self.formulas[number](self._compute)

    def drive(self, which: int) -> bool:
        """Let one run go on, obsolete ones too; whether there was any."""
        self.runs += [(run, run.begin()) for run in self.graph.take_starts()]
        if not self.runs:
            return False
        run, coroutine = self.runs.pop(which % len(self.runs))
        try:
            self.graph.step(run, lambda: coroutine.send(None))
        except StopIteration as end:
            self.graph.resolve(run, end.value)
        except (ZeroDivisionError, StillPending) as error:
            self.graph.fail(run, error)
        else:
            self.runs.append((run, coroutine))
        return True


Step: TypeAlias = tuple[int, int, int, int]
_KINDS: Final = st.sampled_from([0, 1, 2, 3, 3, 3, 5, 5, 5, 6, 6, 6, 6, 6])
"""Mostly writing, reading and letting runs go on, so that many are overtaken half way."""
_STEPS: Final = st.lists(
    st.tuples(_KINDS, st.integers(0, 30), st.integers(0, 30), st.integers(0, 9)), min_size=5, max_size=40
)


def _write(world: _World, number: int, value: int) -> None:
    cell = world.nodes[number]
    assert isinstance(cell, Cell)
    world.values[number] = value
    cell.set(value)


def _take(world: _World, step: Step) -> None:
    kind, one, two, constant = step
    count, cells = len(world.nodes), list(world.values)
    match kind:
        case 0 | 1:
            world.add_slot(one % count, two % count, constant, is_async=kind == 0)
        case 2:
            world.add_effect(one % count)
        case 3:
            _write(world, cells[one % len(cells)], constant)
        case 5:
            _read(world, one % count)
        case _:
            world.drive(one)


def _read(world: _World, number: int) -> None:
    """Whatever a node says is right, now; it may say that it does not know yet."""
    try:
        assert world.nodes[number].get() == world.outcome(number)
    except ZeroDivisionError:
        assert world.outcome(number) == "failed"
    except StillPending:
        assert world.graph.has_starts or world.runs, "what nobody computes is waited for"


def _drive_all(world: _World) -> None:
    for _ in range(2000):
        if not world.drive(0):
            return
    raise AssertionError("the runs do not come to an end")


def _follow(steps: list[Step]) -> None:
    world = _World()
    world.add_cell(1)
    world.add_cell(2)
    world.add_slot(0, 1, 4, is_async=True)
    world.add_slot(1, 2, 4, is_async=True)
    for step in steps:
        _take(world, step)
        assert all(node.mark < CHECK for node in world.graph._nodes.values() if node.is_eager)
    # Nobody has asked since for some of what is on its way, so it may be of old values.
    _drive_all(world)
    for number in range(len(world.nodes)):
        _read(world, number)
    for number in range(len(world.nodes)):
        world.add_effect(number)
    _drive_all(world)
    for number, target in world.targets.items():
        assert world.seen[number][-1] == world.outcome(target)


@scaled(2)
@given(_STEPS)
def test_runs_end_where_recomputing_everything_ends(steps: list[Step]) -> None:
    _follow(steps)
