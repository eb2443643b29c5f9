"""The state of one shard: what the commands of its log are applied to.

It holds the chain with the store that follows from it, the parts of transactions that were promised, and what the
coordinator of this shard has written down. What comes of a command follows from the log alone. A command that makes no
sense is answered by a refusal, the same on every node, and changes nothing.

**A block** is put on the chain whole or not at all. Besides what the chain looks at (it follows the tip, its hashes and
its signature fit, every transaction may commit by the versions it meets), no transaction of it may have been committed
before, and none may touch a key that a promised part of another one has locked. A promised part is done by being in a
block, word for word as it was promised, and unlocked by the same command that does it.

**Drafts** are the changes of blocks that were made or judged here and are not applied yet. They are worked out once and
merged when their block comes; without them the same is worked out again, so that nothing rests on their being there.
"""

from collections.abc import Iterable, Iterator, Sequence
from hashlib import sha256
from typing import Final, Protocol, TypeAlias, assert_never

from msgspec import Struct

from bobbin.cluster.chain.block import Block
from bobbin.cluster.chain.draft import Clash, ClashKind, Draft
from bobbin.cluster.chain.hashing import PLAIN, Hashing
from bobbin.cluster.chain.holdings import Holds, vector_of
from bobbin.cluster.chain.ledger import Ledger
from bobbin.cluster.chain.snapshot import Codec as ChainCodec
from bobbin.cluster.chain.snapshot import SnapshotEntry as ChainEntry
from bobbin.cluster.codebook.global_book import GlobalCodebook
from bobbin.cluster.conflicts.classify import Thresholds
from bobbin.cluster.conflicts.of_operations import delta_of
from bobbin.cluster.content_tree import ContentTree
from bobbin.cluster.geometry import Embedding, cosine
from bobbin.cluster.names import Index, Term
from bobbin.cluster.operations import Transaction, lock_names, storage_key, why_vector_invalid
from bobbin.cluster.settings import ChainConfig
from bobbin.cluster.shard.commands import (
    Append,
    Command,
    Drop,
    Kind,
    Log,
    Outcome,
    Prepare,
    ReplaceCodebook,
    Resolve,
)
from bobbin.cluster.shard.rivals import Rival, find_rival
from bobbin.cluster.state_machine import Capture
from bobbin.cluster.transactions.messages import Conflict, No, TxPrepareMsg
from bobbin.cluster.transactions.names import ShardId, TxId, first_id, since_of
from bobbin.cluster.transactions.participant import Participant, ParticipantEntry
from bobbin.cluster.transactions.recovery import TxRecoveryState, TxSaved
from bobbin.cluster.transactions.tx_log import TxWalEntry
from bobbin.errors import IntegrityError, PeerError, UsageError

SNAPSHOT_FORMAT: Final = 1
DRAFTS_MAX: Final = 64
"""Blocks that are made or judged and not applied; a leader has fewer under way."""
REASON_CHARACTERS_MAX: Final = 1_000
_ROOT: Final = b"bobbin-shard-root/v1"


class ShardHead(Struct, frozen=True, array_like=True, forbid_unknown_fields=True, tag=39):
    """The first entry of a shard's snapshot."""

    format: int
    shard: ShardId


SnapshotEntry: TypeAlias = ShardHead | ChainEntry | ParticipantEntry | TxSaved


class Codec(Protocol):
    """The bytes of what a shard takes, gives and stores. What cannot be read raises ``PeerError``."""

    @property
    def chain(self) -> ChainCodec: ...
    def read_command(self, raw: bytes) -> Command: ...
    def outcome(self, outcome: Outcome) -> bytes: ...
    def entry(self, entry: SnapshotEntry) -> bytes: ...
    def read_entry(self, raw: bytes) -> SnapshotEntry: ...


