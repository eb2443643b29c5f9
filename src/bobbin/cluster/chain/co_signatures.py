"""The word of other validators for blocks. Each node keeps what it was given; the chain does not rest on it."""

from bobbin.cluster.chain.block import CoSignature
from bobbin.cluster.chain.encoding import co_signature_bytes
from bobbin.cluster.chain.errors import AlreadyCoSigned
from bobbin.cluster.chain.signing import signature_of, why_unsigned
from bobbin.cluster.identity import Identity
from bobbin.errors import IntegrityError


class BadCoSignature(IntegrityError):
    """It is not this validator's signature of this block. Nothing was kept."""


def co_sign(identity: Identity, block_hash: bytes) -> CoSignature:
    """Stand by a block."""
    return CoSignature(identity.node, signature_of(identity, co_signature_bytes(block_hash)), block_hash)


class CoSignatures:
    """By block, one of each validator."""

    def __init__(self) -> None:
        self._by_block: dict[bytes, dict[str, CoSignature]] = {}

    def add(self, given: CoSignature) -> None:
        """Check and keep one. Raises ``BadCoSignature`` or ``AlreadyCoSigned``."""
        fault = why_unsigned(given.validator, co_signature_bytes(given.block_hash), given.signature)
        if fault is not None:
            raise BadCoSignature(fault)
        of_block = self._by_block.setdefault(given.block_hash, {})
        if given.validator in of_block:
            raise AlreadyCoSigned(f"{given.validator} has signed this block before")
        of_block[given.validator] = given

    def of(self, block_hash: bytes) -> tuple[CoSignature, ...]:
        """Those of a block, by validator."""
        of_block = self._by_block.get(block_hash, {})
        return tuple(of_block[validator] for validator in sorted(of_block))
