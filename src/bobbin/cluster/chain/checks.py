"""How the judge of a follower looks at the blocks of a chain: ``raft.fast_path.Checks`` over a ledger.

A block comes here before it is committed, and often before the blocks below it are. So it is judged on the draft of the
one that it follows, which was judged before and kept; its own draft is kept in turn.
"""

from collections.abc import Callable, Container
from typing import TYPE_CHECKING

from bobbin.cluster.chain.block import Block
from bobbin.cluster.chain.draft import Draft, Overlay
from bobbin.cluster.chain.encoding import header_hash
from bobbin.cluster.chain.errors import ChainError
from bobbin.cluster.chain.ledger import Ledger
from bobbin.cluster.chain.meaning import codes_fault, transitions_fault
from bobbin.cluster.geometry import Embedding
from bobbin.cluster.names import NodeId, Term
from bobbin.cluster.raft.fast_path import Check, Meaning

if TYPE_CHECKING:
    from bobbin.cluster.chain.judging import Judgement


class ChainChecks:
    """``below`` finds a kept draft by the hash of its header; ``keep`` takes the draft of a block that has passed."""

    def __init__(
        self,
        ledger: Ledger,
        *,
        below: Callable[[bytes], Draft | None],
        keep: Callable[[Draft], None],
        promised: Container[bytes] = (),
    ) -> None:
        self._ledger = ledger
        self._below = below
        self._keep = keep
        self._promised = promised
        """Parts of transactions that this shard has promised: no codebook is in their way."""
        self._judgement: Judgement | None = None
        """Of the block that is looked at now. Judging another one begins anew."""

    def fault(self, check: Check, block: Block, *, leader: NodeId, term: Term) -> str | None:  # noqa: ARG002
        """One of the checks that are never skipped. The term is the log's, and no part of a block."""
        if check is Check.LIMITS:
            try:
                self._judgement = self._ledger.judgement(block, on=self._below(block.header.prev_hash))
            except ChainError as error:
                return str(error)
        judgement = self._judgement
        if judgement is None or judgement.block is not block:
            return "the checks of a block begin with its limits"
        if check is Check.LEADER:
            return None if block.header.proposer == leader else "it was proposed by somebody else"
        found = judgement.fault(check)
        if check is Check.STATE_ROOT and found is None:
            self._keep(judgement.draft())
        return found

    def meaning_fault(self, meaning: Meaning, block: Block) -> str | None:
        """One of the checks that may be skipped, at once or, in an audit, when the block is long on the chain."""
        codebook = self._ledger.codebook
        if block.header.codebook_version != codebook.version:
            # An audit came late: the codebook that the block was made with has been replaced, and asks nothing more.
            return None
        if meaning is Meaning.CODEBOOK:
            # The embedding of the header is the change that its operations make: that is never skipped.
            return codes_fault(block, block.header.delta_embedding, codebook)
        overlay = self._ground_of(block)
        if overlay is None:
            return None
        return transitions_fault(overlay, block.transactions, codebook, self._promised)

    def _ground_of(self, block: Block) -> Overlay | None:
        """What a block stands on; None when it is not known any more."""
        judgement = self._judgement
        if judgement is not None and judgement.block is block and block.header.height > self._ledger.height:
            return judgement.overlay()
        try:
            if self._ledger.block(block.header.height) == block:
                return self._ledger.before(block.header.height)
            return self._ledger.judgement(block, on=self._below(block.header.prev_hash)).overlay()
        except ChainError:
            return None

    def delta(self, block: Block) -> Embedding:
        """The change that the block's operations make, worked out here."""
        judgement = self._judgement
        assert judgement is not None, "the checks of a block come before its delta"
        assert judgement.block is block, "the checks of a block come before its delta"
        return judgement.delta

    def digest(self, block: Block) -> bytes:
        """The hash of the block's header."""
        return header_hash(block.header)
