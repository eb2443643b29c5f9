"""How a leader puts transactions into blocks, and blocks into the log.

Transactions that ask to commit wait until a block is made. The first block goes at once; as long as one is on its way,
the next one is made when ``max_merge_batch`` transactions go into it, when it is full, or when nothing is on its way.
So a lone client never waits for company, and many clients share blocks. A block that is made rests on those that are on
their way: its changes are worked out on top of theirs, which are not in the store yet.

**How many share a block.** Transactions that move vectors are merged: the header has the sum of their changes, and the
more of them it has, the less it says. So ``max_merge_batch`` of them share a block at most. Those that move none have
nothing to merge, and as many as there is room for go along.

**What is said.** COMMITTED is said only of what is in the applied state. CONFLICT is said only where the applied state
refuses a transaction, for ever; one that is in the way of a block still under way waits until that block is applied or
lost, and is looked at again. All that this leader remembers may be lost at any moment: a repeated commit finds its id
in the state, or is a new one. REFUSED for the sake of the codebook is said once that is in the log (``refusing``).

**When a block is lost** or found to be stale, so is everything that rests on it: the drafts are dropped, and each
transaction is tried again when its own block has come back. After ``TRIES_MAX`` the client is told to do that itself.

Promised parts whose commit was decided go into the next block like the others, and are tried for ever.
"""

from collections.abc import Sequence
from typing import Final

from msgspec import Struct

from bobbin.cluster.chain.draft import Clash, ClashKind, Draft
from bobbin.cluster.chain.judging import TRANSACTIONS_MAX
from bobbin.cluster.conflicts.classify import Thresholds
from bobbin.cluster.conflicts.delta import DeltaVector
from bobbin.cluster.conflicts.merging import may_deduplicate
from bobbin.cluster.conflicts.of_operations import delta_of
from bobbin.cluster.operations import (
    Transaction,
    lock_names,
)
from bobbin.cluster.shard.checking import ended_by, why_transaction_refused
from bobbin.cluster.shard.commands import Append, Kind, Outcome
from bobbin.cluster.shard.effects import Answer
from bobbin.cluster.shard.events import Commit
from bobbin.cluster.shard.leading import Leading
from bobbin.cluster.shard.refusing import Refusing
from bobbin.cluster.shard.rivals import compare, shared_key
from bobbin.cluster.shard.sharing import Sharing
from bobbin.cluster.shard.waiting import Waiting
from bobbin.cluster.transactions.names import ShardId, TxId, first_id, since_of
from bobbin.cluster.transactions.phases import Ended

FLIGHTS_MAX: Final = 16
"""Blocks on their way to being applied."""
WAITING_MAX: Final = 10_000
"""Transactions that wait for a block."""
REQUESTS_MAX: Final = 16
"""That wait for the same transaction."""
TRIES_MAX: Final = 5
BLOCK_BYTES_MAX: Final = 1_048_576
"""Of the operations and reads of a block with more than one transaction; the log takes no command of any size."""
RETRY_MS: Final = 100
"""Before blocks are made again after one was refused."""
COMPARED_MAX: Final = 16
"""Of those that share a key with a transaction, how many it is compared with before one block."""


class Flight(Struct, frozen=True):
    """A block on its way."""

    draft: Draft
    aboard: tuple[Waiting, ...]


class _Standing(Struct, frozen=True):
    """What transactions that come together find; it is looked at once for all of them."""

    shard: ShardId
    dimension: int
    height: int
    floor: int
    first_id: bytes
    """Of the floor: no id that was made there or above is below it."""
    first_id_above: bytes
    """Of what is above the height: all ids that were made up to there are below it."""
    newest_id: int
    has_parts: bool
    """Whether any transaction over several shards is, or was, known here."""
    deadline_ms: int
    """By when each of them has to have found its keys free."""


