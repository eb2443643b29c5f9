"""The hashes of a chain that cost the most, in one place: a machine may have a faster way to the same bits."""

from collections.abc import Sequence
from typing import Final

from bobbin.cluster.chain.merkle import root_of
from bobbin.cluster.content_tree import ContentTree
from bobbin.cluster.operations import Put, Transaction, operation_digest


class Hashing:
    """In Python alone."""

    def new_tree(self) -> ContentTree:
        """An empty tree over what keys hold."""
        return ContentTree()

    def root_of_puts(self, puts: Sequence[Put]) -> bytes:
        """Over puts, as over any operations."""
        return root_of(map(operation_digest, puts))

    def tx_root(self, transactions: Sequence[Transaction]) -> bytes:
        """Over the operations of all transactions."""
        operations = [operation for one in transactions for operation in one.operations]
        puts = [operation for operation in operations if type(operation) is Put]
        if len(puts) == len(operations):  # as in most blocks
            return self.root_of_puts(puts)
        return root_of(map(operation_digest, operations))


PLAIN: Final = Hashing()
