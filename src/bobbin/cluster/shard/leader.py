"""What the leader of a shard does: a pure machine over the state that was applied.

``step(event, now_ms=…, wall_ms=…)`` takes what happened and returns what to do. The machine has no clock, no log and no
network. Its memory is for waiting, timers and blocks on their way. A new leader begins with none of it, and goes on
from the state alone: promises are asked about, and what the coordinator has written down is taken up again.

What must be applied before what is said: a promise before its yes; the block with a part, or the drop of it, before the
acknowledgement; a decision before anybody hears of it; a transaction before its client is told that it is committed.
"""

from typing import Final, assert_never

from bobbin.cluster.identity import Identity
from bobbin.cluster.names import Term
from bobbin.cluster.operations import Transaction
from bobbin.cluster.settings import DeadlockDetectorConfig, DistributedTxConfig
from bobbin.cluster.shard.asking import Asking
from bobbin.cluster.shard.commands import Append, Drop, Log, Prepare, ReplaceCodebook, Resolve
from bobbin.cluster.shard.committing import Committing
from bobbin.cluster.shard.coordinating import Coordinating
from bobbin.cluster.shard.effects import Effect, WakeAt
from bobbin.cluster.shard.events import (
    Abort,
    Applied,
    Begin,
    Commit,
    Commits,
    Event,
    Heard,
    Lost,
    ReplaceCodebookWanted,
    ResolveWanted,
    Tick,
    Validate,
)
from bobbin.cluster.shard.leading import Leading
from bobbin.cluster.shard.machine import Shard
from bobbin.cluster.shard.operating import Operating
from bobbin.cluster.shard.preparing import Preparing
from bobbin.cluster.shard.watching import Watching
from bobbin.cluster.transactions.deadlock import DeadlockStats
from bobbin.cluster.transactions.messages import (
    Recheck,
    Rechecked,
    TxAbortMsg,
    TxAckMsg,
    TxCommitMsg,
    TxDecisionMsg,
    TxPrepareMsg,
    TxPrepareResponse,
    TxQueryMsg,
    VictimMsg,
    WaitReport,
    Yes,
)
from bobbin.cluster.transactions.names import ShardId, TxId
from bobbin.cluster.transactions.phases import Ended
from bobbin.cluster.transactions.stats import TxStats

NO_TX: Final = TxId(bytes(16))
"""For answers that concern no transaction."""


