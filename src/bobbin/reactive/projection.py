"""One peer's view of a graph: what it may read, as snapshots and deltas with epochs of its own.

The view is what a graph would look like that had only the nodes the peer may read, the edges between two of them, and
the roots among them. Filtering is done here, on values, before anything is encoded, so no channel can forget it.

* The epoch of a view grows by one with each change that can be seen, and with nothing else: who may read nothing of a
  flush cannot tell that there was one. Only a snapshot with something stale in it is an epoch of its own, too: some
  forms tell what is stale in a delta behind it, and nobody who has missed the snapshot may take that for a change.
* A node that is granted later arrives as one that was added, with its edges; one that is revoked leaves as one that
  was removed. There is no other sign of either, and no gap.
* Where a snapshot is made and where deltas lead is the same state, epoch for epoch.

Order within a delta: what is no longer allowed is removed; then the operations of the flush in their own order; then
what is newly allowed is added, with edges, then stale marks.
"""

from collections.abc import Collection, Iterable, Mapping
from typing import Final, Protocol

from bobbin.reactive.messages import (
    U64_MAX,
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
    PeerId,
    SlotValue,
    Snapshot,
)
from bobbin.reactive.permissions import OpKind, PeerPermissions, RemoteOp


class Truth(Protocol):
    """All that there is, as a projection reads it."""

    @property
    def nodes(self) -> Mapping[NodeId, Node]: ...

    @property
    def edges(self) -> Collection[Edge]: ...

    def is_root(self, id: NodeId) -> bool: ...

    def dependencies(self, id: NodeId) -> Iterable[NodeId]: ...

    def dependents(self, id: NodeId) -> Iterable[NodeId]: ...


class Projection:
    """What one peer sees."""

    def __init__(
        self,
        truth: Truth,
        permissions: PeerPermissions,
        peer: PeerId,
        *,
        first_epoch: int = 0,
        id_max: int = U64_MAX,
    ) -> None:
        """``id_max``: nodes with larger ids are not shown, to a peer that could not hold them exactly."""
        self._truth: Final = truth
        self._permissions: Final = permissions
        self._peer: Final = peer
        self._id_max: Final = id_max
        self.epoch = first_epoch
        self._revision = permissions.revision(peer)
        self._visible: set[NodeId] = self._allowed()

    def snapshot(self) -> Snapshot:
        """All that the peer sees. Where its permissions have changed unnoticed, that counts as a change.

        What is hidden costs no more than what is seen, so the time it takes does not tell how much there is.
        """
        self.refresh()
        truth, seen = self._truth, sorted(self._visible)
        nodes = tuple([truth.nodes[id] for id in seen])
        roots = tuple(filter(truth.is_root, seen))
        if any(node.state is NodeState.DIRTY for node in nodes):
            self.epoch += 1
        return Snapshot(self.epoch, nodes, tuple(self._edges(seen)), roots)

    def _edges(self, seen: list[NodeId]) -> Iterable[Edge]:
        """Those between two nodes that are seen, looked for where there is less to look through."""
        visible, truth = self._visible, self._truth
        if len(truth.edges) <= len(seen):
            return [edge for edge in truth.edges if edge.dependent in visible and edge.dependency in visible]
        return [Edge(id, other) for id in seen for other in truth.dependencies(id) if other in visible]

    def refresh(self) -> Delta | None:
        """What the peer sees of a change of its permissions; None if it sees nothing of it."""
        return self.project(())

    def project(self, operations: Iterable[Operation]) -> Delta | None:
        """What the peer sees of a change, which the truth has taken in already; None if it sees nothing of it."""
        told: list[Operation] = []
        revised = self._revised()
        if revised is None or revised:
            told += self._take_away(revised)
        self._filter(operations, told)
        if revised is None or revised:
            told += self._bring_in(revised)
        if not told:
            return None
        base, self.epoch = self.epoch, self.epoch + 1
        return Delta(base, self.epoch, tuple(self._with_roots_told(told)))

    def check(self) -> None:
        """Assert what always holds."""
        assert self._visible <= self._truth.nodes.keys(), "nothing is seen that is not there"
        assert max(self._visible, default=0) <= self._id_max

    # ---- parts of a delta -----------------------------------------------------------------------------------------

    def _filter(self, operations: Iterable[Operation], told: list[Operation]) -> None:
        seen = self._visible
        for operation in operations:
            if isinstance(operation, EdgeAdd | EdgeRemove):
                if operation.dependent in seen and operation.dependency in seen:
                    told.append(operation)
            elif isinstance(operation, NodeAdd):
                if self._may_see(operation.id):
                    seen.add(operation.id)
                    told.append(operation)
            elif operation.id in seen:
                told.append(operation)
                if isinstance(operation, NodeRemove):
                    seen.remove(operation.id)

    def _revised(self) -> set[NodeId] | None:
        """The nodes of which the grant may have changed since this was asked last; None if that may be any."""
        since, self._revision = self._revision, self._permissions.revision(self._peer)
        if since == self._revision:
            return set()
        return self._permissions.changed_since(self._peer, since)

    def _take_away(self, revised: set[NodeId] | None) -> list[Operation]:
        suspects = self._visible if revised is None else self._visible & revised
        gone = suspects - self._allowed(revised)
        self._visible -= gone
        return [NodeRemove(id) for id in sorted(gone)]

    def _bring_in(self, revised: set[NodeId] | None) -> list[Operation]:
        came = self._allowed(revised) - self._visible
        self._visible |= came
        nodes = [self._truth.nodes[id] for id in sorted(came)]
        added: list[Operation] = [NodeAdd(node.id, node.tag, node.value, node.key) for node in nodes]
        edges = [
            EdgeAdd(node.id, dependency)
            for node in nodes
            for dependency in self._truth.dependencies(node.id)
            if dependency in self._visible
        ]
        edges += [
            EdgeAdd(dependent, node.id)
            for node in nodes
            for dependent in self._truth.dependents(node.id)
            if dependent in self._visible and dependent not in came
        ]
        stale = [Invalidate(node.id) for node in nodes if node.state is NodeState.DIRTY]
        return [*added, *edges, *stale]

    def _with_roots_told(self, operations: Iterable[Operation]) -> Iterable[Operation]:
        """A node that is computed from what the peer does not see would look like a root, were it added with a value.

        So it is added without one, and then has it as the result of a computation, which it is.
        """
        for operation in operations:
            if (
                isinstance(operation, NodeAdd)
                and operation.value is not None
                and not self._truth.is_root(operation.id)
                and self._visible.isdisjoint(self._truth.dependencies(operation.id))
            ):
                yield NodeAdd(operation.id, operation.tag, None, operation.key)
                yield SlotValue(operation.id, operation.value)
            else:
                yield operation

    def _allowed(self, among: set[NodeId] | None = None) -> set[NodeId]:
        """What is there and may be seen, of some nodes or of all."""
        nodes = self._truth.nodes
        some = nodes if among is None else [id for id in among if id in nodes]
        allowed = self._permissions.readable(self._peer, some)
        if self._id_max < U64_MAX:
            allowed = {id for id in allowed if id <= self._id_max}
        return allowed

    def _may_see(self, id: NodeId) -> bool:
        return id <= self._id_max and self._permissions.allows(self._peer, RemoteOp(OpKind.READ, id))
