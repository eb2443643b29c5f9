"""A network of datagrams: what is sent is lost, doubled, spoilt, late and out of order, each link by its own rules.

There is one way to send, so what goes to everybody meets the same faults as what goes to one. A spoilt copy arrives
marked as such: it stands for bytes whose signature fails.
"""

from collections.abc import Callable
from random import Random
from typing import Final, TypeAlias

from msgspec import Struct

from bobbin.cluster.membership.messages import GossipMessage
from bobbin.cluster.names import MILLISECOND_NS, NodeId
from bobbin.simulator.clock import Timeline

Deliver: TypeAlias = Callable[[NodeId, NodeId, GossipMessage, bool], None]
"""To whom, from whom, what, and whether it is spoilt."""


class LinkWeather(Struct, frozen=True, kw_only=True):
    """How one direction between two nodes behaves. All rates are for one message."""

    delay_ns_max: int = 10 * MILLISECOND_NS
    """Of messages that are not late; two of them arrive in any order."""
    loss: float = 0.0
    doubling: float = 0.0
    spoiling: float = 0.0
    lateness: float = 0.0
    late_ns: int = 0
    """By how much a late one, or a second copy, may come later."""
    is_cut: bool = False


FAIR: Final = LinkWeather()


class GossipNetwork:
    """All links between all nodes."""

    def __init__(self, timeline: Timeline, random: Random, deliver: Deliver) -> None:
        self._timeline: Final = timeline
        self._random: Final = random
        self._deliver: Final = deliver
        self.weather = FAIR
        """Of links that have no rules of their own."""
        self.links: Final[dict[tuple[NodeId, NodeId], LinkWeather]] = {}
        """From, to."""
        self.sent = self.lost = self.doubled = self.spoilt = self.late = 0

    def calm_down(self) -> None:
        """From now on nothing happens to what is sent."""
        self.weather = FAIR
        self.links.clear()

    def send(self, origin: NodeId, to: NodeId, message: GossipMessage) -> None:
        """One message on one link."""
        weather = self.links.get((origin, to), self.weather)
        chance = self._random.random
        self.sent += 1
        if weather.is_cut or (weather.loss and chance() < weather.loss):
            self.lost += 1
            return
        delay = int(chance() * weather.delay_ns_max)
        if weather.lateness and chance() < weather.lateness:
            self.late += 1
            delay += int(chance() * weather.late_ns)
        is_spoilt = bool(weather.spoiling) and chance() < weather.spoiling
        self.spoilt += is_spoilt
        self._timeline.after(delay, lambda: self._deliver(to, origin, message, is_spoilt))
        if weather.doubling and chance() < weather.doubling:
            self.doubled += 1
            delay += int(chance() * weather.late_ns)
            self._timeline.after(delay, lambda: self._deliver(to, origin, message, False))  # noqa: FBT003 (a callback)
