"""The byte layout of records: how each part is written, and what makes a header line canonical.

Everything here writes or describes; checking is ``record``'s and ``diagnose``'s part.
"""

import unicodedata
from collections.abc import Iterable
from typing import Final

from blake3 import blake3

from bobbin.records import b64a
from bobbin.records.ids import DIGEST_SIZE, SUFFIX, Kind

MARK: Final = "🖧".encode()
"""U+1F5A7, the first four bytes of every record."""

_MARKLINE_HEAD: Final = {kind: MARK + b": " + kind.letter.encode() + b"." for kind in Kind}
_MARKLINE_TAIL: Final = b"." + SUFFIX.encode() + b"\n"
MARKLINE_SIZE: Final = len(MARK) + 4 + b64a.length(DIGEST_SIZE) + len(_MARKLINE_TAIL)

SEAL_HEAD_SIZE: Final = MARKLINE_SIZE + len("Signed-By: V..H3\nSignature: \n") + b64a.length(32) + b64a.length(64)
"""Where the Plex begins in a Seal: everything before it has one length."""


def markline(kind: Kind, payload: bytes) -> bytes:
    """The first line of the record that has this payload."""
    return _MARKLINE_HEAD[kind] + b64a.encode_bytes(blake3(payload).digest()) + _MARKLINE_TAIL


def blob_record(data: bytes) -> bytes:
    """The bytes of a Blob."""
    payload = b"Data-Length: %d\n\n%b" % (len(data), data)
    return markline(Kind.BLOB, payload) + payload


def plex_record(headers: Iterable[tuple[str, str]], blob: bytes) -> bytes:
    """``headers`` are all of the Plex's, in order: the four required ones first."""
    payload = header_lines(headers) + blob
    return markline(Kind.PLEX, payload) + payload


def seal_record(verifier: str, signature: bytes, plex: bytes) -> bytes:
    """The bytes of a Seal over the bytes of a Plex."""
    payload = header_lines([("Signed-By", verifier), ("Signature", b64a.encode(signature))]) + plex
    return markline(Kind.SEAL, payload) + payload


def header_lines(headers: Iterable[tuple[str, str]]) -> bytes:
    """Header lines as they stand in a record."""
    return b"".join(f"{name}: {value}\n".encode() for name, value in headers)


def sorted_headers(headers: Iterable[tuple[str, str]]) -> list[tuple[str, str]]:
    """Extra headers in canonical order: by name, bytewise; headers of one name keep the author's order."""
    return sorted(headers, key=lambda header: header[0].encode("utf-8", "surrogatepass"))


def is_canonical_text(raw: bytes) -> bool:
    """Whether bytes are UTF-8 in normalization form C."""
    if raw.isascii():
        return True
    try:
        return unicodedata.is_normalized("NFC", raw.decode())
    except UnicodeDecodeError:
        return False
