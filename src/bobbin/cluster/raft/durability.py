"""What is on its way to the disk, what may only be said once it is there, and the way back if it never gets there.

Every step has at most one ``Persist``. For each that is not confirmed yet, this part keeps what the records changed, so
that memory can go back to the durable image, and the messages that rest on it. Tokens rise by one, and a confirmation
covers all earlier ones.
"""

from collections import deque

from bobbin.cluster.names import Index, NodeId, Term
from bobbin.cluster.raft.effects import Append, Cut, DurableRecord, HardState, Persist, Reset, Send, Truncate
from bobbin.cluster.raft.entries import Entry, SnapshotMetadata
from bobbin.cluster.raft.log import RaftLog
from bobbin.cluster.raft.messages import AppendAnswer


class _Pending:
    """One ``Persist`` that is neither confirmed nor failed."""

    __slots__ = ("asked_ns", "changed_from", "cut", "hard_before", "last_index", "replaced", "reset", "token")

    def __init__(self, token: int) -> None:
        self.token = token
        self.asked_ns = 0
        """When it was asked for."""
        self.hard_before: HardState | None = None
        """Term and vote before this step, if the step changed them."""
        self.replaced: list[tuple[int, tuple[Entry, ...]]] = []
        """Places from which on the log was changed, and what stood there; newest last."""
        self.changed_from: int | None = None
        """The first place of all these."""
        self.cut: Cut | None = None
        self.reset: SnapshotMetadata | None = None
        self.last_index = 0
        """Where the disk's log ends once this is durable."""


