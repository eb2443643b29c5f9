"""A graph does what recomputing everything would do, computes nothing twice, and leaves its own books in order.

The slow way is ``_World.outcome``: it knows the formulas and the values of the cells, and computes everything anew for
each question. The formulas choose what they read by what they have read, fail for some values, catch the failures of
others, and give few different results, so that most changes come to nothing somewhere.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final, TypeAlias

from hypothesis import given
from hypothesis import strategies as st

from bobbin.reactive.change import Change
from bobbin.reactive.graph import (
    Cell,
    CycleFound,
    DisposedNode,
    Effect,
    EffectsFailed,
    Graph,
    Readable,
    Signal,
)
from bobbin.reactive.graph.marks import CHECK, CLEAN, DISPOSED, FAILED, RUNNING
from bobbin.reactive.messages import (
    CellSet,
    EdgeAdd,
    EdgeRemove,
    Invalidate,
    NodeAdd,
    NodeId,
    NodeRemove,
    NodeState,
    Operation,
    SlotValue,
)
from bobbin.reactive.messages import Node as WireNode
from bobbin.reactive.source import GraphSource
from bobbin.reactive.type_tags import TypeTags
from tests.properties.effort import scaled

Outcome: TypeAlias = int | str
"""A value, or the name of an error."""

_ERRORS: Final = (ZeroDivisionError, DisposedNode, CycleFound)


@dataclass
class _Formula:
    """What a slot computes, told twice: by reading nodes, and by asking the world."""

    kind: int
    reads: tuple[int, ...]
    constant: int

    def compute(self, read: Callable[[int], int]) -> int:
        first, second, third = self.reads
        match self.kind % 6:
            case 0:
                return (read(first) + read(second) + self.constant) % 7
            case 1:
                return read(second) if read(first) % 2 else read(third)
            case 2:
                return 10 // (read(first) % 4) + read(second)
            case 3:
                try:
                    return read(first)
                except ZeroDivisionError:
                    return -self.constant
            case 4:
                return read(first) // 3
            case _:
                return sum(read(first) for _ in range(2)) + read(first)


def _outcome(compute: Callable[[], int]) -> Outcome:
    try:
        return compute()
    except _ERRORS as error:
        return type(error).__name__


@dataclass
class _World:
    """A graph, and what is known of it without it."""

    graph: Graph = field(default_factory=Graph)
    nodes: list[Readable[int]] = field(default_factory=list)
    formulas: dict[int, _Formula] = field(default_factory=dict)
    values: dict[int, int] = field(default_factory=dict)
    disposed: set[int] = field(default_factory=set)
    runs: dict[int, int] = field(default_factory=dict)
    effects: dict[int, Effect] = field(default_factory=dict)
    targets: dict[int, int] = field(default_factory=dict)
    seen: dict[int, list[Outcome]] = field(default_factory=dict)

    def add_cell(self, value: int) -> None:
        self.values[len(self.nodes)] = value
        self.nodes.append(self.graph.cell(value, tag="i64"))

    def add_slot(self, formula: _Formula, *, eager: bool) -> None:
        number = len(self.nodes)
        self.formulas[number] = formula
        self.runs[number] = 0

        def compute() -> int:
            self.runs[number] += 1
            return formula.compute(lambda read: self.nodes[read].get())

        if not eager:
            self.nodes.append(self.graph.slot(compute, tag="i64"))
            return
        try:
            self.nodes.append(self.graph.signal(compute, tag="i64"))
        except EffectsFailed:
            assert isinstance(self.outcome(number), str)
            self.nodes.append(self.graph.slot(compute, tag="i64"))

    def add_effect(self, target: int) -> None:
        number = len(self.effects)
        self.targets[number] = target
        self.seen[number] = []

        def act() -> None:
            self.seen[number].append(_outcome(self.nodes[target].get))

        self.effects[number] = self.graph.effect(act)

    def outcome(self, number: int) -> Outcome:
        return _outcome(lambda: self._compute(number, ()))

    def _compute(self, number: int, inside: tuple[int, ...]) -> int:
        if number in self.disposed:
            raise DisposedNode("")
        if number in inside:
            raise CycleFound(())
        if number in self.values:
            return self.values[number]
        return self.formulas[number].compute(lambda read: self._compute(read, (*inside, number)))


Step: TypeAlias = tuple[int, int, int, int, int]


def _quietly(change: Callable[[], None]) -> None:
    """Make a change; signals that it makes fail are no concern here."""
    try:
        change()
    except EffectsFailed as failed:
        if not all(isinstance(error, _ERRORS) for _, error in failed.errors):
            raise


def _take(world: _World, step: Step) -> bool:
    """Make one step; whether effects must have run exactly for what they had not seen."""
    kind, one, two, three, constant = step
    count = len(world.nodes)
    cells = [number for number in world.values if number not in world.disposed]
    match kind % 10:
        case 0:
            world.add_cell(constant)
        case 1 | 2:
            formula = _Formula(constant, (one % count, two % count, three % count), constant)
            world.add_slot(formula, eager=kind % 10 == 2)
        case 3:
            world.add_effect(one % count)
        case 4 | 5 if cells:
            _write(world, cells[one % len(cells)], constant)
        case 6 if cells:
            _write_many(world, [cells[place % len(cells)] for place in (one, two, three)], constant)
        case 7:
            number = one % count
            assert _outcome(world.nodes[number].get) == world.outcome(number)
        case 8 if constant < 2:
            _dispose(world, one % count)
            return False
        case 9 if cells:
            _write_and_read(world, cells[one % len(cells)], two % count, constant)
            return False
        case _:
            pass
    return True


def _write(world: _World, number: int, value: int) -> None:
    cell = world.nodes[number]
    assert isinstance(cell, Cell)
    world.values[number] = value
    _quietly(lambda: cell.set(value))


def _write_many(world: _World, numbers: list[int], value: int) -> None:
    def change() -> None:
        with world.graph.batch():
            for place, number in enumerate(numbers):
                cell = world.nodes[number]
                assert isinstance(cell, Cell)
                cell.set(value + place)
                world.values[number] = value + place

    _quietly(change)


def _write_and_read(world: _World, cell_number: int, read: int, value: int) -> None:
    """A batch that looks at what it does. Effects may run for what has come back to what it was."""
    cell = world.nodes[cell_number]
    assert isinstance(cell, Cell)

    def change() -> None:
        before = cell.peek()
        with world.graph.batch():
            for written in (value, before, value + 1):
                cell.set(written)
                world.values[cell_number] = written
                assert _outcome(world.nodes[read].get) == world.outcome(read)

    _quietly(change)


def _dispose(world: _World, number: int) -> None:
    node = world.nodes[number]
    _quietly(node.remove if isinstance(node, Signal) else node.dispose)
    world.disposed.add(number)


def _check_books(graph: Graph) -> None:
    """What always holds of the nodes at rest."""
    assert graph.depth == 0
    assert graph.reads is None
    assert [*graph.refreshing, *graph.due, *graph.written, *graph.failed] == []
    for node in graph._nodes.values():
        assert node.mark not in {RUNNING, DISPOSED}
        assert len(set(node.sources)) == len(node.sources)
        assert all(node in source.readers and source.level < node.level for source in node.sources)
        assert all(node in reader.sources for reader in node.readers)
        assert node.live == node.is_eager + sum(reader.live > 0 for reader in node.readers)
        if node.is_eager:
            assert node.mark < CHECK
        if node.mark >= CHECK:
            assert all(reader.mark >= CHECK for reader in node.readers)
        if node.mark == CLEAN:
            assert all(source.mark in {CLEAN, FAILED} for source in node.sources) or isinstance(node, Effect)


def _check_effects(world: _World, before: dict[int, int], *, exactly: bool) -> None:
    """Effects have seen what there is, once, and only if it is new; not ``exactly`` leaves out the last."""
    for number, target in world.targets.items():
        seen, now = world.seen[number], world.outcome(target)
        assert seen[-1] == now, "an effect has missed a change"
        assert len(seen) - before.get(number, 0) <= 1, "an effect ran twice for one change"
        if exactly and isinstance(now, int) and len(seen) > before.get(number, 0) > 0:
            assert seen[-2] != now, "an effect ran for nothing"


def _check_signals(world: _World) -> None:
    for number, node in enumerate(world.nodes):
        if isinstance(node, Signal):
            value = world.outcome(number)
            assert (node.state == NodeState.RESOLVED) == isinstance(value, int)
            assert node.last == value or isinstance(value, str)


_STEPS: Final = st.lists(st.tuples(*(st.integers(0, 30) for _ in range(4)), st.integers(0, 9)), max_size=40)


def _begin() -> _World:
    world = _World()
    world.add_cell(1)
    world.add_cell(2)
    return world


def _follow(steps: list[Step]) -> None:
    world = _begin()
    for step in steps:
        runs, seen = dict(world.runs), {number: len(log) for number, log in world.seen.items()}
        lazy = {number for number in runs if not world.nodes[number].live}
        exactly = _take(world, step)
        _check_books(world.graph)
        if not world.disposed:
            # Who loses something that it had read is not told, so what it has seen last is not what there is.
            _check_effects(world, seen, exactly=exactly)
            _check_signals(world)
        if step[0] % 10 != _READING:
            assert all(world.runs[number] - count <= 1 for number, count in runs.items()), "computed twice"
        if step[0] % 10 in _WRITING:
            still = {number for number in lazy if not world.nodes[number].live}
            assert all(world.runs[number] == runs[number] for number in still), "a lazy slot was computed by a write"
    for number, node in enumerate(world.nodes):
        assert _outcome(node.get) == world.outcome(number)
        _check_books(world.graph)


_WRITING: Final = {4, 5, 6}
_READING: Final = 9


@scaled(2)
@given(_STEPS)
def test_a_graph_gives_what_recomputing_everything_gives(steps: list[Step]) -> None:
    """RX-037, RX-153, RX-154, RX-155, RX-159."""
    _follow(steps)


# ---- what is told of it ---------------------------------------------------------------------------------------------


@dataclass
class _Mirror:
    """What comes of applying changes one by one, by the words of the seed and nothing else."""

    nodes: dict[NodeId, WireNode] = field(default_factory=dict)
    edges: set[tuple[int, int]] = field(default_factory=set)
    epoch: int = 0

    def apply(self, change: Change) -> None:
        assert change.operations, "an empty change"
        assert change.epoch == self.epoch + 1
        self.epoch = change.epoch
        valued = [operation.id for operation in change.operations if isinstance(operation, _VALUED)]
        assert len(set(valued)) == len(valued), "a node was told twice"
        kinds = [_ORDER.index(type(operation)) for operation in change.operations]
        assert kinds == sorted(kinds), "operations are out of order"
        for operation in change.operations:
            self._apply(operation)

    def _apply(self, operation: Operation) -> None:
        match operation:
            case NodeRemove(id):
                del self.nodes[id]
                self.edges = {edge for edge in self.edges if id not in edge}
            case NodeAdd(id, tag, value, key):
                assert id not in self.nodes
                state = NodeState.UNSET if value is None else NodeState.RESOLVED
                self.nodes[id] = WireNode(id, tag, state, value, key)
            case EdgeRemove(dependent, dependency):
                self.edges.remove((dependent, dependency))
            case EdgeAdd(dependent, dependency):
                assert (dependent, dependency) not in self.edges
                assert {dependent, dependency} <= self.nodes.keys()
                self.edges.add((dependent, dependency))
            case CellSet(id, value) | SlotValue(id, value):
                node = self.nodes[id]
                assert (node.state, node.value) != (NodeState.RESOLVED, value), "no news"
                self.nodes[id] = WireNode(id, node.tag, NodeState.RESOLVED, value, node.key)
            case Invalidate(id):
                node = self.nodes[id]
                assert node.state == NodeState.RESOLVED
                self.nodes[id] = WireNode(id, node.tag, NodeState.DIRTY, node.value, node.key)
            case _:
                raise AssertionError(operation)


_ORDER: Final = (NodeRemove, NodeAdd, EdgeRemove, EdgeAdd, CellSet, SlotValue, Invalidate)
_VALUED: Final = (CellSet, SlotValue, Invalidate)
_TAGS: Final = TypeTags.standard()


def _check_told(world: _World, mirror: _Mirror, wanted: set[NodeId]) -> None:
    by_id = {node.id: number for number, node in enumerate(world.nodes) if number not in world.disposed}
    assert mirror.nodes.keys() == by_id.keys()
    for id, number in by_id.items():
        outcome, node = world.outcome(number), mirror.nodes[id]
        if node.state == NodeState.RESOLVED:
            assert isinstance(outcome, int), "a node without a value is shown with one"
            assert node.value == _TAGS.encode("i64", outcome), "an old value is shown as right"
        else:
            assert world.nodes[number].state != NodeState.RESOLVED, "a right value is shown as stale"
            assert id not in wanted or isinstance(outcome, str), "somebody may read this, and is not told"
    told = {(id, source.id) for id, number in by_id.items() for source in world.nodes[number].sources}
    assert mirror.edges == told


def _follow_told(steps: list[Step]) -> None:
    """Every third node may be read by somebody."""
    world = _begin()
    wanted: set[NodeId] = set()

    def is_wanted(id: NodeId) -> bool:
        return id % 3 == 0

    source = GraphSource(world.graph, _TAGS, wanted=is_wanted)
    mirror = _Mirror()
    first = source.snapshot()
    mirror.nodes = {node.id: node for node in first.nodes}
    source.on_change(mirror.apply)
    for step in steps:
        changes = mirror.epoch
        runs = dict(world.runs)
        _take(world, step)
        wanted = {node.id for node in world.nodes if is_wanted(node.id)}
        _check_books(world.graph)
        _check_told(world, mirror, wanted)
        if step[0] % 10 in _WRITING:
            assert mirror.epoch - changes <= 1, "more than one change for one flush"
            assert all(world.runs[number] - count <= 1 for number, count in runs.items())
        snapshot = source.snapshot()
        assert snapshot.epoch == source.epoch == mirror.epoch
        assert snapshot.nodes == tuple(mirror.nodes.values())
        assert {(edge.dependent, edge.dependency) for edge in snapshot.edges} == mirror.edges
        roots = {world.nodes[number].id for number in world.values if number not in world.disposed}
        assert set(snapshot.roots) == roots


@scaled(2)
@given(_STEPS)
def test_what_is_told_of_a_graph_adds_up_to_what_it_is(steps: list[Step]) -> None:
    """RX-010, RX-011, RX-016, RX-018, RX-030, RX-034…038, RX-046…048, RX-160."""
    _follow_told(steps)


# ---- cycles ---------------------------------------------------------------------------------------------------------


def _follow_cycles(steps: list[Step]) -> None:
    """Slots choose among all nodes, later ones too, so that now and then they need themselves."""
    world = _begin()
    count = 8
    for step in steps[:count]:
        _, one, two, three, constant = step
        reads = (one % (count + 2), two % (count + 2), three % (count + 2))
        world.add_slot(_Formula(constant % 2, reads, constant), eager=False)
    while len(world.nodes) < count + 2:
        world.add_cell(0)
    for kind, one, _, _, constant in steps[count:]:
        cells = list(world.values)
        if kind % 3 == 0:
            _write(world, cells[one % len(cells)], constant)
        elif kind % 3 == 1:
            number = one % len(world.nodes)
            assert _outcome(world.nodes[number].get) == world.outcome(number)
        elif len(world.effects) < 4:
            world.add_effect(one % len(world.nodes))
        for number, target in world.targets.items():
            assert world.seen[number][-1] == world.outcome(target)
        _check_books(world.graph)


@given(_STEPS)
def test_cycles_are_found_whenever_they_close_and_never_else(steps: list[Step]) -> None:
    _follow_cycles(steps)
