"""The coordinator of two-phase commit: a machine without a clock, for one leader of one shard.

All that must not be lost is in the log of the shard (``recovery.TxRecoveryState``). A coordinator is built from that
state alone, with each leader anew, and brings every transaction that it finds there to one outcome:

=============  =========================================================================================================
found          what is done
=============  =========================================================================================================
PREPARING      aborted: nobody has decided anything, and whoever votes now finds it so
PREPARED       committed, by a decision that is written first, if every yes is there and no key is on two shards
COMMITTING     the commit is told again to everybody who has not acknowledged it, until all have
ABORTING       the abort is told again
=============  =========================================================================================================

**What must be durable before what.** The beginning before the first prepare. Every vote, and the step to COMMITTING,
before a commit is said to anybody: they are written together, when the last vote has come. An abort may be said at once
where the durable phase is PREPARING and no decision is being written, for then no later leader can decide otherwise;
elsewhere it is written first. That nothing is known of a transaction is said after its id has been written down as
aborted, so that no leader whose time is over can say it of what its successor commits.

Moments are those of a forward clock that begins anew with each leader. No time of day decides anything, and the passing
of time decides only for what is still PREPARING in the log: without all votes, or with a decision that was lost on its
way there, which is written again until its time is over.
"""

from collections.abc import Callable
from typing import Final

from msgspec import Struct

from bobbin.cluster.geometry import Embedding
from bobbin.cluster.operations import Transaction
from bobbin.cluster.settings import DistributedTxConfig
from bobbin.cluster.transactions.admission import why_malformed
from bobbin.cluster.transactions.conduct import Conduct
from bobbin.cluster.transactions.effects import Alarm, CoordinatorEffect, Mistake, WakeAt
from bobbin.cluster.transactions.messages import (
    Conflict,
    No,
    TxAckMsg,
    TxPrepareResponse,
    TxQueryMsg,
    VictimMsg,
    Yes,
)
from bobbin.cluster.transactions.names import TX_ID_BYTES, ShardId, TxId
from bobbin.cluster.transactions.ongoing import Ongoing, Verdict
from bobbin.cluster.transactions.phases import Ended, TxPhase
from bobbin.cluster.transactions.recovery import TxRecoveryState, overlap
from bobbin.cluster.transactions.stats import TxStats
from bobbin.cluster.transactions.tx_log import AbortIntent, TxBegin, Voted

OVERDUE_FACTOR: Final = 10
"""So many times ``max_concurrent`` are kept in all, with those whose acknowledgements nobody waits for any more."""
DENIALS_MAX: Final = 1_000
"""Unknown ids that are being written down as aborted."""
REQUESTS_MAX: Final = 64
"""Clients that wait for one transaction."""


class Pending(Struct, frozen=True):
    """A transaction that is not finished, for an operator."""

    tx: TxId
    phase: TxPhase
    shards: tuple[ShardId, ...]
    waiting: tuple[ShardId, ...]
    """Whose vote or acknowledgement is missing, ascending."""
    at_ms: int
    """When it began, by the clock of whoever coordinated it then."""
    is_overdue: bool
    """A commit that is still being told after ``commit_timeout_ms``."""
    reason: str
    """Why it is aborted, or what a participant said was wrong."""


class _Denial:
    """An unknown id that is being written down as aborted, and who is to be told."""

    __slots__ = ("askers", "requests")

    def __init__(self) -> None:
        self.askers: set[ShardId] = set()
        self.requests: list[int] = []