class Durability:
    """The way of a log, a term and a vote to the disk."""

    def __init__(
        self, log: RaftLog, term: Term, voted_for: NodeId | None, snapshot: SnapshotMetadata | None = None
    ) -> None:
        self.term = term
        self.voted_for = voted_for
        self.durable_index = log.last_index
        """Up to here the log in memory is on the disk, or under a snapshot that is."""
        self.owes_reset: SnapshotMetadata | None = None
        """The disk's log does not fit this snapshot, which memory begins with; says so before anything else."""
        self._log = log
        self._disk_last = int(log.last_index)
        self._snapshot_index = 0 if snapshot is None else int(snapshot.last_index)
        self._token = 0
        self._confirmed = 0
        self._hard_token = 0
        self._pending: deque[_Pending] = deque()
        self._lowest: deque[_Pending] = deque()
        """Those of the pending before which no later one has changed the log: the first has the lowest change."""
        self._records: list[DurableRecord] = []
        self._current: _Pending | None = None
        self._held: deque[tuple[int, Send, Send | None]] = deque()

    @property
    def is_hard_pending(self) -> bool:
        """Whether term and vote in memory are not durable yet."""
        return self._hard_token > self._confirmed

    @property
    def is_idle(self) -> bool:
        """Whether everything is durable."""
        return not self._pending and self._current is None

    @property
    def waits_since_ns(self) -> int | None:
        """Since when the oldest of what is not durable waits for the disk; None where nothing does."""
        return self._pending[0].asked_ns if self._pending else None

    # ---- changes --------------------------------------------------------------------------------------------------

    def set_hard_state(self, term: Term, voted_for: NodeId | None) -> None:
        """Term and vote, in memory now and on the disk as soon as may be."""
        current = self._open()
        if current.hard_before is None:
            current.hard_before = HardState(self.term, self.voted_for)
        self.term, self.voted_for = term, voted_for
        self._hard_token = current.token
        if self._records and isinstance(self._records[-1], HardState):
            self._records.pop()
        self._records.append(HardState(term, voted_for))

    def append(self, entries: tuple[Entry, ...]) -> None:
        """Entries after the last one."""
        self._change(entries[0].index, ())
        self._log.append(entries)
        self._records.append(Append(entries))

    def append_commands(self, term: Term, commands: tuple[bytes, ...]) -> None:
        """Commands of clients, as entries after the last one."""
        self._change(self._log.last_index + 1, ())
        self._records.append(Append(self._log.append_commands(term, commands)))

    def truncate(self, from_index: Index) -> None:
        """Entries that a leader's log contradicts go."""
        self._change(from_index, self._log.truncate(from_index))
        self._records.append(Truncate(from_index))

    def cut(self, cut: Cut) -> None:
        """Entries under a durable snapshot go, from memory once the disk knows of it."""
        self._open().cut = cut
        self._snapshot_index = max(self._snapshot_index, cut.metadata.last_index)
        self._records.append(cut)
        self._settle()

    def reset(self, metadata: SnapshotMetadata) -> None:
        """A durable snapshot takes the place of a log that does not reach it, or contradicts it."""
        current = self._open()
        current.reset = metadata
        self._log.reset(metadata)
        self._snapshot_index = metadata.last_index
        self._disk_last = min(self._disk_last, metadata.last_index)
        for pending in (*self._pending, current):
            pending.replaced.clear()
            pending.changed_from = None
            pending.last_index = min(pending.last_index, metadata.last_index)
        self._rank_all()
        self._forget_answers(metadata.last_index)
        self.owes_reset = None
        self._records.append(Reset(metadata))
        self._settle()

    # ---- what rests on it -----------------------------------------------------------------------------------------

    def hold(self, send: Send, instead: Send | None = None) -> bool:
        """Keep a message until everything so far is durable, ``instead`` if it never is; False when it already is."""
        rests_on = self._current or (self._pending[-1] if self._pending else None)
        if rests_on is None:
            return False
        self._held.append((rests_on.token, send, instead))
        return True

    def close(self, now_ns: int = 0) -> Persist | None:
        """The end of a step: what it wants durable."""
        current = self._current
        if current is None:
            return None
        self._current = None
        self._token = current.token
        current.asked_ns = now_ns
        current.last_index = self._log.last_index
        self._pending.append(current)
        self._rank(current)
        records, self._records = tuple(self._records), []
        return Persist(current.token, records)

    def confirm(self, token: int) -> list[Send]:
        """Everything up to a token is durable; the log is cut where that was asked for. Returns what may be said."""
        while self._pending and self._pending[0].token <= token:
            done = self._pending.popleft()
            if self._lowest and self._lowest[0] is done:
                self._lowest.popleft()
            self._confirmed = done.token
            self._disk_last = done.last_index
            if done.cut is not None:
                self._log.cut(done.cut.first_index, done.cut.metadata)
        said = []
        while self._held and self._held[0][0] <= self._confirmed:
            said.append(self._held.popleft()[1])
        self._settle()
        return said

    def fail(self, token: int) -> tuple[bool, list[Send]]:
        """A token and all later ones never became durable: go back. Whether there were any, and what to say instead."""
        assert self._current is None, "a failure is the first thing in its step"
        failed = False
        while self._pending and self._pending[-1].token >= token:
            self._undo(self._pending.pop())
            failed = True
        self._rank_all()
        said = []
        if failed:
            while self._held and self._held[-1][0] >= token:
                instead = self._held.pop()[2]
                if instead is not None:
                    said.append(instead)
            self._hard_token = max((p.token for p in self._pending if p.hard_before is not None), default=0)
        self._settle()
        return failed, said[::-1]

    def check(self) -> None:
        """Assert what always holds."""
        assert self.durable_index <= self._log.last_index
        assert self.durable_index >= self._snapshot_index
        assert self._pending or not self._held, "nothing waits for what is durable"
        assert not self.is_idle or self.durable_index == self._log.last_index

    # ---- inside ---------------------------------------------------------------------------------------------------

    def _open(self) -> _Pending:
        if self._current is None:
            self._current = _Pending(self._token + 1)
            if self.owes_reset is not None:
                self._current.reset = self.owes_reset
                self._records.append(Reset(self.owes_reset))
                self.owes_reset = None
        return self._current

    def _change(self, from_index: int, replaced: tuple[Entry, ...]) -> None:
        current = self._open()
        current.replaced.append((from_index, replaced))
        before = current.changed_from
        current.changed_from = from_index if before is None else min(before, from_index)
        self.durable_index = min(self.durable_index, Index(from_index - 1))

    def _forget_answers(self, last_index: Index) -> None:
        """Nobody is told of entries that a snapshot has taken away before they were durable."""
        self._held = deque(
            held
            for held in self._held
            if not isinstance(held[1].message, AppendAnswer) or held[1].message.match_index <= last_index
        )

    def _undo(self, pending: _Pending) -> None:
        for from_index, entries in reversed(pending.replaced):
            self._log.truncate(from_index)
            self._log.append(entries)
        if pending.hard_before is not None:
            self.term, self.voted_for = pending.hard_before.term, pending.hard_before.voted_for
        # Memory keeps the snapshot, which is durable; the newest of several is undone first.
        if self.owes_reset is None:
            self.owes_reset = pending.reset

    def _rank(self, pending: _Pending) -> None:
        if pending.changed_from is not None:
            lowest = self._lowest
            while lowest and (lowest[-1].changed_from or 0) >= pending.changed_from:
                lowest.pop()
            lowest.append(pending)

    def _rank_all(self) -> None:
        self._lowest.clear()
        for pending in self._pending:
            self._rank(pending)

    def _settle(self) -> None:
        durable = self._disk_last
        for pending in (self._lowest[0] if self._lowest else None, self._current):
            if pending is not None and pending.changed_from is not None:
                durable = min(durable, pending.changed_from - 1)
        self.durable_index = Index(max(durable, self._snapshot_index))
