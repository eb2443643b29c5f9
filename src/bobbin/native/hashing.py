"""The hashes of a chain in C: the results of ``bobbin.cluster.chain.hashing``, bit for bit, in less time.

``hashing()`` is how a node gets the best there is on its machine.
"""

from collections.abc import Sequence
from functools import cache
from typing import TYPE_CHECKING, Final

from bobbin.cluster.chain.hashing import PLAIN, Hashing
from bobbin.cluster.chain.merkle import NODE_TAG
from bobbin.cluster.content_tree import ContentTree
from bobbin.cluster.operations import TAGGED_PUT, Put
from bobbin.native.content_tree import NativeContentTree, Pieces, form_of, tree_functions
from bobbin.native.library import LibraryAbsent

if TYPE_CHECKING:
    import ctypes

_PUT_FORM: Final = form_of(TAGGED_PUT, b"")
"""What is hashed of a put, as ``operation_digest`` has it."""


class NativeHashing(Hashing):
    """In C. Raises ``LibraryAbsent`` where there is no library."""

    def __init__(self) -> None:
        self._functions: Final = tree_functions()

    def new_tree(self) -> ContentTree:
        """An empty tree over what keys hold."""
        return NativeContentTree()

    def root_of_puts(self, puts: Sequence[Put]) -> bytes:
        """Over puts, as over any operations."""
        pieces = Pieces([put.key for put in puts], [put.data for put in puts])
        functions: ctypes.CDLL = self._functions.yielding if pieces.is_long else self._functions.holding
        return pieces.given_to(functions.bobbin_merkle_root, _PUT_FORM, NODE_TAG, len(NODE_TAG))


@cache
def why_plain() -> str | None:
    """Why the hashes of this process are made in Python, where that is as good, or the only way; None: they are not."""
    try:
        return None if tree_functions().is_fast else "the processor has no instructions for SHA-256 that are used"
    except LibraryAbsent as absent:
        return f"the C library cannot be used: {absent.reason}"


@cache
def hashing() -> Hashing:
    """The best way there is."""
    return NativeHashing() if why_plain() is None else PLAIN
