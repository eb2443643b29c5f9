"""From a live graph to what can be told of it: snapshots at any moment, and one change for each flush.

Nothing is registered or encoded by hand. Nodes with a type tag are serialised, with the edges between two of them; the
others, effects, and whatever keeps a signal computed, are this process's own affair.

A change lists what is to be done in this order, so that whoever does it one by one always finds what it needs:

1. nodes removed, their edges with them; an id that was taken again at once is among them,
2. nodes added, with their value if they have one (if it was computed from nothing that is told, it comes under 6),
3. edges removed, 4. edges added,
5. cells with another value,
6. slots with another value, so that each is told before what depends on it is called stale,
7. slots that are stale and were not computed again.

By default observers hold values: in each flush, slots are computed that somebody may read (``wanted``), and have a
``SlotValue`` each if that gave another value. All others stay lazy and cost nothing but the word that they are stale.

What always holds: the snapshot is what comes of applying all changes, in order, to nothing. The epoch counts them; a
flush that changed nothing of this makes none.
"""

from collections.abc import Callable, Iterable
from typing import Final, TypeAlias

from bobbin.errors import BobbinError, UsageError
from bobbin.reactive.change import Change
from bobbin.reactive.graph import Flush, Graph, Readable
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
from bobbin.reactive.type_tags import TypeTags

Listener: TypeAlias = Callable[[Change], None]
IsWanted: TypeAlias = Callable[[NodeId], bool]


class UnwritableValues(UsageError):
    """Values that their type tags cannot write. Observers see these nodes as stale or unset until they have others."""

    def __init__(self, errors: list[str]) -> None:
        super().__init__("; ".join(errors))


