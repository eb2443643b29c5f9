"""A graph without any machinery: cells, and slots that are computed anew from nothing whenever anybody looks.

It is what a world of links is held to, and also one of the graphs that are published there: what a flush has changed is
found by comparing everything before with everything after. Nothing of it is shared with the graph or the links that are
tested.
"""

from collections.abc import Iterable, Mapping
from random import Random
from typing import Final

from msgspec import Struct, structs

from bobbin.reactive.change import Change
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
    Operation,
    SlotValue,
    Snapshot,
)

TAG: Final = "i64"
MODULUS: Final = 5
"""Results are small, so that many computations give what they gave before."""


class Described(Struct, frozen=True, kw_only=True):
    """What a node is, whatever its value."""

    id: NodeId
    incarnation: int
    """Different for every node there ever was, also for two with one id."""
    key: str | None
    reads: tuple[NodeId, ...] = ()
    """Nothing: a cell. Otherwise the first is always read, and its value says which of the others are."""
    offset: int = 0
    is_lazy: bool = False
    """Not computed until somebody asks (``resolve``): a new value shows as a stale mark first."""

    @property
    def is_cell(self) -> bool:
        return not self.reads

    def renumbered(self, ids: Mapping[NodeId, NodeId]) -> "Described":
        return structs.replace(self, id=ids[self.id], reads=tuple(ids[read] for read in self.reads))


class Shown(Struct, frozen=True, kw_only=True):
    """A node as it is to be seen by whoever may see it."""

    described: Described
    state: NodeState
    value: bytes | None
    dependencies: tuple[NodeId, ...]


class Add(Struct, frozen=True):
    """A node comes."""

    described: Described
    value: int = 0


class Remove(Struct, frozen=True):
    """A node goes, and nothing reads it any more."""

    id: NodeId


class Put(Struct, frozen=True):
    """A cell is written."""

    id: NodeId
    value: int


class Resolve(Struct, frozen=True):
    """Somebody asks for the value of a lazy slot."""

    id: NodeId


Act = Add | Remove | Put | Resolve


def as_bytes(value: int) -> bytes:
    """As the tag has it."""
    return value.to_bytes(8, "little", signed=True)


class GraphModel:
    """All nodes, and what was shown of them last."""

    def __init__(self) -> None:
        self.described: Final[dict[NodeId, Described]] = {}
        """In the order in which they came, so that what is read comes before its reader."""
        self.cells: Final[dict[NodeId, int]] = {}
        self.shown: dict[NodeId, Shown] = {}

    def play(self, acts: Iterable[Act]) -> Change | None:
        """Do some things at once; returns what can be seen of it, if anything can."""
        before = dict(self.shown)
        asked: set[NodeId] = set()
        for act in acts:
            match act:
                case Add(described, value):
                    assert described.id not in self.described
                    self.described[described.id] = described
                    if described.is_cell:
                        self.cells[described.id] = value
                case Remove(id):
                    del self.described[id]
                    self.cells.pop(id, None)
                    asked.discard(id)
                case Put(id, value):
                    self.cells[id] = value
                case Resolve(id):
                    asked.add(id)
        self._show(asked)
        return difference(before, self.shown)

    def renumber(self, ids: Mapping[NodeId, NodeId]) -> None:
        """Let every node have another id, and be the same node."""
        renewed = {id: one.renumbered(ids) for id, one in self.described.items()}
        shown = {
            ids[id]: structs.replace(
                one, described=renewed[id], dependencies=tuple(ids[read] for read in one.dependencies)
            )
            for id, one in self.shown.items()
        }
        cells = {ids[id]: value for id, value in self.cells.items()}
        self.described.clear()
        self.described.update((one.id, one) for one in renewed.values())
        self.cells.clear()
        self.cells.update(cells)
        self.shown = shown

    def _show(self, asked: set[NodeId]) -> None:
        shown: dict[NodeId, Shown] = {}
        for id, described in self.described.items():
            last = self.shown.get(id)
            if last is not None and last.described is not described:
                last = None
            shown[id] = self._look(described, last, is_asked=id in asked)
        self.shown = shown

    def _look(self, described: Described, last: Shown | None, *, is_asked: bool) -> Shown:
        value, dependencies = self.compute(described)
        fresh = Shown(described=described, state=NodeState.RESOLVED, value=as_bytes(value), dependencies=dependencies)
        if not described.is_lazy or is_asked:
            return fresh
        if last is None:
            return Shown(described=described, state=NodeState.UNSET, value=None, dependencies=())
        if last.state is NodeState.RESOLVED and last.value != fresh.value:
            return structs.replace(last, state=NodeState.DIRTY)
        return last

    def compute(self, described: Described) -> tuple[int, tuple[NodeId, ...]]:
        """What a node's value is, and what was read for it."""
        if described.is_cell:
            return self.cells[described.id], ()
        first, *others = described.reads
        chooser = self.value(first)
        read = dict.fromkeys((first, *(others[::2] if chooser % 2 else others[1:])))
        return (described.offset + sum(map(self.value, read))) % MODULUS, tuple(read)

    def value(self, id: NodeId) -> int:
        return self.compute(self.described[id])[0]

    def snapshot(self) -> Snapshot:
        """All of it, as a publisher starts with it."""
        nodes = tuple(_node(one) for one in self.shown.values())
        edges = tuple(Edge(id, read) for id, one in self.shown.items() for read in one.dependencies)
        return Snapshot(0, nodes, edges, tuple(id for id, one in self.shown.items() if one.described.is_cell))


