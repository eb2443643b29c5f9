"""Who an observer of a graph is: ids that follow from a token, from a key, or from the way it came.

An id is bound to what was proven. Whoever claims another one in its handshake is let go, so no two kinds share any:

==================  ===================================================================================
ids                 whose
==================  ===================================================================================
0                   the graph's own process
1                   the owner: whoever can open the Unix socket, which is made for one user, or started this process
2                   anyone: whoever has shown nothing
3 to 2^52 - 1       tokens, as their file says
2^52 to 2^53 - 1    keys, derived from the key, so that both sides know it
==================  ===================================================================================

None is larger than what a peer that holds numbers as JavaScript does can hold.
"""

import hmac
import re
from collections.abc import Mapping
from hashlib import sha256
from types import MappingProxyType
from typing import Final

from msgspec import Struct

from bobbin.errors import UsageError
from bobbin.reactive.messages import PeerId
from bobbin.records.ids import Verifier
from bobbin.records.signing import SigningKey

SOURCE: Final = PeerId(0)
OWNER: Final = PeerId(1)
ANYONE: Final = PeerId(2)
NAMES: Final[Mapping[str, PeerId]] = MappingProxyType({"owner": OWNER, "anyone": ANYONE})
"""What the two without a proof are called."""
TOKEN_PEER_MIN: Final = 3
SIGNER_PEER_MIN: Final = 2**52

TOKEN: Final = re.compile(r"[A-Za-z0-9._~-]{8,128}", re.ASCII)
"""What a token is made of: it must be able to stand in a header, and in the name of a subprotocol."""

_DIGEST_BITS: Final = 64
_SIGNER_BITS: Final = 52


def signer_peer(verifier: Verifier) -> PeerId:
    """The id of whoever proves a key."""
    digest = sha256(verifier.encode()).digest()
    return PeerId(SIGNER_PEER_MIN | int.from_bytes(digest[:8], "big") >> (_DIGEST_BITS - _SIGNER_BITS))


def token_digest(token: str) -> bytes:
    """What is kept of a token. Raises ``UsageError`` for a text that cannot be one."""
    if TOKEN.fullmatch(token) is None:
        raise UsageError("a token has 8 to 128 characters, of letters, digits and . _ ~ -")
    return sha256(token.encode()).digest()


class Identities(Struct, frozen=True, kw_only=True):
    """Who is known, and how."""

    tokens: Mapping[bytes, PeerId] = MappingProxyType({})
    """By the SHA-256 of the token."""
    signers: frozenset[Verifier] = frozenset()
    anyone: bool = False
    """Whether somebody who has shown nothing is taken at all."""

    def __post_init__(self) -> None:
        wrong = [peer for peer in self.tokens.values() if not TOKEN_PEER_MIN <= peer < SIGNER_PEER_MIN]
        if wrong:
            raise UsageError(f"a token has an id between {TOKEN_PEER_MIN} and 2^52 - 1, not {wrong[0]}")
        if len({signer_peer(verifier) for verifier in self.signers}) < len(self.signers):
            raise UsageError("two of the known keys lead to the same id, so one of them cannot be known here")

    def of_token(self, token: str) -> PeerId | None:
        """Whose token a text is. How long that takes says nothing of how much of it is right."""
        given = sha256(token.encode("utf-8", "surrogateescape")).digest()
        found = None
        for digest, peer in self.tokens.items():
            if hmac.compare_digest(digest, given):
                found = peer
        return found

    def of_signer(self, verifier: Verifier | None) -> PeerId | None:
        """Whose key was proven, if it is known."""
        return signer_peer(verifier) if verifier is not None and verifier in self.signers else None


class Credentials(Struct, frozen=True, kw_only=True):
    """What an observer shows of itself: a token, a key, or nothing."""

    peer: PeerId | None = None
    """Its id: needed with a token, and known without."""
    token: str | None = None
    key: SigningKey | None = None
    verifier: Verifier | None = None
    """With a key: the one that the server must prove in turn."""

    def __post_init__(self) -> None:
        if self.token is not None and self.key is not None:
            raise UsageError("an observer is known by a token or by a key: choose one")
        if (self.token is None) != (self.peer is None):
            raise UsageError("a token and the id of its peer belong together")
        if self.token is not None:
            token_digest(self.token)
        if self.verifier is not None and self.key is None:
            raise UsageError("a server proves its key only to who proves one")

    def claims(self, *, is_own: bool) -> PeerId:
        """The id to claim on a link. ``is_own``: whether it comes the owner's way."""
        if self.peer is not None:
            return self.peer
        if self.key is not None:
            return signer_peer(self.key.verifier)
        return OWNER if is_own else ANYONE
