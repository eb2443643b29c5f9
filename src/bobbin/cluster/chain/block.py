"""A block: the transactions that became one step of a shard's history, and a signed header that fixes all of it."""

from typing import Final

from msgspec import Struct

from bobbin.cluster.geometry import Embedding
from bobbin.cluster.names import NodeId
from bobbin.cluster.operations import Transaction

ZERO: Final = bytes(32)


class BlockHeader(Struct, frozen=True, array_like=True, forbid_unknown_fields=True, gc=False):
    """Hash and signature cover all but the signature."""

    height: int
    prev_hash: bytes
    tx_root: bytes
    """Over the operations of all transactions, in order."""
    envelope_hash: bytes
    """Over all else that the transactions say, and over which operations belong to which of them."""
    state_root: bytes
    """After the block."""
    delta_embedding: Embedding
    """Worked out from the operations; whoever checks works it out again."""
    quantized_codes: tuple[int, ...]
    """Of the global codebook alone, each below 65,536."""
    codebook_version: int
    timestamp_ms: int
    proposer: NodeId
    signature: bytes = b""
    """The proposer's public key, and its Ed25519 signature of the header; empty for genesis alone."""


class Block(Struct, frozen=True, array_like=True, forbid_unknown_fields=True, gc=False):
    """What a shard's history consists of."""

    header: BlockHeader
    transactions: tuple[Transaction, ...]


class CoSignature(Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """Another validator's word for a block."""

    validator: NodeId
    signature: bytes
    """The validator's public key and its Ed25519 signature of the block's hash, under a tag of its own."""
    block_hash: bytes


def genesis(dimension: int) -> Block:
    """The block before the first. Nothing in it is chosen by anybody, so whoever knows the dimension knows its hash."""
    return Block(
        BlockHeader(
            height=0,
            prev_hash=ZERO,
            tx_root=ZERO,
            envelope_hash=ZERO,
            state_root=ZERO,
            delta_embedding=Embedding(dimension, (), ()),
            quantized_codes=(),
            codebook_version=0,
            timestamp_ms=0,
            proposer=NodeId(""),
        ),
        (),
    )
