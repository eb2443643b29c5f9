"""A graph as values, a publisher and a mirror, joined by a wire that does only what a test says."""

from collections import deque
from collections.abc import Iterable

from bobbin.reactive.change import Change
from bobbin.reactive.handshake import Capabilities
from bobbin.reactive.link_effects import Ask, Close, Deliver, Fire, Greet, Notify, Send, Updated, Wake, Write
from bobbin.reactive.link_events import (
    Asked,
    Changed,
    Greeted,
    MirrorEvent,
    Opened,
    PermissionsChanged,
    PublisherEvent,
    Received,
    Sent,
)
from bobbin.reactive.messages import (
    CrdtSync,
    Edge,
    Message,
    Node,
    NodeId,
    NodeState,
    Operation,
    PeerId,
    Snapshot,
)
from bobbin.reactive.mirror import Mirror, MirrorConfig
from bobbin.reactive.permissions import OpKind, PeerPermissions, RemoteOp
from bobbin.reactive.publisher import Publisher, PublisherConfig, take_change
from bobbin.reactive.replica import Replica

PEER = PeerId(7)
SOURCE = PeerId(1)


def capabilities(peer: int = PEER, **other: object) -> Capabilities:
    return Capabilities(peer=PeerId(peer), session="s", **other)  # type: ignore[arg-type]


def node(id: int, value: bytes | None = b"v", state: NodeState | None = None, key: str | None = None) -> Node:
    known = NodeState.UNSET if value is None else NodeState.RESOLVED
    return Node(NodeId(id), "bytes", state or known, value, key)


def snapshot(
    epoch: int, nodes: Iterable[Node], edges: Iterable[tuple[int, int]] = (), roots: Iterable[int] = ()
) -> Snapshot:
    ends = tuple(Edge(NodeId(dependent), NodeId(dependency)) for dependent, dependency in edges)
    return Snapshot(epoch, tuple(nodes), ends, tuple(map(NodeId, roots)))


def read(*nodes: int) -> list[RemoteOp]:
    return [RemoteOp(OpKind.READ, NodeId(id)) for id in nodes]


class Pair:
    """One link. What the publisher sends waits on ``wire`` until ``deliver``."""

    def __init__(
        self,
        graph: Snapshot,
        *,
        publisher: PublisherConfig | None = None,
        mirror: MirrorConfig | None = None,
        reads: Iterable[int] | None = None,
    ) -> None:
        """``reads``: what the peer may read; None is everything."""
        self.truth = Replica()
        assert self.truth.replace(graph) is None
        self.permissions = PeerPermissions()
        if reads is None:
            self.permissions.grant_all(PEER, OpKind.READ)
        else:
            self.permissions.grant(PEER, *read(*reads))
        config = publisher or PublisherConfig(capabilities=capabilities(SOURCE), checking=True)
        self.publisher = Publisher(config, peer=PEER, truth=self.truth, permissions=self.permissions)
        self.mirror = Mirror(mirror or MirrorConfig(capabilities=capabilities(), checking=True))
        self.wire: deque[Message] = deque()
        """To the mirror."""
        self.back: deque[Message] = deque()
        """To the publisher."""
        self.sent: list[Message] = []
        """All that the publisher ever sent."""
        self.writes: list[Write] = []
        self.fired: list[NodeId] = []
        self.updates: list[Updated] = []
        self.notices: list[Notify] = []
        self.closed: list[Close] = []
        self.timers: list[Wake] = []
        self.delivered: list[CrdtSync] = []

    def open(self) -> "Pair":
        """Greet, and let everything arrive."""
        self.at_source(Opened())
        self.at_mirror(Opened())
        self.settle()
        return self

    def at_source(self, event: PublisherEvent) -> None:
        for effect in self.publisher.step(event):
            match effect:
                case Greet(said):
                    self.at_mirror(Greeted(said))
                case Send(message):
                    self.sent.append(message)
                    self.wire.append(message)
                case Write():
                    self.writes.append(effect)
                case Fire(id):
                    self.fired.append(id)
                case Close():
                    self.closed.append(effect)
                case Notify():
                    self.notices.append(effect)
                case Deliver(sync):
                    self.delivered.append(sync)

    def at_mirror(self, event: MirrorEvent) -> None:
        for effect in self.mirror.step(event):
            match effect:
                case Greet(said):
                    self.at_source(Greeted(said))
                case Send(message):
                    self.back.append(message)
                case Ask(op):
                    self.at_source(Asked(op))
                case Updated():
                    self.updates.append(effect)
                case Close():
                    self.closed.append(effect)
                case Notify():
                    self.notices.append(effect)
                case Wake():
                    self.timers.append(effect)
                case Deliver(sync):
                    self.delivered.append(sync)

    def deliver(self) -> Message:
        """One message arrives at the mirror."""
        message = self.wire.popleft()
        self.at_source(Sent())
        self.at_mirror(Received(message))
        return message

    def lose(self) -> Message:
        """One message is lost."""
        message = self.wire.popleft()
        self.at_source(Sent())
        return message

    def settle(self) -> None:
        """Everything arrives."""
        while self.wire or self.back:
            while self.wire:
                self.deliver()
            while self.back:
                self.at_source(Received(self.back.popleft()))

    def change(self, *operations: Operation) -> None:
        """The graph changes."""
        change = Change(operations)
        take_change(self.truth, self.permissions, change)
        self.at_source(Changed(change))

    def grant(self, *nodes: int) -> None:
        self.permissions.grant(PEER, *read(*nodes))
        self.at_source(PermissionsChanged())

    def revoke(self, *nodes: int) -> None:
        self.permissions.revoke(PEER, *read(*nodes))
        self.at_source(PermissionsChanged())

    @property
    def seen(self) -> tuple[dict[int, bytes | None], set[tuple[int, int]], set[int]]:
        """What the mirror shows: values, edges and roots."""
        return shown(self.mirror.replica)


def shown(replica: Replica) -> tuple[dict[int, bytes | None], set[tuple[int, int]], set[int]]:
    values = {int(id): _plain(one) for id, one in replica.nodes.items()}
    edges = {(int(edge.dependent), int(edge.dependency)) for edge in replica.edges}
    return values, edges, set(map(int, replica.roots))


def _plain(one: Node) -> bytes | None:
    assert one.value is None or isinstance(one.value, bytes)
    return one.value
