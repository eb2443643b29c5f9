"""What a coordinator does with the transactions that it has in hand, whatever has made it necessary.

The parts of ``Coordinator`` that no event names: phases, writes, what is said when, and what time makes due. Nothing
that rests on an entry leaves before the entry is durable; ``Ongoing.may_say`` is the one place where that is told.
"""

from collections.abc import Callable, Iterable
from itertools import combinations

from bobbin.cluster.geometry import Embedding, cosine
from bobbin.cluster.names import MILLISECOND_NS
from bobbin.cluster.operations import Transaction
from bobbin.cluster.settings import DistributedTxConfig
from bobbin.cluster.transactions.effects import Alarm, CoordinatorEffect, End, Mistake, Refused, Send, Write
from bobbin.cluster.transactions.messages import TxAbortMsg, TxCommitMsg, TxDecisionMsg, TxPrepareMsg, Yes
from bobbin.cluster.transactions.names import ShardId, TxId
from bobbin.cluster.transactions.ongoing import WRITE_RETRY_MS, WRITE_RETRY_POWER_MAX, Ongoing, Verdict
from bobbin.cluster.transactions.phases import Ended, TxPhase
from bobbin.cluster.transactions.recovery import TxRecoveryState
from bobbin.cluster.transactions.stats import TxStats
from bobbin.cluster.transactions.timers import Timers
from bobbin.cluster.transactions.tx_log import TxWalEntry
from bobbin.errors import UsageError