class ShardLeader:
    """Made when a node has become leader and has applied an entry of its term; thrown away when it leads no more.

    Tick it first.
    """

    def __init__(
        self,
        shard: Shard,
        *,
        identity: Identity,
        term: Term,
        shards: int,
        config: DistributedTxConfig,
        detector: DeadlockDetectorConfig,
    ) -> None:
        self._leading: Final = Leading(
            shard, identity=identity, term=term, shards=shards, config=config, detector=detector
        )
        self.committing: Final = Committing(self._leading)
        self.preparing: Final = Preparing(self._leading, self.committing)
        self.asking: Final = Asking(self._leading, self.preparing)
        self.coordinating: Final = Coordinating(self._leading)
        self.watching: Final = Watching(self._leading, self.preparing)
        self._operating: Final = Operating(self._leading, self.committing, self.preparing)
        self._timed: Final = (self.coordinating, self.preparing, self.asking, self.watching, self.committing)
        self._wake_ms: int | None = None

    def step(self, event: Event, *, now_ms: int, wall_ms: int) -> list[Effect]:
        """Take what happened and give what to do. ``wall_ms`` stamps what people read and decides nothing."""
        leading = self._leading
        leading.now_ms = max(now_ms, leading.now_ms)
        leading.wall_ms = wall_ms
        match event:
            case Commit():
                self.committing.commit(event)
            case Commits(commits=commits):
                self.committing.commit_all(commits)
            case Applied():
                self._applied(event)
            case Heard(sender=sender):
                if 0 <= sender < leading.shards:
                    self._hear(event)
            case Begin():
                self.coordinating.begin(event)
            case Abort():
                self.coordinating.abort(event)
            case Validate():
                self._validate(event)
            case Lost(proposal=proposal, reason=reason):
                self._lost(proposal, reason)
            case Tick():
                self._tick()
            case ReplaceCodebookWanted():
                self._operating.replace_codebook(event)
            case ResolveWanted():
                self._operating.resolve(event)
            case _:
                assert_never(event)
        self._wake()
        return leading.take_effects()

    # ---- the log ---------------------------------------------------------------------------------------------------

    def _applied(self, event: Applied) -> None:
        proposal, outcome = event.proposal, event.outcome
        match event.command:
            case Append():
                for tx in self.committing.applied(proposal, outcome):
                    self.preparing.done(tx)
                self.committing.flush()
            case Prepare(message=message):
                self.preparing.prepared(proposal, message, outcome)
                if isinstance(outcome.vote, Yes):
                    self.asking.note(message.tx)
            case Drop(tx=tx):
                self.preparing.dropped(proposal, tx)
                self.committing.dropped(proposal)
            case Log():
                self.coordinating.logged(proposal, outcome)
                if proposal is not None:
                    self.preparing.proven(proposal)
            case ReplaceCodebook():
                self._operating.replaced(proposal, outcome)
            case Resolve(tx=tx):
                self._operating.resolved(proposal, tx, outcome)
            case _:
                assert_never(event.command)

    def _lost(self, proposal: int, reason: str) -> None:
        self.committing.lost(proposal)
        self.preparing.lost(proposal)
        self.coordinating.lost(proposal, reason)
        self._operating.lost(proposal, reason)
        self.committing.flush()

    # ---- messages --------------------------------------------------------------------------------------------------

    def _hear(self, event: Heard) -> None:
        """What says of itself that it comes from a shard must come from that shard, and be for this one."""
        sender, message = event.sender, event.message
        match message:
            case TxPrepareMsg() | TxCommitMsg() | TxAbortMsg():
                if message.coordinator == sender:
                    self._hear_coordinator(message)
            case TxPrepareResponse(shard=shard) | TxAckMsg(shard=shard) | TxDecisionMsg(shard=shard):
                if shard == sender:
                    self._hear_participant(message)
            case TxQueryMsg():
                self._query(message, sender)
            case WaitReport() | Recheck() | Rechecked():
                self.watching.hear(message, sender)
            case VictimMsg(coordinator=coordinator):
                if coordinator == self._leading.own:
                    self.coordinating.victim(message)
            case _:
                assert_never(message)

    def _hear_coordinator(self, message: TxPrepareMsg | TxCommitMsg | TxAbortMsg) -> None:
        if isinstance(message, TxPrepareMsg):
            self.preparing.prepare(message)
        elif message.shard != self._leading.own:
            return
        elif isinstance(message, TxCommitMsg):
            self.preparing.commit(message)
        else:
            self.preparing.abort(message)

    def _hear_participant(self, message: TxPrepareResponse | TxAckMsg | TxDecisionMsg) -> None:
        match message:
            case TxPrepareResponse():
                self.coordinating.vote(message)
            case TxAckMsg():
                self.coordinating.ack(message)
            case TxDecisionMsg():
                self.asking.decision(message)
            case _:
                assert_never(message)

    def _query(self, message: TxQueryMsg, sender: ShardId) -> None:
        own = self._leading.own
        if message.asker != sender or message.shard != own:
            return
        if message.coordinator == own:
            self.coordinating.query(message)
        else:
            self.asking.query(message)

    # ---- reading ---------------------------------------------------------------------------------------------------

    def _validate(self, event: Validate) -> None:
        """Whether all that was read still stands, at this moment. The driver has made sure that this leader leads."""
        leading = self._leading
        shard = leading.shard
        for read in event.reads:
            if shard.ledger.version(read.key) != read.version:
                leading.answer(event.request, Ended.CONFLICT, NO_TX, "a key has changed since it was read")
                return
        if shard.locked_by(Transaction(NO_TX, (), event.reads)) is not None:
            leading.answer(event.request, Ended.BUSY, NO_TX, "a key is locked by a transaction over several shards")
            return
        leading.answer(event.request, Ended.COMMITTED, NO_TX, height=shard.ledger.height)

    # ---- time ------------------------------------------------------------------------------------------------------

    def _tick(self) -> None:
        self.coordinating.tick()
        self.preparing.tick()
        self.asking.tick()
        self.watching.tick()
        self.committing.tick()

    def _wake(self) -> None:
        """Ask for the next tick. One that comes too early does no harm, so a later moment is not told until then."""
        leading = self._leading
        due: int | None = None
        for part in self._timed:
            at_ms = part.due_ms
            if at_ms is not None and (due is None or at_ms < due):
                due = at_ms
        if due is None:
            return
        if self._wake_ms is None or due < self._wake_ms or self._wake_ms <= leading.now_ms:
            self._wake_ms = due
            leading.effects.append(WakeAt(due))

    # ---- for status and tests --------------------------------------------------------------------------------------

    @property
    def stats(self) -> TxStats:
        """Of the coordinator, since this leader began."""
        return self.coordinating.stats

    @property
    def deadlocks(self) -> DeadlockStats | None:
        """Of the search for deadlocks; None where this shard does not search."""
        detection = self.watching.detection
        return None if detection is None else detection.stats

    def leftovers(self) -> dict[str, int]:
        """What is under way, without what there is none of; empty when nothing is."""
        leading = self._leading
        counts = {
            "locks": len(leading.locks),
            "wait_edges": len(leading.locks.waits),
            "waiting_parts": self.preparing.waiting,
            "waiting_transactions": self.committing.waiting,
            "blocks": self.committing.under_way,
            "refusals": self.committing.refusing,
            "promises": self.preparing.under_way,
            "writes": self.coordinating.under_way,
            "pending": len(self.coordinating.coordinator.pending()),
            "operators": self._operating.under_way,
            "watched": not self.watching.is_quiet,
        }
        return {name: int(count) for name, count in counts.items() if count}
