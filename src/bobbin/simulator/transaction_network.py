"""The links between shards, and from clients to shards, which promise nothing.

Each message is on its own: it may be lost, come twice, come late and overtake others, and each link, in each direction,
can be cut. Where a message goes to is decided when it arrives: to whoever then leads the shard, or thinks so. In some
worlds messages travel as the bytes of the real codec.
"""

from collections import Counter
from collections.abc import Callable, Iterable
from random import Random
from typing import Final, Protocol

from bobbin.cluster.transactions.messages import ShardMessage
from bobbin.cluster.transactions.names import ShardId
from bobbin.simulator.clock import Action, Timeline
from bobbin.simulator.raft_network import SMOOTH, Roughness


class Coding(Protocol):
    """Messages as bytes, and back."""

    def encode(self, message: ShardMessage) -> bytes: ...

    def decode(self, payload: bytes) -> ShardMessage: ...


class ShardNetwork:
    """Links between all shards, and one between each shard and everybody else."""

    def __init__(
        self,
        timeline: Timeline,
        random: Random,
        deliver: Callable[[ShardId, ShardId, ShardMessage], None],
        *,
        coding: Coding | None = None,
    ) -> None:
        """``deliver``: called with receiver, sender and message, when one arrives."""
        self.roughness = SMOOTH
        self.cuts: Final[set[tuple[ShardId, ShardId]]] = set()
        """From one shard to another."""
        self.tally: Final[Counter[str]] = Counter()
        self._timeline: Final = timeline
        self._random: Final = random
        self._deliver: Final = deliver
        self._coding: Final = coding

    def send(self, sender: ShardId, to: ShardId, message: ShardMessage) -> None:
        """Put a message on its way, or lose it."""
        link = (sender, to)
        if link in self.cuts:
            self.tally["messages lost"] += 1
            return
        if self._coding is None:
            self._carry(lambda: self._arrive(link, message))
        else:
            coding, payload = self._coding, self._coding.encode(message)
            self._carry(lambda: self._arrive(link, coding.decode(payload)))

    def carry(self, arrive: Action) -> int:
        """What clients and shards say to each other fares no better. How often it will arrive."""
        return self._carry(arrive)

    def cut(self, some: Iterable[ShardId], others: Iterable[ShardId], *, one_way: bool = False) -> None:
        """Nothing passes from some to others any more; nor back, unless it is one way."""
        others = tuple(others)
        for one in some:
            for other in others:
                self.cuts.add((one, other))
                if not one_way:
                    self.cuts.add((other, one))

    def heal(self) -> None:
        """Every link is whole again; how rough they are stays."""
        self.cuts.clear()

    def calm(self) -> None:
        """No faults any more. What is on its way arrives."""
        self.heal()
        self.roughness = SMOOTH

    def _carry(self, arrive: Action) -> int:
        rough, random = self.roughness, self._random
        if rough.loss and random.random() < rough.loss:
            self.tally["messages lost"] += 1
            return 0
        self._dispatch(rough, arrive)
        if rough.doubling and random.random() < rough.doubling:
            self.tally["messages doubled"] += 1
            self._dispatch(rough, arrive)
            return 2
        return 1

    def _dispatch(self, rough: Roughness, arrive: Action) -> None:
        random = self._random
        if rough.straggling and random.random() < rough.straggling:
            self.tally["messages late"] += 1
            delay = random.randint(rough.delay_ns_min, max(rough.straggle_ns_max, rough.delay_ns_min))
        else:
            delay = random.randint(rough.delay_ns_min, rough.delay_ns_max)
        self._timeline.after(delay, arrive)

    def _arrive(self, link: tuple[ShardId, ShardId], message: ShardMessage) -> None:
        if link not in self.cuts:
            self.tally["messages"] += 1
            self._deliver(link[1], link[0], message)