class Conduct:
    """The transactions that are not finished, and what is to be done about them."""

    def __init__(
        self,
        shard: ShardId,
        config: DistributedTxConfig,
        stats: TxStats,
        log: TxRecoveryState,
        delta_of: Callable[[Transaction], Embedding],
    ) -> None:
        self.now_ms = 0
        self.effects: list[CoordinatorEffect] = []
        """Of the present step."""
        self.ongoing: dict[TxId, Ongoing] = {}
        self.timers = Timers()
        self._shard = shard
        self._config = config
        self._stats = stats
        self._log = log
        self._delta_of = delta_of
        self._tickets: dict[int, TxId] = {}
        """Writes under way."""
        self._ticket = 0
        self._overdue = 0
        self._is_crowded = False

    # ---- beginning and end -----------------------------------------------------------------------------------------

    def take_up(self, one: Ongoing) -> None:
        """A new one."""
        self.ongoing[one.tx] = one
        self._stats.started += 1
        self._warn()
        self.advance(one)

    def take_over(self) -> None:
        """Bring what an earlier leader has left to one outcome, by the rules of ``coordinator``."""
        for record in tuple(self._log.open.values()):
            one = Ongoing(record.begin, durable=record, now_ms=self.now_ms)
            self.ongoing[one.tx] = one
            self._stats.started += 1
            self._stats.recovered += 1
            if one.phase is TxPhase.PREPARING:
                one.prepare_due_ms = self.now_ms
                self.abort(one, Verdict(Ended.ABORTED, "its coordinator was lost before it was decided"))
            elif one.phase is TxPhase.PREPARED:
                if record.may_commit:
                    self.advance(one)
                else:
                    one.prepare_due_ms = self.now_ms
                    self.abort(one, Verdict(Ended.ABORTED, "it was prepared without a yes of everybody"))
            elif one.phase is TxPhase.COMMITTING:
                self._stats.committed += 1
                one.verdict = Verdict(Ended.COMMITTED)
                self.deliver(one)
            else:
                self._stats.aborted += 1
                reason = "" if record.intent is None else record.intent.reason
                one.verdict = Verdict(Ended.ABORTED, reason)
                self.deliver(one)

    def has_become_durable(self, one: Ongoing) -> None:
        """The write under way for it is in the state."""
        one.ticket, one.writes_lost = None, 0
        one.durable = self._log.open.get(one.tx)
        if one.durable is None:
            self._finish(one)
        elif one.phase is TxPhase.PREPARING:
            if one.wish is not None:
                self.abort(one, one.wish)
            else:
                one.prepare_due_ms = self.now_ms + self._config.prepare_handler_timeout_ms
                self._prepare(one)
        elif one.phase is TxPhase.PREPARED:
            self._become_committing(one)
        elif one.delivery is None:
            self.deliver(one)
        else:
            self.advance(one)

    def was_lost(self, one: Ongoing, reason: str) -> None:
        """The write under way for it will never be done."""
        one.ticket = None
        if one.durable is None:
            self._stats.aborted += 1
            self.end(one.requests, one.tx, Verdict(Ended.BUSY, reason))
            self._forget(one)
            return
        one.write_due_ms = self.now_ms + (WRITE_RETRY_MS << min(one.writes_lost, WRITE_RETRY_POWER_MAX))
        one.writes_lost += 1
        if one.phase is TxPhase.PREPARED:
            if one.wish is not None:
                self.abort(one, one.wish)
            elif self.now_ms >= one.deadline_ms and one.durable.phase is TxPhase.PREPARING:
                # The log may never take it, and all keys of all participants are locked.
                self._stats.timed_out += 1
                self.abort(one, Verdict(Ended.BUSY, f"its decision could not be written in time: {reason}"))
        self.timers.set(one.tx, one.due_ms)

    # ---- one transaction -------------------------------------------------------------------------------------------

    def look(self, one: Ongoing) -> None:
        """Do what time has made due."""
        now_ms, delivery = self.now_ms, one.delivery
        if one.phase is TxPhase.PREPARING and one.wish is None:
            if now_ms >= one.deadline_ms:
                self._stats.timed_out += 1
                self.abort(one, Verdict(Ended.BUSY, f"not all votes came within {one.begin.timeout_ms} ms"))
            elif one.prepare_due_ms is not None and now_ms >= one.prepare_due_ms:
                one.prepare_due_ms = now_ms + self._config.prepare_handler_timeout_ms
                self._stats.prepare_retries += len(one.unvoted)
                self._prepare(one)
        if delivery is not None and not delivery.is_over:
            if delivery.commits and not one.is_overdue and now_ms >= one.deadline_ms:
                self._become_overdue(one)
            again = delivery.repeat(now_ms)
            if delivery.commits:
                self._stats.commit_retries += len(again)
            else:
                self._stats.abort_retries += len(again)
                self._stats.abort_failures += delivery.is_given_up
            self._say(one, again)
        self.advance(one)

    def advance(self, one: Ongoing) -> None:
        """Write what is missing, one write at a time."""
        if one.ticket is None and (not one.writes_lost or self.now_ms >= one.write_due_ms):
            entries = one.missing()
            if entries:
                one.ticket = self.write(one.tx, entries)
        self.timers.set(one.tx, one.due_ms)

    def abort(self, one: Ongoing, verdict: Verdict) -> None:
        """Decide so; or, where a write under way may decide otherwise or begin it in the first place, wait for that."""
        if one.durable is None or one.is_deciding:
            one.wish = one.wish or verdict
            if verdict.ended is Ended.BUSY:
                self.end(one.requests, one.tx, verdict)
                one.requests = []
            self.timers.set(one.tx, one.due_ms)
            return
        one.move(TxPhase.ABORTING)
        one.verdict, one.wish = verdict, None
        self._stats.aborted += 1
        if one.may_say:
            self.deliver(one)
        else:
            self.advance(one)

    def _become_committing(self, one: Ongoing) -> None:
        """The decision is durable. There is no other from here on."""
        one.move(TxPhase.COMMITTING)
        one.verdict, one.wish = Verdict(Ended.COMMITTED), None
        one.decided_ms = self.now_ms
        self._stats.committed += 1
        self._stats.orthogonal_merges += len(one.shards) > 1 and not self.has_alike(one)
        self._stats.prepare_times.add((self.now_ms - one.began_ms) * MILLISECOND_NS)
        self.deliver(one)

    def deliver(self, one: Ongoing) -> None:
        """Begin to tell what is decided: everything that has to be durable for it is."""
        assert one.may_say
        delivery = one.deliver(self._config, self.now_ms)
        self.advance(one)
        self._say(one, tuple(delivery.waiting))
        if one.verdict is not None:
            self.end(one.requests, one.tx, one.verdict)
            one.requests = []

    def _become_overdue(self, one: Ongoing) -> None:
        """Nobody waits for the acknowledgements any more; the commit is told all the same until they are there."""
        assert one.delivery is not None
        one.is_overdue = True
        self._overdue += 1
        self._stats.commits_overdue += 1
        shards = ", ".join(map(str, one.delivery.waiting))
        detail = f"{one.tx.hex()} is committed and not acknowledged by shard {shards}; it is told again"
        self.effects.append(Alarm("commit-overdue", detail))

    def _finish(self, one: Ongoing) -> None:
        commits = one.phase is TxPhase.COMMITTING
        one.move(TxPhase.COMMITTED if commits else TxPhase.ABORTED)
        if commits:
            self._stats.to_end_times.add((self.now_ms - one.decided_ms) * MILLISECOND_NS)
        self._forget(one)

    def _forget(self, one: Ongoing) -> None:
        del self.ongoing[one.tx]
        self.timers.set(one.tx, None)
        self._overdue -= one.is_overdue
        if self.crowd * 2 < self._config.warn_share * self._config.max_concurrent:
            self._is_crowded = False

    def _prepare(self, one: Ongoing) -> None:
        """Ask everybody who has not voted."""
        begin = one.begin
        for shard, part in begin.parts:
            if shard not in one.votes:
                message = TxPrepareMsg(
                    one.tx, self._shard, shard, part, self._delta_of(part), begin.timeout_ms, one.shards
                )
                self.effects.append(Send(shard, message))
        self.timers.set(one.tx, one.due_ms)

    def _say(self, one: Ongoing, shards: tuple[ShardId, ...]) -> None:
        for shard in shards:
            if one.phase is TxPhase.COMMITTING:
                self.effects.append(Send(shard, TxCommitMsg(one.tx, self._shard, shard)))
            else:
                reason = "" if one.verdict is None else one.verdict.reason
                self.effects.append(Send(shard, TxAbortMsg(one.tx, self._shard, shard, reason)))

    def has_alike(self, one: Ongoing) -> bool:
        """Whether two shards are changed alike."""
        deltas = [vote.delta for vote in one.votes.values() if isinstance(vote, Yes)]
        return any(cosine(this, other) >= self._config.orthogonal_threshold for this, other in combinations(deltas, 2))

    # ---- what leaves -----------------------------------------------------------------------------------------------

    def write(self, tx: TxId, entries: tuple[TxWalEntry, ...]) -> int:
        self._ticket += 1
        self._tickets[self._ticket] = tx
        self.effects.append(Write(self._ticket, entries))
        return self._ticket

    def end(self, requests: Iterable[int], tx: TxId, verdict: Verdict) -> None:
        for request in requests:
            self.effects.append(End(request, tx, verdict.ended, verdict.reason, verdict.similarity, verdict.other))

    def refuse(self, mistake: Mistake, tx: TxId, shard: ShardId, detail: str = "") -> None:
        self._stats.mistakes[mistake] += 1
        self.effects.append(Refused(mistake, tx, shard, detail))

    def tell(self, asker: ShardId, tx: TxId, *, commits: bool | None) -> None:
        self.effects.append(Send(asker, TxDecisionMsg(tx, self._shard, commits)))

    def claim(self, ticket: int) -> TxId:
        tx = self._tickets.pop(ticket, None)
        if tx is None:
            raise UsageError(f"no write has the ticket {ticket}, or it has been answered")
        return tx

    # ---- limits ----------------------------------------------------------------------------------------------------

    @property
    def crowd(self) -> int:
        """Open transactions, without commits whose acknowledgements are overdue."""
        return len(self.ongoing) - self._overdue

    def _warn(self) -> None:
        most = self._config.max_concurrent
        if not self._is_crowded and self.crowd >= self._config.warn_share * most:
            self._is_crowded = True
            self.effects.append(Alarm("transactions-crowded", f"{self.crowd} transactions are open; {most} may be"))