class Shard:
    """A ``StateMachine``."""

    def __init__(self, codec: Codec, *, shard: ShardId, config: ChainConfig, hashing: Hashing = PLAIN) -> None:
        self.shard: Final = shard
        self.config: Final = config
        self.ledger = Ledger(config=config, hashing=hashing)
        self.participant = Participant()
        self.recovery = TxRecoveryState()
        """What this shard's coordinator has written down."""
        self._codec: Final = codec
        self._hashing: Final = hashing
        self._thresholds: Final = Thresholds(conflicting=config.conflict_threshold)
        self._finished: dict[bytes, int] = {}
        """The transactions of all blocks above ``_forgotten``, with their heights."""
        self._forgotten = 0
        self._drafts: dict[bytes, Draft] = {}
        """By the hash of their header, in the order in which they were made."""
        self._part_tree = ContentTree()
        """Promises, and ends of parts."""
        self._recovery_digest: bytes | None = None
        """None when something was written since it was worked out."""

    # ---- commands --------------------------------------------------------------------------------------------------

    def apply(self, index: Index, term: Term, command: bytes) -> bytes:  # noqa: ARG002 -- other machines may need it
        """Do a committed command of the log."""
        try:
            asked = self._codec.read_command(command)
        except PeerError as error:
            return self._codec.outcome(self._refuse(Kind.NO_COMMAND, str(error)))
        return self._codec.outcome(self.do(index, asked))

    def do(self, index: Index, command: Command) -> Outcome:  # noqa: ARG002 -- the chain has places of its own
        """The same, without bytes."""
        match command:
            case Append(block=block):
                return self._append(block)
            case Prepare(message=message):
                vote = self.participant.prepare(message, self._check_part)
                return Outcome(Kind.VOTED, self.ledger.height, vote=vote)
            case Drop(tx=tx):
                is_dropped = self.participant.drop(tx)
                return Outcome(Kind.DROPPED, self.ledger.height, "" if is_dropped else "nothing was promised")
            case Log(entries=entries):
                return self._log(entries)
            case ReplaceCodebook():
                return self._replace_codebook(command)
            case Resolve():
                return self._resolve(command)
            case _:
                assert_never(command)

    def _append(self, block: Block) -> Outcome:
        ledger = self.ledger
        header = block.header
        if header.height != ledger.height + 1 or header.prev_hash != ledger.tip:
            return self._refuse(Kind.STALE_BLOCK, f"height {header.height} does not follow the tip at {ledger.height}")
        wrong = self._why_not_in_block(block.transactions)
        if wrong is not None:
            return self._refuse(Kind.BAD_BLOCK, wrong)
        if len({transaction.id for transaction in block.transactions}) < len(block.transactions):
            return self._refuse(Kind.BAD_BLOCK, "a transaction stands twice in the block")
        promises = self.participant.promises
        draft = next(
            (draft for draft in self._drafts.values() if draft.header is header or draft.header == header), None
        )
        done = ledger.append(block, draft, promised=promises)
        if isinstance(done, str):
            return self._refuse(Kind.BAD_BLOCK, done)
        self._drafts.pop(done.hash, None)
        self._finished.update(dict.fromkeys([transaction.id for transaction in block.transactions], done.height))
        if promises:
            for transaction in block.transactions:
                self.participant.committed(TxId(transaction.id))
        self._forget_below(ledger.floor)
        return Outcome(Kind.APPENDED, ledger.height, refusals=done.refusals)

    def _why_not_in_block(self, transactions: Sequence[Transaction]) -> str | None:
        promises, height, locks = self.participant.promises, self.ledger.height, self.participant.locks
        finished, is_plain = self._finished, not (self.participant.has_ended or promises or len(locks))
        # Ids begin with the height that they were made at, and such texts are in order as the heights are.
        lowest, above = first_id(self.ledger.floor), first_id(height + 1)
        for transaction in transactions:
            id = transaction.id
            if is_plain and id not in finished and lowest <= id < above and transaction.since <= height:
                continue  # as it is with most, and as what follows would find
            tx = TxId(id)
            promise = promises.get(tx)
            if promise is not None:
                if promise.message.part != transaction:
                    return "not the part that was promised"
                continue
            wrong = self.why_not_local(tx)
            if wrong is not None:
                return wrong
            if transaction.since > height:
                return f"the transaction {tx.hex()} began at height {transaction.since}, above the chain"
            holder = self.locked_by(transaction)
            if holder is not None:
                return f"a key is locked by the promised transaction {holder.hex()}"
        return None

    def _forget_below(self, floor: int) -> None:
        """Drop the ids of the blocks that the floor has reached."""
        while self._forgotten < floor:
            self._forgotten += 1
            for transaction in self._block(self._forgotten).transactions:
                del self._finished[transaction.id]

    def _block(self, height: int) -> Block:
        block = self.ledger.block(height)
        assert block is not None, "asked for heights of the chain alone"
        return block

    def _log(self, entries: tuple[TxWalEntry, ...]) -> Outcome:
        if not entries:
            return Outcome(Kind.LOGGED, self.ledger.height)
        if any(since_of(entry.tx) > self.newest_id for entry in entries):
            # Else made-up ids would push the horizon ahead of all that there will ever be.
            return self._refuse(Kind.BAD_ENTRY, "an id is of a height that the chain has not reached")
        wrong = self.recovery.apply(entries)
        if wrong is not None:
            return self._refuse(Kind.BAD_ENTRY, wrong)
        self._recovery_digest = None
        return Outcome(Kind.LOGGED, self.ledger.height)

    def _replace_codebook(self, command: ReplaceCodebook) -> Outcome:
        try:
            book = GlobalCodebook.decode(command.version, command.centroids)
        except IntegrityError as error:
            return self._refuse(Kind.BAD_CODEBOOK, str(error))
        wrong = self.ledger.replace_codebook(book)
        if wrong is not None:
            return self._refuse(Kind.BAD_CODEBOOK, wrong)
        self.drop_drafts()
        return Outcome(Kind.REPLACED, self.ledger.height)

    def _resolve(self, command: Resolve) -> Outcome:
        operator, reason = command.operator[:REASON_CHARACTERS_MAX], command.reason[:REASON_CHARACTERS_MAX]
        if not self.participant.resolve(command.tx, commits=command.commits, operator=operator, reason=reason):
            return self._refuse(Kind.UNKNOWN_TRANSACTION, "nothing is promised under this id, or it is resolved")
        return Outcome(Kind.RESOLVED, self.ledger.height)

    def _refuse(self, kind: Kind, reason: str) -> Outcome:
        return Outcome(kind, self.ledger.height, reason[:REASON_CHARACTERS_MAX])

    # ---- whether a transaction may be promised or committed ----------------------------------------------------------

    def _check_part(self, message: TxPrepareMsg) -> Embedding | No | Conflict:
        part = message.part
        if message.shard != self.shard or part.id != message.tx:
            return No("the part is not for this shard, or of another transaction", is_final=True)
        wrong = why_vector_invalid(message.delta)
        if wrong is not None:
            return No(wrong, is_final=True)
        if self.committed_at(message.tx) is not None:
            return No("a transaction of this id has been committed here", is_final=True)
        if part.since > self.ledger.height:
            return No(f"began at height {part.since}, and the chain is at {self.ledger.height}")
        clash = self.ledger.clash(part, bounded=False)
        return self.delta(part) if clash is None else self.vote_against(part, clash)

    def delta(self, part: Transaction) -> Embedding:
        """The change that a transaction makes to the present state, as this shard works it out."""
        return delta_of(part.operations, self.vector, self.config.embedding_dimension).delta

    def vote_against(self, part: Transaction, clash: Clash) -> No | Conflict:
        """The vote on a part that may not be promised; if it came too late, with whose change was first."""
        if clash.kind not in {ClashKind.STALE_READ, ClashKind.OVERTAKEN}:
            return No(clash.reason, is_final=clash.is_final)
        height = self.ledger.version(clash.key)
        if height > self.ledger.floor:
            for other in self._block(height).transactions:
                if any(storage_key(operation) == clash.key for operation in other.operations):
                    near = cosine(self.delta(part), self.delta(other))
                    return Conflict(near, TxId(other.id), clash.reason)
        return Conflict(0.0, None, clash.reason)

    def rival(self, transaction: Transaction, own: dict[bytes, int]) -> Rival | None:
        """A change that was committed since the transaction began and is too much like it, for a leader to refuse.

        ``own``: the ``kinds`` of the transaction.
        """
        ledger, since = self.ledger, transaction.since
        if not ledger.floor <= since < ledger.height or not ledger.is_touched(own, since):
            return None  # It is too old, which the chain says, or nobody came since.
        return find_rival(
            transaction,
            own,
            ledger.heights_of,
            self._block,
            self.vector,
            dimension=self.config.embedding_dimension,
            thresholds=self._thresholds,
        )

    def why_not_local(self, tx: TxId) -> str | None:
        """Why a transaction that was not promised cannot be put into the next block under this id."""
        since = since_of(tx)
        ledger = self.ledger
        if since < ledger.floor:
            return f"the id {tx.hex()} is of height {since}, below {ledger.floor}: too long ago"
        if since > ledger.height and since > self.newest_id:
            return f"the id {tx.hex()} is of height {since}, and they reach {self.newest_id}"
        if self.committed_at(tx) is not None:
            return f"the transaction {tx.hex()} has been committed"
        if self.participant.ended(tx) is not None:
            return f"the transaction {tx.hex()} has ended here as a part"
        return None

    @property
    def newest_id(self) -> int:
        """The height of which new ids are made: the chain's, or above it where so many ids were used up there."""
        return max(self.ledger.height, self.recovery.horizon)

    def locked_by(self, transaction: Transaction) -> TxId | None:
        """The promised transaction that holds a key of this one."""
        locks = self.participant.locks
        if not len(locks):
            return None
        for name in lock_names(transaction):
            holder = locks.owner(name)
            if holder is not None and holder != transaction.id:
                return holder
        return None

    def committed_at(self, tx: TxId) -> int | None:
        """The height at which a transaction was committed here; None if it was not, or is forgotten."""
        return self._finished.get(tx)

    def committed(self, tx: TxId) -> Transaction | None:
        """A committed transaction as it stands in its block; None if it was not committed, or is forgotten."""
        height = self._finished.get(tx)
        if height is None:
            return None
        return next(one for one in self._block(height).transactions if one.id == tx)

    def refusals(self, tx: TxId) -> tuple[tuple[int, str], ...]:
        """The operations of a committed transaction that the state refused, and why."""
        height = self._finished.get(tx)
        refused = () if height is None else self.ledger.refusals(height)
        if not refused or height is None:
            return ()
        ids = [transaction.id for transaction in self._block(height).transactions]
        return tuple((operation, why) for at, operation, why in refused if ids[at] == tx)

    def vector(self, key: bytes, at: int | None = None) -> Embedding | None:
        """The vector at a storage key, now or as of a height."""
        item = self.ledger.get(key, at)
        return vector_of(item.value) if item is not None and item.holds is Holds.VECTOR else None

    # ---- drafts ----------------------------------------------------------------------------------------------------

    def keep(self, draft: Draft) -> None:
        """Keep the changes of a block that was made or judged here, for when it is applied."""
        while len(self._drafts) >= DRAFTS_MAX:
            del self._drafts[next(iter(self._drafts))]
        self._drafts[draft.hash] = draft

    def draft_of(self, hash: bytes) -> Draft | None:
        """What was kept of a block, by the hash of its header."""
        return self._drafts.get(hash)

    def judge(self, block: Block) -> str | None:
        """Why a follower must not acknowledge a block; None if it may.

        Whatever of its log is not applied yet has been judged before. Locks are not looked at: which parts will be
        promised by then is known only when the entries in between are applied.
        """
        before = self._drafts.get(block.header.prev_hash)
        if before is None and block.header.prev_hash != self.ledger.tip:
            return "the block rests on one that was not judged here"
        try:
            judged = self.ledger.judge(block, on=before)
        except UsageError as error:
            return str(error)
        if isinstance(judged, str):
            return judged
        self.keep(judged)
        return None

    def drop_drafts(self) -> None:
        """Forget blocks that were made or judged and not applied: their entries were taken back."""
        self._drafts.clear()

    # ---- the root --------------------------------------------------------------------------------------------------

    @property
    def root(self) -> bytes:
        """Over all that a snapshot would hold."""
        entry = self._codec.entry
        self._part_tree.update(
            [(tx, None if found is None else entry(found)) for tx, found in self.participant.take_changes()]
        )
        if self._recovery_digest is None:
            hashed = sha256()
            for saved in self.recovery.snapshot():
                raw = entry(saved)
                hashed.update(len(raw).to_bytes(8, "big") + raw)
            self._recovery_digest = hashed.digest()
        return sha256(
            _ROOT
            + self.shard.to_bytes(8, "big")
            + self.ledger.root
            + self._part_tree.top
            + self._recovery_digest
            + entry(self.participant.head)
        ).digest()

    # ---- snapshots -------------------------------------------------------------------------------------------------

    def snapshot(self) -> "ShardCapture":
        """All but the chain are few values; the chain's own capture copies references."""
        return ShardCapture(
            self._codec,
            ShardHead(SNAPSHOT_FORMAT, self.shard),
            self.ledger.snapshot(self._codec.chain),
            (*self.participant.entries(), *self.recovery.snapshot()),
        )

    def restore(self, entries: Iterable[bytes]) -> None:
        """Become what a capture wrote down, or raise ``IntegrityError`` and stay as it was."""
        groups = _Groups(entries, self._codec)
        _check_head(list(groups.take(HEAD_TAGS)), self.shard)
        ledger = Ledger(config=self.config, hashing=self._hashing)
        ledger.restore(self._codec.chain, groups.take_raw(CHAIN_TAGS))
        participant = Participant()
        participant.restore(found for found in groups.take(PART_TAGS) if isinstance(found, ParticipantEntry))
        recovery = TxRecoveryState()
        recovery.restore(found for found in groups.take(RECOVERY_TAGS) if isinstance(found, TxSaved))
        groups.end()
        self._finished = {
            transaction.id: block.header.height
            for block in ledger.blocks(ledger.floor + 1, ledger.height)
            for transaction in block.transactions
        }
        self.ledger, self.participant, self.recovery = ledger, participant, recovery
        self._forgotten = ledger.floor
        self._drafts = {}
        self._part_tree, self._recovery_digest = ContentTree(), None


