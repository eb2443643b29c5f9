"""What an observer ought to see of a graph, epoch by epoch, worked out from the model by brute force.

There is one witness for each link. It has its own copy of the grants, and counts the epochs itself: one more whenever
what the peer may see is different from before. Every frame that is sent is folded into a shadow by the plainest means
there are, and compared; so is every state that the mirror takes.
"""

from collections.abc import Callable, Iterable
from typing import Final

from msgspec import Struct

from bobbin.reactive.messages import (
    CellSet,
    Delta,
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
from bobbin.simulator.reactive_model import TAG, Shown

Expect = Callable[[bool, str], None]


class Sight(Struct, frozen=True):
    """What somebody sees."""

    nodes: dict[NodeId, tuple[str, NodeState, bytes | None, str | None]]
    edges: frozenset[tuple[NodeId, NodeId]]
    roots: frozenset[NodeId]

    def before_staleness(self) -> "Sight":
        """What is stale, as if it were not: forms that cannot say so in a snapshot say it in a delta after it."""
        nodes = dict(self.nodes)
        for id, (tag, state, value, key) in self.nodes.items():
            if state is NodeState.DIRTY:
                nodes[id] = (tag, NodeState.RESOLVED, value, key)
        return Sight(nodes, self.edges, self.roots)

    def without_keys(self) -> "Sight":
        """As the seed's form carries it."""
        return Sight({id: (*rest, None) for id, (*rest, _) in self.nodes.items()}, self.edges, self.roots)  # type: ignore[misc]


def sight_of(nodes: Iterable[Node], edges: Iterable[Edge], roots: Iterable[NodeId]) -> Sight:
    """What a snapshot or a mirror shows."""
    return Sight(
        {node.id: (node.tag, node.state, _as_bytes(node), node.key) for node in nodes},
        frozenset((edge.dependent, edge.dependency) for edge in edges),
        frozenset(roots),
    )


def projected(shown: dict[NodeId, Shown], may_see: Callable[[NodeId], bool]) -> Sight:
    """What is to be seen of a graph by whoever may see only some of it."""
    seen = {id: one for id, one in shown.items() if may_see(id)}
    return Sight(
        {id: (TAG, one.state, one.value, one.described.key) for id, one in seen.items()},
        frozenset((id, read) for id, one in seen.items() for read in one.dependencies if read in seen),
        frozenset(id for id, one in seen.items() if one.described.is_cell),
    )


class Witness:
    """Watches one link."""

    def __init__(self, name: str, first_epoch: int, expect: Expect) -> None:
        self.epoch = first_epoch
        self.history: Final[dict[int, Sight]] = {}
        self._name: Final = name
        self._expect: Final = expect
        self._incarnations: dict[NodeId, int] = {}
        self._halfway: Final[dict[int, list[Sight]]] = {}
        """By the epoch before it: a snapshot of which a mirror does not know yet what is stale, told in a delta."""
        self._shadow: Sight | None = None
        self._shadow_epoch = 0
        self.frames = 0

    def begin(self, shown: dict[NodeId, Shown], may_see: Callable[[NodeId], bool]) -> None:
        """The peer is about to get its first snapshot."""
        self.history[self.epoch] = projected(shown, may_see)
        self._incarnations = _incarnations(shown, self.history[self.epoch])

    def look(self, shown: dict[NodeId, Shown], may_see: Callable[[NodeId], bool]) -> None:
        """Something has changed, somewhere."""
        sight = projected(shown, may_see)
        incarnations = _incarnations(shown, sight)
        if sight != self.history[self.epoch] or incarnations != self._incarnations:
            self.epoch += 1
            self.history[self.epoch] = sight
            self._incarnations = incarnations

    def hear_snapshot(self, snapshot: Snapshot) -> None:
        """One goes out: it shows what is now."""
        self.frames += 1
        sight = sight_of(snapshot.nodes, snapshot.edges, snapshot.roots)
        if any(state is NodeState.DIRTY for _, state, _, _ in self.history[self.epoch].nodes.values()):
            # It is an epoch of its own. In forms that tell afterwards what is stale, the one before is half of it.
            self._halfway.setdefault(self.epoch, []).append(sight.before_staleness())
            self.history[self.epoch + 1] = self.history[self.epoch]
            self.epoch += 1
        self._say(len(sight.nodes) == len(snapshot.nodes), "a snapshot lists a node twice")
        self._say(snapshot.epoch == self.epoch, f"a snapshot at epoch {snapshot.epoch} goes out at {self.epoch}")
        self._compare(sight, snapshot.epoch, "a snapshot")
        self._shadow, self._shadow_epoch = sight, snapshot.epoch

    def hear_delta(self, delta: Delta) -> None:
        """One goes out: it leads from what went out before to what is to be seen at its epoch."""
        self.frames += 1
        self._say(self._shadow is not None, "a delta goes out before any snapshot")
        assert self._shadow is not None
        self._say(bool(delta.operations), "an empty delta goes out, which says that something happened")
        self._say(delta.base_epoch == self._shadow_epoch, f"a delta on {delta.base_epoch} after {self._shadow_epoch}")
        self._say(delta.epoch == delta.base_epoch + 1, f"a delta leads from {delta.base_epoch} to {delta.epoch}")
        self._say(delta.epoch in self.history, f"a delta leads to epoch {delta.epoch}, which is not yet")
        before, expected = self.history[delta.base_epoch], self.history[delta.epoch]
        named = set().union(*map(_ids, delta.operations))
        traces = named - before.nodes.keys() - expected.nodes.keys()
        self._say(not traces, f"a delta names {sorted(traces)}, which the peer may not see")
        wrong, self._shadow = fold(self._shadow, delta.operations)
        self._say(wrong is None, f"a delta does not fit: {wrong}")
        self._shadow_epoch = delta.epoch
        self._compare(self._shadow, delta.epoch, "a delta")

    def judge(self, sight: Sight, epoch: int | None, *, has_keys: bool) -> None:
        """What the mirror shows, at the epoch that it says it is at."""
        assert epoch is not None
        if has_keys and sight in self._halfway.get(epoch, ()):
            return
        self._say(epoch in self.history, f"the mirror is at epoch {epoch}, which never was")
        expected = self.history[epoch] if has_keys else self.history[epoch].without_keys()
        self._say(sight == expected, f"the mirror is wrong at epoch {epoch}: {unlike(sight, expected)}")

    def _compare(self, sight: Sight, epoch: int, what: str) -> None:
        expected = self.history[epoch]
        self._say(sight == expected, f"{what} is wrong at epoch {epoch}: {unlike(sight, expected)}")

    def _say(self, condition: bool, message: str) -> None:  # noqa: FBT001 (reads like an assertion)
        self._expect(condition, f"{self._name}: {message}")


def fold(sight: Sight, operations: Iterable[Operation]) -> tuple[str | None, Sight]:
    """What is seen after some operations, by the plainest means; first what did not fit, if anything."""
    nodes, edges, roots = dict(sight.nodes), set(sight.edges), set(sight.roots)
    for operation in operations:
        if isinstance(operation, EdgeAdd | EdgeRemove):
            ends = (operation.dependent, operation.dependency)
            if ends[0] not in nodes or ends[1] not in nodes or (ends in edges) is isinstance(operation, EdgeAdd):
                return f"{operation}", sight
            edges ^= {ends}
            roots -= {ends[0]} if isinstance(operation, EdgeAdd) else set()
            continue
        id = operation.id
        if (id in nodes) is isinstance(operation, NodeAdd):
            return f"{operation}", sight
        match operation:
            case NodeAdd(_, tag, value, key):
                nodes[id] = (tag, NodeState.UNSET if value is None else NodeState.RESOLVED, _plain(value), key)
                roots |= set() if value is None else {id}
            case NodeRemove():
                del nodes[id]
                edges = {ends for ends in edges if id not in ends}
                roots.discard(id)
            case CellSet(_, value) | SlotValue(_, value):
                nodes[id] = (nodes[id][0], NodeState.RESOLVED, _plain(value), nodes[id][3])
                (roots.add if isinstance(operation, CellSet) else roots.discard)(id)
            case Invalidate():
                nodes[id] = (nodes[id][0], NodeState.DIRTY, *nodes[id][2:])
                roots.discard(id)
            case _:
                return f"{operation}", sight
    return None, Sight(nodes, frozenset(edges), frozenset(roots))


def _incarnations(shown: dict[NodeId, Shown], sight: Sight) -> dict[NodeId, int]:
    return {id: shown[id].described.incarnation for id in sight.nodes}


def _ids(operation: Operation) -> set[NodeId]:
    if isinstance(operation, EdgeAdd | EdgeRemove):
        return {operation.dependent, operation.dependency}
    return {operation.id}


def _as_bytes(node: Node) -> bytes | None:
    return _plain(node.value)


def _plain(value: object) -> bytes | None:
    assert value is None or isinstance(value, bytes), "there are no blobs in these worlds"
    return value


def unlike(sight: Sight, expected: Sight) -> str:
    """How two sights differ, in few words."""
    nodes = {
        id: (sight.nodes.get(id), expected.nodes.get(id))
        for id in sight.nodes.keys() | expected.nodes.keys()
        if sight.nodes.get(id) != expected.nodes.get(id)
    }
    edges, roots = sight.edges ^ expected.edges, sight.roots ^ expected.roots
    return f"nodes {dict(list(nodes.items())[:3])}, edges {sorted(edges)[:3]}, roots {sorted(roots)[:3]}"
