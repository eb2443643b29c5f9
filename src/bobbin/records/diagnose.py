"""Why bytes are not a record: the slow walk through every check, in the order that the protocol gives.

``diagnose`` returns the first failure, or None for bytes that are a valid record. Reasons follow the *order of
checks*, not the order of bytes: a control character in the last header comes before a wrong first header, because
header syntax is checked before the presence of headers. Header syntax is one check over all lines: it names the first
line that fails. ``record.validate`` calls this only for bytes that it has refused, and a property test holds the two
to one opinion.
"""

import re
import unicodedata
from itertools import pairwise
from typing import Final

from blake3 import blake3

from bobbin import profile
from bobbin.records import b64a, coordinate, ids, signing, tai
from bobbin.records.canonical import MARK, MARKLINE_SIZE
from bobbin.records.ids import Kind
from bobbin.records.reasons import InvalidRecord, Reason

_HASH: Final = re.compile(rb"([BPS])\.([0-9A-Z_a-z~]+)\.([A-Z][A-Z0-9]*)")
_HEADER: Final = re.compile(rb"([^: \t]+): ([^ ].*)")
_CONTROL: Final = re.compile(rb"[\x00-\x1f\x7f]")
_TAI: Final = re.compile(tai.PATTERN)
_DECIMAL: Final = re.compile(rb"0|[1-9][0-9]*")

_REQUIRED: Final = (b"Group", b"App", b"Name", b"TAI")
_LINES_MAX: Final = profile.EXTRA_HEADERS_MAX + 16
"""More lines than any valid record has; what comes after is not looked at."""

_Line = tuple[int, bytes, bytes]
"""One header line: its offset, its name (``MARK`` for a markline) and its value."""


def diagnose(raw: bytes) -> InvalidRecord | None:
    """The first check that these bytes fail, or None."""
    try:
        if len(raw) > profile.RECORD_BYTES_MAX:
            raise InvalidRecord(Reason.TOO_LARGE, f"a record has at most {profile.RECORD_BYTES_MAX} bytes")
        kind = _check_mark(raw)
        lines, data_start = _check_header_syntax(raw)
        seal, plex, blob = _check_required(kind, lines)
        _check_coordinate(plex[1:5])
        _check_extras(plex[5:])
        _check_length(raw, blob, data_start)
        _check_digest(raw, blob[0], Reason.BLOB_DIGEST)
        if plex:
            _check_digest(raw, plex[0], Reason.PLEX_DIGEST)
        if seal:
            _check_seal(raw, seal, plex[0])
    except InvalidRecord as failure:
        return failure
    return None


def _check_mark(raw: bytes) -> Kind:
    if not raw.startswith(MARK + b": "):
        raise InvalidRecord(Reason.NO_MARK, "a record begins with the mark, a colon and a space")
    line = raw[: profile.HEADER_LINE_BYTES_MAX + 1].split(b"\n", 1)[0]
    return _check_hash(line[len(MARK) + 2 :], 0)


def _check_hash(text: bytes, offset: int) -> Kind:
    match = _HASH.fullmatch(text)
    if match is None:
        raise InvalidRecord(Reason.MALFORMED_HASH, "a markline names a hash: <B, P or S>.<symbols>.H3", offset=offset)
    if match[3] != ids.SUFFIX.encode():
        raise InvalidRecord(Reason.UNSUPPORTED_SUFFIX, f"the suffix {match[3].decode()} is not known", offset=offset)
    try:
        return ids.parse_hash(text.decode())[0]
    except ids.IdentifierError as error:
        raise InvalidRecord(Reason.MALFORMED_HASH, str(error), offset=offset) from error


def _check_header_syntax(raw: bytes) -> tuple[list[_Line], int]:
    """All lines up to the empty one, each well-formed by itself; and where the data begins."""
    lines: list[_Line] = []
    offset = 0
    while True:
        end = raw.find(b"\n", offset, offset + profile.HEADER_LINE_BYTES_MAX + 1)
        if end == offset:
            return lines, end + 1
        if end < 0:
            if len(raw) - offset > profile.HEADER_LINE_BYTES_MAX:
                limit = profile.HEADER_LINE_BYTES_MAX
                raise InvalidRecord(Reason.HEADER_LENGTH, f"a header line has at most {limit} bytes", offset=offset)
            raise InvalidRecord(Reason.UNFINISHED_HEADERS, "no empty line ends the headers", offset=offset)
        if len(lines) == _LINES_MAX:
            raise InvalidRecord(Reason.EXTRA_COUNT, f"more than {_LINES_MAX} header lines", offset=offset)
        lines.append(_check_line(raw[offset:end], offset))
        offset = end + 1


def _check_line(line: bytes, offset: int) -> _Line:
    if control := _CONTROL.search(line):
        code = line[control.start()]
        raise InvalidRecord(Reason.HEADER_CONTROL, f"byte {code:02x} in a header line", offset=offset + control.start())
    try:
        text = line.decode()
    except UnicodeDecodeError as error:
        raise InvalidRecord(
            Reason.HEADER_ENCODING, "a header line is not UTF-8", offset=offset + error.start
        ) from error
    if not unicodedata.is_normalized("NFC", text):
        raise InvalidRecord(Reason.HEADER_NORMALIZATION, "a header line is not in form NFC", offset=offset)
    if line.startswith(MARK + b": "):
        _check_hash(line[len(MARK) + 2 :], offset)
        return offset, MARK, line[len(MARK) + 2 :]
    match = _HEADER.fullmatch(line)
    if match is None:
        sentence = "a header line is a name, a colon, exactly one space and a value"
        raise InvalidRecord(Reason.HEADER_SYNTAX, sentence, offset=offset)
    return offset, match[1], match[2]