class Committing:
    """Blocks of one leader."""

    def __init__(self, leading: Leading) -> None:
        self.is_paused = False
        """While a codebook is being replaced: a block of the old version behind it would be refused."""
        self.blocks = 0
        """Made since this leader began, like the next ones."""
        self.committed = 0
        self.conflicts = 0
        self._leading: Final = leading
        self._room: Final = leading.shard.config.max_transactions
        """So many operations go into a block."""
        self._merge: Final = leading.shard.config.auto_merge
        self._company: Final = self._merge.max_merge_batch if self._merge.enabled else 1
        """So many make a block worth while that follows another one under way; and so many are merged at most."""
        self._transactions_max: Final = TRANSACTIONS_MAX if self._merge.enabled else 1
        self._thresholds: Final = Thresholds(conflicting=leading.shard.config.conflict_threshold)
        self._waiting: dict[TxId, Waiting] = {}
        self._flights: dict[int, Flight] = {}
        """By the number of their proposal, in the order in which they were made."""
        self._tail: Draft | None = None
        """The last block under way; the next one rests on it."""
        self._aboard: dict[TxId, Waiting] = {}
        """In blocks under way."""
        self._aboard_by_key: Final[Sharing[Waiting]] = Sharing()
        """The same by affected key."""
        self._refusing: Final = Refusing(leading)
        self._held: list[Waiting] = []
        """Those that something under way is in the way of."""
        self._is_full = False
        """Whether nobody else had room in the batch that was chosen last."""
        self._retry_ms: int | None = None

    # ---- what comes ------------------------------------------------------------------------------------------------

    def commit(self, event: Commit) -> None:
        """A client wants a transaction of this shard alone."""
        self._take(event, self._standing())
        self.flush()

    def commit_all(self, events: Sequence[Commit]) -> None:
        """Many clients want one each. None of them goes alone because it came first."""
        standing = self._standing()
        for event in events:
            self._take(event, standing)
        self.flush()

    def _standing(self) -> "_Standing":
        shard, locks = self._leading.shard, self._leading.locks
        participant, ledger = shard.participant, shard.ledger
        return _Standing(
            shard=self._leading.own,
            dimension=self._leading.dimension,
            height=ledger.height,
            floor=ledger.floor,
            first_id=first_id(ledger.floor),
            first_id_above=first_id(ledger.height + 1),
            newest_id=shard.newest_id,
            has_parts=bool(participant.promises or participant.has_ended or len(locks) or len(locks.waits)),
            deadline_ms=self._leading.now_ms + self._leading.config.prepare_timeout_ms,
        )

    def _take(self, event: Commit, standing: "_Standing") -> None:
        leading, transaction, request = self._leading, event.transaction, event.request
        tx = TxId(transaction.id)
        known = self._known(tx)
        if known is not None:
            self._join(known, event)
            return
        height = leading.shard.committed_at(tx)
        refused = self._why_refused(transaction, standing, is_committed=height is not None)
        if refused is not None:
            ended, reason = refused
            leading.answer(request, ended, tx, reason)
        elif height is not None:
            self._answer_again(event, tx)
        elif len(self._waiting) >= WAITING_MAX:
            leading.answer(request, Ended.BUSY, tx, f"{WAITING_MAX} transactions wait for a block")
        else:
            waiting = self._waiting[tx] = Waiting(transaction, is_part=False, deadline_ms=standing.deadline_ms)
            waiting.requests.append(request)

    def _answer_again(self, event: Commit, tx: TxId) -> None:
        """Somebody asks for what was committed."""
        done = self._leading.shard.committed(tx)
        assert done is not None, "its height is known"
        # One that was answered by an equal one stands in its block without operations.
        if done.operations in ((), event.transaction.operations):
            self._answer_committed(event.request, tx)
        else:
            self._leading.answer(event.request, Ended.REFUSED, tx, "another transaction has this id")

    def _join(self, known: Waiting, event: Commit) -> None:
        tx = known.tx
        if known.is_part or known.transaction != event.transaction:
            self._leading.answer(event.request, Ended.REFUSED, tx, "another transaction has this id")
        elif len(known.requests) >= REQUESTS_MAX:
            self._leading.answer(event.request, Ended.BUSY, tx, "it is on its way, and many wait for it")
        else:
            known.requests.append(event.request)

    def is_local(self, tx: TxId) -> bool:
        """Whether a transaction of this shard alone, with this id, waits for a block or is on its way in one."""
        known = self._known(tx)
        return known is not None and not known.is_part

    def _known(self, tx: TxId) -> Waiting | None:
        return self._waiting.get(tx) or self._aboard.get(tx) or self._refusing.find(tx)

    def _why_refused(
        self, transaction: Transaction, standing: "_Standing", *, is_committed: bool
    ) -> tuple[Ended, str] | None:
        wrong = why_transaction_refused(
            transaction, shard=standing.shard, shards=self._leading.shards, dimension=standing.dimension
        )
        if wrong is not None:
            return Ended.REFUSED, wrong
        if len(transaction.operations) > self._room:
            return Ended.REFUSED, f"a block has at most {self._room} operations"
        if is_committed:
            return None
        height, floor, seen = standing.height, standing.floor, transaction.since
        is_lone = not (transaction.reads or standing.has_parts)
        if is_lone and floor <= seen <= height and standing.first_id <= transaction.id < standing.first_id_above:
            return None  # as most are, and as what follows would find
        tx = TxId(transaction.id)
        if standing.has_parts and self._is_of_part(tx):
            ended = self._leading.shard.participant.ended(tx)
            if ended is not None and not ended.commits:
                return Ended.REFUSED, "its id has ended here: it was refused, or dropped as a part over several shards"
            return Ended.REFUSED, "a transaction over several shards has this id"
        made = since_of(tx)
        if made < floor or seen < floor:
            return Ended.FORGOTTEN, f"it began below height {floor}, and what was committed up to there is forgotten"
        if transaction.reads:
            seen = max(seen, *[read.version for read in transaction.reads])
        if seen > height or (made > height and made > standing.newest_id):
            # A leader that has been replaced without knowing it may be behind its clients.
            return Ended.BUSY, f"it began above height {height}, which is all that this leader knows of"
        return None

    def _is_of_part(self, tx: TxId) -> bool:
        """Whether a part of a transaction over several shards has this id."""
        participant, locks = self._leading.shard.participant, self._leading.locks
        is_open = tx in participant.promises or locks.count(tx) > 0 or tx in locks.waits.edges
        return is_open or participant.ended(tx) is not None

    def commit_part(self, part: Transaction) -> None:
        """A promised part was decided to be committed; heard again when it is in the applied state."""
        tx = TxId(part.id)
        if tx not in self._waiting and tx not in self._aboard:
            self._waiting[tx] = Waiting(part, is_part=True, deadline_ms=0)

    def is_on_its_way(self, tx: TxId) -> bool:
        """Whether a transaction waits for a block or is in one under way."""
        return tx in self._waiting or tx in self._aboard

    def forget_tail(self) -> None:
        """Blocks that are made from now on rest on the applied state alone."""
        self._tail = None

    # ---- blocks ----------------------------------------------------------------------------------------------------

    def flush(self) -> None:
        """Make the blocks that can be made now."""
        while self._waiting and not self.is_paused and self._retry_ms is None and len(self._flights) < FLIGHTS_MAX:
            if self._flights and len(self._waiting) < self._company:
                return
            batch = self._choose()
            if not batch or (self._flights and not self._is_full and len(batch) < self._company):
                return
            self._make_block(batch)

    def _choose(self) -> list[tuple[Waiting, Transaction]]:
        """Who shares the next block, in the order in which they came, each with what stands for it in there."""
        self._is_full = False
        batch: list[tuple[Waiting, Transaction]] = []
        taken: Sharing[Waiting] | None = Sharing()
        operations = size = moving = 0
        has_locks = len(self._leading.locks) > 0
        queue = list(self._waiting.values())
        height = self._leading.shard.ledger.height
        if not self._aboard and len(queue) <= self._transactions_max and _are_apart(queue):
            taken = None
        for waiting in queue:
            if waiting.is_held or (has_locks and not self._is_free(waiting)):
                continue
            more, bytes_more = len(waiting.transaction.operations), waiting.size
            if batch and (
                operations + more > self._room
                or size + bytes_more > BLOCK_BYTES_MAX
                or (waiting.moves_vectors and moving == self._company)
            ):
                self._is_full = True
                break
            chosen: Transaction | None = waiting.transaction
            # Where nobody else is at its keys, and nothing was committed since it began, nothing is in its way.
            if not (waiting.is_part or (taken is None and waiting.transaction.since == height)):
                chosen = self._fit(waiting, taken)
            if chosen is None:
                continue
            operations += more
            size += bytes_more
            moving += waiting.moves_vectors
            batch.append((waiting, chosen))
            if taken is not None:
                taken.add(waiting)
            if len(batch) >= self._transactions_max:
                self._is_full = True
                break
        return batch

    def _is_free(self, waiting: Waiting) -> bool:
        """Whether no part of another transaction has locked its keys; else its client may be told so."""
        leading = self._leading
        if waiting.is_part or not len(leading.locks):
            return True
        if all(leading.locks.owner(name) in (None, waiting.tx) for name in lock_names(waiting.transaction)):
            return True
        if not leading.config.lock_wait or leading.now_ms >= waiting.deadline_ms:
            self._end(waiting, Ended.BUSY, "a key is locked by a transaction over several shards")
        return False

    def _fit(self, waiting: Waiting, taken: Sharing[Waiting] | None) -> Transaction | None:
        """What goes into the block beside those that were taken; None if it goes into none for now.

        ``taken`` is None where nobody touches a key that somebody else touches who waits or is under way.
        Many may want one key, so what is looked at here is bounded: by whom it is compared with, and by hearing at once
        of what the applied state refuses anyway.
        """
        leading, transaction = self._leading, waiting.transaction
        others = () if taken is None else taken.in_the_way_of(waiting)
        if others:
            final = leading.shard.ledger.clash(transaction)
            if final is not None:
                self._end_by(waiting, final)
                return None
            for other in others[:COMPARED_MAX]:
                if not other.is_part and self._is_answered_by(transaction, other.transaction):
                    # It stands in the block with its id, and changes what the other one has changed already.
                    return Transaction(
                        transaction.id, (), (), transaction.since, transaction.born_ms, transaction.priority
                    )
                if self._is_in_the_way(other, waiting):
                    return None
            if len(others) > COMPARED_MAX:
                return None
        aboard = self._aboard_by_key.in_the_way_of(waiting) if self._aboard else ()
        if aboard and (len(aboard) > COMPARED_MAX or any(self._is_in_the_way(other, waiting) for other in aboard)):
            self._hold(waiting)
            return None
        if leading.config.optimistic_locking:
            rival = leading.shard.rival(transaction, waiting.kinds)
            if rival is not None:
                reason = f"too much like what transaction {rival.other.hex()} has changed"
                self._end(waiting, Ended.CONFLICT, reason, similarity=rival.similarity, other=rival.other)
                return None
        return transaction

    def _is_in_the_way(self, other: Waiting, waiting: Waiting) -> bool:
        """Whether one cannot follow another one that is not applied: by what both write, or as too much alike."""
        if shared_key(waiting.writes, other.writes) is not None:
            return True
        return self._leading.config.optimistic_locking and self._is_rival(waiting, other)

    def _is_answered_by(self, transaction: Transaction, other: Transaction) -> bool:
        """Whether the other one does all that this one would, which could commit by itself as well."""
        if not may_deduplicate(transaction, other):
            return False
        self._drop_stale_tail()
        return self._leading.shard.ledger.clash(transaction, on=self._tail) is None

    def _drop_stale_tail(self) -> None:
        if self._tail is not None and not self._leading.shard.ledger.stands(self._tail):
            self._tail = None

    def _is_rival(self, waiting: Waiting, other: Waiting) -> bool:
        key = shared_key(waiting.kinds, other.kinds)
        if key is None:
            return False
        return compare(self._delta(waiting), self._delta(other), key, self._thresholds) is not None

    def _delta(self, waiting: Waiting) -> DeltaVector:
        if waiting.delta is None:
            transaction, leading = waiting.transaction, self._leading
            waiting.delta = delta_of(transaction.operations, leading.shard.vector, leading.dimension, tx=transaction.id)
        return waiting.delta

    def _make_block(self, batch: list[tuple[Waiting, Transaction]]) -> None:
        leading = self._leading
        shard = leading.shard
        self._drop_stale_tail()
        draft = shard.ledger.draft(
            [transaction for _, transaction in batch],
            proposer=leading.identity.node,
            timestamp_ms=leading.wall_ms,
            on=self._tail,
            promised=shard.participant.promises,
            are_valid=True,
        )
        clashing = dict(draft.clashes)
        for at, clash in clashing.items():
            self._clash(batch[at][0], clash)
        if clashing and any(transaction is not waiting.transaction for waiting, transaction in batch):
            # Somebody may stand in there for one that is left out. All others are tried again, each for itself.
            return
        aboard = tuple(waiting for at, (waiting, _) in enumerate(batch) if at not in clashing)
        if not aboard:
            return
        block = shard.ledger.seal(draft, leading.identity)
        shard.keep(draft)
        self._tail = draft
        self.blocks += 1
        by_id = {waiting.tx: waiting for waiting in aboard}
        for tx in by_id:
            del self._waiting[tx]
        self._aboard |= by_id
        self._aboard_by_key.add_all(by_id)
        self._flights[leading.propose(Append(block))] = Flight(draft, aboard)

    def _leave(self, waiting: Waiting) -> None:
        del self._aboard[waiting.tx]
        self._aboard_by_key.remove(waiting)

    def _clash(self, waiting: Waiting, clash: Clash) -> None:
        """Tell the client if the applied state says so; what is only under way may never be applied."""
        if waiting.is_part:
            self._hold(waiting)
            self._leading.alarm("promise", f"the promised transaction {waiting.tx.hex()} does not fit: {clash.reason}")
            return
        final = self._leading.shard.ledger.clash(waiting.transaction)
        if final is None:
            self._hold(waiting)
        else:
            self._end_by(waiting, final)

    def _end_by(self, waiting: Waiting, final: Clash) -> None:
        """The applied state refuses it: for ever by itself, or by what is written down about it."""
        if final.kind is ClashKind.MEANING:
            del self._waiting[waiting.tx]
            self._refusing.refuse(waiting, final.reason)
        else:
            self._end(waiting, ended_by(final), final.reason)

    # ---- what became of them ---------------------------------------------------------------------------------------

    def applied(self, proposal: int | None, outcome: Outcome) -> list[TxId]:
        """A block was applied, or refused by the state. The promised parts that are done with it."""
        flight = self._flights.pop(proposal, None) if proposal is not None else None
        if flight is None:
            return []
        done: list[TxId] = []
        if outcome.kind is Kind.APPENDED:
            effects, height = self._leading.effects, flight.draft.height
            for waiting in flight.aboard:
                self._leave(waiting)
                tx = waiting.tx
                if waiting.is_part:
                    done.append(tx)
                for request in waiting.requests:
                    if outcome.refusals:
                        self._answer_committed(request, tx)
                    else:
                        effects.append(Answer(request, Ended.COMMITTED, tx, height))
            self.committed += len(flight.aboard)
        else:
            self._put_back(flight)
        self._release_held()
        return done

    def dropped(self, proposal: int | None) -> None:
        """What was to be refused for good may be so by now."""
        self._refusing.dropped(proposal)

    def lost(self, proposal: int) -> None:
        """A block, or a refusal, will never be applied."""
        self._refusing.lost(proposal)
        flight = self._flights.pop(proposal, None)
        if flight is not None:
            self._put_back(flight)
            self._release_held()

    def _put_back(self, flight: Flight) -> None:
        leading = self._leading
        leading.shard.drop_drafts()
        self._tail = None
        again: dict[TxId, Waiting] = {}
        for waiting in flight.aboard:
            self._leave(waiting)
            waiting.tries += 1
            waiting.is_held = False
            if waiting.tries < TRIES_MAX or waiting.is_part:
                again[waiting.tx] = waiting
            else:
                self._answer(waiting, Ended.BUSY, "its block could not be written")
        self._waiting = again | self._waiting
        self._retry_ms = leading.now_ms + RETRY_MS

    def _hold(self, waiting: Waiting) -> None:
        waiting.is_held = True
        self._held.append(waiting)

    def _release_held(self) -> None:
        for waiting in self._held:
            waiting.is_held = False
        self._held.clear()

    def tick(self) -> None:
        """Time has passed."""
        if self._retry_ms is not None and self._leading.now_ms >= self._retry_ms:
            self._retry_ms = None
        if self._leading.config.lock_wait:
            for waiting in list(self._waiting.values()):
                if not waiting.is_part and self._leading.now_ms >= waiting.deadline_ms:
                    self._end(waiting, Ended.BUSY, "it could not be written in time")
        self.flush()

    @property
    def due_ms(self) -> int | None:
        """When a tick is wanted."""
        due = self._retry_ms
        if self._leading.config.lock_wait and len(self._leading.locks):
            # They came in this order, and all may wait for equally long.
            first_ms = next((waiting.deadline_ms for waiting in self._waiting.values() if not waiting.is_part), None)
            if first_ms is not None and (due is None or first_ms < due):
                due = first_ms
        return due

    # ---- answers ---------------------------------------------------------------------------------------------------

    def _answer_committed(self, request: int, tx: TxId) -> None:
        shard = self._leading.shard
        height, refusals = shard.committed_at(tx), shard.refusals(tx)
        assert height is not None, "it is in the applied state"
        self._leading.effects.append(Answer(request, Ended.COMMITTED, tx, height, refusals=refusals))

    def _end(
        self,
        waiting: Waiting,
        ended: Ended,
        reason: str,
        *,
        similarity: float | None = None,
        other: TxId | None = None,
    ) -> None:
        del self._waiting[waiting.tx]
        if ended is Ended.CONFLICT:
            self.conflicts += 1
        self._answer(waiting, ended, reason, similarity=similarity, other=other)

    def _answer(
        self,
        waiting: Waiting,
        ended: Ended,
        reason: str,
        *,
        similarity: float | None = None,
        other: TxId | None = None,
    ) -> None:
        for request in waiting.requests:
            self._leading.effects.append(Answer(request, ended, waiting.tx, 0, reason, similarity, other))

    # ---- for status and tests --------------------------------------------------------------------------------------

    @property
    def waiting(self) -> int:
        return len(self._waiting)

    @property
    def under_way(self) -> int:
        """Blocks that were proposed and not heard of."""
        return len(self._flights)

    @property
    def refusing(self) -> int:
        """Transactions that are being refused through the log."""
        return self._refusing.under_way


def _are_apart(queue: Sequence[Waiting]) -> bool:
    """Whether no two touch the same key."""
    keys: set[bytes] = set()
    count = 0
    for waiting in queue:
        keys.update(waiting.kinds)
        count += len(waiting.kinds)
    return len(keys) == count
