"""The whole chain, looked at from genesis on."""

from collections.abc import Iterable
from enum import Enum

from msgspec import Struct

from bobbin.cluster.chain.block import Block, genesis
from bobbin.cluster.chain.encoding import envelope_hash, header_bytes, header_hash, why_header_invalid
from bobbin.cluster.chain.hashing import PLAIN
from bobbin.cluster.chain.signing import why_header_unsigned
from bobbin.cluster.operations import why_invalid


class Flaw(Enum):
    """What can be wrong with a block of a chain."""

    GENESIS = "genesis"
    LIMITS = "limits"
    HEIGHT = "height"
    PREVIOUS_HASH = "previous-hash"
    TRANSACTION_ROOT = "transaction-root"
    TIMESTAMP = "timestamp"
    SIGNATURE = "signature"
    STATE_ROOT = "state-root"


class Fault(Struct, frozen=True):
    """The first block that is wrong."""

    height: int
    """Where it stands in the chain, whatever it says itself."""
    flaw: Flaw
    reason: str


def verify_blocks(blocks: Iterable[Block], *, dimension: int) -> Fault | None:
    """Look at blocks from genesis, which comes first, on; None if all of them are right."""
    iterator = iter(blocks)
    first = next(iterator, None)
    pinned = genesis(dimension)
    if first != pinned:
        return Fault(0, Flaw.GENESIS, "the chain does not begin with the genesis of its dimension")
    before, before_hash = pinned, header_hash(pinned.header)
    for height, block in enumerate(iterator, start=1):
        found = _flaw(block, before, before_hash, dimension)
        if found is not None:
            return Fault(height, *found)
        before, before_hash = block, header_hash(block.header)
    return None


def _flaw(block: Block, before: Block, before_hash: bytes, dimension: int) -> tuple[Flaw, str] | None:
    header = block.header
    wrong = why_header_invalid(header, dimension=dimension)
    for one in block.transactions:
        wrong = wrong or why_invalid(one, dimension=dimension)
    if wrong is not None:
        return Flaw.LIMITS, wrong
    if header.height != before.header.height + 1:
        return Flaw.HEIGHT, f"it says {header.height}"
    if header.prev_hash != before_hash:
        return Flaw.PREVIOUS_HASH, "it does not follow the block before"
    if header.tx_root != PLAIN.tx_root(block.transactions):
        return Flaw.TRANSACTION_ROOT, "the root is not that of the operations"
    if header.envelope_hash != envelope_hash(block.transactions):
        return Flaw.TRANSACTION_ROOT, "ids, reads or bounds of the transactions are not those that the header fixes"
    if header.timestamp_ms < before.header.timestamp_ms:
        return Flaw.TIMESTAMP, "its time is before that of the block before"
    unsigned = why_header_unsigned(header, header_bytes(header))
    return None if unsigned is None else (Flaw.SIGNATURE, unsigned)
