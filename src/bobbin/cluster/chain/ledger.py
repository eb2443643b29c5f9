"""The chain of a shard and the store that it makes: one block after the other, each decided before it is put on.

The newest block, its link to the one before and the height of the chain are one list that grows at its end, so they
cannot disagree. A block that is refused changes nothing; one that is put on is checked in full, either here or in the
draft that is merged for it, and a draft is merged only if it is of this very block and stands on this very tip. What it
costs follows from the block and not from the store.
"""

from collections.abc import Container, Iterable, Iterator, Sequence
from hashlib import sha256
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from bobbin.cluster.chain.block import ZERO, Block, BlockHeader, genesis
from bobbin.cluster.chain.draft import (
    Clash,
    ClashKind,
    Draft,
    Overlay,
    Refusals,
    block_delta,
    content_of,
)
from bobbin.cluster.chain.encoding import envelope_hash, header_bytes, header_hash, why_header_invalid
from bobbin.cluster.chain.errors import ChainError, SnapshotTooOld
from bobbin.cluster.chain.hashing import PLAIN, Hashing
from bobbin.cluster.chain.history import History, Touch, touches
from bobbin.cluster.chain.holdings import Holds
from bobbin.cluster.chain.judging import TRANSACTIONS_MAX, Ground, Judgement
from bobbin.cluster.chain.meaning import transition_fault
from bobbin.cluster.chain.signing import signature_of
from bobbin.cluster.chain.similarity import BlockVectors, Similar
from bobbin.cluster.chain.snapshot import (
    SNAPSHOT_FORMAT,
    ChainCapture,
    ChainHead,
    CodebookEntry,
    Codec,
    Found,
)
from bobbin.cluster.chain.verification import Fault, Flaw, verify_blocks
from bobbin.cluster.chain.versions import KEEP_BYTES, KEEP_HEIGHTS, Item, Versions
from bobbin.cluster.codebook.global_book import EMPTY, GlobalCodebook
from bobbin.cluster.geometry import Embedding
from bobbin.cluster.identity import Identity
from bobbin.cluster.names import NodeId
from bobbin.cluster.operations import OPERATIONS_MAX, Transaction, why_invalid
from bobbin.cluster.settings import ChainConfig
from bobbin.errors import IntegrityError

_ROOT: Final = b"bobbin-chain-ledger-root/v1"


class Appended(Struct, frozen=True):
    """A block that is on the chain now."""

    height: int
    hash: bytes
    refusals: Refusals = ()


class _Link(Struct, frozen=True, gc=False):
    block: Block
    hash: bytes
    refusals: Refusals = ()


