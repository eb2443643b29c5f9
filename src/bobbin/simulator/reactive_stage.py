"""The graph of a world as its source has it: the model, what is published of it, and who may see what.

The permissions are kept twice: by the machinery, and here as plain sets, by which the world judges.
"""

from collections.abc import Iterable, Mapping
from typing import Final

from bobbin.reactive.change import Change
from bobbin.reactive.messages import NodeId, PeerId
from bobbin.reactive.permissions import OpKind, PeerPermissions, RemoteOp
from bobbin.reactive.publisher import take_change
from bobbin.reactive.replica import Replica
from bobbin.simulator.reactive_live import LiveGraph
from bobbin.simulator.reactive_model import Act, GraphModel, Remove
from bobbin.simulator.reactive_witness import projected, sight_of, unlike


class Grants:
    """Who may do what, in two books."""

    def __init__(self) -> None:
        self.permissions: Final = PeerPermissions()
        self._single: Final[set[tuple[PeerId, OpKind, NodeId]]] = set()
        self._all: Final[set[tuple[PeerId, OpKind]]] = set()

    def allows(self, peer: PeerId, op: RemoteOp) -> bool:
        return (peer, op.kind) in self._all or (peer, op.kind, op.node) in self._single

    def has_all(self, peer: PeerId, kind: OpKind) -> bool:
        return (peer, kind) in self._all

    def grant(self, peer: PeerId, *ops: RemoteOp) -> None:
        self.permissions.grant(peer, *ops)
        self._single.update((peer, op.kind, op.node) for op in ops)

    def revoke(self, peer: PeerId, *ops: RemoteOp) -> None:
        self.permissions.revoke(peer, *ops)
        self._single.difference_update((peer, op.kind, op.node) for op in ops)

    def grant_all(self, peer: PeerId, kind: OpKind) -> None:
        self.permissions.grant_all(peer, kind)
        self._all.add((peer, kind))

    def revoke_all(self, peer: PeerId, kind: OpKind) -> None:
        self.permissions.revoke_all(peer, kind)
        self._all.discard((peer, kind))
        for one in [one for one in self._single if one[:2] == (peer, kind)]:
            self._single.remove(one)

    def is_seen(self, node: NodeId) -> bool:
        """Whether anybody may see a node."""
        anybody = any(kind is OpKind.READ for _, kind in self._all)
        return anybody or any(kind is OpKind.READ and id == node for _, kind, id in self._single)

    def renumbered(self, ids: Mapping[NodeId, NodeId]) -> "Grants":
        """The same for nodes with other ids, in books that another process has opened."""
        others = Grants()
        for peer, kind in self._all:
            others.grant_all(peer, kind)
        for peer, kind, node in sorted(self._single):
            others.grant(peer, RemoteOp(kind, ids[node]))
        return others

    def forget(self, node: NodeId) -> None:
        """Only in the own book: the machinery must see for itself that a node is gone."""
        for one in [one for one in self._single if one[2] == node]:
            self._single.remove(one)


class Stage:
    """The side of the source, apart from its links."""

    def __init__(self, *, is_live: bool) -> None:
        """``is_live``: what is published comes from a live graph, otherwise from the model itself."""
        self.model: Final = GraphModel()
        self.grants = Grants()
        self.truth = Replica()
        self._is_live: Final = is_live
        self._live: LiveGraph | None = None

    def start(self) -> None:
        """A process begins with the graph as it is."""
        snapshot = self.model.snapshot()
        if self._is_live:
            nodes = [(one, self.model.cells.get(id, 0)) for id, one in self.model.described.items()]
            self._live = LiveGraph(nodes, self.grants.permissions.is_readable)
            snapshot = self._live.snapshot()
        self.truth = Replica()
        assert self.truth.replace(snapshot) is None
        self._check()

    def renumber(self, ids: Mapping[NodeId, NodeId]) -> None:
        """What is started next has the same nodes under other ids."""
        self.model.renumber(ids)
        self.grants = self.grants.renumbered(ids)

    def act(self, acts: Iterable[Act]) -> Change | None:
        """Some things happen at once; returns what is to be published of it."""
        acts = list(acts)
        change = self.model.play(acts)
        for act in acts:
            if isinstance(act, Remove):
                self.grants.forget(act.id)
        return self._take(change if self._live is None else self._live.act(acts))

    def resolve_granted(self) -> Change | None:
        """Somebody may see more than before: what nobody could see so far is computed."""
        if self._live is None:
            return None
        return self._take(self._live.resolve(filter(self.grants.is_seen, self.model.described)))

    def _take(self, change: Change | None) -> Change | None:
        if change is not None:
            take_change(self.truth, self.grants.permissions, change)
        self._check()
        return change

    def _check(self) -> None:
        """What is known of the graph is what it is, as far as anybody may see it; out of sight it may be stale."""
        self.truth.check()
        self.grants.permissions.check()
        seen = [id for id in self.model.shown if self._live is None or self.grants.is_seen(id)]
        known = sight_of(
            [node for id, node in self.truth.nodes.items() if id in seen],
            [edge for edge in self.truth.edges if edge.dependent in seen and edge.dependency in seen],
            [id for id in self.truth.roots if id in seen],
        )
        assert self.truth.nodes.keys() == self.model.shown.keys(), "there are other nodes than are known"
        expected = projected(self.model.shown, lambda id: id in seen)
        assert known == expected, f"what is known of the graph is wrong: {unlike(known, expected)}"
