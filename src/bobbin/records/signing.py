"""Signatures (Lace-009): Schnorr over secp256k1 with BLAKE3 in derive-key mode for every hash.

A *signing secret* is 32 bytes of derivation material; from it follows the key scalar ``d`` whose public point has an
even y, and the *verifier*, that point's x-coordinate. A signature is 64 bytes, ``R.x ‖ s``.

Verification recomputes ``R' = s·G − e·P`` and asks for even y and the same x. The challenge is BLAKE3, so the
library's own Schnorr verification does not fit; ECDSA public-key recovery computes the same sum in one pass: with
r = P.x, s' = −e·r and z = −s·r (all modulo n) it yields r⁻¹(s'·P − z·G) = s·G − e·P. Recovery cannot express P.x ≥ n
or e = 0, so those two go the plain way, by two multiplications. Both ways give one answer for every input.
"""

from typing import Final, Self

from blake3 import blake3

from bobbin import profile
from bobbin.errors import IntegrityError, UsageError
from bobbin.records import curve, ids
from bobbin.records.ids import Verifier

SIGNATURE_SIZE: Final = 64
PUBLIC_SIZE: Final = 32
SECRET_SIZE: Final = 32

_AUXILIARY: Final = blake3(derive_key_context=profile.DERIVE_AUXILIARY)
_NONCE: Final = blake3(derive_key_context=profile.DERIVE_NONCE)
_CHALLENGE: Final = blake3(derive_key_context=profile.DERIVE_CHALLENGE)
_SIGNING_KEY: Final = blake3(derive_key_context=profile.DERIVE_SIGNING_KEY)

_ORDER: Final = curve.ORDER


class InvalidSignature(IntegrityError):
    """The signature is not this verifier's signature of this message, for whatever reason."""


class SigningKey:
    """A key that can sign. Keep it out of logs: its ``repr`` shows the verifier only."""

    __slots__ = ("_public_x", "_scalar", "verifier")

    def __init__(self, scalar: bytes) -> None:
        """From a scalar ``0 < d < n``; ``d`` and ``−d`` make the same key, the one whose point has even y."""
        if len(scalar) != SECRET_SIZE or not curve.is_scalar(scalar):
            raise UsageError("a signing key is a number between 1 and the order of the curve, in 32 bytes")
        self._public_x, odd = curve.multiply_generator(scalar)
        self._scalar = _even(scalar, odd)
        self.verifier: Final = ids.verifier_text(self._public_x)

    @classmethod
    def from_secret(cls, secret: bytes) -> Self:
        """The key that 32 bytes of signing secret stand for."""
        if len(secret) != SECRET_SIZE:
            raise UsageError(f"a signing secret is {SECRET_SIZE} bytes, not {len(secret)}")
        hasher = _SIGNING_KEY.copy().update(secret)
        seek = 0
        while not curve.is_scalar(candidate := hasher.digest(SECRET_SIZE, seek=seek)):
            seek += SECRET_SIZE
        return cls(candidate)

    @classmethod
    def from_text(cls, text: str) -> Self:
        """The key of a signing secret in its text form, ``&.….H3``."""
        return cls.from_secret(ids.parse_secret(text))

    def sign(self, message: bytes, *, auxiliary: bytes) -> bytes:
        """Sign a 32-byte digest. ``auxiliary`` is 32 fresh random bytes, never used for another signature."""
        if len(message) != 32:
            raise UsageError("what is signed is a 32-byte digest")
        if len(auxiliary) != 32 or not any(auxiliary):
            raise UsageError("the auxiliary randomness is 32 fresh bytes, not all zero")
        blind = _AUXILIARY.copy().update(auxiliary).digest()
        mask = (int.from_bytes(blind, "big") ^ int.from_bytes(self._scalar, "big")).to_bytes(32, "big")
        nonce = _reduce(_NONCE.copy().update(mask + self._public_x + message).digest())
        if not curve.is_scalar(nonce):
            raise UsageError("this randomness gives no nonce; draw again")
        commitment, odd = curve.multiply_generator(nonce)
        challenge = _reduce(_CHALLENGE.copy().update(commitment + self._public_x + message).digest())
        if not curve.is_scalar(challenge):
            raise UsageError("this randomness gives no challenge; draw again")
        return commitment + curve.multiply_add(self._scalar, challenge, _even(nonce, odd))

    def __repr__(self) -> str:
        return f"SigningKey({self.verifier})"


def verify(verifier: Verifier, message: bytes, signature: bytes) -> None:
    """Raise ``InvalidSignature`` unless ``signature`` is this verifier's signature of this 32-byte digest."""
    if not is_valid(ids.parse_verifier(verifier), message, signature):
        raise InvalidSignature("the signature does not match the verifier and the signed record")


def is_valid(public_x: bytes, message: bytes, signature: bytes) -> bool:
    """The bare question, on raw bytes; for callers that count or explain failures themselves."""
    if len(signature) != SIGNATURE_SIZE or len(public_x) != PUBLIC_SIZE:
        return False
    commitment = signature[:32]
    challenge = int.from_bytes(_CHALLENGE.copy().update(commitment + public_x + message).digest(), "big") % _ORDER
    response = int.from_bytes(signature[32:], "big")
    if response >= _ORDER:
        return False
    x = int.from_bytes(public_x, "big")
    if challenge == 0 or x >= _ORDER:
        point = curve.combine(response, public_x, _ORDER - challenge)
    else:
        scalar = (-challenge * x % _ORDER).to_bytes(32, "big")
        point = curve.recover(public_x, scalar, (-response * x % _ORDER).to_bytes(32, "big"))
    # A compressed point starts with 02 for even y; its x is below p, so a commitment >= p can never be equal.
    return point == b"\x02" + commitment


def is_valid_plainly(public_x: bytes, message: bytes, signature: bytes) -> bool:
    """The same answer by two multiplications: what the recovery method is measured and tested against."""
    if len(signature) != SIGNATURE_SIZE or len(public_x) != PUBLIC_SIZE:
        return False
    commitment = signature[:32]
    challenge = int.from_bytes(_CHALLENGE.copy().update(commitment + public_x + message).digest(), "big") % _ORDER
    response = int.from_bytes(signature[32:], "big")
    if response >= _ORDER:
        return False
    return curve.combine(response, public_x, _ORDER - challenge) == b"\x02" + commitment


def _even(scalar: bytes, odd: int) -> bytes:
    """``scalar`` or its negative, chosen by index so that Python takes the same steps for both."""
    return (scalar, curve.negate(scalar))[odd]


def _reduce(digest: bytes) -> bytes:
    """A digest modulo the order. All but 2⁻¹²⁸ of digests are below it, and those pass unread."""
    return digest if curve.is_scalar(digest) else (int.from_bytes(digest, "big") % _ORDER).to_bytes(32, "big")