class Ledger:
    """Blocks from genesis on, and what they have made of the store."""

    def __init__(
        self,
        *,
        config: ChainConfig,
        keep_heights: int = KEEP_HEIGHTS,
        keep_bytes: int = KEEP_BYTES,
        hashing: Hashing = PLAIN,
    ) -> None:
        self.config: Final = config
        self.codebook: GlobalCodebook = EMPTY
        self.correction = ""
        """What the snapshot that this was restored from had wrong about its own blocks; empty for nothing."""
        self._dimension: Final = config.embedding_dimension
        self._keep_heights = keep_heights
        self._keep_bytes = keep_bytes
        first = genesis(self._dimension)
        self._links = [_Link(first, header_hash(first.header))]
        self._versions = Versions(keep_heights=keep_heights, keep_bytes=keep_bytes)
        self._hashing: Final = hashing
        self._tree = hashing.new_tree()
        self._history = History()
        self._vectors = BlockVectors(self._dimension)
        self._codebook_hash = _hash_of(self.codebook)

    # ---- what is there -----------------------------------------------------------------------------------------------

    @property
    def height(self) -> int:
        return len(self._links) - 1

    @property
    def tip(self) -> bytes:
        """The hash of the newest block."""
        return self._links[-1].hash

    @property
    def tip_block(self) -> Block:
        return self._links[-1].block

    @property
    def genesis(self) -> Block:
        return self._links[0].block

    @property
    def state_root(self) -> bytes:
        """Over all keys and what they hold."""
        return self._tree.top

    @property
    def floor(self) -> int:
        """The lowest height that can be read, and at which a transaction may have begun."""
        return self._versions.floor

    @property
    def root(self) -> bytes:
        """Over all that a snapshot would hold."""
        floor = self.floor.to_bytes(8, "big")
        return sha256(_ROOT + self.tip + self.state_root + floor + self._codebook_hash).digest()

    def get(self, key: bytes, at: int | None = None) -> Item | None:
        """What a storage key holds, or held at a height. Raises ``SnapshotTooOld`` below the floor."""
        if at is None:
            version = self._versions.newest(key)
        elif at > self.height:
            raise ChainError(f"height {at} is not there yet; the chain has reached {self.height}")
        else:
            version = self._versions.at(key, at)
        if version is None or version.holds is Holds.NOTHING:
            return None
        return Item(key, version.value, version.height, version.holds)

    def version(self, key: bytes) -> int:
        """The height of the block that wrote a storage key; 0 for one that is not there."""
        version = self._versions.newest(key)
        return 0 if version is None or version.holds is Holds.NOTHING else version.height

    def block(self, height: int) -> Block | None:
        return self._links[height].block if 0 <= height <= self.height else None

    def blocks(self, first: int, last: int) -> list[Block]:
        """Those from one height to another, both included, as far as they are there."""
        return [link.block for link in self._links[max(0, first) : last + 1]]

    def __iter__(self) -> Iterator[Block]:
        """From genesis on."""
        return (link.block for link in self._links)

    def refusals(self, height: int) -> Refusals:
        """What the state refused of a block."""
        return self._links[height].refusals if 0 <= height <= self.height else ()

    def heights_of(self, key: bytes) -> Sequence[int]:
        """The blocks with operations on a key, affected or storage, ascending."""
        return self._history.heights(key)

    def is_touched(self, keys: Iterable[bytes], since: int) -> bool:
        """Whether a block above a height has an operation on one of these keys, affected or storage."""
        return self._history.is_touched(keys, since)

    def history(self, key: bytes) -> list[Touch]:
        """Every operation on a key, affected or storage, in order."""
        found: list[Touch] = []
        for height in self._history.heights(key):
            link = self._links[height]
            found.extend(touches(link.block, link.refusals, key))
        return found

    def similar(self, vector: Embedding, limit: int = 10) -> list[Similar]:
        """The blocks whose changes are most like a vector, the likest first."""
        return self._vectors.similar(vector, limit)

    def verify(self) -> Fault | None:
        """Look at the whole chain again; None if it is right, else the first block that is not."""
        found = verify_blocks(self, dimension=self._dimension)
        if found is None and self.tip_block.header.state_root != self.state_root:
            return Fault(self.height, Flaw.STATE_ROOT, "the store is not what the newest block says")
        return found

    # ---- blocks that are not decided ---------------------------------------------------------------------------------

    def clash(
        self, transaction: Transaction, *, on: Draft | None = None, promised: bool = False, bounded: bool = True
    ) -> Clash | None:
        """What stands in the way of a transaction that would commit next; None for nothing.

        ``promised``: it is a part that this shard has promised, so it may have begun below the floor, and no codebook
        that came later is in its way. ``bounded``: it also has to fit into a block that this node would make. What a
        command of the log does must not depend on that, since nodes may be set differently.
        """
        below = self._below(on)
        height = self.height if below is None else below.height
        if bounded and not promised and len(transaction.operations) > self.config.max_transactions:
            return self._too_long
        malformed = self._malformed(transaction)
        if malformed is not None:
            return malformed
        overlay = Overlay(self._versions, below, height + 1)
        return self._clash(overlay, transaction, height, self._floor_at(height), promised=promised)

    def draft(
        self,
        transactions: Sequence[Transaction],
        *,
        proposer: NodeId,
        timestamp_ms: int,
        on: Draft | None = None,
        promised: Container[bytes] = (),
        are_valid: bool = False,
    ) -> Draft:
        """A block of those that may commit, in the order given; the others are its ``clashes``.

        ``are_valid``: whoever asks has looked already whether they make sense, whatever the state is.

        Nothing is changed. It stands on the tip, or on another draft that does. A time before that of the block below
        is raised to it. A promised part goes in however long it is, alone if it is longer than this node's blocks.
        Raises ``ChainError`` for a draft that stands on neither.
        """
        below = self._below(on)
        before = self.tip_block.header if below is None else below.header
        overlay = Overlay(self._versions, below, before.height + 1)
        taken: list[Transaction] = []
        clashes: list[tuple[int, Clash]] = []
        room = self.config.max_transactions
        height, floor = before.height, self._floor_at(before.height)
        is_plain = are_valid and not self.codebook.centroids
        ids: set[bytes] = set()
        for place, one in enumerate(transactions):
            if is_plain and not one.reads and floor <= one.since <= height and 0 < len(one.operations) <= room:
                clash = overlay.clash(one)  # Promised or not, only this can be in its way.
                is_promised = False
            else:
                is_promised = one.id in promised
                clash = None if are_valid else self._malformed(one)
                if clash is None:
                    clash = self._clash(overlay, one, height, floor, promised=is_promised)
            if clash is None and (len(one.operations) > room or len(taken) == TRANSACTIONS_MAX):
                clash = self._why_no_room(one, taken, is_promised=is_promised)
            if clash is None and one.id in ids:
                clash = Clash(ClashKind.MALFORMED, "a transaction comes twice in one block")
            if clash is not None:
                clashes.append((place, clash))
                continue
            overlay.do(len(taken), one)
            taken.append(one)
            ids.add(one.id)
            room -= len(one.operations)
        tree = overlay.drafted(self._tree)
        delta = block_delta(taken, overlay.vector_before, self._dimension)
        header = BlockHeader(
            height=before.height + 1,
            prev_hash=self.tip if below is None else below.hash,
            tx_root=self._hashing.tx_root(taken),
            envelope_hash=envelope_hash(tuple(taken)),
            state_root=tree.top,
            delta_embedding=delta,
            quantized_codes=self.codebook.codes(delta),
            codebook_version=self.codebook.version,
            timestamp_ms=max(timestamp_ms, before.timestamp_ms),
            proposer=proposer,
        )
        wrong = why_header_invalid(header, dimension=self._dimension)
        if wrong is not None:
            raise ChainError(f"no block can be made of this: {wrong}")
        signed = header_bytes(header)
        return Draft(
            header=header,
            hash=sha256(signed).digest(),
            signed_bytes=signed,
            transactions=tuple(taken),
            overlay=overlay,
            tree=tree,
            delta=delta,
            clashes=tuple(clashes),
        )

    def seal(self, draft: Draft, identity: Identity) -> Block:
        """Sign a draft. Whoever signs must be its proposer, and there must be something to sign for."""
        if identity.node != draft.header.proposer:
            raise ChainError("a block is signed by the one who proposes it")
        if not draft.transactions:
            raise ChainError("a block holds at least one transaction")
        draft.header = replace(draft.header, signature=signature_of(identity, draft.signed_bytes))
        return draft.block

    def judge(self, block: Block, *, on: Draft | None = None) -> Draft | str:
        """Everything that is never skipped. Gives what the block makes of the store, or why it must be refused."""
        judgement = self.judgement(block, on=on)
        fault = judgement.first_fault()
        return judgement.draft() if fault is None else fault

    def judgement(self, block: Block, *, on: Draft | None = None) -> Judgement:
        """The same, check by check."""
        below = self._below(on)
        return Judgement(
            block,
            Ground(
                header=self.tip_block.header if below is None else below.header,
                hash=self.tip if below is None else below.hash,
                versions=self._versions,
                tree=self._tree,
                hashing=self._hashing,
                below=below,
                dimension=self._dimension,
                codebook_version=self.codebook.version,
                operations_max=OPERATIONS_MAX,
            ),
        )

    def before(self, height: int) -> Overlay:
        """What the block of a height stood on, to look at again what it did. Raises ``SnapshotTooOld``."""
        if not self.floor < height <= self.height:
            raise SnapshotTooOld(
                f"what block {height} stood on is not known; known are {self.floor + 1} to {self.height}"
            )
        return Overlay(self._versions, None, height, at=height - 1)

    def stands(self, draft: Draft) -> bool:
        """Whether a draft still follows the tip, by itself or through the drafts below it."""
        while draft.on is not None and not draft.on.is_merged and draft.on.hash != self.tip:
            draft = draft.on
        return not draft.is_merged and draft.header.prev_hash == self.tip

    def _below(self, on: Draft | None) -> Draft | None:
        if on is None or on.hash == self.tip:
            return None
        if not self.stands(on):
            raise ChainError("the draft below stands on nothing any more: another block came first")
        return on

    def _why_no_room(
        self, transaction: Transaction, taken: Sequence[Transaction], *, is_promised: bool
    ) -> Clash | None:
        """Why a transaction that there is no room for is not in the block; None where it is, all the same."""
        if len(transaction.operations) > self.config.max_transactions and not is_promised:
            return self._too_long
        is_alone = is_promised and not taken
        return None if is_alone else Clash(ClashKind.NO_ROOM, "the block is full")

    @property
    def _too_long(self) -> Clash:
        return Clash(ClashKind.MALFORMED, f"over {self.config.max_transactions} operations, the most of one block")

    def _floor_at(self, height: int) -> int:
        """Where a transaction of the next block may have begun, if the chain is at this height then."""
        return max(self.floor, height - self._keep_heights)

    def _malformed(self, transaction: Transaction) -> Clash | None:
        wrong = why_invalid(transaction, dimension=self._dimension)
        return None if wrong is None else Clash(ClashKind.MALFORMED, wrong)

    def _clash(
        self, overlay: Overlay, transaction: Transaction, height: int, floor: int, *, promised: bool
    ) -> Clash | None:
        reads = transaction.reads
        if transaction.since > height or (reads and any(read.version > height for read in reads)):
            return Clash(ClashKind.AHEAD, "it began at a height, or has read one, that is not here yet")
        if transaction.since < floor and not promised:
            reason = f"it began at {transaction.since}; what was written since is known from {floor} on"
            return Clash(ClashKind.TOO_OLD, reason)
        clash = overlay.clash(transaction)
        if clash is None and not promised and self.codebook.centroids:
            fault = transition_fault(overlay, transaction, self.codebook)
            if fault is not None:
                clash = Clash(ClashKind.MEANING, fault)
        return clash

    # ---- blocks that are decided -------------------------------------------------------------------------------------

    def append(self, block: Block, draft: Draft | None = None, *, promised: Container[bytes] = ()) -> Appended | str:
        """Put a block on the chain, or say why not and change nothing.

        A draft of this block spares the work of checking it again. One that does not fit is not used.
        """
        if draft is None or not self._fits(draft, block):
            judged = self.judge(block)
            if isinstance(judged, str):
                return judged
            draft = judged
        floor = self.floor
        for one in draft.transactions:
            if one.since < floor and one.id not in promised:
                return f"a transaction began at {one.since}; what was written since is known from {floor} on"
        return self._merge(draft)

    def _fits(self, draft: Draft, block: Block) -> bool:
        return (
            not draft.is_merged
            and draft.header.prev_hash == self.tip
            and draft.header.codebook_version == self.codebook.version
            and draft.header.signature == block.header.signature != b""
            and draft.tree.base == self._tree.top
            and draft.header == block.header
            and draft.transactions == block.transactions
        )

    def _merge(self, draft: Draft) -> Appended:
        block = draft.block
        self._tree.merge(draft.tree)
        self._versions.put(draft.height, draft.changes)
        self._history.add(block)
        self._vectors.add(draft.delta)
        self._links.append(_Link(block, draft.hash, draft.refusals))
        draft.settle()
        return Appended(draft.height, draft.hash, draft.refusals)

    def replace_codebook(self, book: GlobalCodebook) -> str | None:
        """Put another codebook in force. Gives why not: it must be the next version, and of this chain's dimension."""
        if book.version != self.codebook.version + 1:
            return f"version {book.version} of the codebook, where {self.codebook.version + 1} is due"
        if book.centroids and book.dimension != self._dimension:
            return f"a codebook of {book.dimension} dimensions, where {self._dimension} are due"
        self.codebook = book
        self._codebook_hash = _hash_of(book)
        return None

    # ---- snapshots ---------------------------------------------------------------------------------------------------

    def snapshot(self, codec: Codec) -> ChainCapture:
        """The whole chain as it is now. Blocks and versions never change, so this copies references to them."""
        present, older = self._versions.copied()
        head = ChainHead(SNAPSHOT_FORMAT, self._links[0].hash, self.height, self.tip, self.floor, len(present))
        codebook = CodebookEntry(self.codebook.version, self.codebook.encode())
        return ChainCapture(codec, head, codebook, self._links[1:], present, older)

    def restore(self, codec: Codec, entries: Iterable[bytes]) -> None:
        """Become what a capture wrote down, or raise ``IntegrityError`` and stay as it was."""
        found = Found.read(codec, entries, self.genesis, self._dimension)
        head, codebook = found.check()
        book = GlobalCodebook.decode(codebook.version, codebook.content)
        height = len(found.blocks)
        versions = Versions.restored(
            found.keys.items(),
            height=height,
            floor=head.floor,
            keep_heights=self._keep_heights,
            keep_bytes=self._keep_bytes,
        )
        tree = self._hashing.new_tree()
        tree.fill((key, content_of(key, held)) for key, held in versions.contents())
        if tree.top != (found.blocks[-1].block.header.state_root if found.blocks else ZERO):
            raise IntegrityError("the keys of the snapshot do not make the state root of its last block")
        history, vectors = History(), BlockVectors(self._dimension)
        for entry in found.blocks:
            history.add(entry.block)
            vectors.add(entry.block.header.delta_embedding)
        self._links[1:] = [
            _Link(entry.block, hash, entry.refusals) for entry, hash in zip(found.blocks, found.hashes, strict=True)
        ]
        self._versions, self._tree, self._history, self._vectors = versions, tree, history, vectors
        self.codebook, self._codebook_hash = book, _hash_of(book)
        self.correction = found.correction


def _hash_of(book: GlobalCodebook) -> bytes:
    return sha256(book.version.to_bytes(8, "big") + book.encode()).digest()
