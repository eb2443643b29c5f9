"""One transaction in the hands of a coordinator.

What is durable of it, what is meant, and what has to be written for the one to become the other.
"""

from typing import Final

from msgspec import Struct

from bobbin.cluster.settings import DistributedTxConfig
from bobbin.cluster.transactions.delivery import Delivery
from bobbin.cluster.transactions.messages import PrepareVote, Yes
from bobbin.cluster.transactions.names import ShardId, TxId
from bobbin.cluster.transactions.phases import COORDINATOR, Ended, TxPhase
from bobbin.cluster.transactions.recovery import TxRecord
from bobbin.cluster.transactions.tx_log import (
    AbortIntent,
    AllLocksReleased,
    LockRelease,
    PhaseChange,
    TxBegin,
    TxComplete,
    TxWalEntry,
    Voted,
)

WRITE_RETRY_MS: Final = 100
"""Before an entry that was lost is written again, for the first time; then twice as long each time, up to a limit."""
WRITE_RETRY_POWER_MAX: Final = 4


class Verdict(Struct, frozen=True):
    """How a transaction ends, or shall end, for its client."""

    ended: Ended
    reason: str = ""
    similarity: float | None = None
    other: TxId | None = None


class Ongoing:
    """A transaction that is not finished everywhere."""

    def __init__(self, begin: TxBegin, *, durable: TxRecord | None, now_ms: int) -> None:
        self.begin = begin
        self.durable = durable
        """None until the beginning is."""
        self.phase = TxPhase.PREPARING if durable is None else durable.phase
        """May be ahead of what is durable; what may be said rests on ``may_say``."""
        self.votes: dict[ShardId, PrepareVote] = {}
        self.requests: list[int] = []
        """Who waits to be told the end."""
        self.verdict: Verdict | None = None
        self.wish: Verdict | None = None
        """To end like this as soon as it is known that a write under way has not decided otherwise."""
        self.delivery: Delivery | None = None
        self.ticket: int | None = None
        """Of the one write under way."""
        self.writes_lost = 0
        """In a row."""
        self.write_due_ms = now_ms
        self.began_ms = now_ms
        self.decided_ms = now_ms
        self.deadline_ms = now_ms
        """For all votes, and later for all acknowledgements of a commit."""
        self.prepare_due_ms: int | None = None
        """None before the first prepare has left, and where none will leave."""
        self.is_overdue = False
        self.error = ""
        """What a participant last said that was wrong."""
        if durable is not None:
            self.votes = {voted.shard: voted.vote for voted in durable.votes}
            # A record that is complete may have locks to release; that much of it is going on.
            if durable.phase.is_terminal:
                self.phase = TxPhase.COMMITTING if durable.phase is TxPhase.COMMITTED else TxPhase.ABORTING

    @property
    def tx(self) -> TxId:
        return self.begin.tx

    @property
    def shards(self) -> tuple[ShardId, ...]:
        """The participants, ascending."""
        return tuple(shard for shard, _ in self.begin.parts)

    @property
    def is_decided(self) -> bool:
        return self.phase in (TxPhase.COMMITTING, TxPhase.ABORTING)

    @property
    def is_deciding(self) -> bool:
        """Whether a write is under way after which nothing but a commit may be possible."""
        return self.phase is TxPhase.PREPARED and self.ticket is not None

    @property
    def may_say(self) -> bool:
        """Whether the decision may be said: no leader who comes after this one can decide otherwise.

        An abort needs no entry as long as the durable phase is PREPARING, for whoever finds that aborts.
        """
        if self.durable is None:
            return False
        if self.phase is TxPhase.COMMITTING:
            return self.durable.phase in (TxPhase.COMMITTING, TxPhase.COMMITTED)
        return self.phase is TxPhase.ABORTING and self.durable.phase is not TxPhase.PREPARED

    @property
    def unvoted(self) -> tuple[ShardId, ...]:
        """Whose vote is missing."""
        return tuple(shard for shard in self.shards if shard not in self.votes)

    @property
    def owed(self) -> tuple[ShardId, ...]:
        """Who may hold something of it and has not acknowledged the decision."""
        if self.durable is not None and self.durable.phase not in (TxPhase.PREPARING, TxPhase.PREPARED):
            return self.durable.owed
        if self.prepare_due_ms is None:
            return ()
        return tuple(shard for shard in self.shards if isinstance(self.votes.get(shard), Yes | None))

    @property
    def due_ms(self) -> int | None:
        """When it is to be looked at; None while only an answer to a write, or a message, can move it on."""
        moments = [] if self.ticket is not None or not self.writes_lost else [self.write_due_ms]
        if self.phase is TxPhase.PREPARING and self.wish is None:
            moments.append(self.deadline_ms)
            if self.prepare_due_ms is not None:
                moments.append(self.prepare_due_ms)
        if self.delivery is not None and not self.delivery.is_over:
            moments.append(self.delivery.due_ms)
            if self.phase is TxPhase.COMMITTING and not self.is_overdue:
                moments.append(self.deadline_ms)
        return min(moments, default=None)

    def move(self, phase: TxPhase) -> None:
        """To another phase, by a way that the table has."""
        assert (self.phase, phase) in COORDINATOR, (self.phase, phase)
        self.phase = phase

    def deliver(self, config: DistributedTxConfig, now_ms: int) -> Delivery:
        """Begin to tell the decision."""
        commits = self.phase is TxPhase.COMMITTING
        self.delivery = Delivery(self.owed, commits=commits, config=config, now_ms=now_ms)
        self.deadline_ms = now_ms + config.commit_timeout_ms
        return self.delivery

    def missing(self) -> tuple[TxWalEntry, ...]:
        """What is meant and not durable, in the order in which it has to be written."""
        durable = self.durable
        if durable is None:
            return (self.begin,)
        tx, entries = self.tx, list[TxWalEntry]()
        if self.phase is TxPhase.PREPARED:
            entries += [Voted(tx, shard, self.votes[shard]) for shard in self.shards if durable.vote_of(shard) is None]
            if durable.phase is TxPhase.PREPARING:
                entries.append(PhaseChange(tx, TxPhase.PREPARING, TxPhase.PREPARED))
            entries.append(PhaseChange(tx, TxPhase.PREPARED, TxPhase.COMMITTING))
        if self.phase is TxPhase.ABORTING and durable.phase in (TxPhase.PREPARING, TxPhase.PREPARED):
            entries += self._intent(durable)
        if self.delivery is not None and (self.delivery.is_over or self.is_overdue):
            told = [shard for shard in self.delivery.acknowledged if shard not in durable.released]
            entries += [LockRelease(tx, shard) for shard in told]
            if self.delivery.is_over:
                if not durable.phase.is_terminal:
                    entries.append(TxComplete(tx, self.delivery.commits))
                entries.append(AllLocksReleased(tx))
        return tuple(entries)

    def _intent(self, durable: TxRecord) -> list[TxWalEntry]:
        """The abort, after the votes that led to it."""
        against = [
            Voted(self.tx, shard, vote)
            for shard, vote in self.votes.items()
            if not isinstance(vote, Yes) and durable.vote_of(shard) is None
        ]
        reason = "" if self.verdict is None else self.verdict.reason
        told = self.owed if self.delivery is None else (*self.delivery.waiting, *self.delivery.acknowledged)
        return [
            *against,
            PhaseChange(self.tx, durable.phase, TxPhase.ABORTING),
            AbortIntent(self.tx, reason, tuple(sorted(told))),
        ]
