"""A large cluster of members for as long as one likes: how often a live node is called failed, and how soon a dead one.

The settings are the defaults. Every message may be lost, and one node is slow: it stands still again and again, for as
long as its neighbours' patience lasts. Nothing is checked here but what is asked; the small worlds check the rest.
"""

from collections import Counter
from random import Random
from typing import Final

from msgspec import Struct

from bobbin.cluster.geometry import Embedding
from bobbin.cluster.membership.bounds import detection_ms_max
from bobbin.cluster.membership.effects import Effect, HealthChanged
from bobbin.cluster.membership.events import Event, Heard
from bobbin.cluster.membership.messages import GossipMessage, Health
from bobbin.cluster.names import MILLISECOND_NS, NodeId
from bobbin.cluster.settings import GossipConfig
from bobbin.simulator.clock import NodeClock, Timeline
from bobbin.simulator.membership_member import Member
from bobbin.simulator.membership_network import GossipNetwork, LinkWeather

STALL_MS: Final = (300, 1_800)
"""How long the slow node stands still at a time."""
RUN_MS: Final = (100, 1_500)
"""How long it runs in between."""


class Detection(Struct, frozen=True):
    """How a death was noticed, in milliseconds after it."""

    first_ms: int
    all_ms: int


class LargeCluster:
    """Members, a network that loses messages, and a slow node."""

    def __init__(self, *, members: int, loss: float, seed: int, config: GossipConfig | None = None) -> None:
        self.config: Final = config or GossipConfig()
        self.timeline: Final = Timeline()
        self._random: Final = Random(f"large {seed}")
        self._network: Final = GossipNetwork(self.timeline, self._random, self._deliver)
        self._network.weather = LinkWeather(delay_ns_max=20 * MILLISECOND_NS, loss=loss)
        self.tally: Final[Counter[str]] = Counter()
        self.false_failures: Final[set[tuple[NodeId, int]]] = set()
        self.members: Final = {node: self._member(node) for node in (NodeId(f"{n:032x}") for n in range(members))}
        self.slow: Final = next(iter(self.members.values()))
        for member in self.members.values():
            member.start([(other.node, other.embedding) for other in self.members.values()])

    def _member(self, node: NodeId) -> Member:
        return Member(
            self,
            node,
            self.config,
            random=Random(self._random.getrandbits(64)),
            clock=NodeClock(self.timeline),
            embedding=Embedding.dense(tuple(self._random.uniform(-1, 1) for _ in range(16))),
        )

    def send(self, origin: NodeId, to: NodeId, message: GossipMessage) -> None:
        """A member sends something."""
        self._network.send(origin, to, message)

    def _deliver(self, to: NodeId, origin: NodeId, message: GossipMessage, is_spoilt: bool) -> None:  # noqa: FBT001
        del is_spoilt
        self.members[to].give(Heard(origin, message))

    def look(self, member: Member, event: Event, effects: list[Effect]) -> None:
        """Count what the members hold of each other."""
        del member, event
        self.tally["steps"] += 1
        for effect in effects:
            if isinstance(effect, HealthChanged):
                self.tally[f"became {effect.after.name}"] += 1
                if effect.after is Health.FAILED and self.members[effect.node].machine is not None:
                    self.false_failures.add((effect.node, effect.incarnation))

    def slow_down(self) -> None:
        """The slow node begins to stand still now and then."""
        self.slow.stall()
        self.tally["stalls"] += 1
        self.timeline.after(self._random.randint(*STALL_MS) * MILLISECOND_NS, self._speed_up)

    def _speed_up(self) -> None:
        self.slow.resume()
        self.timeline.after(self._random.randint(*RUN_MS) * MILLISECOND_NS, self.slow_down)

    def run(self, rounds: int) -> None:
        """Let so many gossip rounds of every node pass."""
        until = self.timeline.now_ns + rounds * self.config.gossip_interval_ms * MILLISECOND_NS
        while self.timeline.step(until_ns=until):
            pass
        self.tally["node-rounds"] += rounds * len(self.members)

    def kill(self, node: NodeId) -> Detection:
        """A node dies; how long it takes until the first, and until the last, holds it as failed."""
        self.members[node].crash()
        died = self.timeline.now_ns
        first: int | None = None
        patience = detection_ms_max(self.config, len(self.members), score=self.config.local_health_max)
        while True:
            live = [one.machine for one in self.members.values() if one.machine is not None]
            known = sum(machine.health(node) is Health.FAILED for machine in live)
            passed = (self.timeline.now_ns - died) // MILLISECOND_NS
            if known and first is None:
                first = passed
            if (known == len(live) and first is not None) or passed > patience:
                return Detection(first if first is not None else passed, passed)
            self.run(1)
