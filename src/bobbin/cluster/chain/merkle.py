"""One hash over operations in order: a tree whose leaves are their digests.

Leaves and nodes are hashed under different tags, so neither can be taken for the other, and a node without a partner
goes up as it is. Pairing it with itself instead would give a list and the same list with its end repeated one root.
"""

from collections.abc import Iterable
from hashlib import sha256
from typing import Final

from bobbin.cluster.chain.block import ZERO

NODE_TAG: Final = b"bobbin-chain-node/v1"


def root_of(leaves: Iterable[bytes]) -> bytes:
    """32 zero bytes for none; a single leaf is its own root."""
    level = list(leaves)
    if not level:
        return ZERO
    while len(level) > 1:
        left = iter(level)
        above = [sha256(NODE_TAG + one + other).digest() for one, other in zip(left, left, strict=False)]
        if len(level) % 2:
            above.append(level[-1])
        level = above
    return level[0]
