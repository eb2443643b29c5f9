"""The member table: the last word on every node, the same everywhere once everybody has heard everything.

Words are ordered by (incarnation, severity, timestamp, writer). A word is nothing but these and its node, so two words
of equal rank are one word, and the order is total: merging is taking the greater, in whatever order words come, and
however often. Severity stands before the timestamp, so nobody's later clock undoes a failure; only the node itself
does, with a higher incarnation.

The Lamport time never falls. It is above every stamp in the table but those of time 0, with which a table begins.
"""

from collections.abc import Iterable
from typing import Final

from bobbin.cluster.membership.messages import GossipNodeState, Health
from bobbin.cluster.names import NodeId
from bobbin.errors import UsageError

U64_MAX: Final = 2**64 - 1
HIGH_INCARNATION: Final = 2**63
"""No node comes near it by starting again and by contradicting; lies may bring it there, but not to the end at once."""
INCARNATION_LEAP_MAX: Final = 2**32


def rank(state: GossipNodeState) -> tuple[int, int, int, str]:
    """By this the later word is known."""
    return state.incarnation, state.health, state.timestamp, state.writer


def supersedes(one: GossipNodeState, other: GossipNodeState) -> bool:
    """Whether one word on a node stands against another."""
    return rank(one) > rank(other)


def next_incarnation(incarnation: int) -> int:
    """The one after it; there is none after the last, which is an error and never 0."""
    if incarnation >= U64_MAX:
        raise UsageError("this node has used up its incarnations, and needs another identity")
    return incarnation + 1


def is_plausible(incarnation: int, known: int) -> bool:
    """Whether it may be that of a node known at another: incarnations must not run out by a few lies."""
    return incarnation <= max(HIGH_INCARNATION, known + INCARNATION_LEAP_MAX)


class MemberTable:
    """What a node holds of every member, itself among them."""

    def __init__(self) -> None:
        self.states: Final[dict[NodeId, GossipNodeState]] = {}
        self.time = 0
        """Lamport time."""
        self.version = 0
        """Rises with every change of a state."""

    def introduce(self, node: NodeId) -> None:
        """A member of which nothing has been heard: a word that any other supersedes, and the same on every node."""
        if node not in self.states:
            self.states[node] = GossipNodeState(node, Health.UNKNOWN, 0, 0, node)
            self.version += 1

    def forget(self, node: NodeId) -> None:
        """It is no member any more."""
        del self.states[node]
        self.version += 1

    def merge(self, incoming: Iterable[GossipNodeState]) -> list[NodeId]:
        """Take what supersedes or is new, and let the clock follow; the nodes whose state has changed, each once."""
        words = list(incoming)
        if words:
            self.follow(max(state.timestamp for state in words))
        changed: dict[NodeId, None] = {}
        for state in words:
            known = self.states.get(state.node)
            if known is None or supersedes(state, known):
                self.states[state.node] = state
                changed[state.node] = None
        self.version += len(changed)
        return list(changed)

    def follow(self, latest: int) -> None:
        """Words were heard, the latest of them stamped so."""
        self.time = max(self.time, latest) + 1

    def tick(self) -> int:
        """The time of a change of one's own."""
        self.time += 1
        return self.time

    def write(self, node: NodeId, health: Health, incarnation: int, *, writer: NodeId) -> None:
        """A word of one's own, which must supersede what stands."""
        state = GossipNodeState(node, health, self.tick(), incarnation, writer)
        known = self.states.get(node)
        assert known is None or supersedes(state, known), f"{state} does not supersede {known}"
        self.states[node] = state
        self.version += 1
