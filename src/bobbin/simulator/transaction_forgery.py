"""Blocks that nobody may put on a chain: each is right but for one thing.

They come into the log as if a leader had proposed them. Every node must refuse them, and nothing may change.
"""

from random import Random
from typing import Final

from msgspec.structs import replace

from bobbin.cluster.chain.block import Block, BlockHeader
from bobbin.cluster.chain.encoding import header_bytes
from bobbin.cluster.chain.signing import signature_of
from bobbin.cluster.identity import Identity
from bobbin.cluster.operations import Put, Transaction
from bobbin.cluster.shard.machine import Shard
from bobbin.cluster.transactions.names import tx_id

FORGERIES: Final = (
    "without a signature",
    "with a spoilt signature",
    "signed by somebody else",
    "with another state root",
    "with another transaction root",
    "with another embedding",
    "with other operations than it was signed for",
    "that does not follow the tip",
    "of another codebook",
)


def forge(kind: str, state: Shard, identity: Identity, random: Random) -> Block:
    """A block for the tip of a state, with one thing wrong."""
    ledger = state.ledger
    honest = Transaction(
        id=tx_id(ledger.height, random.randbytes(8)),
        operations=(Put(b"forged", b"%d" % random.randrange(1_000)),),
        since=ledger.height,
    )
    draft = ledger.draft([honest], proposer=identity.node, timestamp_ms=0)
    block = ledger.seal(draft, identity)
    header = block.header
    match kind:
        case "without a signature":
            return Block(replace(header, signature=b""), block.transactions)
        case "with a spoilt signature":
            spoilt = bytearray(header.signature)
            spoilt[random.randrange(len(spoilt))] ^= 1 << random.randrange(8)
            return Block(replace(header, signature=bytes(spoilt)), block.transactions)
        case "signed by somebody else":
            return Block(_signed(header, Identity(random.randbytes(32))), block.transactions)
        case "with another state root":
            return Block(_signed(replace(header, state_root=random.randbytes(32)), identity), block.transactions)
        case "with another transaction root":
            return Block(_signed(replace(header, tx_root=random.randbytes(32)), identity), block.transactions)
        case "with another embedding":
            other = header.delta_embedding.mapped(lambda value: value + 1.0)
            return Block(_signed(replace(header, delta_embedding=other), identity), block.transactions)
        case "with other operations than it was signed for":
            return Block(header, (replace(honest, operations=(Put(b"forged", b"more"),)),))
        case "that does not follow the tip":
            return Block(_signed(replace(header, prev_hash=random.randbytes(32)), identity), block.transactions)
        case _:
            # Of none that could come into force before this block is applied.
            other_version = header.codebook_version + 7
            return Block(_signed(replace(header, codebook_version=other_version), identity), block.transactions)


def _signed(header: BlockHeader, identity: Identity) -> BlockHeader:
    unsigned = replace(header, signature=b"")
    return replace(unsigned, signature=signature_of(identity, header_bytes(unsigned)))
