"""The bytes that are hashed and signed. Every part has its length or a fixed one, so no two headers share them.

Numbers have their most significant bytes first. Each kind of text begins with a tag of its own, so that no hash or
signature of one kind can stand for one of another.
"""

from hashlib import sha256
from struct import Struct as Layout
from struct import pack
from typing import Final

from bobbin.cluster.chain.block import ZERO, BlockHeader
from bobbin.cluster.names import NodeId
from bobbin.cluster.operations import HEIGHT_MAX, Transaction, encode_embedding, sized, why_vector_invalid

HEADER_TAG: Final = b"bobbin-chain-header/v1"
ENVELOPES_TAG: Final = b"bobbin-chain-envelopes/v1"
CO_SIGNATURE_TAG: Final = b"bobbin-chain-co-signature/v1"
CODES_MAX: Final = 16
CODE_MAX: Final = 65_535
PROPOSER_BYTES_MAX: Final = 256
SIGNED_BYTES: Final = 32 + 64
"""A signature as a header has it: public key and signature."""
_NUMBER: Final = Layout(">Q")
_NUMBERS: Final = Layout(">QQ")
_ENVELOPE: Final = Layout(">QQqIII")
"""With the length of the id at its end."""


def header_bytes(header: BlockHeader) -> bytes:
    """What is hashed and signed of a header that ``why_header_invalid`` has nothing against."""
    codes = header.quantized_codes
    return b"".join(
        (
            HEADER_TAG,
            _NUMBER.pack(header.height),
            sized(header.prev_hash),
            sized(header.tx_root),
            sized(header.envelope_hash),
            sized(header.state_root),
            encode_embedding(header.delta_embedding),
            pack(f">I{len(codes)}H", len(codes), *codes),
            _NUMBERS.pack(header.codebook_version, header.timestamp_ms),
            sized(header.proposer.encode()),
        )
    )


def header_hash(header: BlockHeader) -> bytes:
    """The name of a block."""
    return sha256(header_bytes(header)).digest()


def envelope_hash(transactions: tuple[Transaction, ...]) -> bytes:
    """Over what the transactions say besides their operations; zeros for none."""
    if not transactions:
        return ZERO
    parts = [ENVELOPES_TAG]
    for one in transactions:
        reads = one.reads
        id = one.id
        parts.append(_ENVELOPE.pack(one.since, one.born_ms, one.priority, len(one.operations), len(reads), len(id)))
        parts.append(id)
        for read in reads:
            parts += (_NUMBER.pack(read.version), sized(read.key))
    return sha256(b"".join(parts)).digest()


def co_signature_bytes(block_hash: bytes) -> bytes:
    """What a validator signs to stand by a block."""
    return CO_SIGNATURE_TAG + block_hash


def why_header_invalid(header: BlockHeader, *, dimension: int) -> str | None:
    """What is wrong with a header whatever came before it. One that is not valid has no bytes and no hash."""
    for number in (header.height, header.codebook_version, header.timestamp_ms):
        if not 0 <= number <= HEIGHT_MAX:
            return "height, version of the codebook and time are numbers from 0 to 2^63 - 1"
    for hash in (header.prev_hash, header.tx_root, header.envelope_hash, header.state_root):
        if len(hash) != len(ZERO):
            return f"a hash has {len(ZERO)} bytes, not {len(hash)}"
    codes = header.quantized_codes
    if len(codes) > CODES_MAX or any(not 0 <= code <= CODE_MAX for code in codes):
        return f"a header has at most {CODES_MAX} codes, each from 0 to {CODE_MAX}"
    wrong = why_vector_invalid(header.delta_embedding, dimension=dimension)
    return wrong if wrong is not None else _why_proposer_invalid(header.proposer)


def _why_proposer_invalid(proposer: NodeId) -> str | None:
    try:
        size = len(proposer.encode())
    except UnicodeEncodeError:
        return "the proposer is not a text that can be written down"
    return None if size <= PROPOSER_BYTES_MAX else f"the id of a node has at most {PROPOSER_BYTES_MAX} bytes"
