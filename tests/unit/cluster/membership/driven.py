"""A membership machine driven by hand: time passes when it is told to, and everything that it wants is kept."""

from collections.abc import Mapping
from random import Random
from typing import TypeVar

from bobbin.cluster.geometry import Embedding
from bobbin.cluster.membership.effects import Effect, PersistIncarnation, Send, WakeAt
from bobbin.cluster.membership.events import Event, Heard, IncarnationPersisted, Tick
from bobbin.cluster.membership.machine import MembershipMachine
from bobbin.cluster.membership.messages import GossipMessage, GossipNodeState, Health, Ping, Pong, Sync
from bobbin.cluster.names import MILLISECOND_NS, NodeId
from bobbin.cluster.settings import GossipConfig

M = TypeVar("M", bound=GossipMessage)
E = TypeVar("E", bound=Effect)

A, B, C, D, F = (NodeId(name) for name in "abcdf")
DEFAULT = GossipConfig()


def word(
    node: NodeId, health: Health, incarnation: int = 1, *, at: int = 1, by: NodeId | None = None
) -> GossipNodeState:
    """What is said of a node, by itself unless somebody else is named."""
    return GossipNodeState(node, health, at, incarnation, by or node)


class Driven:
    """The node ``a``, with some peers."""

    def __init__(
        self,
        peers: str = "bcdf",
        *,
        incarnation: int = 4,
        config: GossipConfig = DEFAULT,
        seed: int = 1,
        embeddings: Mapping[str, Embedding] | None = None,
        persists: bool = True,
    ) -> None:
        places = embeddings or {}
        self.machine = MembershipMachine(
            config,
            node=A,
            incarnation=incarnation,
            peers=[(NodeId(name), places.get(name)) for name in peers],
            random=Random(seed),
            embedding=places.get("a"),
            checking=True,
        )
        self.now_ns = 1_000 * MILLISECOND_NS
        self.persists = persists
        self.effects: list[Effect] = []
        self._wake_ns = 0
        self.step(Tick())

    def step(self, event: Event) -> list[Effect]:
        effects = self.machine.step(event, now_ns=self.now_ns)
        self.effects += effects
        self.look(event, effects)
        for effect in effects:
            if isinstance(effect, WakeAt):
                self._wake_ns = effect.at_ns
            elif isinstance(effect, PersistIncarnation) and self.persists:
                self.step(IncarnationPersisted(effect.incarnation))
        return effects

    def look(self, event: Event, effects: list[Effect]) -> None:
        """A step was made; for those who want to see it."""

    def hear(self, sender: NodeId, message: GossipMessage) -> list[Effect]:
        return self.step(Heard(sender, message))

    def sync(self, sender: NodeId, *states: GossipNodeState, time: int = 1_000) -> list[Effect]:
        return self.hear(sender, Sync(sender=sender, states=states, sender_time=time))

    def introduce(self, *nodes: NodeId, incarnation: int = 1) -> None:
        """These have said that they are healthy."""
        for node in nodes or tuple(self.machine.embeddings):
            self.sync(node, word(node, Health.HEALTHY, incarnation))

    def advance(self, milliseconds: int) -> None:
        """Let time pass, with a tick whenever the machine wants one."""
        until = self.now_ns + milliseconds * MILLISECOND_NS
        while self._wake_ns <= until:
            self.now_ns = max(self.now_ns, self._wake_ns)
            self.step(Tick())
        self.now_ns = until

    def take(self) -> list[Effect]:
        """Everything that was wanted since the last time."""
        taken, self.effects = self.effects, []
        return taken

    def sent(self, kind: type[M]) -> list[tuple[NodeId, M]]:
        """The messages of one kind, since the last ``take``, and to whom."""
        return [
            (one.to, one.message) for one in self.effects if isinstance(one, Send) and isinstance(one.message, kind)
        ]

    def told(self, kind: type[E]) -> list[E]:
        return [one for one in self.effects if isinstance(one, kind)]

    def health(self, node: NodeId) -> Health:
        return self.machine.health(node)

    def state(self, node: NodeId) -> GossipNodeState:
        return self.machine.table.states[node]

    def begin_probe(self, target: NodeId) -> int:
        """Wait for a probe of a node, with every other answered; its number."""
        for _ in range(10_000):
            if self._wake_ns > self.now_ns:
                self.now_ns = self._wake_ns
            for one in self.step(Tick()):
                if isinstance(one, Send) and isinstance(one.message, Ping):
                    if one.to == target:
                        return one.message.sequence
                    self.hear(one.to, Pong(responder=one.to, sequence=one.message.sequence))
        raise AssertionError(f"{target} is never probed")
