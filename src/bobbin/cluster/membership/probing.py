"""Probes: one of one's own at a time, and those made for others.

A probe is a ping; without an answer in time, some others are asked to try. It has succeeded when the target's own
answer with the probe's number comes, or the word of one of those asked, with the same number, that it answered them. It
has failed when all of those asked say that they got no answer, or the time for it is over. Handing a message to the
network is never a success.
"""

from typing import Final, NamedTuple

from msgspec import Struct

from bobbin.cluster.names import NodeId

RELAYS_MAX: Final = 1_024
"""Probes made for others at one time; more are refused, and the asker's time for an answer runs out."""


class Probe(Struct, kw_only=True):
    """A probe of one's own."""

    target: NodeId
    sequence: int
    began_ns: int
    due_ns: int
    """For the next thing to happen: the target's answer, then those of the others."""
    asked: tuple[NodeId, ...] | None = None
    """Who was asked for help; None before that."""
    failed: set[NodeId]
    """Who answered that the target does not."""

    def is_asked(self, node: NodeId, target: NodeId, sequence: int) -> bool:
        """Whether this is what a node was asked for in this very probe."""
        is_same = target == self.target and sequence == self.sequence
        return is_same and self.asked is not None and node in self.asked

    @property
    def has_failed(self) -> bool:
        """Everybody who was asked has said so."""
        return bool(self.asked) and len(self.failed) == len(self.asked or ())


class Relay(NamedTuple):
    """A probe on behalf of another node."""

    origin: NodeId
    target: NodeId
    sequence: int
    """The origin's."""
    due_ns: int


class Relays:
    """Probes made for others, by the number of our own ping, in the order in which they are due."""

    def __init__(self) -> None:
        self._open: Final[dict[int, Relay]] = {}

    def __len__(self) -> int:
        return len(self._open)

    @property
    def due_ns(self) -> int | None:
        """When the first one is over."""
        first = next(iter(self._open.values()), None)
        return None if first is None else first.due_ns

    def add(self, number: int, relay: Relay) -> bool:
        """False: there are too many."""
        if len(self._open) >= RELAYS_MAX:
            return False
        self._open[number] = relay
        return True

    def answered(self, number: int, by: NodeId) -> Relay | None:
        """What a pong is the answer to, if it is one; each counts once."""
        relay = self._open.get(number)
        if relay is None or relay.target != by:
            return None
        return self._open.pop(number)

    def expire(self, now_ns: int) -> list[Relay]:
        """Those that nobody answered in time."""
        over = [number for number, relay in self._open.items() if relay.due_ns <= now_ns]
        return [self._open.pop(number) for number in over]
