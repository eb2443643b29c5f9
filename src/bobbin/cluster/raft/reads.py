"""Reads of what is true now: a leader answers only after a quorum has shown that it still leads (CL-033).

A read takes the commit index of the moment in which it came, and is ready when a quorum has answered messages that were
sent after that moment. Reads that come together share one such round; a bounded number of rounds may be open at once,
and later reads wait for the next. A new leader's commit index may be behind until an entry of its own term is
committed, so its reads wait for that first.
"""

from collections import deque
from typing import Final, NamedTuple

from bobbin.cluster.names import Index, NodeId
from bobbin.cluster.raft.effects import ReadReady, Why
from bobbin.cluster.raft.quorum import reached
from bobbin.cluster.raft.state import RaftState

ROUNDS_OPEN_MAX: Final = 4

_FOR_EVER: Final = 2**62


class _Batch(NamedTuple):
    """Reads that share a round."""

    round: int
    """Answers to this message or a later one confirm them."""
    read_index: Index
    requests: list[int]


class Reads:
    """The part of a machine that confirms reads."""

    def __init__(self, state: RaftState) -> None:
        self._state = state
        self._waiting: list[int] = []
        self._open: deque[_Batch] = deque()
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def ask(self, request: int) -> None:
        """Somebody wants to read."""
        if not self._state.is_leader:
            self._state.refuse(request, Why.NOT_LEADER)
        elif self._count >= self._state.config.reads_waiting_max:
            self._state.refuse(request, Why.TOO_MUCH)
        else:
            self._waiting.append(request)
            self._count += 1

    def open_round(self) -> int:
        """Begin a round for what waits; the least round that every follower's next message must have."""
        state = self._state
        if self._waiting and len(self._open) < ROUNDS_OPEN_MAX and state.commit_index >= state.led_from_index:
            self._open.append(_Batch(state.round + 1, state.commit_index, self._waiting))
            self._waiting = []
        return self._open[-1].round if self._open else 0

    def confirm(self) -> None:
        """Give out what a quorum has confirmed."""
        if not self._open:
            return
        state = self._state
        confirmed = reached(state.configuration, self._round_of, state.config.quorum_size)
        while self._open and self._open[0].round <= confirmed:
            batch = self._open.popleft()
            self._count -= len(batch.requests)
            state.stats.reads_confirmed += len(batch.requests)
            state.notes.extend([ReadReady(request, batch.read_index) for request in batch.requests])

    def abandon(self) -> None:
        """This node does not lead any more: nothing that waits was confirmed."""
        if not self._count:
            return
        for batch in self._open:
            for request in batch.requests:
                self._state.refuse(request, Why.NOT_LEADER)
        for request in self._waiting:
            self._state.refuse(request, Why.NOT_LEADER)
        self._open.clear()
        self._waiting = []
        self._count = 0

    def _round_of(self, node: NodeId) -> int:
        if node == self._state.node:
            return _FOR_EVER
        progress = self._state.progress.get(node)
        return 0 if progress is None else progress.acknowledged_round
