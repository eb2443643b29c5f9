"""Parts of transactions over several shards, at one of the shards that take part.

=====================  =============================================================================================
what comes             what is done
=====================  =============================================================================================
a prepare              all its keys are locked under one handle, or it waits for them, or the vote is no; then the
                       promise goes into the log, and what the state says of it when it is applied is the vote
a decision to commit   the promised part goes into the next block; when that is applied, it is acknowledged
a decision to abort    the promise is dropped through the log; when that is applied, it is acknowledged
=====================  =============================================================================================

**Nothing is said before it is applied** but a no: a yes is in a quorum's logs, and so is what is acknowledged. The lock
table of a leader is a convenience, for the state locks the same keys again when the promise is applied. It is what
makes others wait before that.

**A leader may have been replaced without knowing it.** What such a one does not know, it must not deny: a commit of a
part that the state does not have was done before, if this leader leads; so first an empty entry goes through the log.

**Waiting.** Who waits has nothing locked and stands in the wait graph. Whenever something is released, all who wait ask
again, in the order in which they came. With wound-wait, an older transaction has the younger ones in its way aborted by
their coordinators; a younger one waits. Older is who was first tried earlier, by the owners' clocks: retries keep it.
"""

from collections import OrderedDict
from typing import Final

from msgspec import Struct

from bobbin.cluster.operations import lock_names
from bobbin.cluster.shard.checking import shown, why_prepare_refused
from bobbin.cluster.shard.commands import Drop, Kind, Log, Outcome, Prepare
from bobbin.cluster.shard.committing import Committing
from bobbin.cluster.shard.leading import Leading
from bobbin.cluster.shard.rivals import kinds
from bobbin.cluster.transactions.locks import LockRefused
from bobbin.cluster.transactions.messages import (
    Conflict,
    No,
    PrepareVote,
    TxAbortMsg,
    TxAckMsg,
    TxCommitMsg,
    TxPrepareMsg,
    TxPrepareResponse,
    VictimMsg,
    Yes,
)
from bobbin.cluster.transactions.names import ShardId, TxId

WAITING_MAX: Final = 10_000
"""Parts that wait for keys."""
ABORTED_MAX: Final = 4_096
"""Aborts that are remembered for prepares that come late, beside those of the state."""
WOUND_AGAIN_MS: Final = 1_000


class WaitingPart(Struct):
    """A part that waits for keys."""

    message: TxPrepareMsg
    names: tuple[bytes, ...]
    started_ms: int
    deadline_ms: int
    wounded_ms: int | None = None
    """When it last asked for others to be aborted."""


