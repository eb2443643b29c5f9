"""The knot proof: who a peer is, shown by a signature over this very stream.

``KnotProof('<verifier>','<signature>')`` signs ::

    BLAKE3("lace-knot-proof/v1" || role || nonce of the initiator || nonce of the responder || binding || verifier text)

Both nonces are in it, so a proof is good for one stream; the role, so it cannot be sent back to where it came from; the
verifier, so it cannot be passed off as another's. The binding is 32 bytes that only the two ends of one encrypted
channel share. Without one they are zeros, and then a middleman who relays everything, both nonces included, is not
noticed: such a proof says that the peer signed, but not that nobody stands between. So it counts only where nobody can:
on this machine.
"""

from enum import Enum
from typing import Final

from blake3 import blake3
from msgspec import Struct

from bobbin.errors import IntegrityError, UsageError
from bobbin.facts import block
from bobbin.facts.block import MalformedBlock
from bobbin.interlace.reasons import Abort, Reason
from bobbin.records import b64a, ids, signing
from bobbin.records.ids import Verifier
from bobbin.records.signing import SIGNATURE_SIZE, SigningKey
from bobbin.wire.elements import NONCE_SIZE
from bobbin.wire.predicates import KNOT_PROOF, refuse

DOMAIN: Final = b"lace-knot-proof/v1"
BINDING_SIZE: Final = 32
UNBOUND: Final = bytes(BINDING_SIZE)
"""The binding of a channel that has none."""

PROOF_BYTES_MAX: Final = 512
"""Fact lines of the proof phase: one, of fixed length."""


class Role(Enum):
    """The side that a proof is made by: who opened the link, or who took it."""

    INITIATOR = b"\x30"
    RESPONDER = b"\x31"


class Nonces(Struct, frozen=True, kw_only=True):
    """The two prefaces of a link."""

    initiator: bytes
    responder: bytes

    def __post_init__(self) -> None:
        if len(self.initiator) != NONCE_SIZE or len(self.responder) != NONCE_SIZE:
            raise UsageError(f"a nonce has {NONCE_SIZE} bytes")


class Proof(Struct, frozen=True, kw_only=True):
    """A proof as it was sent. It proves nothing before ``verify``."""

    verifier: Verifier
    signature: bytes


def digest(role: Role, nonces: Nonces, verifier: Verifier, *, binding: bytes | None) -> bytes:
    """What is signed. ``binding`` is None on a channel without one."""
    bound = UNBOUND if binding is None else binding
    if len(bound) != BINDING_SIZE:
        raise UsageError(f"a channel binding has {BINDING_SIZE} bytes")
    return blake3(DOMAIN + role.value + nonces.initiator + nonces.responder + bound + verifier.encode()).digest()


def make(key: SigningKey, role: Role, nonces: Nonces, *, binding: bytes | None, auxiliary: bytes) -> Proof:
    """The proof of the side that has this key. ``auxiliary`` is 32 fresh random bytes."""
    message = digest(role, nonces, key.verifier, binding=binding)
    return Proof(verifier=key.verifier, signature=key.sign(message, auxiliary=auxiliary))


def verify(proof: Proof, role: Role, nonces: Nonces, *, binding: bytes | None) -> Verifier:
    """Who the peer is, or ``Abort``. ``role`` is the peer's."""
    try:
        signing.verify(proof.verifier, digest(role, nonces, proof.verifier, binding=binding), proof.signature)
    except IntegrityError as error:
        raise Abort(Reason.NEGOTIATION, f"the proof of {proof.verifier} does not fit this link") from error
    return proof.verifier


def counts(*, binding: bytes | None, loopback: bool) -> bool:
    """Whether a valid proof says who is at the other end. Off this machine, only one for a bound channel does."""
    return loopback or (binding is not None and binding != UNBOUND)


def render(proof: Proof | None) -> bytes:
    """The block of the proof phase; a side without proof sends an empty one."""
    if proof is None:
        return b""
    return block.render([(KNOT_PROOF, (proof.verifier, b64a.encode(proof.signature)))])


def read(raw: bytes) -> Proof | None:
    """The proof in the block of the proof phase, or None if the peer gives none."""
    facts = block.parse(raw, bytes_max=PROOF_BYTES_MAX)
    for line, (predicate, values) in enumerate(facts, start=1):
        if predicate != KNOT_PROOF or len(values) != 2:
            refuse(line, predicate, values, "proof")
        if line > 1:
            raise MalformedBlock(line, "a side has one proof at most")
    if not facts:
        return None
    verifier, text = facts[0][1]
    try:
        ids.parse_verifier(verifier)
        signature = b64a.decode(text)
    except IntegrityError as error:
        raise MalformedBlock(1, str(error)) from error
    if len(signature) != SIGNATURE_SIZE:
        raise MalformedBlock(1, f"a signature has {SIGNATURE_SIZE} bytes")
    return Proof(verifier=Verifier(verifier), signature=signature)
