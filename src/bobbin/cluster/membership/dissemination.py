"""What a gossip round tells: every state in its turn, the most recently stamped first, without end.

A message has room for so many states. What has changed is told first; what did not fit is told by the next message; and
when everything has been told it begins again, since nobody knows what was lost on the way.
"""

from operator import attrgetter
from typing import Final

from bobbin.cluster.membership.messages import GossipNodeState
from bobbin.cluster.membership.table import MemberTable

_stamp = attrgetter("timestamp")


class Dissemination:
    """How far the telling of one table has come."""

    def __init__(self, table: MemberTable, states_max: int) -> None:
        self._table: Final = table
        self._states_max: Final = states_max
        self._told: dict[str, GossipNodeState] = {}
        """What was told since the telling began, by its node."""
        self._order: list[GossipNodeState] = []
        """What is still to be told, the most recently stamped last."""
        self._version = -1

    def next(self) -> tuple[GossipNodeState, ...]:
        """The states of the next message."""
        states = self._table.states
        if self._version != self._table.version:
            self._version = self._table.version
            self._sort()
        chosen = self._pop(self._states_max)
        if len(chosen) < self._states_max and len(chosen) < len(states):
            # It begins again in this message: what is in it already is not told twice, but has its turn later on.
            self._told = {state.node: state for state in chosen}
            self._sort()
            more = self._pop(self._states_max - len(chosen))
            self._told = {state.node: state for state in more}
            self._sort()
            chosen = sorted(chosen + more, key=_stamp, reverse=True)
        elif not self._order:
            self._told = {}
            self._sort()
        return tuple(chosen)

    def _sort(self) -> None:
        told = self._told.get
        self._order = sorted(
            [state for node, state in self._table.states.items() if told(node) is not state], key=_stamp
        )

    def _pop(self, count: int) -> list[GossipNodeState]:
        """Take from the order, and note as told."""
        chosen = self._order[-count:][::-1]
        del self._order[-count:]
        self._told.update([(state.node, state) for state in chosen])
        return chosen
