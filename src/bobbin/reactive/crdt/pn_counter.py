"""A counter that several peers raise and lower at once.

Each peer has a tally of what it added and one of what it took away, and both only grow. So of two states the greater
tally is the later one, and a state may come twice, or late, without being counted twice.
"""

from collections.abc import Mapping

from bobbin.errors import UsageError
from bobbin.reactive.messages import U64_MAX, PeerId


class PnCounter:
    """A counter, as the tallies of all peers."""

    __slots__ = ("_added", "_taken")

    def __init__(self, added: Mapping[PeerId, int] | None = None, taken: Mapping[PeerId, int] | None = None) -> None:
        self._added = dict(added or {})
        self._taken = dict(taken or {})

    @property
    def value(self) -> int:
        """What was added less what was taken away."""
        return sum(self._added.values()) - sum(self._taken.values())

    @property
    def added(self) -> Mapping[PeerId, int]:
        """By peer."""
        return self._added

    @property
    def taken(self) -> Mapping[PeerId, int]:
        """By peer."""
        return self._taken

    def add(self, amount: int, peer: PeerId) -> bool:
        """Raise, or with a negative amount lower, on behalf of a peer. Returns whether the value changed."""
        tallies = self._added if amount > 0 else self._taken
        total = tallies.get(peer, 0) + abs(amount)
        if total > U64_MAX:
            raise UsageError(f"the tally of peer {peer} would be beyond what can be counted")
        if amount:
            tallies[peer] = total
        return amount != 0

    def merge(self, other: "PnCounter") -> bool:
        """Take in the state of a replica. Returns whether the value changed; tallies may, and level out."""
        before = self.value
        _raise_to(self._added, other.added)
        _raise_to(self._taken, other.taken)
        return self.value != before

    def fork(self) -> "PnCounter":
        """A replica in this state."""
        return PnCounter(self._added, self._taken)


def _raise_to(tallies: dict[PeerId, int], others: Mapping[PeerId, int]) -> None:
    for peer, total in others.items():
        if total > tallies.get(peer, 0):
            tallies[peer] = total
