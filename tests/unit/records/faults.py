"""Every way to break a record that a reason code names: each fault alone, so that faults can be combined."""

from collections.abc import Callable
from dataclasses import dataclass

from bobbin import profile
from bobbin.records.reasons import Reason
from tests.unit.records import forge
from tests.unit.records.forge import APP, GROUP, MARK, NAME, TAI, Parts

OTHER = b"another payload"
WRONG_BLOB, WRONG_PLEX, WRONG_SEAL = (forge.markline(letter, OTHER) for letter in (b"B", b"P", b"S"))


@dataclass(frozen=True, kw_only=True)
class Fault:
    """One fault. Two of them combine unless they are about the same ``aspect``."""

    name: str
    reason: Reason
    aspect: str
    edit: Callable[[Parts], Parts] = lambda parts: parts
    finish: Callable[[bytes], bytes] = lambda raw: raw
    """What is done to the assembled bytes."""

    def __str__(self) -> str:
        return self.name


def _line(old: bytes, new: bytes) -> Callable[[Parts], Parts]:
    return lambda parts: parts.but(required=tuple(new if line == old else line for line in parts.required))


def _extra(*lines: bytes) -> Callable[[Parts], Parts]:
    return lambda parts: parts.but(extras=(*parts.extras, *lines))


def _flipped_signature(parts: Parts) -> Parts:
    signature = bytearray(parts.signature)
    signature[40] ^= 1
    return parts.but(signature_line=b"Signature: " + forge.spell(bytes(signature)))


# In the order of the checks.
FAULTS = [
    Fault(
        name="larger than any record",
        reason=Reason.TOO_LARGE,
        aspect="size",
        finish=lambda raw: raw.ljust(profile.RECORD_BYTES_MAX + 1, b"x"),
    ),
    Fault(
        name="a damaged mark", reason=Reason.NO_MARK, aspect="mark", finish=lambda raw: b"\xf0\x9f\x96\xa6" + raw[4:]
    ),
    Fault(
        name="a symbol outside the alphabet",
        reason=Reason.MALFORMED_HASH,
        aspect="seal mark",
        edit=lambda parts: parts.but(seal_mark=MARK + b": S." + b"-" * 43 + b".H3\n"),
    ),
    Fault(
        name="another suffix",
        reason=Reason.UNSUPPORTED_SUFFIX,
        aspect="seal mark",
        edit=lambda parts: parts.but(seal_mark=WRONG_SEAL.replace(b"H3", b"H4")),
    ),
    Fault(
        name="a line of 1025 bytes",
        reason=Reason.HEADER_LENGTH,
        aspect="first extra",
        edit=_extra(b"A: " + b"x" * 1022),
    ),
    Fault(name="a tab", reason=Reason.HEADER_CONTROL, aspect="first extra", edit=_extra(b"A\tA: x")),
    Fault(name="not UTF-8", reason=Reason.HEADER_ENCODING, aspect="first extra", edit=_extra(b"A: \xff")),
    Fault(
        name="decomposed",
        reason=Reason.HEADER_NORMALIZATION,
        aspect="first extra",
        edit=_extra("A: cafe\u0301".encode()),
    ),
    Fault(name="no space after the colon", reason=Reason.HEADER_SYNTAX, aspect="first extra", edit=_extra(b"A:x")),
    Fault(
        name="App and Name exchanged",
        reason=Reason.REQUIRED_HEADERS,
        aspect="order",
        edit=lambda parts: parts.but(required=(parts.required[0], NAME, APP, parts.required[3])),
    ),
    Fault(
        name="an empty segment",
        reason=Reason.MALFORMED_COORDINATE,
        aspect="group",
        edit=_line(GROUP, b"Group: a//b"),
    ),
    Fault(name="a short TAI", reason=Reason.MALFORMED_TAI, aspect="TAI", edit=_line(TAI, b"TAI: 1640995200:0")),
    Fault(
        name="513 extra headers",
        reason=Reason.EXTRA_COUNT,
        aspect="count",
        edit=_extra(*(b"C: %d" % i for i in range(513))),
    ),
    Fault(name="an extra Type", reason=Reason.EXTRA_RESERVED, aspect="reserved", edit=_extra(b"Type: P")),
    Fault(name="Z before B", reason=Reason.EXTRA_ORDER, aspect="extra order", edit=_extra(b"Z: 1", b"B: 1")),
    Fault(
        name="a leading zero",
        reason=Reason.DATA_LENGTH,
        aspect="length line",
        edit=lambda parts: parts.but(length_line=b"Data-Length: 0%d" % len(parts.data)),
    ),
    Fault(
        name="one byte after the data",
        reason=Reason.EXACT_LENGTH,
        aspect="trailing",
        edit=lambda parts: parts.but(trailing=b"x"),
    ),
    Fault(
        name="another Blob's digest",
        reason=Reason.BLOB_DIGEST,
        aspect="blob mark",
        edit=lambda parts: parts.but(blob_mark=WRONG_BLOB),
    ),
    Fault(
        name="another Plex's digest",
        reason=Reason.PLEX_DIGEST,
        aspect="plex mark",
        edit=lambda parts: parts.but(plex_mark=WRONG_PLEX),
    ),
    Fault(
        name="a short verifier",
        reason=Reason.MALFORMED_VERIFIER,
        aspect="verifier",
        edit=lambda parts: parts.but(signed_by_line=b"Signed-By: V.0.H3"),
    ),
    Fault(
        name="a short signature",
        reason=Reason.MALFORMED_SIGNATURE,
        aspect="signature",
        edit=lambda parts: parts.but(signature_line=b"Signature: " + b"0" * 84),
    ),
    Fault(
        name="another Seal's digest",
        reason=Reason.SEAL_DIGEST,
        aspect="seal mark",
        edit=lambda parts: parts.but(seal_mark=WRONG_SEAL),
    ),
    Fault(name="a flipped bit", reason=Reason.INVALID_SIGNATURE, aspect="signature", edit=_flipped_signature),
]

UNFINISHED = Fault(
    name="cut inside the headers",
    reason=Reason.UNFINISHED_HEADERS,
    aspect="end",
    finish=lambda raw: raw[: raw.index(b"Data-Length")],
)


def broken(*faults: Fault) -> bytes:
    """A Seal with these faults and no other."""
    parts = forge.SEAL
    for fault in faults:
        parts = fault.edit(parts)
    raw = parts.raw
    for fault in faults:
        raw = fault.finish(raw)
    return raw