def difference(before: dict[NodeId, Shown], after: dict[NodeId, Shown]) -> Change | None:
    """What leads from one state to another, in the documented order; None if they are the same."""
    stayed = {id for id, one in before.items() if id in after and after[id].described is one.described}
    removed = tuple(id for id in before if id not in stayed)
    added = tuple(_node(one) for id, one in after.items() if id not in stayed)
    old = {Edge(id, read) for id in stayed for read in before[id].dependencies if read in stayed}
    new = {Edge(id, read) for id, one in after.items() for read in one.dependencies}
    edges_removed = tuple(sorted(old - new, key=_ends))
    edges_added = tuple(sorted(new - old, key=_ends))
    operations: list[Operation] = [NodeRemove(id) for id in removed]
    operations += [NodeAdd(node.id, node.tag, node.value, node.key) for node in added]
    operations += [EdgeRemove(edge.dependent, edge.dependency) for edge in edges_removed]
    operations += [EdgeAdd(edge.dependent, edge.dependency) for edge in edges_added]
    changed = [after[id] for id in after if id in stayed and _face(after[id]) != _face(before[id])]
    resolved = [(one.described, one.value) for one in changed if one.state is NodeState.RESOLVED]
    operations += [CellSet(one.id, value) for one, value in resolved if one.is_cell and value is not None]
    operations += [SlotValue(one.id, value) for one, value in resolved if not one.is_cell and value is not None]
    operations += [Invalidate(one.described.id) for one in changed if one.state is NodeState.DIRTY]
    if not operations:
        return None
    return Change(tuple(operations), added, removed, edges_added, edges_removed)


class Play:
    """Draws what happens to a graph, so that it always makes sense. All that is drawn is to be played."""

    def __init__(self, random: Random, *, is_lazy: bool, reuses: bool) -> None:
        """``is_lazy``: some slots are. ``reuses``: freed ids are taken again."""
        self._random: Final = random
        self._is_lazy: Final = is_lazy
        self._reuses: Final = reuses
        self._alive: Final[dict[NodeId, Described]] = {}
        self._freed: Final[list[NodeId]] = []
        self._next_id = 0
        self._incarnations = 0

    def begin(self) -> list[Act]:
        """The first nodes."""
        cells = [self._add(is_cell=True) for _ in range(self._random.randint(2, 5))]
        slots = [self._add(is_cell=False) for _ in range(self._random.randint(1, 8))]
        return [*cells, *slots]

    def batch(self) -> list[Act]:
        """Some things that happen at once."""
        random = self._random
        lazy = [one.id for one in self._alive.values() if one.is_lazy]
        if lazy and random.random() < 0.25:
            return [Resolve(random.choice(lazy))]
        acts: list[Act] = []
        for _ in range(random.choice((1, 1, 1, 2, 3, 6))):
            kind = random.choices(("put", "add", "remove"), weights=(8, 3, 2))[0]
            cells = [one.id for one in self._alive.values() if one.is_cell]
            if kind == "add" or not cells:
                acts.append(self._add(is_cell=random.random() < 0.3 or not self._alive))
            elif kind == "remove":
                acts += self._remove(random.choice(list(self._alive)))
            else:
                acts.append(Put(random.choice(cells), random.randrange(2 * MODULUS)))
        return acts

    def add_cell(self, *, id_max: int) -> Add:
        """A cell with an id that is small enough."""
        self._freed.clear()
        self._next_id = min(self._next_id, id_max)
        while NodeId(self._next_id) in self._alive:
            self._next_id -= 1
        return self._add(is_cell=True)

    def renumber(self) -> dict[NodeId, NodeId]:
        """Other ids for the same nodes, most of which were those of others."""
        old = list(self._alive)
        new = self._random.sample(old, len(old))
        for place in range(len(new)):
            if self._random.random() < 0.2:
                self._freed.append(new[place])
                new[place] = NodeId(self._next_id)
                self._next_id += 1
        ids = dict(zip(old, new, strict=True))
        alive = [one.renumbered(ids) for one in self._alive.values()]
        self._alive.clear()
        self._alive.update((one.id, one) for one in alive)
        return ids

    def _add(self, *, is_cell: bool) -> Add:
        random = self._random
        if self._freed and self._reuses and random.random() < 0.6:
            id = self._freed.pop(random.randrange(len(self._freed)))
        else:
            id = NodeId(self._next_id)
            self._next_id += random.choice((1, 1, 1, 2, 2**40))
        alive = list(self._alive)
        self._incarnations += 1
        described = Described(
            id=id,
            incarnation=self._incarnations,
            key=f"node/{self._incarnations}" if random.random() < 0.4 else None,
            reads=() if is_cell else tuple(random.sample(alive, min(len(alive), random.randint(1, 4)))),
            offset=random.randrange(MODULUS),
            is_lazy=not is_cell and self._is_lazy and random.random() < 0.4,
        )
        self._alive[id] = described
        return Add(described, random.randrange(2 * MODULUS))

    def _remove(self, id: NodeId) -> list[Act]:
        """A node and all that may read it, at first or second hand, the last reader first."""
        found = {id}
        for other in self._alive.values():
            if not found.isdisjoint(other.reads):
                found.add(other.id)
        going = [one for one in reversed(self._alive) if one in found]
        for one in going:
            del self._alive[one]
        self._freed.extend(going)
        return [Remove(one) for one in going]


def _node(one: Shown) -> Node:
    return Node(one.described.id, TAG, one.state, one.value, one.described.key)


def _face(one: Shown) -> tuple[NodeState, bytes | None]:
    return one.state, one.value


def _ends(edge: Edge) -> tuple[int, int]:
    return edge.dependent, edge.dependency
