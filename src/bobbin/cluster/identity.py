"""Who a node is: an Ed25519 key, and the id and the place in space that follow from its public half.

======================  ============================================================================================
what                    how
======================  ============================================================================================
node id                 BLAKE2b-128 of ``neumann_node_id_v1`` and the public key, in 32 hexadecimal characters
embedding               BLAKE2b-512 of ``neumann_node_embedding_v1`` and the public key: 16 numbers u of 32 bits, low
                        byte first, each u / (2^32 - 1) * 2 - 1 in single precision
======================  ============================================================================================

The private half is held by the library that signs, outside of what Python can print, copy or pickle, and the library
overwrites it when it is let go. Signing and verifying are done by two libraries, each where it is faster; Ed25519 is
deterministic, so that nobody can tell.
"""

from hashlib import blake2b
from struct import Struct as Layout
from typing import Final, NoReturn, Self

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from nacl import bindings
from nacl.exceptions import CryptoError

from bobbin.cluster.geometry import Embedding
from bobbin.cluster.names import NodeId
from bobbin.errors import IntegrityError, UsageError

PUBLIC_SIZE: Final = 32
SEED_SIZE: Final = 32
SIGNATURE_SIZE: Final = 64
NODE_ID_SIZE: Final = 16
"""Bytes of the digest; the id has two characters for each."""
EMBEDDING_DIMENSION: Final = 16

_NODE_ID_TAG: Final = b"neumann_node_id_v1"
_EMBEDDING_TAG: Final = b"neumann_node_embedding_v1"
_WORDS: Final = Layout("<16I")
_SINGLES: Final = Layout("<16f")


class InvalidKey(IntegrityError):
    """These bytes are not a public key that anybody could sign with."""


class InvalidSignature(IntegrityError):
    """The signature is not this key's signature of these bytes."""


def node_id_of(public: bytes) -> NodeId:
    """The id of whoever holds this key."""
    return NodeId(blake2b(_NODE_ID_TAG + public, digest_size=NODE_ID_SIZE).hexdigest())


def embedding_of(public: bytes) -> Embedding:
    """Where whoever holds this key is, as long as nothing better is known."""
    words = _WORDS.unpack(blake2b(_EMBEDDING_TAG + public, digest_size=64).digest())
    singles: tuple[float, ...] = _SINGLES.unpack(_SINGLES.pack(*[word / 0xFFFF_FFFF * 2.0 - 1.0 for word in words]))
    return Embedding.dense(singles)


class PublicIdentity:
    """The public half of an identity. One that exists is a point that signatures can be checked against."""

    __slots__ = ("node", "public")

    def __init__(self, public: bytes) -> None:
        """Raises ``InvalidKey``."""
        if len(public) != PUBLIC_SIZE:
            raise InvalidKey(f"a public key has {PUBLIC_SIZE} bytes, not {len(public)}")
        if not bindings.crypto_core_ed25519_is_valid_point(public):
            raise InvalidKey("a public key that is no point of the curve, or one of small order")
        self.public: Final = public
        self.node: Final = node_id_of(public)

    @property
    def embedding(self) -> Embedding:
        return embedding_of(self.public)

    def verify(self, message: bytes, signature: bytes) -> None:
        """Raise ``InvalidSignature`` unless it is this key's signature of these bytes."""
        if len(signature) != SIGNATURE_SIZE:
            raise InvalidSignature(f"a signature has {SIGNATURE_SIZE} bytes, not {len(signature)}")
        try:
            bindings.crypto_sign_open(signature + message, self.public)
        except CryptoError:
            raise InvalidSignature("the signature does not match the key and the signed bytes") from None

    def __eq__(self, other: object) -> bool:
        return isinstance(other, PublicIdentity) and other.public == self.public

    def __hash__(self) -> int:
        return hash(self.public)

    def __repr__(self) -> str:
        return f"PublicIdentity({self.node})"


class Identity:
    """A node's own key. It can sign until it is closed; its ``repr`` shows the node id only."""

    __slots__ = ("__weakref__", "_key", "public_identity")

    def __init__(self, seed: bytes | bytearray) -> None:
        """From 32 random bytes. A ``bytearray`` is overwritten with zeros: the key has been taken over."""
        if len(seed) != SEED_SIZE:
            raise UsageError(f"the seed of an identity is {SEED_SIZE} bytes, not {len(seed)}")
        key = Ed25519PrivateKey.from_private_bytes(seed)
        if isinstance(seed, bytearray):
            seed[:] = bytes(SEED_SIZE)
        self._key: Ed25519PrivateKey | None = key
        self.public_identity: Final = PublicIdentity(key.public_key().public_bytes_raw())

    @property
    def node(self) -> NodeId:
        return self.public_identity.node

    @property
    def public(self) -> bytes:
        return self.public_identity.public

    @property
    def embedding(self) -> Embedding:
        return self.public_identity.embedding

    @property
    def is_closed(self) -> bool:
        return self._key is None

    def sign(self, message: bytes) -> bytes:
        """64 bytes. Raises ``UsageError`` after ``close``."""
        return self.expose_key().sign(message)

    def expose_key(self) -> Ed25519PrivateKey:
        """The private key itself, for the certificate of a link. Whoever calls this must not keep it."""
        if self._key is None:
            raise UsageError("this identity has been closed; it signs no more")
        return self._key

    def expose_seed(self) -> bytearray:
        """The 32 bytes that the key was made from, for the key file. Overwrite them when they are written."""
        return bytearray(self.expose_key().private_bytes_raw())

    def close(self) -> None:
        """Let go of the private key, which the library overwrites. Nothing can be signed from here on."""
        self._key = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"Identity({self.node})"

    def __reduce_ex__(self, protocol: object) -> NoReturn:
        """Neither pickled nor copied: there would be a second place where the key is."""
        raise UsageError("an identity is not copied or serialised: it holds a private key")
