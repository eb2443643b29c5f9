"""A transaction on its way into a block, with what a leader works out about it once."""

from typing import TYPE_CHECKING, Final

from bobbin.cluster.chain.draft import kinds_of_writes
from bobbin.cluster.operations import Average, Embed, Put, Transaction, VectorAdd, encode_operation
from bobbin.cluster.shard.rivals import kinds
from bobbin.cluster.transactions.names import TxId

if TYPE_CHECKING:
    from bobbin.cluster.conflicts.delta import DeltaVector

_MOVING: Final = frozenset({Embed, VectorAdd, Average})
"""Operations whose changes of vectors are merged in the header of a block."""
_AROUND: Final = 16
"""About so many bytes come to each read and operation in the log."""


class Waiting:
    """A transaction on its way into a block."""

    __slots__ = (
        "deadline_ms",
        "delta",
        "is_held",
        "is_part",
        "kinds",
        "moves_vectors",
        "requests",
        "size",
        "transaction",
        "tries",
        "tx",
        "writes",
    )

    def __init__(self, transaction: Transaction, *, is_part: bool, deadline_ms: int) -> None:
        self.transaction = transaction
        self.tx: Final = TxId(transaction.id)
        self.is_part = is_part
        """Promised, and decided: it has no request of its own."""
        self.requests: list[int] = []
        self.deadline_ms = deadline_ms
        """When a client is told that keys are locked, if it may wait for them."""
        self.tries = 0
        self.is_held = False
        """Something under way is in its way: wait until that has landed."""
        self.delta: DeltaVector | None = None
        operations = transaction.operations
        if len(operations) == 1 and type(operations[0]) is Put and not transaction.reads:
            # Most are so, and all of this is at hand then.
            put = operations[0]
            self.kinds = self.writes = {put.key: 0}
            self.moves_vectors = False
            self.size = len(put.key) + len(put.data) + _AROUND
            return
        self.kinds = kinds(transaction)
        self.writes = kinds_of_writes(operations)
        """By storage key, as ``kinds`` is by affected key."""
        self.moves_vectors = moves_vectors(transaction)
        self.size = size_of(transaction)


def moves_vectors(transaction: Transaction) -> bool:
    """Whether a transaction has a change that is merged with those of others: other operations move no vector."""
    return not _MOVING.isdisjoint(map(type, transaction.operations))


def size_of(transaction: Transaction) -> int:
    """About how many bytes a transaction takes in the log."""
    size = sum([len(read.key) + _AROUND for read in transaction.reads])
    for operation in transaction.operations:
        size += len(operation.key) + len(operation.data) if type(operation) is Put else len(encode_operation(operation))
        size += _AROUND
    return size
