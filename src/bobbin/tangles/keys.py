"""Ed25519 keys as pzp writes them, and signatures under them.

A key pair is known by its public half in base58. The private half is the 32-byte seed and the public key after it. A
signature is over bytes; what they are, with which tag before them, is the business of whoever signs.
"""

from functools import lru_cache
from typing import Final, Self

from nacl import bindings
from nacl.exceptions import CryptoError

from bobbin.errors import UsageError
from bobbin.tangles import base58
from bobbin.tangles.errors import MalformedText

PUBLIC_BYTES: Final = 32
SEED_BYTES: Final = 32
PRIVATE_BYTES: Final = 64
SIGNATURE_BYTES: Final = 64


class Keypair:
    """A key that can sign. Keep it out of logs: its ``repr`` shows the public half only."""

    __slots__ = ("_private", "public", "public_bytes")

    def __init__(self, seed: bytes) -> None:
        """From 32 random bytes."""
        if len(seed) != SEED_BYTES:
            raise UsageError(f"the seed of a key is {SEED_BYTES} bytes, not {len(seed)}")
        public, self._private = bindings.crypto_sign_seed_keypair(seed)
        self.public_bytes: Final = public
        self.public: Final = base58.encode(public)

    @classmethod
    def from_words(cls, words: str) -> Self:
        """The key of a short text, as the tests of pzp make theirs. Anybody can guess it."""
        return cls(words[:SEED_BYTES].encode()[:SEED_BYTES].ljust(SEED_BYTES, b"\0"))

    @classmethod
    def from_private(cls, text: str) -> Self:
        """The key of a private half in base58."""
        try:
            private = base58.decode(text, PRIVATE_BYTES)
        except MalformedText:
            raise UsageError("not a private key (base58 of 64 bytes)") from None
        key = cls(private[:SEED_BYTES])
        if key._private != private:
            raise UsageError("the two halves of a private key do not belong together")
        return key

    @property
    def private(self) -> str:
        """The private half in base58."""
        return base58.encode(self._private)

    @property
    def private_bytes(self) -> bytes:
        return self._private

    def sign(self, message: bytes) -> str:
        """The signature of these bytes, in base58."""
        return base58.encode(bindings.crypto_sign(message, self._private)[:SIGNATURE_BYTES])

    def __repr__(self) -> str:
        return f"Keypair({self.public})"


@lru_cache(maxsize=4096)
def public_bytes(text: str) -> bytes:
    """The 32 bytes of a public key in base58. Raises ``MalformedText``."""
    return base58.decode(text, PUBLIC_BYTES)


def is_signature(public: str, message: bytes, signature: bytes) -> bool:
    """Whether 64 bytes are this key's signature of these bytes."""
    try:
        bindings.crypto_sign_open(signature + message, public_bytes(public))
    except CryptoError:
        return False
    return True