def _check_required(kind: Kind, lines: list[_Line]) -> tuple[list[_Line], list[_Line], list[_Line]]:
    """The lines of the Seal, the Plex and the Blob, each list opening with its markline; empty where absent."""
    marks = [index for index, line in enumerate(lines) if line[1] == MARK]
    letters = b"".join(lines[index][2][:1] for index in marks)
    expected = {Kind.SEAL: b"SPB", Kind.PLEX: b"PB", Kind.BLOB: b"B"}[kind]
    if letters != expected:
        sentence = f"a record of kind {kind.letter} holds the marklines {expected.decode()}, not {letters.decode()}"
        raise InvalidRecord(Reason.REQUIRED_HEADERS, sentence, offset=lines[marks[-1]][0])
    bounds = [*marks, len(lines)]
    parts = [lines[start:end] for start, end in pairwise(bounds)]
    seal, plex, blob = [[], *parts] if kind is Kind.PLEX else parts if kind is Kind.SEAL else [[], [], *parts]
    _check_names(seal, (b"Signed-By", b"Signature"), exact=True)
    _check_names(plex, _REQUIRED, exact=False)
    _check_names(blob, (b"Data-Length",), exact=True)
    for offset, name, _ in plex[5:]:
        if name in _REQUIRED:
            raise InvalidRecord(Reason.REQUIRED_HEADERS, f"{name.decode()} stands there twice", offset=offset)
    return seal, plex, blob


def _check_names(part: list[_Line], required: tuple[bytes, ...], *, exact: bool) -> None:
    if not part:
        return
    names = tuple(name for _, name, _ in part[1:])
    if names[: len(required)] != required or (exact and len(names) > len(required)):
        letter = part[0][2][:1].decode()
        wanted = b", ".join(required).decode()
        sentence = f"the headers of a record of kind {letter} are {wanted}, in this order"
        raise InvalidRecord(Reason.REQUIRED_HEADERS, sentence, offset=part[0][0])


def _check_coordinate(lines: list[_Line]) -> None:
    for offset, name, value in lines:
        if name == b"TAI":
            if not _TAI.fullmatch(value):
                raise InvalidRecord(Reason.MALFORMED_TAI, "TAI is ten digits, a colon, nine digits", offset=offset)
        elif sentence := coordinate.fault(name.decode().lower(), value.decode()):
            raise InvalidRecord(Reason.MALFORMED_COORDINATE, sentence, offset=offset)


def _check_extras(lines: list[_Line]) -> None:
    if len(lines) > profile.EXTRA_HEADERS_MAX:
        limit = profile.EXTRA_HEADERS_MAX
        raise InvalidRecord(Reason.EXTRA_COUNT, f"at most {limit} extra headers", offset=lines[limit][0])
    for offset, name, _ in lines:
        text = name.decode()
        if text in profile.RESERVED_HEADERS or text.startswith(profile.RESERVED_HEADER_PREFIXES):
            raise InvalidRecord(Reason.EXTRA_RESERVED, f"{text} cannot be an extra header", offset=offset)
    if profile.EXTRA_HEADERS_SORTED:
        for before, after in pairwise(lines):
            if before[1] > after[1]:
                sentence = f"{after[1].decode()} comes after {before[1].decode()}"
                raise InvalidRecord(Reason.EXTRA_ORDER, sentence, offset=after[0])


def _check_length(raw: bytes, blob: list[_Line], data_start: int) -> None:
    offset, _, value = blob[1]
    if not _DECIMAL.fullmatch(value):
        raise InvalidRecord(Reason.DATA_LENGTH, "Data-Length is a decimal without leading zero", offset=offset)
    if len(value) > 20 or int(value) > profile.DATA_BYTES_MAX:
        raise InvalidRecord(Reason.DATA_LENGTH, f"data has at most {profile.DATA_BYTES_MAX} bytes", offset=offset)
    if len(raw) - data_start != int(value):
        sentence = f"Data-Length says {int(value)}, there are {len(raw) - data_start} bytes"
        raise InvalidRecord(Reason.EXACT_LENGTH, sentence, offset=data_start)


def _check_digest(raw: bytes, mark: _Line, reason: Reason) -> None:
    _, digest = ids.parse_hash(mark[2].decode())
    if blake3(raw[mark[0] + MARKLINE_SIZE :]).digest() != digest:
        raise InvalidRecord(reason, "the bytes after the markline have another digest", offset=mark[0])


def _check_seal(raw: bytes, seal: list[_Line], plex_mark: _Line) -> None:
    mark, signed_by, signature = seal
    try:
        public_x = ids.parse_verifier(signed_by[2].decode())
    except ids.IdentifierError as error:
        raise InvalidRecord(Reason.MALFORMED_VERIFIER, str(error), offset=signed_by[0]) from error
    try:
        signature_bytes = b64a.decode(signature[2])
    except b64a.B64aError as error:
        raise InvalidRecord(Reason.MALFORMED_SIGNATURE, str(error), offset=signature[0]) from error
    if len(signature_bytes) != signing.SIGNATURE_SIZE:
        raise InvalidRecord(Reason.MALFORMED_SIGNATURE, "a signature has 64 bytes", offset=signature[0])
    _check_digest(raw, mark, Reason.SEAL_DIGEST)
    _, message = ids.parse_hash(plex_mark[2].decode())
    if not signing.is_valid(public_x, message, signature_bytes):
        sentence = "the signature is not this verifier's signature of this Plex"
        raise InvalidRecord(Reason.INVALID_SIGNATURE, sentence, offset=signature[0])