class Preparing:
    """The parts of one leader."""

    def __init__(self, leading: Leading, committing: Committing) -> None:
        self.votes: dict[str, int] = {"yes": 0, "no": 0, "conflict": 0}
        """Said since this leader began."""
        self._leading: Final = leading
        self._committing: Final = committing
        self._waiting: dict[TxId, WaitingPart] = {}
        """In the order in which they came."""
        self._proposed: dict[TxId, TxPrepareMsg] = {}
        """Promises on their way to the log; their keys are locked here."""
        self._by_proposal: dict[int, TxId] = {}
        self._drops: dict[TxId, set[ShardId]] = {}
        """Being dropped, with the coordinators that want to know."""
        self._commits: dict[TxId, set[ShardId]] = {}
        """Decided to be committed, likewise."""
        self._proofs: dict[int, list[TxCommitMsg]] = {}
        """Commits of parts that the state does not have, until this leader is proven to lead. One proof at a time."""
        self._unproven: list[TxCommitMsg] = []
        """Those that came after the proof under way was proposed; it says nothing of them."""
        self._aborted: OrderedDict[TxId, None] = OrderedDict()
        self._is_asking = False
        """A pass over all who wait is under way."""
        self._ask_once_more = False
        """Something was released meanwhile."""
        for tx, promise in leading.shard.participant.promises.items():
            if promise.resolution is not None:
                self._commits[tx] = set()
                committing.commit_part(promise.message.part)

    # ---- prepare ---------------------------------------------------------------------------------------------------

    def prepare(self, message: TxPrepareMsg) -> None:
        """Lock, check and promise a part, or vote against it."""
        leading, tx = self._leading, message.tx
        shard = leading.shard
        wrong = why_prepare_refused(message, shard=leading.own, shards=leading.shards, dimension=leading.dimension)
        if wrong is not None:
            if 0 <= message.coordinator < leading.shards:
                self._vote(message, No(wrong, is_final=True))
            return
        if tx in self._waiting or tx in self._proposed:
            return  # It came twice, and is voted on once.
        promise = shard.participant.promises.get(tx)
        if promise is not None:
            if promise.message == message:
                self._vote(message, promise.vote)
            return
        if tx in self._aborted or shard.participant.ended(tx) is not None or shard.committed_at(tx) is not None:
            self._vote(message, No("this transaction has ended here", is_final=True))
            return
        self._lock(message, lock_names(message.part))

    def _lock(self, message: TxPrepareMsg, names: tuple[bytes, ...]) -> None:
        leading, tx = self._leading, message.tx
        waits = leading.config.lock_wait and len(self._waiting) < WAITING_MAX
        if not waits:
            taken = leading.locks.try_lock(tx, names, leading.now_ms)
            if isinstance(taken, LockRefused):
                self._vote(message, No(self._in_the_way(names, taken)))
                return
            self._propose(message)
            return
        part = WaitingPart(message, names, leading.now_ms, leading.now_ms + message.timeout_ms)
        self._waiting[tx] = part
        self._try_waiting(tx, part)

    def _try_waiting(self, tx: TxId, part: WaitingPart) -> None:
        leading, message = self._leading, part.message
        taken = leading.locks.lock_or_wait(
            tx,
            part.names,
            leading.now_ms,
            started_ms=part.started_ms,
            born_ms=message.part.born_ms,
            priority=message.part.priority,
        )
        if not isinstance(taken, LockRefused):
            del self._waiting[tx]
            self._propose(message)
        elif leading.config.wound_wait:
            self._wound(part, taken)

    def _in_the_way(self, names: tuple[bytes, ...], refused: LockRefused) -> str:
        holder = refused.blockers[0]
        key = next(name for name in names if self._leading.locks.owner(name) == holder)
        return f"the key {shown(key)} is locked by transaction {holder.hex()}"

    def _wound(self, part: WaitingPart, refused: LockRefused) -> None:
        """Have the younger ones in the way aborted; again after a while, for messages get lost."""
        leading, own = self._leading, part.message
        if part.wounded_ms is not None and leading.now_ms - part.wounded_ms < WOUND_AGAIN_MS:
            return
        for blocker in refused.blockers:
            other = self._message_of(blocker)
            if other is not None and (own.part.born_ms, own.tx) < (other.part.born_ms, other.tx):
                part.wounded_ms = leading.now_ms
                victim = VictimMsg(blocker, other.coordinator, f"older transaction {own.tx.hex()} wants its keys")
                leading.send(other.coordinator, victim)

    def _message_of(self, tx: TxId) -> TxPrepareMsg | None:
        proposed = self._proposed.get(tx)
        if proposed is not None:
            return proposed
        promise = self._leading.shard.participant.promises.get(tx)
        return None if promise is None else promise.message

    def _propose(self, message: TxPrepareMsg) -> None:
        """The keys are locked: look at what can be known now, and let the state decide."""
        leading = self._leading
        against = self._why_against(message)
        if against is not None:
            self._release(message.tx)
            self._vote(message, against)
            return
        self._proposed[message.tx] = message
        self._by_proposal[leading.propose(Prepare(message))] = message.tx

    def _why_against(self, message: TxPrepareMsg) -> No | Conflict | None:
        leading, part = self._leading, message.part
        shard = leading.shard
        if self._committing.is_local(message.tx) or shard.committed_at(message.tx) is not None:
            return No("a transaction of this shard alone has this id", is_final=True)
        if part.since > shard.ledger.height:
            return No(f"began at height {part.since}, above all that this leader knows of")
        clash = shard.ledger.clash(part)
        if clash is not None:
            return shard.vote_against(part, clash)
        rival = shard.rival(part, kinds(part)) if leading.config.optimistic_locking else None
        if rival is not None:
            return Conflict(rival.similarity, rival.other, "too much like another change of the same key")
        return None

    def prepared(self, proposal: int | None, message: TxPrepareMsg, outcome: Outcome) -> None:
        """The state has promised or refused."""
        if proposal is not None:
            self._by_proposal.pop(proposal, None)
        tx = message.tx
        self._proposed.pop(tx, None)
        assert outcome.vote is not None, "a prepare is voted on"
        if isinstance(outcome.vote, Yes):
            self._hold(tx, outcome.vote)
        elif tx not in self._leading.shard.participant.promises:
            self._release(tx)
        if tx in self._drops:
            self._propose_drop(tx)
        else:
            self._vote(message, outcome.vote)

    def _hold(self, tx: TxId, vote: Yes) -> None:
        """The state has locked its keys: so they are, whoever has come in between because the promise was late."""
        locks = self._leading.locks
        while isinstance(refused := locks.try_lock(tx, vote.keys, self._leading.now_ms), LockRefused):
            for other in refused.blockers:
                locks.release(other)
        locks.mark_promised(tx)

    def lost(self, proposal: int) -> None:
        """A promise, a drop or a proof never came to the log."""
        tx = self._by_proposal.pop(proposal, None)
        if self._proofs.pop(proposal, None) is not None:
            self._prove_next()
        if tx is None:
            return
        message = self._proposed.pop(tx, None)
        if message is None:
            self._drops.pop(tx, None)  # The abort comes again.
            return
        self._release(tx)
        coordinators = self._drops.pop(tx, None)
        if coordinators is None:
            self._vote(message, No("the promise could not be written"))

    def _vote(self, message: TxPrepareMsg, vote: PrepareVote) -> None:
        self.votes[type(vote).__name__.lower()] += 1
        self._leading.send(message.coordinator, TxPrepareResponse(message.tx, self._leading.own, vote))

    # ---- decisions -------------------------------------------------------------------------------------------------

    def commit(self, message: TxCommitMsg) -> None:
        """It is decided: the promised part goes into the next block."""
        leading, tx = self._leading, message.tx
        shard = leading.shard
        promise = shard.participant.promises.get(tx)
        if promise is not None:
            if tx in self._drops:
                leading.alarm("decision", f"transaction {tx.hex()} was told to be dropped, and now to be committed")
                return
            self._commits.setdefault(tx, set()).add(message.coordinator)
            self._committing.commit_part(promise.message.part)
            self._committing.flush()
            return
        ended = shard.participant.ended(tx)
        if ended is not None and not ended.commits:
            wrong = "it was ended by hand" if ended.heuristic is not None else "it was dropped"
            leading.alarm("decision", f"transaction {tx.hex()} is to be committed; {wrong}")
            leading.send(message.coordinator, TxAckMsg(tx, leading.own, success=False, error=wrong))
        elif ended is not None or shard.committed_at(tx) is not None:
            leading.send(message.coordinator, TxAckMsg(tx, leading.own, success=True))
        else:
            self._prove(message)

    def _prove(self, message: TxCommitMsg) -> None:
        if any(message in waiting for waiting in self._proofs.values()) or message in self._unproven:
            return
        if len(self._unproven) < WAITING_MAX:  # Otherwise it is told again.
            self._unproven.append(message)
        self._prove_next()

    def _prove_next(self) -> None:
        if self._unproven and not self._proofs:
            unproven, self._unproven = self._unproven, []
            self._proofs[self._leading.propose(Log(()))] = unproven

    def proven(self, proposal: int) -> None:
        """This leader has led: what its state did not know was done and forgotten, or is known by now."""
        leading = self._leading
        for message in self._proofs.pop(proposal, ()):
            shard, tx = leading.shard, message.tx
            if tx in shard.participant.promises or shard.participant.ended(tx) is not None:
                self.commit(message)
            else:
                leading.send(message.coordinator, TxAckMsg(tx, leading.own, success=True))
        self._prove_next()

    def abort(self, message: TxAbortMsg) -> None:
        """It is decided: nothing of it may stay. Noted in the state, so that a late prepare finds it."""
        leading, tx = self._leading, message.tx
        self._remember_aborted(tx)
        if self._waiting.pop(tx, None) is not None:
            self._release(tx)
        participant = leading.shard.participant
        ended, promise = participant.ended(tx), participant.promises.get(tx)
        if ended is not None and not ended.commits and ended.heuristic is None:
            leading.send(message.coordinator, TxAckMsg(tx, leading.own, success=True))
            return
        is_by_hand = (ended is not None and ended.heuristic is not None) or (
            promise is not None and promise.resolution is not None
        )
        if not is_by_hand and (self._committing.is_on_its_way(tx) or leading.shard.committed_at(tx) is not None):
            leading.alarm("decision", f"transaction {tx.hex()} was committed, and now is to be dropped")
            return
        is_new = tx not in self._drops
        self._drops.setdefault(tx, set()).add(message.coordinator)
        if is_new and tx not in self._proposed:
            self._propose_drop(tx)

    def drop(self, tx: TxId, coordinator: ShardId) -> None:
        """The same, learnt by asking."""
        self.abort(TxAbortMsg(tx, coordinator, self._leading.own, "asked"))

    def _propose_drop(self, tx: TxId) -> None:
        self._by_proposal[self._leading.propose(Drop(tx))] = tx

    def dropped(self, proposal: int | None, tx: TxId) -> None:
        """Nothing of it is in the state any more."""
        if proposal is not None:
            self._by_proposal.pop(proposal, None)
        leading = self._leading
        coordinators = self._drops.pop(tx, set())
        if tx not in leading.shard.participant.promises:
            self._release(tx)
            ended = leading.shard.participant.ended(tx)
            is_torn = ended is not None and ended.commits
            for coordinator in sorted(coordinators):
                error = "it was committed here" if is_torn else ""
                leading.send(coordinator, TxAckMsg(tx, leading.own, success=not is_torn, error=error))

    def done(self, tx: TxId) -> None:
        """A promised part is in the applied state: unlock it, and tell whoever decided it."""
        leading = self._leading
        self._release(tx)
        for coordinator in sorted(self._commits.pop(tx, set())):
            leading.send(coordinator, TxAckMsg(tx, leading.own, success=True))

    def resolved(self, tx: TxId, outcome: Outcome) -> None:
        """An operator has ended a promise by hand."""
        leading = self._leading
        if outcome.kind is not Kind.RESOLVED:
            return
        leading.alarm("heuristic", f"transaction {tx.hex()} was ended by hand")
        promise = leading.shard.participant.promises.get(tx)
        if promise is None:
            self._commits.pop(tx, None)
            self._release(tx)
        else:
            self._commits.setdefault(tx, set())
            self._committing.commit_part(promise.message.part)
            self._committing.flush()

    # ---- locks and waits -------------------------------------------------------------------------------------------

    def _release(self, tx: TxId) -> None:
        """Let go of all that it has locked here; whoever waits asks again."""
        if self._leading.locks.release(tx):
            self._ask_again()

    def _ask_again(self) -> None:
        """Whoever waits may have its keys now. Who is voted against in a pass releases them: there is another one."""
        self._ask_once_more = True
        if self._is_asking:
            return
        self._is_asking = True
        while self._ask_once_more:
            self._ask_once_more = False
            for tx, part in list(self._waiting.items()):
                if tx in self._waiting:
                    self._try_waiting(tx, part)
        self._is_asking = False
        self._committing.flush()

    def _remember_aborted(self, tx: TxId) -> None:
        self._aborted[tx] = None
        self._aborted.move_to_end(tx)
        while len(self._aborted) > ABORTED_MAX:
            self._aborted.popitem(last=False)

    def tick(self) -> None:
        """Time has passed: nobody waits for ever, and what was never promised is not locked for ever."""
        leading = self._leading
        for tx, part in list(self._waiting.items()):
            if leading.now_ms >= part.deadline_ms and self._waiting.pop(tx, None) is not None:
                self._release_wait(tx)
                self._vote(part.message, No("its keys were locked for too long"))
        if leading.config.wound_wait:
            for tx, part in list(self._waiting.items()):
                if tx in self._waiting:
                    self._try_waiting(tx, part)
        if leading.locks.cleanup_expired(leading.now_ms):
            self._ask_again()

    def _release_wait(self, tx: TxId) -> None:
        self._leading.locks.waits.stop_waiting(tx)

    @property
    def due_ms(self) -> int | None:
        """When a tick is wanted."""
        leading = self._leading
        due = min((part.deadline_ms for part in self._waiting.values()), default=None)
        if due is not None and leading.config.wound_wait:
            due = min(due, leading.now_ms + WOUND_AGAIN_MS)
        if self._proposed:
            expires = leading.now_ms + leading.config.lock_timeout_ms
            due = expires if due is None else min(due, expires)
        return due

    def coordinator_of(self, tx: TxId) -> ShardId:
        """Of a part that waits: where it can be aborted."""
        return self._waiting[tx].message.coordinator

    @property
    def waiting(self) -> int:
        return len(self._waiting)

    @property
    def under_way(self) -> int:
        """Promises, drops and proofs that were proposed and not heard of."""
        return len(self._by_proposal) + len(self._proofs)
