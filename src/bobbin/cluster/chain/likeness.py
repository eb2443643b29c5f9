"""A refusal that geometry adds to those of the versions: somebody has changed something very alike just before.

Only the node that proposes asks this, and only to refuse: no answer of it lets a transaction commit. What it looks at
are the transactions that committed since this one began, or stand in drafts, and share an affected key with it.
"""

from collections.abc import Iterator
from typing import Final

from msgspec import Struct

from bobbin.cluster.chain.draft import Draft
from bobbin.cluster.chain.holdings import Holds, vector_of
from bobbin.cluster.chain.ledger import Ledger
from bobbin.cluster.conflicts.classify import ConflictClass, ConflictResult, Thresholds, detect_conflict
from bobbin.cluster.conflicts.delta import DeltaVector
from bobbin.cluster.conflicts.of_operations import delta_of
from bobbin.cluster.geometry import Embedding
from bobbin.cluster.operations import Transaction, affected_key

COMPARED_MAX: Final = 100
"""The newest ones; older ones are left to the versions."""


class Alike(Struct, frozen=True):
    """What was found in the way."""

    other: bytes
    """The id of the transaction."""
    result: ConflictResult


def change_of(ledger: Ledger, transaction: Transaction, at: int | None = None) -> DeltaVector:
    """The change that a transaction makes to the store, as it is or as it was at a height."""

    def before(key: bytes) -> Embedding | None:
        item = ledger.get(key, at)
        return vector_of(item.value) if item is not None and item.holds is Holds.VECTOR else None

    return delta_of(transaction.operations, before, ledger.config.embedding_dimension, tx=transaction.id)


def found_alike(
    ledger: Ledger, transaction: Transaction, *, thresholds: Thresholds, on: Draft | None = None
) -> Alike | None:
    """The newest change of another transaction that this one conflicts with by its vector; None for none."""
    keys = {affected_key(operation) for operation in transaction.operations}
    others = _since(ledger, keys, transaction.since, on)
    own: DeltaVector | None = None
    for _, (other, at) in zip(range(COMPARED_MAX), others, strict=False):
        own = own or change_of(ledger, transaction)
        result = detect_conflict(own, change_of(ledger, other, at), thresholds)
        if result.conflict_class is ConflictClass.CONFLICTING:
            return Alike(other.id, result)
    return None


def _since(ledger: Ledger, keys: set[bytes], since: int, on: Draft | None) -> Iterator[tuple[Transaction, int | None]]:
    """The newest first, each with the height that it stood on, None for the newest store."""
    draft = on
    while draft is not None and not draft.is_merged:
        yield from ((one, None) for one in reversed(draft.transactions) if _touches(one, keys))
        draft = draft.on
    heights = {height for key in keys for height in ledger.heights_of(key) if height > max(since, ledger.floor)}
    for height in sorted(heights, reverse=True):
        block = ledger.block(height)
        assert block is not None, "the history knows only what is there"
        yield from ((one, height - 1) for one in reversed(block.transactions) if _touches(one, keys))


def _touches(transaction: Transaction, keys: set[bytes]) -> bool:
    return any(affected_key(operation) in keys for operation in transaction.operations)
