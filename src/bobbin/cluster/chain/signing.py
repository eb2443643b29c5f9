"""Signatures of blocks. A header carries the public key from which its proposer's id follows: nobody is looked up."""

from functools import lru_cache

from bobbin.cluster.chain.block import BlockHeader
from bobbin.cluster.chain.encoding import SIGNED_BYTES
from bobbin.cluster.identity import PUBLIC_SIZE, Identity, PublicIdentity
from bobbin.cluster.names import NodeId
from bobbin.errors import IntegrityError


def signature_of(identity: Identity, message: bytes) -> bytes:
    """The public key, and its signature of these bytes."""
    return identity.public + identity.sign(message)


def why_unsigned(signer: NodeId, message: bytes, signature: bytes) -> str | None:
    """What is wrong with a signature of these bytes by whoever has this id; None for nothing."""
    if len(signature) != SIGNED_BYTES:
        return f"a signature has {SIGNED_BYTES} bytes with its public key, not {len(signature)}"
    try:
        public = _public_identity(signature[:PUBLIC_SIZE])
        if public.node != signer:
            return "the key of the signature is not that of the one who is named"
        public.verify(message, signature[PUBLIC_SIZE:])
    except IntegrityError as error:
        return str(error)
    return None


def why_header_unsigned(header: BlockHeader, signed_bytes: bytes) -> str | None:
    """What is wrong with the signature of a header; None for nothing."""
    return why_unsigned(header.proposer, signed_bytes, header.signature)


@lru_cache(maxsize=256)
def _public_identity(public: bytes) -> PublicIdentity:
    """Whether the bytes are a key is worked out once for each of the few that sign."""
    return PublicIdentity(public)
