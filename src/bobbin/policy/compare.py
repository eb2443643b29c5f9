"""What a change of policy would move: the decisions of an old and of a new policy, side by side, for one peer."""

from msgspec import Struct

from bobbin.policy.decide import Decision, Situation, decide
from bobbin.policy.executables import LocalPolicy


class PolicyChange(Struct, frozen=True, kw_only=True):
    """The records whose fate the new policy changes."""

    newly_leave: frozenset[str]
    no_longer_leave: frozenset[str]
    newly_arrive: frozenset[str]
    no_longer_arrive: frozenset[str]
    refused: frozenset[str] = frozenset()
    """What the new policy would let in, were it not refused here. It does not arrive, so it is no change."""

    @property
    def is_empty(self) -> bool:
        return not (self.newly_leave or self.no_longer_leave or self.newly_arrive or self.no_longer_arrive)

    def without_refused(self, refused: frozenset[str]) -> "PolicyChange":
        """The change in a lace that refuses some of these records: they arrive under neither policy."""
        return PolicyChange(
            newly_leave=self.newly_leave,
            no_longer_leave=self.no_longer_leave,
            newly_arrive=self.newly_arrive - refused,
            no_longer_arrive=self.no_longer_arrive - refused,
            refused=self.newly_arrive & refused,
        )


def compare(old: LocalPolicy, new: LocalPolicy, situation: Situation) -> PolicyChange:
    """What would newly leave or arrive, and what would no longer, in one situation.

    Arrivals are judged by what the peer advertises now. A record that is stored already does not arrive again.
    """
    before, after = decide(old, situation), decide(new, situation)
    arriving_before, arriving_after = _arriving(before, situation), _arriving(after, situation)
    return PolicyChange(
        newly_leave=after.may_send - before.may_send,
        no_longer_leave=before.may_send - after.may_send,
        newly_arrive=arriving_after - arriving_before,
        no_longer_arrive=arriving_before - arriving_after,
    )


def _arriving(decision: Decision, situation: Situation) -> frozenset[str]:
    return frozenset(record for record in decision.may_request if not situation.holds(record))