class GraphSource:
    """One graph, for all who publish it."""

    def __init__(self, graph: Graph, tags: TypeTags, *, wanted: IsWanted | None = None) -> None:
        """``wanted`` says whether anybody may read a node. By default nobody may, and all slots stay lazy."""
        self._graph: Final = graph
        self._tags: Final = tags
        self._wanted: Final = wanted
        self._nodes: Final[dict[NodeId, Node]] = {}
        self._edges: Final[dict[Edge, None]] = {}
        self._edges_of: Final[dict[NodeId, dict[Edge, None]]] = {}
        """By either end."""
        self._roots: Final[dict[NodeId, None]] = {}
        """Cells and source slots, as long as they have a value that could be written."""
        self._listeners: dict[object, Listener] = {}
        self._epoch = 0
        self._end: Final = graph.on_flush(self._follow, wanted=self._is_wanted)
        self._begin()

    @property
    def epoch(self) -> int:
        """How many changes there were. It never falls."""
        return self._epoch

    def snapshot(self) -> Snapshot:
        """All that can be serialised, as it is at this epoch; whose eyes it is for is not decided here."""
        return Snapshot(self._epoch, tuple(self._nodes.values()), tuple(self._edges), tuple(self._roots))

    def on_change(self, listener: Listener) -> Callable[[], None]:
        """Tell ``listener`` of each change from now on; returns the undo."""
        number = object()
        self._listeners = {**self._listeners, number: listener}

        def undo() -> None:
            self._listeners = {key: value for key, value in self._listeners.items() if key is not number}

        return undo

    def resolve(self, ids: Iterable[NodeId]) -> None:
        """Compute slots that have come to be wanted. What that gives is told as a change."""
        self._graph.compute([id for id in ids if id in self._nodes])

    def close(self) -> None:
        """Follow the graph no longer."""
        self._end()

    def _is_wanted(self, node: Readable[object]) -> bool:
        return node.tag is not None and self._wanted is not None and self._wanted(node.id)

    def _begin(self) -> None:
        """Take over what is there already. What is wanted of it is computed, while nobody listens yet."""
        errors: list[str] = []
        for node in self._graph.nodes():
            if node.tag is not None:
                self._add(node, errors)
        for node in self._graph.nodes():
            for source in node.sources:
                self._link(Edge(node.id, source.id))
        try:
            if errors:
                raise UnwritableValues(errors)
            self._graph.compute([node.id for node in self._graph.nodes() if self._is_wanted(node)])
        except BobbinError:
            self.close()
            raise
        self._epoch = 0

    # ---- one flush --------------------------------------------------------------------------------------------------

    def _follow(self, flush: Flush) -> None:
        errors: list[str] = []
        removed = tuple(id for id in flush.removed if id in self._nodes)
        for id in removed:
            self._remove(id)
        new = [node for node in flush.added if node.tag is not None]
        added = [self._add(node, errors) for node in new]
        edges_removed = tuple(edge for edge in flush.edges_removed if self._unlink(edge))
        edges_added = tuple(edge for edge in flush.edges_added if self._link(edge))
        operations: list[Operation] = [NodeRemove(id) for id in removed]
        values: list[Operation] = []
        for node in added:
            if node.value is None or node.id in self._roots or self._has_dependency(node.id):
                operations.append(NodeAdd(node.id, node.tag, node.value, node.key))
            else:
                # Nothing shows that it was computed, so the way in which its value comes must.
                operations.append(NodeAdd(node.id, node.tag, None, node.key))
                values.append(SlotValue(node.id, node.value))
        operations += (EdgeRemove(edge.dependent, edge.dependency) for edge in edges_removed)
        operations += (EdgeAdd(edge.dependent, edge.dependency) for edge in edges_added)
        stale: list[Operation] = []
        self._write(flush.cells, CellSet, operations, stale, errors)
        self._write(flush.slots, SlotValue, values, stale, errors)
        for slot in flush.stale:
            self._make_stale(slot.id, stale)
        operations += values
        operations += stale
        if operations:
            self._epoch += 1
            self._tell(Change(tuple(operations), tuple(added), removed, edges_added, edges_removed, self._epoch))
        if errors:
            raise UnwritableValues(errors)

    def _tell(self, change: Change) -> None:
        failures: list[Exception] = []
        for listener in self._listeners.values():
            try:
                listener(change)
            except Exception as error:  # noqa: BLE001 -- one listener's failure is not the others'
                failures.append(error)
        if failures:
            raise failures[0] if len(failures) == 1 else ExceptionGroup("of listeners", failures)

    def _write(
        self,
        nodes: Iterable[Readable[object]],
        operation: type[CellSet | SlotValue],
        operations: list[Operation],
        stale: list[Operation],
        errors: list[str],
    ) -> None:
        for node in nodes:
            if node.tag is None:
                continue
            value = self._encode(node, errors)
            shown = self._nodes[node.id]
            if value is None:
                self._make_stale(node.id, stale)
            elif value != shown.value or shown.state != NodeState.RESOLVED:
                self._nodes[node.id] = Node(node.id, node.tag, NodeState.RESOLVED, value, node.key)
                operations.append(operation(node.id, value))
                if node.is_root:
                    self._roots[node.id] = None

    def _make_stale(self, id: NodeId, stale: list[Operation]) -> None:
        node = self._nodes.get(id)
        if node is not None and node.state == NodeState.RESOLVED:
            self._nodes[id] = Node(id, node.tag, NodeState.DIRTY, node.value, node.key)
            self._roots.pop(id, None)
            stale.append(Invalidate(id))

    def _add(self, node: Readable[object], errors: list[str]) -> Node:
        assert node.tag is not None
        value = self._encode(node, errors) if node.state == NodeState.RESOLVED else None
        state = NodeState.UNSET if value is None else NodeState.RESOLVED
        shown = self._nodes[node.id] = Node(node.id, node.tag, state, value, node.key)
        if node.is_root and value is not None:
            self._roots[node.id] = None
        return shown

    def _remove(self, id: NodeId) -> None:
        for edge in list(self._edges_of.pop(id, ())):
            self._unlink(edge)
        del self._nodes[id]
        self._roots.pop(id, None)

    def _has_dependency(self, id: NodeId) -> bool:
        return any(edge.dependent == id for edge in self._edges_of.get(id, ()))

    def _link(self, edge: Edge) -> bool:
        """Keep an edge; whether both its ends are told."""
        if edge.dependent not in self._nodes or edge.dependency not in self._nodes:
            return False
        self._edges[edge] = None
        for end in (edge.dependent, edge.dependency):
            self._edges_of.setdefault(end, {})[edge] = None
        return True

    def _unlink(self, edge: Edge) -> bool:
        """Forget an edge; whether it was told."""
        if edge not in self._edges:
            return False
        del self._edges[edge]
        for end in (edge.dependent, edge.dependency):
            self._edges_of.get(end, {}).pop(edge, None)
        return True

    def _encode(self, node: Readable[object], errors: list[str]) -> bytes | None:
        assert node.tag is not None
        try:
            return self._tags.encode(node.tag, node.last_value)
        except UsageError as error:
            errors.append(f"{node.name}: {error}")
            return None
