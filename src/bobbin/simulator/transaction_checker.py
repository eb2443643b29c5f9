"""T1 to T6, held to every command that is applied and every message that leaves, over all leaders and restarts.

The checker has its own memory and its own, plain idea of locks and versions. It hears three things: what a command of a
log came to, what a leader says to another shard, and what a client is told. A leader that was deposed and does not know
it yet is held to the same.

=====  ================================================================================================================
T1     of those who promised a transaction not one does it and another drops it; what it writes is there on all its
       shards or on none
T2     in the end nothing of it is left: see ``transaction_world``
T3     a commit is said only after the decision was written, an abort never after it
T4     a promise ends by what its coordinator has decided
T5     there is one decision for a transaction, for ever, whoever says it
T6     no two transactions hold one key; what has been promised is held until it is done or dropped
=====  ================================================================================================================

And the rules of commitment: what a transaction has read is what it meets, and nobody has written since it began what it
writes, other than by operations declared commutative. And everything is done once.
"""

from collections.abc import Callable, Sequence
from typing import Final, NoReturn

from bobbin.cluster.operations import Delete, Operation, Transaction, commutative_tag, lock_names, storage_key
from bobbin.cluster.shard.commands import Append, Command, Drop, Log, Outcome, Prepare, ReplaceCodebook, Resolve
from bobbin.cluster.shard.effects import Answer
from bobbin.cluster.transactions.messages import (
    ShardMessage,
    TxAbortMsg,
    TxAckMsg,
    TxCommitMsg,
    TxDecisionMsg,
    TxPrepareMsg,
    TxPrepareResponse,
    Yes,
)
from bobbin.cluster.transactions.names import ShardId, TxId
from bobbin.cluster.transactions.phases import Ended, TxPhase
from bobbin.cluster.transactions.tx_log import (
    AbortIntent,
    AllLocksReleased,
    PhaseChange,
    TxBegin,
    TxComplete,
    TxWalEntry,
)
from bobbin.simulator.transaction_order import Order, Write


class ShardMemory:
    """What the checker knows of one shard."""

    def __init__(self) -> None:
        self.promised: Final[dict[TxId, TxPrepareMsg]] = {}
        """Promised, and neither done nor dropped."""
        self.holders: Final[dict[bytes, TxId]] = {}
        """By the names that promised parts hold."""
        self.versions: Final[dict[bytes, dict[int, int]]] = {}
        """Of a storage key: by the tag of a commutative operation, or 0, the height that last wrote it so."""
        self.keys: Final[set[bytes]] = set()
        """Storage keys of everything that was ever promised or committed."""
        self.gone: Final[set[bytes]] = set()
        """Storage keys that were deleted, and are read as if they had never been there."""
        self.codebooks: Final[list[tuple[int, ReplaceCodebook]]] = []
        """Each with the height of the chain at which it came."""
        self.height = 0

    def version(self, key: bytes, besides: int = 0) -> int:
        """The height that wrote a key last; ``besides``: other than by commutative operations of this kind."""
        heights = self.versions.get(key, {})
        return max((height for tag, height in heights.items() if not besides or tag != besides), default=0)


