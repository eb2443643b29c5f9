"""Leadership handed over: proposals stop, the target catches up, and only then is it told to stand (CL-035).

A message to stand may be lost, so it is repeated; the target obeys one of its present leader and term only. When time
is up the leader goes on as before. A node that has handed over reports who leads as soon as it hears, or at the limit.
"""

from bobbin.cluster.names import MILLISECOND_NS, NodeId, Term
from bobbin.cluster.raft.effects import TransferDone, Why
from bobbin.cluster.raft.messages import TimeoutNow
from bobbin.cluster.raft.state import RaftState


class Transfers:
    """The part of a machine that hands leadership over, to one node at a time."""

    def __init__(self, state: RaftState) -> None:
        self._state = state
        self._request = 0
        self._target: NodeId | None = None
        self._term = Term(0)
        self._deadline_ns = 0
        self._told_ns: int | None = None

    @property
    def target(self) -> NodeId | None:
        """To whom this leader is handing over; None for nobody."""
        return self._target if self._state.is_leader and self._state.term == self._term else None

    @property
    def wake_ns(self) -> int | None:
        """When something is due."""
        return None if self._target is None else self._deadline_ns

    def ask(self, request: int, target: NodeId) -> None:
        """An operator wants another voter to lead."""
        state = self._state
        if not state.is_leader:
            state.refuse(request, Why.NOT_LEADER)
        elif target == state.node:
            state.refuse(request, Why.IS_LEADER)
        elif self._target is not None:
            state.refuse(request, Why.TRANSFERRING)
        elif target not in state.configuration.voters:
            state.refuse(request, Why.UNKNOWN_NODE)
        else:
            self._request, self._target, self._told_ns = request, target, None
            self._term = state.term
            self._deadline_ns = state.now_ns + state.config.transfer_timeout_ms * MILLISECOND_NS

    def tick(self) -> None:
        """Give up when time is up."""
        if self._target is not None and self._state.now_ns >= self._deadline_ns:
            self._state.stats.transfers_expired += 1
            self._end()

    def advance(self) -> None:
        """Tell the target to stand once it holds everything; after that, wait for whoever leads."""
        state = self._state
        if self._target is None:
            return
        if not state.is_leader or state.term != self._term:
            if state.leader is not None:
                state.stats.transfers_done += state.leader == self._target
                self._end()
            return
        progress = state.progress.get(self._target)
        if progress is None or progress.held_index != state.log.last_index:
            return
        again_ns = state.config.rpc_timeout * MILLISECOND_NS
        if self._told_ns is None or state.now_ns - self._told_ns >= again_ns:
            self._told_ns = state.now_ns
            state.send(self._target, TimeoutNow(term=state.term, leader=state.node))

    def _end(self) -> None:
        self._state.notes.append(TransferDone(self._request, self._state.leader))
        self._target = None
