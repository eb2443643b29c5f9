"""Identifiers in text: record hashes (``B. P. S.``), verifiers (``V.``) and signing secrets (``&.``).

All have one shape, ``<letter>.<43 B64A symbols>.H3``, and stand for 32 bytes. A hash text names a record for ever: it
is the BLAKE3-256 digest of everything after the record's first line, tagged with the record's kind.
"""

from enum import IntEnum
from functools import lru_cache
from typing import Final, NewType, Self

from bobbin.errors import IntegrityError
from bobbin.records import b64a

Digest = NewType("Digest", bytes)
"""The 32 bytes of a BLAKE3-256 digest."""

HashText = NewType("HashText", str)
"""A canonical ``B.…H3``, ``P.…H3`` or ``S.…H3``."""

Verifier = NewType("Verifier", str)
"""A canonical ``V.…H3``: the public name of whoever signs."""

DIGEST_SIZE: Final = 32
SUFFIX: Final = "H3"


class IdentifierError(IntegrityError):
    """A text is not an identifier of the kind that was asked for."""


class Kind(IntEnum):
    """The three kinds of record, in the order of their letters (so kinds sort like hash texts)."""

    BLOB = 1
    PLEX = 2
    SEAL = 3

    @property
    def letter(self) -> str:
        return "BPS"[self - 1]

    @classmethod
    def of_letter(cls, letter: str) -> Self:
        position = "BPS".find(letter)
        if len(letter) != 1 or position < 0:
            raise IdentifierError(f"no record kind has the letter {letter!r}")
        return cls(position + 1)


def hash_text(kind: Kind, digest: bytes) -> HashText:
    """The name of the record of this kind whose payload has this digest."""
    return HashText(f"{kind.letter}.{b64a.encode(digest)}.{SUFFIX}")


def parse_hash(text: str) -> tuple[Kind, Digest]:
    """Kind and digest of a hash text."""
    letter, digest = _split(text, "a record hash")
    if letter not in ("B", "P", "S"):
        raise IdentifierError(f"a record hash begins with B, P or S, not {letter!r}: {text!r}")
    return Kind.of_letter(letter), Digest(digest)


def verifier_text(public_x: bytes) -> Verifier:
    """The verifier whose public point has this x-coordinate."""
    return Verifier(f"V.{b64a.encode(public_x)}.{SUFFIX}")


@lru_cache(maxsize=4096)
def parse_verifier(text: str) -> bytes:
    """The x-coordinate that a verifier text names. Whether a point has it, only the curve can say."""
    letter, public_x = _split(text, "a verifier")
    if letter != "V":
        raise IdentifierError(f"a verifier begins with V, not {letter!r}")
    return public_x


def secret_text(secret: bytes) -> str:
    """The text of 32 bytes of signing secret."""
    return f"&.{b64a.encode(secret)}.{SUFFIX}"


def parse_secret(text: str) -> bytes:
    """The 32 bytes of a signing secret. Errors never repeat the text."""
    try:
        letter, secret = _split(text, "a signing secret")
    except IdentifierError:
        raise IdentifierError("not a signing secret (&.<43 symbols>.H3)") from None
    if letter != "&":
        raise IdentifierError("not a signing secret (&.<43 symbols>.H3)")
    return secret


def _split(text: str, what: str) -> tuple[str, bytes]:
    letter, _, rest = text.partition(".")
    symbols, _, suffix = rest.partition(".")
    if suffix != SUFFIX or len(symbols) != b64a.length(DIGEST_SIZE):
        raise IdentifierError(f"not {what} (<letter>.<43 symbols>.{SUFFIX}): {text[:80]!r}")
    try:
        return letter, b64a.decode(symbols)
    except b64a.B64aError as error:
        raise IdentifierError(f"not {what}: {error}: {text[:80]!r}") from error
