"""Which words on members may be true. A member in good standing may still lie, and the others must live with it.

* A word is no later than the clock of whoever tells it, and that clock is not centuries ahead of ours.
* An incarnation does not leap: more than ``max_incarnation_jump`` above the known one is not believed. What a node
  says of itself may leap all the same, since it may be answering a leap that it has heard of; so may a word on a node
  that is not there to speak for itself, since who knows less of it has to learn.
"""

from typing import Final

from msgspec import Struct

from bobbin.cluster.membership.messages import GossipNodeState, Health
from bobbin.cluster.membership.table import is_plausible
from bobbin.cluster.names import NodeId

TIME_LEAP_MAX: Final = 2**40
"""A clock further ahead of ours is a lie: no cluster lives that long, and clocks must not run out."""
LEAP: Final = "leap of an incarnation"
"""The reason for which the node itself is asked."""


class Hearing(Struct, frozen=True):
    """Who hears whom, and when by both their clocks."""

    node: NodeId
    time: int
    sender: NodeId
    sender_time: int


def why_refused(
    state: GossipNodeState, held: GossipNodeState | None, hearing: Hearing, incarnation_jump_max: int
) -> str | None:
    """Why a word cannot be taken; None where it can. ``held`` is what stands of its node."""
    if held is None:
        return "not a member"
    if state.timestamp > hearing.sender_time or hearing.sender_time > hearing.time + TIME_LEAP_MAX:
        return "stamp ahead of the clock"
    if not is_plausible(state.incarnation, held.incarnation):
        return "incredible incarnation"
    is_leap = state.incarnation > held.incarnation + incarnation_jump_max
    is_silent = held.health in (Health.UNKNOWN, Health.FAILED)
    return LEAP if is_leap and not is_silent and state.node not in (hearing.sender, hearing.node) else None