HEAD_TAGS: Final = range(39, 40)
CHAIN_TAGS: Final = range(40, 44)
PART_TAGS: Final = range(44, 47)
RECOVERY_TAGS: Final = range(47, 48)


class ShardCapture:
    """A shard as it was. Iterating writes; it touches nothing that the shard still changes."""

    def __init__(
        self, codec: Codec, head: ShardHead, chain: Capture, rest: tuple[ParticipantEntry | TxSaved, ...]
    ) -> None:
        self._codec = codec
        self._head = head
        self._chain = chain
        self._rest = rest

    def __len__(self) -> int:
        return 1 + len(self._chain) + len(self._rest)

    def __iter__(self) -> Iterator[bytes]:
        yield self._codec.entry(self._head)
        yield from self._chain
        yield from map(self._codec.entry, self._rest)


class _Groups:
    """The entries of a snapshot, one group after the other; by their second byte, the number of their kind."""

    def __init__(self, entries: Iterable[bytes], codec: Codec) -> None:
        self._entries: Final = iter(entries)
        self._codec: Final = codec
        self._next = next(self._entries, None)

    def take_raw(self, tags: range) -> Iterator[bytes]:
        """Entries as long as they are of these kinds."""
        while self._next is not None and len(self._next) > 1 and self._next[1] in tags:
            taken = self._next
            yield taken
            self._next = next(self._entries, None)

    def take(self, tags: range) -> Iterator[SnapshotEntry]:
        """The same, read."""
        for raw in self.take_raw(tags):
            try:
                yield self._codec.read_entry(raw)
            except PeerError as error:
                raise IntegrityError(f"an entry of the snapshot cannot be read: {error}") from error

    def end(self) -> None:
        if self._next is not None:
            raise IntegrityError("a snapshot has an entry of no known kind, or out of order")


def _check_head(entries: list[SnapshotEntry], shard: ShardId) -> None:
    if len(entries) != 1 or not isinstance(entries[0], ShardHead):
        raise IntegrityError("the snapshot of a shard has one head")
    head = entries[0]
    if head.format != SNAPSHOT_FORMAT:
        raise IntegrityError(f"a snapshot of format {head.format}; {SNAPSHOT_FORMAT} is known")
    if head.shard != shard:
        raise IntegrityError(f"a snapshot of shard {head.shard}, and this is shard {shard}")
