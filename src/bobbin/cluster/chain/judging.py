"""What a block has to pass before anybody acknowledges it, check by check, in the order of ``raft.fast_path.Check``.

The same checks decide whether a committed block is put on the chain, so that every node comes to the same end whether
or not it has judged the block before. What likeness may spare (codes and transitions) is not among them.
"""

from hashlib import sha256
from typing import Final

from bobbin.cluster.chain.block import Block, BlockHeader
from bobbin.cluster.chain.draft import Draft, Overlay, block_delta
from bobbin.cluster.chain.encoding import envelope_hash, header_bytes, why_header_invalid
from bobbin.cluster.chain.hashing import Hashing
from bobbin.cluster.chain.signing import why_header_unsigned
from bobbin.cluster.chain.versions import Versions
from bobbin.cluster.content_tree import ContentTree, TreeDraft
from bobbin.cluster.geometry import Embedding
from bobbin.cluster.operations import encode_embedding, why_invalid
from bobbin.cluster.raft.fast_path import Check

TRANSACTIONS_MAX: Final = 1_000
"""Of one block; those that only read have no operations."""


class Ground:
    """What a block stands on."""

    def __init__(
        self,
        *,
        header: BlockHeader,
        hash: bytes,
        versions: Versions,
        tree: ContentTree,
        hashing: Hashing,
        below: Draft | None,
        dimension: int,
        codebook_version: int,
        operations_max: int,
    ) -> None:
        self.header = header
        """Of the block before."""
        self.hash = hash
        """Of the block before."""
        self.versions = versions
        self.tree = tree
        self.hashing = hashing
        self.below = below
        self.dimension = dimension
        self.codebook_version = codebook_version
        self.operations_max = operations_max


class Judgement:
    """One block under examination. Each check rests on those before it."""

    def __init__(self, block: Block, ground: Ground) -> None:
        self.block: Final = block
        self._ground = ground
        self._signed_bytes = b""
        self._delta: Embedding | None = None
        self._overlay: Overlay | None = None
        self._tree: TreeDraft | None = None
        self._steps = {
            Check.LIMITS: self._limits,
            Check.HEIGHT: self._height,
            Check.PREVIOUS_HASH: self._previous_hash,
            Check.TRANSACTION_ROOT: self._transaction_root,
            Check.SIGNATURE: self._signature,
            Check.EMBEDDING_BOUND: self._embedding_bound,
            Check.DELTA: self._delta_fault,
            Check.STATE_ROOT: self._state_root,
        }

    def fault(self, check: Check) -> str | None:
        """What this check has found; None for nothing. Leader and term are not the block's to say."""
        step = self._steps.get(check)
        return None if step is None else step()

    def first_fault(self) -> str | None:
        """Go through all checks."""
        for check, step in self._steps.items():
            found = step()
            if found is not None:
                return f"{check.value}: {found}"
        return None

    @property
    def delta(self) -> Embedding:
        """The change that the operations make, worked out here."""
        assert self._delta is not None, "the checks up to the delta have passed"
        return self._delta

    def overlay(self) -> Overlay:
        """What the block stands on, with nothing done yet."""
        return Overlay(self._ground.versions, self._ground.below, self.block.header.height)

    def draft(self) -> Draft:
        """What the block makes of the store; all checks have passed."""
        assert self._overlay is not None, "the checks up to the delta have passed"
        assert self._tree is not None, "the check of the state root has passed"
        return Draft(
            header=self.block.header,
            hash=sha256(self._signed_bytes).digest(),
            signed_bytes=self._signed_bytes,
            transactions=self.block.transactions,
            overlay=self._overlay,
            tree=self._tree,
            delta=self.delta,
        )

    # ---- the checks --------------------------------------------------------------------------------------------------

    def _limits(self) -> str | None:
        header, ground = self.block.header, self._ground
        wrong = why_header_invalid(header, dimension=ground.dimension)
        if wrong is not None:
            return wrong
        transactions = self.block.transactions
        if len(transactions) > TRANSACTIONS_MAX:
            return f"a block has at most {TRANSACTIONS_MAX} transactions, not {len(transactions)}"
        operations = sum(len(one.operations) for one in transactions)
        if operations > ground.operations_max:
            return f"a block has at most {ground.operations_max} operations, not {operations}"
        if not transactions:
            return "a block holds at least one transaction"
        if len({one.id for one in transactions}) != len(transactions):
            return "a transaction comes twice in one block"
        for one in transactions:
            wrong = why_invalid(one, dimension=ground.dimension)
            if wrong is not None:
                return wrong
            if one.since >= header.height:
                return "a transaction of a block has begun before it"
        if header.codebook_version != ground.codebook_version:
            return f"made with version {header.codebook_version} of the codebook; {ground.codebook_version} is in force"
        if header.timestamp_ms < ground.header.timestamp_ms:
            return "the time of a block is not before that of the one below it"
        return None

    def _height(self) -> str | None:
        due = self._ground.header.height + 1
        return None if self.block.header.height == due else f"{self.block.header.height}, where {due} is due"

    def _previous_hash(self) -> str | None:
        return None if self.block.header.prev_hash == self._ground.hash else "it does not follow the block before"

    def _transaction_root(self) -> str | None:
        if self.block.header.tx_root != self._ground.hashing.tx_root(self.block.transactions):
            return "it is not that of the operations"
        if self.block.header.envelope_hash != envelope_hash(self.block.transactions):
            return "ids, reads or bounds of the transactions are not those that the header fixes"
        return None

    def _signature(self) -> str | None:
        self._signed_bytes = header_bytes(self.block.header)
        return why_header_unsigned(self.block.header, self._signed_bytes)

    def _embedding_bound(self) -> str | None:
        if encode_embedding(self.block.header.delta_embedding) not in self._signed_bytes:
            return "what was signed does not hold the embedding"
        return None

    def _delta_fault(self) -> str | None:
        """The versions decide here too: the change of a block in which somebody overtook somebody is nobody's."""
        overlay = self.overlay()
        for place, transaction in enumerate(self.block.transactions):
            clash = overlay.clash(transaction)
            if clash is not None:
                return f"transaction {place} may not commit: {clash.reason}"
            overlay.do(place, transaction)
        self._overlay = overlay
        self._delta = block_delta(self.block.transactions, overlay.vector_before, self._ground.dimension)
        if encode_embedding(self._delta) != encode_embedding(self.block.header.delta_embedding):
            return "the embedding is not the change that the operations make"
        return None

    def _state_root(self) -> str | None:
        assert self._overlay is not None, "the check of the delta has passed"
        self._tree = self._overlay.drafted(self._ground.tree)
        return None if self._tree.top == self.block.header.state_root else "the operations lead to another state"
