"""A graph as values: nodes, edges and roots, changed by operations, all of a list or none of it.

Two hold one: the mirror, of what it was told, and whoever publishes a graph, of all that there is. No function of the
graph is in it. Nodes are immutable, so what was read out of a replica stays what it was.

Deltas have no word for roots. A node is a root when it was added with a value, or is written as a cell; it is none once
it has a dependency, a computed value, or is stale. So every cell is one, and nothing derived is: ``projection`` adds
nodes so that this comes out right where dependencies cannot be seen. A slot that reads nothing is one if it had its
value when it was added.
"""

from collections.abc import Iterable, KeysView, Mapping
from types import MappingProxyType
from typing import Final, assert_never

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
    QueueClose,
    QueuePop,
    QueuePush,
    SlotValue,
    Snapshot,
    Value,
)

_RESOLVED: Final = NodeState.RESOLVED
_UNSET: Final = NodeState.UNSET
_NOTHING: Final[Mapping[NodeId, None]] = MappingProxyType({})


class Replica:
    """The state of a graph."""

    def __init__(self) -> None:
        self._nodes: dict[NodeId, Node] = {}
        self._edges: dict[Edge, None] = {}
        self._roots: set[NodeId] = set()
        self._reads: dict[NodeId, dict[NodeId, None]] | None = {}
        """By dependent; None until somebody asks, as few do after a snapshot."""
        self._readers: dict[NodeId, dict[NodeId, None]] = {}
        """By dependency; meaningless while ``_reads`` is None."""
        self._keys: dict[str, NodeId] | None = {}

    @property
    def nodes(self) -> Mapping[NodeId, Node]:
        return MappingProxyType(self._nodes)

    @property
    def edges(self) -> KeysView[Edge]:
        return self._edges.keys()

    @property
    def roots(self) -> frozenset[NodeId]:
        return frozenset(self._roots)

    def is_root(self, id: NodeId) -> bool:
        return id in self._roots

    def dependencies(self, id: NodeId) -> Iterable[NodeId]:
        """What a node reads."""
        return self._adjacent()[0].get(id, _NOTHING)

    def dependents(self, id: NodeId) -> Iterable[NodeId]:
        """What reads a node."""
        return self._adjacent()[1].get(id, _NOTHING)

    def find(self, key: str) -> Node | None:
        """The node with a key. Of several, the one that came last."""
        if self._keys is None:
            self._keys = {node.key: id for id, node in self._nodes.items() if node.key is not None}
        id = self._keys.get(key)
        return None if id is None else self._nodes.get(id)

    def snapshot(self, epoch: int) -> Snapshot:
        """All of it."""
        roots = tuple(id for id in self._nodes if id in self._roots)
        return Snapshot(epoch, tuple(self._nodes.values()), tuple(self._edges), roots)

    # ---- changing -------------------------------------------------------------------------------------------------

    def replace(self, snapshot: Snapshot) -> str | None:
        """Become what a snapshot says; returns what is wrong with it, and changes nothing then."""
        nodes = {node.id: node for node in snapshot.nodes}
        if len(nodes) != len(snapshot.nodes):
            return "a node is listed twice"
        for node in snapshot.nodes:
            if node.state is _UNSET if node.value is not None else node.state is _RESOLVED:
                return f"node {node.id} is {node.state}, which does not go with its value"
        for edge in snapshot.edges:
            if edge.dependent not in nodes or edge.dependency not in nodes:
                return f"an edge goes from {edge.dependent} to {edge.dependency}, and one of them is not listed"
        for id in snapshot.roots:
            if id not in nodes:
                return f"root {id} is not listed"
        self._nodes = nodes
        self._edges = dict.fromkeys(snapshot.edges)
        self._roots = set(snapshot.roots)
        self._reads = None
        self._keys = None
        return None

    def misfit(self, operations: Iterable[Operation]) -> str | None:
        """Why operations cannot follow on what is there; None if they can."""
        nodes = self._nodes
        came: set[NodeId] = set()
        gone: set[NodeId] = set()

        def exists(id: NodeId) -> bool:
            return id in came or (id in nodes and id not in gone)

        for operation in operations:
            if isinstance(operation, EdgeAdd | EdgeRemove):
                if not (exists(operation.dependent) and exists(operation.dependency)):
                    return f"an edge from {operation.dependent} to {operation.dependency} has an unknown end"
            elif isinstance(operation, NodeAdd):
                if exists(operation.id):
                    return f"node {operation.id} was there before it was added"
                came.add(operation.id)
            elif not exists(operation.id):
                return f"{type(operation).__name__} names node {operation.id}, which is not there"
            elif isinstance(operation, NodeRemove):
                came.discard(operation.id)
                gone.add(operation.id)
        return None

    def apply(self, operations: Iterable[Operation]) -> None:
        """Apply operations that fit: see ``misfit``."""
        for operation in operations:
            match operation:
                case CellSet(id, value):
                    self._nodes[id] = _with_value(self._nodes[id], value)
                    self._roots.add(id)
                case SlotValue(id, value):
                    self._nodes[id] = _with_value(self._nodes[id], value)
                    self._roots.discard(id)
                case Invalidate(id):
                    node = self._nodes[id]
                    self._nodes[id] = Node(id, node.tag, NodeState.DIRTY, node.value, node.key)
                    self._roots.discard(id)
                case NodeAdd():
                    self._add(operation)
                case NodeRemove(id):
                    self._remove(id)
                case EdgeAdd(dependent, dependency):
                    self._link(Edge(dependent, dependency))
                case EdgeRemove(dependent, dependency):
                    self._unlink(Edge(dependent, dependency))
                case QueuePush() | QueuePop() | QueueClose():
                    pass
                case _:
                    assert_never(operation)

    def check(self) -> None:
        """Assert what always holds."""
        assert all(id == node.id for id, node in self._nodes.items())
        assert self._roots <= self._nodes.keys(), "a root is a node"
        reads, readers = self._adjacent()
        assert {(edge.dependent, edge.dependency) for edge in self._edges} == {
            (dependent, dependency) for dependent, some in reads.items() for dependency in some
        }
        assert sum(map(len, readers.values())) == len(self._edges)
        assert all(edge.dependent in self._nodes and edge.dependency in self._nodes for edge in self._edges)

    def _add(self, operation: NodeAdd) -> None:
        id, value = operation.id, operation.value
        state = NodeState.UNSET if value is None else NodeState.RESOLVED
        self._nodes[id] = Node(id, operation.tag, state, value, operation.key)
        if value is not None:
            self._roots.add(id)
        if operation.key is not None and self._keys is not None:
            self._keys[operation.key] = id

    def _remove(self, id: NodeId) -> None:
        reads, readers = self._adjacent()
        for dependency in tuple(reads.get(id, _NOTHING)):
            self._unlink(Edge(id, dependency))
        for dependent in tuple(readers.get(id, _NOTHING)):
            self._unlink(Edge(dependent, id))
        if self._nodes.pop(id).key is not None:
            self._keys = None
        self._roots.discard(id)

    def _link(self, edge: Edge) -> None:
        self._edges[edge] = None
        self._roots.discard(edge.dependent)
        if self._reads is not None:
            self._reads.setdefault(edge.dependent, {})[edge.dependency] = None
            self._readers.setdefault(edge.dependency, {})[edge.dependent] = None

    def _unlink(self, edge: Edge) -> None:
        if edge not in self._edges:
            return
        del self._edges[edge]
        if self._reads is None:
            return
        for index, one, other in (
            (self._reads, edge.dependent, edge.dependency),
            (self._readers, edge.dependency, edge.dependent),
        ):
            del index[one][other]
            if not index[one]:
                del index[one]

    def _adjacent(self) -> tuple[dict[NodeId, dict[NodeId, None]], dict[NodeId, dict[NodeId, None]]]:
        if self._reads is None:
            self._reads, self._readers = {}, {}
            for edge in self._edges:
                self._reads.setdefault(edge.dependent, {})[edge.dependency] = None
                self._readers.setdefault(edge.dependency, {})[edge.dependent] = None
        return self._reads, self._readers


def _with_value(node: Node, value: Value) -> Node:
    return Node(node.id, node.tag, NodeState.RESOLVED, value, node.key)