class TransactionChecker:
    """The memory of a world."""

    def __init__(self, shards: int, fail: Callable[[str], NoReturn], *, is_forgetful: bool = False) -> None:
        """``is_forgetful``: what was dropped long ago may be promised again, and will be dropped again.

        And of what has ended everywhere and is forgotten it may be said, to a leader that was deposed before that, that
        it is aborted: nobody who counts has anything left to drop.
        """
        self._is_forgetful: Final = is_forgetful
        self.shards: Final = [ShardMemory() for _ in range(shards)]
        self.begun: Final[dict[TxId, TxBegin]] = {}
        self.decisions: Final[dict[TxId, bool]] = {}
        """As first written or said."""
        self.written: Final[set[TxId]] = set()
        """Transactions whose commit was decided durably."""
        self.outcomes: Final[dict[tuple[TxId, ShardId], bool]] = {}
        """Of those who promised: done, or dropped."""
        self.committed: Final[dict[TxId, dict[ShardId, int]]] = {}
        """By shard, the height of the block."""
        self.by_hand: Final[set[TxId]] = set()
        """Ended by an operator: T1 and T4 say nothing about these."""
        self._over: Final[set[TxId]] = set()
        """Ended, and acknowledged by all, or told for long enough."""
        self.order: Final = Order()
        self._fail: Final = fail

    # ---- what a log came to ----------------------------------------------------------------------------------------

    def applied(self, shard: ShardId, command: Command, outcome: Outcome) -> None:
        """A command was applied for the first time."""
        if outcome.kind.is_refusal:
            return
        match command:
            case Append():
                self._appended(shard, command, outcome)
            case Prepare(message=message):
                self._voted(shard, message, outcome)
            case Drop(tx=tx):
                self._dropped(shard, tx)
            case Log(entries=entries):
                for entry in entries:
                    self._logged(entry)
            case ReplaceCodebook():
                self.shards[shard].codebooks.append((outcome.height, command))
            case Resolve(tx=tx):
                self.by_hand.add(tx)
                self._free(shard, tx)

    def _appended(self, shard: ShardId, command: Append, outcome: Outcome) -> None:
        memory = self.shards[shard]
        height = command.block.header.height
        if height != memory.height + 1 or outcome.height != height:
            self._fail(f"chain: block {height} stands on {memory.height} at shard {shard}")
        memory.height = height
        refused = {(place, operation) for place, operation, _ in outcome.refusals}
        for place, transaction in enumerate(command.block.transactions):
            done = [one for at, one in enumerate(transaction.operations) if (place, at) not in refused]
            self._commit(shard, transaction, done, height)

    def _commit(self, shard: ShardId, transaction: Transaction, done: Sequence[Operation], height: int) -> None:
        """``done``: its operations without those that the state has refused."""
        tx, memory = TxId(transaction.id), self.shards[shard]
        if shard in self.committed.setdefault(tx, {}):
            self._fail(f"twice: {_short(tx)} is in the chain of shard {shard} again, at {height}")
        promise = memory.promised.get(tx)
        if promise is not None:
            if tx not in self.written and tx not in self.by_hand:
                self._fail(f"T3: {_short(tx)} is done at shard {shard} without a decision that was written")
            if promise.part != transaction:
                self._fail(f"T1: what {_short(tx)} does at shard {shard} is not what it has promised")
            self._decide_outcome(tx, shard, commits=True)
        elif tx in self.begun:
            self._fail(f"T1: {_short(tx)} is done at shard {shard}, which has not promised it")
        self._expect_unlocked(shard, transaction, "is committed")
        self._expect_first(shard, transaction, height)
        for read in transaction.reads:
            self.order.read((shard, read.key), tx, memory.version(read.key))
        for operation in done:
            key, tag = storage_key(operation), commutative_tag(operation)
            self.order.wrote((shard, key), Write(tx, height, type(operation) if tag else None))
            memory.versions.setdefault(key, {})[tag] = height
            memory.keys.add(key)
            if isinstance(operation, Delete):
                memory.gone.add(key)
            else:
                memory.gone.discard(key)
        self.committed[tx][shard] = height
        self._free(shard, tx)

    def _expect_first(self, shard: ShardId, transaction: Transaction, height: int) -> None:
        """The rules of commitment. The block's own height is what an earlier transaction of it has written."""
        memory = self.shards[shard]
        name = _short(transaction.id)
        for read in transaction.reads:
            present = 0 if read.key in memory.gone else memory.version(read.key)
            if read.version != present:
                self._fail(
                    f"T7: {name} has read version {read.version} of {read.key!r} at shard {shard}, and is committed at "
                    f"{height} on version {present}"
                )
        for operation in transaction.operations:
            key, tag = storage_key(operation), commutative_tag(operation)
            last = memory.version(key, besides=tag)
            if last > transaction.since:
                self._fail(
                    f"T7: {name} began at {transaction.since} and writes {key!r} at {height}, as somebody has at {last}"
                )

    def _voted(self, shard: ShardId, message: TxPrepareMsg, outcome: Outcome) -> None:
        memory, tx = self.shards[shard], message.tx
        if not isinstance(outcome.vote, Yes) or tx in memory.promised:
            return
        ended = self.outcomes.get((tx, shard))
        if ended or (ended is False and not self._is_forgetful):
            self._fail(f"T4: shard {shard} promises {_short(tx)} again, which has ended there")
        self._expect_unlocked(shard, message.part, "is promised")
        memory.promised[tx] = message
        memory.keys.update(storage_key(operation) for operation in message.part.operations)
        for name in lock_names(message.part):
            memory.holders[name] = tx

    def _dropped(self, shard: ShardId, tx: TxId) -> None:
        if tx not in self.shards[shard].promised:
            return
        if tx not in self.by_hand and self.decisions.get(tx, True):
            decided = "commit was decided" if tx in self.decisions else "nothing was decided"
            self._fail(f"T4: shard {shard} drops {_short(tx)}, of which {decided}")
        self._decide_outcome(tx, shard, commits=False)
        self._free(shard, tx)

    def _expect_unlocked(self, shard: ShardId, transaction: Transaction, what: str) -> None:
        holders = self.shards[shard].holders
        for name in lock_names(transaction):
            holder = holders.get(name)
            if holder is not None and holder != transaction.id:
                self._fail(
                    f"T6: {_short(transaction.id)} {what} at shard {shard} though {_short(holder)} holds {name!r}"
                )

    def _decide_outcome(self, tx: TxId, shard: ShardId, *, commits: bool) -> None:
        if tx in self.by_hand:
            return
        for other in range(len(self.shards)):
            if self.outcomes.get((tx, ShardId(other)), commits) is not commits:
                self._fail(f"T1: {_short(tx)} is done at one shard and dropped at another: {shard} and {other}")
        self.outcomes[tx, shard] = commits

    def _free(self, shard: ShardId, tx: TxId) -> None:
        memory = self.shards[shard]
        promise = memory.promised.pop(tx, None)
        if promise is not None:
            for name in lock_names(promise.part):
                del memory.holders[name]

    def _logged(self, entry: TxWalEntry) -> None:
        match entry:
            case TxBegin(tx=tx):
                if tx in self.begun:
                    self._fail(f"T5: {_short(tx)} is begun a second time")
                self.begun[tx] = entry
            case PhaseChange(tx=tx, is_now=TxPhase.COMMITTING):
                self._expect_promises(tx)
                self._decide(tx, commits=True, who="the log")
                self.written.add(tx)
            case PhaseChange(tx=tx, is_now=TxPhase.ABORTING) | AbortIntent(tx=tx):
                self._decide(tx, commits=False, who="the log")
            case TxComplete(tx=tx, commits=commits):
                self._decide(tx, commits=commits, who="the log")
                if commits:
                    self._expect_done(tx, "is called complete")
            case AllLocksReleased(tx=tx):
                self._over.add(tx)
                if self.decisions.get(tx):
                    self._expect_done(tx, "is forgotten")
            case _:
                pass

    def _expect_promises(self, tx: TxId) -> None:
        """Before a commit is decided, all participants have promised, and hold what they have promised."""
        begin = self.begun.get(tx)
        if begin is None:
            self._fail(f"T3: {_short(tx)} is decided, and was never begun")
        for shard, part in begin.parts:
            promise = self.shards[shard].promised.get(tx)
            if promise is None or promise.part != part:
                self._fail(f"T3: {_short(tx)} is to be committed, and shard {shard} has not promised it")

    def _expect_done(self, tx: TxId, what: str) -> None:
        for shard, _ in self.begun[tx].parts:
            if tx not in self.by_hand and self.outcomes.get((tx, shard)) is not True:
                self._fail(f"T1: {_short(tx)} {what}, and shard {shard} has not done it")

    def _decide(self, tx: TxId, *, commits: bool, who: str) -> None:
        """T5."""
        if self._is_forgetful and tx in self._over and not commits:
            return
        if self.decisions.setdefault(tx, commits) is not commits:
            before, now = ("abort", "commit") if commits else ("commit", "abort")
            self._fail(f"T5: {_short(tx)} was to {before}, and {who} says {now}")

    # ---- what leaders say ------------------------------------------------------------------------------------------

    def said(self, shard: ShardId, message: ShardMessage) -> None:
        """A leader, perhaps a deposed one, has let this out."""
        match message:
            case TxPrepareResponse(tx=tx, vote=Yes()):
                if tx not in self.shards[shard].promised and (tx, shard) not in self.outcomes:
                    self._fail(f"T4: shard {shard} says yes to {_short(tx)}, and that was not written")
            case TxCommitMsg(tx=tx):
                if tx not in self.written:
                    self._fail(f"T3: shard {shard} says commit of {_short(tx)}, and that was not written")
            case TxAbortMsg(tx=tx):
                self._decide(tx, commits=False, who=f"shard {shard}")
            case TxDecisionMsg(tx=tx, commits=True):
                if tx not in self.written:
                    self._fail(f"T3: shard {shard} says that {_short(tx)} commits, and that was not written")
            case TxDecisionMsg(tx=tx, commits=False):
                self._decide(tx, commits=False, who=f"shard {shard}")
            case TxAckMsg(tx=tx, success=True):
                if tx in self.shards[shard].promised:
                    self._fail(f"T2: shard {shard} acknowledges the end of {_short(tx)}, and still holds it")
            case _:
                pass

    def answered(self, shard: ShardId, answer: Answer, *, is_begun_here: bool) -> None:
        """A client is told how its transaction ended. ``is_begun_here``: one over several shards.

        That a shard is busy is no decision: a deposed leader may say it of what its successor commits.
        """
        tx = answer.tx
        if is_begun_here:
            if answer.ended is Ended.COMMITTED:
                if tx not in self.written:
                    self._fail(f"T3: a client hears that {_short(tx)} is committed, and that was not written")
            elif tx in self.begun and answer.ended not in {Ended.BUSY, Ended.FORGOTTEN}:
                self._decide(tx, commits=False, who=f"the answer of shard {shard}")

    # ---- in the end ------------------------------------------------------------------------------------------------

    def expect_rest(self) -> None:
        """T1 and T2, when nothing is under way any more."""
        for shard, memory in enumerate(self.shards):
            if memory.promised:
                self._fail(f"T2: in the end shard {shard} still holds {[_short(tx) for tx in memory.promised]}")
        for tx, begin in self.begun.items():
            if tx in self.by_hand:
                continue
            done = [shard for shard, part in begin.parts if shard in self.committed.get(tx, {})]
            wanted = [shard for shard, part in begin.parts if part.operations] if tx in self.written else []
            if not set(wanted) <= set(done) or (done and tx not in self.written):
                self._fail(f"T1: {_short(tx)} was to be done at {wanted}, and was at {done}")


def _short(tx: bytes) -> str:
    return tx[8:12].hex()
