"""Who may read, write or trigger what: nobody, until it is granted.

A grant is for one peer, one kind of operation and one node, or for all nodes, those that come later included. The three
kinds are apart: who may read a node may not therefore write it. A grant belongs to the node, not to its id: whoever
keeps the permissions forgets a node that is gone (``forget_node``), so that the next owner of the id starts with none.
"""

from collections import Counter, deque
from collections.abc import Iterable
from enum import StrEnum, unique
from itertools import islice
from typing import Final

from msgspec import Struct

from bobbin.errors import UsageError
from bobbin.reactive.messages import NodeId, PeerId

JOURNAL_MAX: Final = 1024
"""How many changes of a peer's read grants are remembered one by one."""
_NONE: Final[frozenset[NodeId]] = frozenset()


@unique
class OpKind(StrEnum):
    """What can be granted."""

    READ = "read"
    WRITE = "write"
    TRIGGER_EFFECT = "trigger_effect"


class RemoteOp(Struct, frozen=True, gc=False):
    """What a peer does to a node, or wants to."""

    kind: OpKind
    node: NodeId


class _Journal:
    """For which nodes the read grants of a peer have changed of late."""

    def __init__(self) -> None:
        self._start = 0
        self._nodes: Final[deque[NodeId]] = deque()

    @property
    def revision(self) -> int:
        return self._start + len(self._nodes)

    def note(self, node: NodeId) -> None:
        if len(self._nodes) == JOURNAL_MAX:
            self._nodes.popleft()
            self._start += 1
        self._nodes.append(node)

    def note_all(self) -> None:
        self._start = self.revision + 1
        self._nodes.clear()

    def since(self, revision: int) -> set[NodeId] | None:
        return None if revision < self._start else set(islice(self._nodes, revision - self._start, None))


class PeerPermissions:
    """What every peer may do. Whoever changes them tells the links: see ``publisher``."""

    def __init__(self) -> None:
        self._granted: Final[dict[tuple[PeerId, OpKind], set[NodeId]]] = {}
        self._for_all: Final[set[tuple[PeerId, OpKind]]] = set()
        self._readers: Final[Counter[NodeId]] = Counter()
        """How many peers have a read grant for exactly this node."""
        self._journals: Final[dict[PeerId, _Journal]] = {}

    def revision(self, peer: PeerId) -> int:
        """A number that grows with each change of what a peer may read."""
        return self._journals[peer].revision if peer in self._journals else 0

    def changed_since(self, peer: PeerId, revision: int) -> set[NodeId] | None:
        """The nodes of which a peer's read grant may be another than at a revision; None if that may be any node."""
        return self._journals[peer].since(revision) if peer in self._journals else set()

    def allows(self, peer: PeerId, op: RemoteOp) -> bool:
        """Whether a peer may do something."""
        place = (peer, op.kind)
        return place in self._for_all or op.node in self._granted.get(place, _NONE)

    def readable(self, peer: PeerId, nodes: Iterable[NodeId]) -> set[NodeId]:
        """Those of some nodes that a peer may read."""
        place = (peer, OpKind.READ)
        return set(nodes) if place in self._for_all else set(nodes) & self._granted.get(place, _NONE)

    def filter_readable(self, peer: PeerId, nodes: Iterable[NodeId]) -> list[NodeId]:
        """The same, in the order in which they came."""
        place = (peer, OpKind.READ)
        if place in self._for_all:
            return list(nodes)
        granted = self._granted.get(place, _NONE)
        return [node for node in nodes if node in granted]

    def is_readable(self, node: NodeId) -> bool:
        """Whether anybody may read a node: what nobody may read need not be computed for anybody."""
        return self._readers[node] > 0 or any(kind is OpKind.READ for _, kind in self._for_all)

    def grant(self, peer: PeerId, *ops: RemoteOp) -> None:
        for op in ops:
            nodes = self._granted.setdefault((peer, op.kind), set())
            if op.node not in nodes:
                nodes.add(op.node)
                if op.kind is OpKind.READ:
                    self._readers[op.node] += 1
                    self._journal(peer).note(op.node)

    def grant_all(self, peer: PeerId, *kinds: OpKind) -> None:
        """Every node that is, and that will be."""
        self._for_all.update((peer, kind) for kind in kinds)
        if OpKind.READ in kinds:
            self._journal(peer).note_all()

    def revoke(self, peer: PeerId, *ops: RemoteOp) -> None:
        """Take grants back. What was never granted needs no taking back.

        Raises:
            UsageError: everything is granted to the peer, so that the node would stay allowed. Nothing was revoked.
        """
        for op in ops:
            if (peer, op.kind) in self._for_all:
                raise UsageError(f"peer {peer} may {op.kind} every node: take that back as a whole")
        for op in ops:
            nodes = self._granted.get((peer, op.kind))
            if nodes is not None and op.node in nodes:
                nodes.remove(op.node)
                self._count_out(peer, op)

    def revoke_all(self, peer: PeerId, *kinds: OpKind) -> None:
        """Take back what was granted for every node, and each single grant of these kinds."""
        for kind in kinds:
            self._for_all.discard((peer, kind))
            for node in self._granted.pop((peer, kind), _NONE):
                self._count_out(peer, RemoteOp(kind, node))
        if OpKind.READ in kinds:
            self._journal(peer).note_all()

    def forget_node(self, node: NodeId) -> None:
        """A node is gone: all grants for it are, whoever has them."""
        for (peer, kind), nodes in self._granted.items():
            if node in nodes:
                nodes.remove(node)
                self._count_out(peer, RemoteOp(kind, node))

    def forget_peer(self, peer: PeerId) -> None:
        """Take everything back from a peer."""
        self.revoke_all(peer, *OpKind)

    def check(self) -> None:
        """Assert what always holds."""
        counted = Counter(node for (_, kind), nodes in self._granted.items() if kind is OpKind.READ for node in nodes)
        assert counted == +self._readers, "readers are counted as they were granted"

    def _count_out(self, peer: PeerId, op: RemoteOp) -> None:
        if op.kind is OpKind.READ:
            self._journal(peer).note(op.node)
            self._readers[op.node] -= 1
            if not self._readers[op.node]:
                del self._readers[op.node]

    def _journal(self, peer: PeerId) -> _Journal:
        return self._journals.setdefault(peer, _Journal())
