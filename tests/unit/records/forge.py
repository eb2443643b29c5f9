"""Records assembled by hand from their parts, with any fault, and with digests and signature computed to fit.

A damaged record usually fails its digests, and then the checks behind them are never reached. Here the digests are
computed over whatever was assembled, so that a record has exactly the faults that a test puts in. The layouts are
written out once more, from the protocol; only ``refit`` borrows the signing, for its speed.
"""

import re
from dataclasses import dataclass, replace
from typing import Any

from blake3 import blake3

from bobbin.records.signing import SigningKey
from tests.unit.records import reference_curve

MARK = b"\xf0\x9f\x96\xa7"
ALPHABET = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ_abcdefghijklmnopqrstuvwxyz~"

SECRET = bytes(range(32))
OTHER_SECRET = bytes(range(32, 64))

GROUP, APP, NAME, TAI = b"Group: u", b"App: ding", b"Name: links/1", b"TAI: 1640995200:000000000"


def spell(data: bytes) -> bytes:
    """B64A, one bit group at a time."""
    bits = "".join(f"{byte:08b}" for byte in data)
    bits += "0" * (-len(bits) % 6)
    return "".join(ALPHABET[int(bits[i : i + 6], 2)] for i in range(0, len(bits), 6)).encode()


def digest(payload: bytes) -> bytes:
    return blake3(payload).digest()


def hash_text(letter: bytes, payload: bytes) -> bytes:
    return letter + b"." + spell(digest(payload)) + b".H3"


def markline(letter: bytes, payload: bytes) -> bytes:
    return MARK + b": " + hash_text(letter, payload) + b"\n"


@dataclass(frozen=True, kw_only=True)
class Parts:
    """A record in pieces. Every field may be replaced by something wrong; ``None`` means: what fits."""

    kind: bytes = b"S"
    data: bytes = b"hello"
    length_line: bytes | None = None
    """Without its line feed."""
    empty_line: bytes = b"\n"
    required: tuple[bytes, ...] = (GROUP, APP, NAME, TAI)
    extras: tuple[bytes, ...] = ()
    line_end: bytes = b"\n"
    signed_by_line: bytes | None = None
    signature_line: bytes | None = None
    seal_extras: tuple[bytes, ...] = ()
    secret: bytes = SECRET
    blob_mark: bytes | None = None
    plex_mark: bytes | None = None
    seal_mark: bytes | None = None
    """Whole marklines, line feed included."""
    trailing: bytes = b""
    """Bytes after the data, under every digest."""
    auxiliary: bytes = b"\x01" * 32

    def but(self, **changes: Any) -> "Parts":  # noqa: ANN401 -- a field of any type
        """The same with some fields changed."""
        return replace(self, **changes)

    @property
    def blob(self) -> bytes:
        length_line = b"Data-Length: %d" % len(self.data) if self.length_line is None else self.length_line
        payload = length_line + b"\n" + self.empty_line + self.data + self.trailing
        return (markline(b"B", payload) if self.blob_mark is None else self.blob_mark) + payload

    @property
    def plex(self) -> bytes:
        payload = b"".join(line + self.line_end for line in (*self.required, *self.extras)) + self.blob
        return (markline(b"P", payload) if self.plex_mark is None else self.plex_mark) + payload

    @property
    def signature(self) -> bytes:
        """The right signature of the Plex, whatever stands in its line."""
        return reference_curve.sign(self.secret, digest(self.plex.partition(b"\n")[2]), self.auxiliary)

    @property
    def seal(self) -> bytes:
        signed_by, signature = self.signed_by_line, self.signature_line
        if signed_by is None:
            signed_by = b"Signed-By: V." + spell(reference_curve.public_x(self.secret)) + b".H3"
        if signature is None:
            signature = b"Signature: " + spell(self.signature)
        payload = b"".join(line + b"\n" for line in (signed_by, signature, *self.seal_extras)) + self.plex
        return (markline(b"S", payload) if self.seal_mark is None else self.seal_mark) + payload

    @property
    def raw(self) -> bytes:
        return {b"B": self.blob, b"P": self.plex}[self.kind] if self.kind != b"S" else self.seal


PLEX = Parts(kind=b"P")
SEAL = Parts(kind=b"S")
BLOB = Parts(kind=b"B")


_MARKLINE = re.compile(MARK + rb": ([BPS])\.[0-9A-Z_a-z~]{43}\.H3")


def refit(raw: bytes, *, secret: bytes | None = SECRET) -> bytes:
    """The same bytes with every digest, and with a ``secret`` the signature, computed again: from inside outwards.

    Whatever else is wrong with the bytes stays as it is. Without a ``secret`` a signature stays too.
    """
    head, gap, data = raw.partition(b"\n\n")
    lines = head.split(b"\n")
    plex_digest = b""
    for index in range(len(lines) - 1, -1, -1):
        found = _MARKLINE.fullmatch(lines[index])
        if not found:
            continue
        if found[1] == b"S" and secret and len(lines) > index + 2 and lines[index + 2].startswith(b"Signature: "):
            signature = SigningKey.from_secret(secret).sign(plex_digest or bytes(32), auxiliary=b"\x01" * 32)
            lines[index + 2] = b"Signature: " + spell(signature)
        payload = b"\n".join(lines[index + 1 :]) + gap + data
        if found[1] == b"P":
            plex_digest = digest(payload)
        lines[index] = MARK + b": " + hash_text(found[1], payload)
    return b"\n".join(lines) + gap + data
