"""A live graph that does what the model does, published by what it says of itself."""

from collections.abc import Callable, Iterable
from typing import Final

from bobbin.reactive.change import Change
from bobbin.reactive.graph import Cell, Graph, Signal, Slot
from bobbin.reactive.messages import NodeId, Snapshot
from bobbin.reactive.source import GraphSource
from bobbin.reactive.type_tags import TypeTags
from bobbin.simulator.reactive_model import MODULUS, TAG, Act, Add, Described, Put, Remove, Resolve


class LiveGraph:
    """The graph of a process, from its start."""

    def __init__(self, nodes: Iterable[tuple[Described, int]], wanted: Callable[[NodeId], bool]) -> None:
        """``nodes``: what there is at the start, with the values of cells. ``wanted``: whether anybody may see one."""
        self._graph: Final = Graph()
        self._cells: Final[dict[NodeId, Cell[int]]] = {}
        self._slots: Final[dict[NodeId, Slot[int]]] = {}
        for described, value in nodes:
            self._add(described, value)
        self._source: Final = GraphSource(self._graph, TypeTags.standard(), wanted=wanted)
        self._changes: list[Change] = []
        self._source.on_change(self._changes.append)

    def snapshot(self) -> Snapshot:
        return self._source.snapshot()

    def act(self, acts: Iterable[Act]) -> Change | None:
        """Some things happen in one batch."""
        with self._graph.batch():
            for act in acts:
                match act:
                    case Add(described, value):
                        self._add(described, value)
                    case Remove(id):
                        self._remove(id)
                    case Put(id, value):
                        self._cells[id].set(value)
                    case Resolve(id):
                        self._slots[id].get()
        return self._take()

    def resolve(self, ids: Iterable[NodeId]) -> Change | None:
        """Compute what somebody has come to see."""
        self._source.resolve(ids)
        return self._take()

    def _take(self) -> Change | None:
        changes, self._changes[:] = list(self._changes), []
        assert len(changes) <= 1, "one flush has made several changes"
        return changes[0] if changes else None

    def _add(self, described: Described, value: int) -> None:
        id, key = described.id, described.key
        if described.is_cell:
            self._cells[id] = self._graph.cell(value, tag=TAG, key=key, id=id)
            return
        # Whether a slot is kept computed makes no difference to whoever watches.
        make = self._graph.signal if described.offset % 2 else self._graph.slot
        self._slots[id] = make(lambda: self._compute(described), tag=TAG, key=key, id=id)

    def _remove(self, id: NodeId) -> None:
        node = self._cells.pop(id, None) or self._slots.pop(id)
        if isinstance(node, Signal):
            node.remove()
        else:
            node.dispose()

    def _compute(self, described: Described) -> int:
        first, *others = described.reads
        chooser = self._read(first)
        read = dict.fromkeys((first, *(others[::2] if chooser % 2 else others[1:])))
        return (described.offset + sum(map(self._read, read))) % MODULUS

    def _read(self, id: NodeId) -> int:
        cell = self._cells.get(id)
        return self._slots[id].get() if cell is None else cell.get()