class Coordinator:
    """The transactions that one shard coordinates, while one node leads it. Tick it first."""

    def __init__(
        self,
        shard: ShardId,
        config: DistributedTxConfig,
        stats: TxStats,
        recovered: TxRecoveryState,
        *,
        delta_of: Callable[[Transaction], Embedding],
    ) -> None:
        """``recovered`` is the shard's own state: every write is in it before ``written`` is called for it."""
        self._shard = shard
        self._config = config
        self._stats = stats
        self._log = recovered
        self._conduct = Conduct(shard, config, stats, recovered, delta_of)
        self._ongoing = self._conduct.ongoing
        self._denials: dict[TxId, _Denial] = {}
        self._sweep_ms: int | None = None
        self._wake_ms: int | None = None
        """The last that was asked for."""
        self._is_started = False

    # ---- what is shown ---------------------------------------------------------------------------------------------

    @property
    def due_ms(self) -> int | None:
        """When a tick is wanted; None when nothing waits for time to pass."""
        if not self._is_started:
            return 0 if self._log.open else None
        moments = (self._conduct.timers.due_ms, self._sweep_ms)
        return min((moment for moment in moments if moment is not None), default=None)

    @property
    def undecided(self) -> int:
        """Transactions that may still go either way, as far as is known here."""
        return sum(not one.is_decided for one in self._ongoing.values())

    def pending(self) -> tuple[Pending, ...]:
        """All that is not finished, in the order in which it was begun or found here."""
        return tuple(
            Pending(
                one.tx,
                one.phase,
                one.shards,
                tuple(one.delivery.waiting) if one.delivery is not None else one.unvoted,
                one.begin.at_ms,
                one.is_overdue,
                one.error or ("" if one.verdict is None else one.verdict.reason),
            )
            for one in self._ongoing.values()
        )

    # ---- clients ---------------------------------------------------------------------------------------------------

    def begin(
        self,
        tx: TxId,
        parts: tuple[tuple[ShardId, Transaction], ...],
        timeout_ms: int,
        request: int,
        *,
        now_ms: int,
        at_ms: int,
    ) -> list[CoordinatorEffect]:
        """A client wants a transaction. The same one again is answered like the first, and not done again."""
        self._at(now_ms)
        known = self._ongoing.get(tx)
        if known is not None:
            self._begin_again(known, parts, request)
            return self._done()
        verdict = self._why_not(tx, parts, timeout_ms)
        if verdict is not None:
            self._stats.refused += 1
            self._conduct.end((request,), tx, verdict)
            return self._done()
        if tx in self._denials:
            self._deny(tx, request=request)
            return self._done()
        timeout_ms = min(timeout_ms, self._config.prepare_timeout_ms)
        one = Ongoing(TxBegin(tx, parts, timeout_ms, at_ms), durable=None, now_ms=now_ms)
        one.deadline_ms = now_ms + timeout_ms
        one.requests.append(request)
        self._conduct.take_up(one)
        return self._done()

    def _begin_again(self, one: Ongoing, parts: tuple[tuple[ShardId, Transaction], ...], request: int) -> None:
        if parts != one.begin.parts:
            self._conduct.end((request,), one.tx, Verdict(Ended.REFUSED, "another transaction has this id"))
        else:
            self._attend(one, request)

    def _attend(self, one: Ongoing, request: int) -> None:
        """Answer now, or when it is decided."""
        if one.verdict is not None and one.may_say:
            # That it was too busy is no news any more: what is aborted stays so, and another try needs another id.
            is_final = one.verdict.ended is not Ended.BUSY
            self._conduct.end((request,), one.tx, one.verdict if is_final else Verdict(Ended.ABORTED, _ENDED))
        elif len(one.requests) >= REQUESTS_MAX:
            self._conduct.end((request,), one.tx, Verdict(Ended.BUSY, "too many wait for this transaction"))
        else:
            one.requests.append(request)

    def _why_not(self, tx: TxId, parts: tuple[tuple[ShardId, Transaction], ...], timeout_ms: int) -> Verdict | None:
        """Why a transaction cannot begin, or how it has ended."""
        malformed = why_malformed(tx, parts, timeout_ms)
        if malformed is not None:
            return Verdict(Ended.REFUSED, malformed)
        known = self._remembered(tx)
        if known is not None:
            return known
        most = self._config.max_concurrent
        if self._conduct.crowd >= most or len(self._ongoing) >= OVERDUE_FACTOR * most:
            return Verdict(Ended.BUSY, f"{len(self._ongoing)} transactions are open; {most} may be")
        return None

    def _remembered(self, tx: TxId) -> Verdict | None:
        """How a transaction that is not open has ended; None for an id that can be begun."""
        commits = self._log.outcome(tx)
        if commits is not None:
            return Verdict(Ended.COMMITTED) if commits else Verdict(Ended.ABORTED, _ENDED)
        too_old = self._log.why_not_new(tx)
        return None if too_old is None else Verdict(Ended.FORGOTTEN, too_old)

    def abort(
        self, tx: TxId, request: int, *, now_ms: int, reason: str = "its owner took it back"
    ) -> list[CoordinatorEffect]:
        """A client, or an operator, takes a transaction back. Too late once the decision to commit is durable."""
        self._at(now_ms)
        one = self._ongoing.get(tx)
        if one is None:
            malformed = Verdict(Ended.REFUSED, "no id of a transaction") if len(tx) != TX_ID_BYTES else None
            verdict = malformed or self._remembered(tx)
            if verdict is None:
                self._deny(tx, request=request)
            else:
                self._conduct.end((request,), tx, verdict)
        else:
            if one.phase is TxPhase.COMMITTING:
                self._conduct.refuse(Mistake.WRONG_PHASE, tx, self._shard, "it is decided that it commits")
            self._attend(one, request)
            if not one.is_decided:
                self._conduct.abort(one, Verdict(Ended.ABORTED, reason))
        return self._done()

    def victim(self, message: VictimMsg, *, now_ms: int) -> list[CoordinatorEffect]:
        """The search for deadlocks, or an older transaction, wants one to go. Too late once it is being decided."""
        self._at(now_ms)
        one = self._ongoing.get(message.tx)
        if message.coordinator != self._shard:
            self._conduct.refuse(Mistake.FOREIGN_SHARD, message.tx, self._shard, "it is coordinated elsewhere")
        elif one is None:
            self._conduct.refuse(Mistake.UNKNOWN_TRANSACTION, message.tx, self._shard)
        elif one.is_decided or one.is_deciding or one.wish is not None:
            self._conduct.refuse(Mistake.WRONG_PHASE, message.tx, self._shard, one.phase.value)
        else:
            self._stats.victims += 1
            self._conduct.abort(one, Verdict(Ended.ABORTED, message.reason))
        return self._done()

    # ---- participants ----------------------------------------------------------------------------------------------

    def vote(self, message: TxPrepareResponse, *, now_ms: int) -> list[CoordinatorEffect]:
        """A participant has voted. The last yes leads to a decision that is written before anybody hears of it."""
        self._at(now_ms)
        one = self._find(message.tx, message.shard)
        if one is not None:
            if message.shard in one.votes:
                self._conduct.refuse(Mistake.DUPLICATE_VOTE, message.tx, message.shard)
            elif one.phase is not TxPhase.PREPARING or one.prepare_due_ms is None:
                self._conduct.refuse(Mistake.WRONG_PHASE, message.tx, message.shard, one.phase.value)
            else:
                one.votes[message.shard] = message.vote
                self._count_vote(one, message.vote)
        return self._done()

    def _count_vote(self, one: Ongoing, vote: Yes | No | Conflict) -> None:
        if isinstance(vote, No):
            self._conduct.abort(one, Verdict(Ended.REFUSED if vote.is_final else Ended.BUSY, vote.reason))
        elif isinstance(vote, Conflict):
            self._stats.conflicts += 1
            self._conduct.abort(one, Verdict(Ended.CONFLICT, vote.reason, vote.similarity, vote.other))
        elif not one.unvoted:
            twice = overlap(Voted(one.tx, shard, cast) for shard, cast in one.votes.items())
            if twice is not None:
                self._conduct.abort(one, Verdict(Ended.REFUSED, f"the key {twice.hex()} is on two of its shards"))
            else:
                one.move(TxPhase.PREPARED)
                self._stats.non_orthogonal_shards += self._conduct.has_alike(one)
                self._conduct.advance(one)

    def ack(self, message: TxAckMsg, *, now_ms: int) -> list[CoordinatorEffect]:
        """A participant has done as it was told, or could not."""
        self._at(now_ms)
        one = self._find(message.tx, message.shard)
        if one is None:
            return self._done()
        if one.delivery is None:
            self._conduct.refuse(Mistake.WRONG_PHASE, message.tx, message.shard, one.phase.value)
        elif message.shard not in one.delivery.waiting:
            self._conduct.refuse(Mistake.DUPLICATE_ACK, message.tx, message.shard)
        elif not message.success:
            self._conduct.refuse(Mistake.FAILED_ACK, message.tx, message.shard, message.error)
            if one.error != message.error:
                detail = f"shard {message.shard} has not done as decided of {message.tx.hex()}: {message.error}"
                self._conduct.effects.append(Alarm("transaction-not-acknowledged", detail))
            one.error = message.error
        else:
            one.delivery.acknowledge(message.shard)
            self._conduct.advance(one)
        return self._done()

    def query(self, message: TxQueryMsg, *, now_ms: int) -> list[CoordinatorEffect]:
        """A participant asks what was decided."""
        self._at(now_ms)
        tx, one = message.tx, self._ongoing.get(message.tx)
        commits = self._log.outcome(tx)
        if message.coordinator != self._shard:
            self._conduct.refuse(Mistake.FOREIGN_SHARD, tx, message.asker, "it is coordinated elsewhere")
        elif one is not None:
            if message.asker not in one.shards:
                self._conduct.refuse(Mistake.FOREIGN_SHARD, tx, message.asker)
            else:
                self._conduct.tell(message.asker, tx, commits=one.phase is TxPhase.COMMITTING if one.may_say else None)
        elif commits is not None:
            self._conduct.tell(message.asker, tx, commits=commits)
        else:
            self._conduct.refuse(Mistake.UNKNOWN_TRANSACTION, tx, message.asker, "a question")
            self._deny(tx, asker=message.asker)
        return self._done()

    def _find(self, tx: TxId, shard: ShardId) -> Ongoing | None:
        one = self._ongoing.get(tx)
        if one is None:
            self._conduct.refuse(Mistake.UNKNOWN_TRANSACTION, tx, shard)
        elif shard not in one.shards:
            self._conduct.refuse(Mistake.FOREIGN_SHARD, tx, shard)
            return None
        return one

    # ---- time and the log ------------------------------------------------------------------------------------------

    def tick(self, *, now_ms: int) -> list[CoordinatorEffect]:
        """Time has passed."""
        self._at(now_ms)
        if self._sweep_ms is not None and now_ms >= self._sweep_ms:
            # Whatever a timer has missed, nothing stays for longer than this without being looked at.
            self._sweep_ms = None
            self._stats.sweeps += 1
            for one in tuple(self._ongoing.values()):
                self._conduct.look(one)
        for tx in self._conduct.timers.take(now_ms):
            self._conduct.look(self._ongoing[tx])
        return self._done()

    def written(self, ticket: int, *, now_ms: int) -> list[CoordinatorEffect]:
        """A write is durable, and in the state that this coordinator was built on."""
        self._at(now_ms)
        tx = self._conduct.claim(ticket)
        denial = self._denials.pop(tx, None)
        if denial is not None:
            commits = self._log.outcome(tx) or False
            for asker in sorted(denial.askers):
                self._conduct.tell(asker, tx, commits=commits)
            self._conduct.end(
                denial.requests, tx, Verdict(Ended.COMMITTED) if commits else Verdict(Ended.ABORTED, _ENDED)
            )
            return self._done()
        self._conduct.has_become_durable(self._ongoing[tx])
        return self._done()

    def lost(self, ticket: int, reason: str, *, now_ms: int) -> list[CoordinatorEffect]:
        """A write was not done and never will be. A beginning is given up; anything else is written again."""
        self._at(now_ms)
        tx = self._conduct.claim(ticket)
        self._stats.writes_lost += 1
        denial = self._denials.pop(tx, None)
        if denial is not None:
            self._conduct.end(denial.requests, tx, Verdict(Ended.BUSY, reason))
            return self._done()
        self._conduct.was_lost(self._ongoing[tx], reason)
        return self._done()

    # ---- the rest --------------------------------------------------------------------------------------------------

    def _deny(self, tx: TxId, *, asker: ShardId | None = None, request: int | None = None) -> None:
        """Write an unknown id down as aborted, and tell it afterwards."""
        denial = self._denials.get(tx)
        if denial is None and len(self._denials) < DENIALS_MAX:
            denial = self._denials[tx] = _Denial()
            self._conduct.write(tx, (AbortIntent(tx, "it is not known", ()),))
        if asker is not None and denial is not None:
            denial.askers.add(asker)
        if request is not None:
            if denial is None or len(denial.requests) >= REQUESTS_MAX:
                self._conduct.end((request,), tx, Verdict(Ended.BUSY, "too many ask for what is not known"))
            else:
                denial.requests.append(request)

    def _at(self, now_ms: int) -> None:
        self._conduct.now_ms = now_ms
        if not self._is_started:
            self._is_started = True
            self._conduct.take_over()

    def _done(self) -> list[CoordinatorEffect]:
        """What this step wants to be done."""
        if not self._ongoing:
            self._sweep_ms = None
        elif self._sweep_ms is None:
            self._sweep_ms = self._conduct.now_ms + self._config.sweep_interval_ms
        due_ms = self.due_ms
        if due_ms is not None and due_ms != self._wake_ms:
            self._conduct.effects.append(WakeAt(due_ms))
        self._wake_ms = due_ms
        effects, self._conduct.effects = self._conduct.effects, []
        return effects


_ENDED: Final = "it had been aborted; another try needs another id"
