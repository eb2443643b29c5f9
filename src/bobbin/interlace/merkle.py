"""The Merkle root of a partition: one hash that says which advertisement records are in it (Lace-050).

The record digests ascend, each becomes a leaf, and leaves are joined two by two. The tree is padded at the right with
empty leaves to a power of two. A subtree of nothing but padding has the same hash wherever it stands, so padding costs
at most one known hash per level and never a leaf of its own.
"""

from collections.abc import Iterable
from typing import Final

from blake3 import blake3

_LEAF: Final = b"lace-advertisement-leaf/v1"
_NODE: Final = b"lace-advertisement-node/v1"
_EMPTY: Final = b"lace-advertisement-empty/v1"
_LEVELS: Final = 64

EMPTY: Final[bytes] = blake3(_EMPTY).digest()
"""A leaf that stands for no record, and the root of an empty partition."""


def leaf(digest: bytes) -> bytes:
    """The leaf of one record digest."""
    return blake3(_LEAF + digest).digest()


def node(left: bytes, right: bytes) -> bytes:
    """What joins two subtrees."""
    return blake3(_NODE + left + right).digest()


def root(digests: Iterable[bytes]) -> bytes:
    """The root over record digests, which may come in any order."""
    # Spelled out: a call for each would cost a third of what the hashing does.
    level = [blake3(_LEAF + digest).digest() for digest in sorted(digests)]
    height = 0
    while len(level) > 1:
        if len(level) % 2:
            level.append(_PADDING[height])
        level = [blake3(_NODE + left + right).digest() for left, right in zip(level[::2], level[1::2], strict=True)]
        height += 1
    return level[0] if level else EMPTY


def _padding() -> tuple[bytes, ...]:
    hashes = [EMPTY]
    while len(hashes) < _LEVELS:
        hashes.append(node(hashes[-1], hashes[-1]))
    return tuple(hashes)


_PADDING: Final = _padding()
"""By height: the hash of a subtree that has only empty leaves."""
