"""Records as lines of JSON: one object a line, every field readable, and the exact bytes back.

A line says everything that the record says::

    {
        "hash": "S.…",
        "kind": "seal",
        "group": "u",
        "app": "ding",
        "name": "links/1",
        "tai": "1640995200:000000000",
        "headers": [["+Link", "source B.…"]],
        "signed_by": "V.…",
        "signature": "…",
        "text": "hello",
    }

A Blob has only ``hash``, ``kind`` and its data. The data is ``text`` where it is UTF-8 without control characters
other than tab, line feed and carriage return, so that no line is more than twice its record; otherwise it is ``data``,
in base 64 (RFC 4648, with padding). A reader takes either for any data. There is one spelling per record, so the fields
give back the very bytes, and ``hash`` says whether they do. A decoded record is not validated yet: its signature and
its fields are for ``record.validate``.

A line may come from anyone. Its values are first taken as they stand, without making objects of them, and refused where
no record could need so many bytes; so what a line takes in memory is bounded by a few times its own size, and lists of
headers by a constant.
"""

import binascii
import re
from enum import StrEnum
from typing import Annotated, Final, assert_never

import msgspec
from msgspec import Meta, Raw, Struct

from bobbin import profile
from bobbin.errors import IntegrityError
from bobbin.records import b64a, canonical
from bobbin.records.record import Blob, Plex, Record, Seal

_ESCAPED: Final = len("\\u0000")
"""The most bytes that one byte of a text takes in JSON."""

_FIELD_BYTES_MAX: Final = 64 * 1024
"""The longest value of any other key; more than a header line can take."""

_HEADERS_BYTES_MAX: Final = profile.EXTRA_HEADERS_MAX * (_ESCAPED * profile.HEADER_LINE_BYTES_MAX + len('["", ""], '))

_DATA_BYTES_MAX: Final = 3 * profile.DATA_BYTES_MAX + 2
"""The longest data: in base 64, or as text from writers that escape whatever is not ASCII."""

LINE_BYTES_MAX: Final = _DATA_BYTES_MAX + _HEADERS_BYTES_MAX + _FIELD_BYTES_MAX
"""The longest line that is read: room for every record, and for nothing more."""

_HASH: Final = slice(len(canonical.MARK) + 2, canonical.MARKLINE_SIZE - 1)
"""Where a record says its own hash."""

_BINARY: Final = re.compile(rb"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]")


class LineReason(StrEnum):
    """Why a line is refused, in the order of the checks."""

    TOO_LONG = "line-too-long"
    MALFORMED = "malformed-line"
    """Not a JSON object with exactly the keys of its kind, each of its type."""
    MALFORMED_FIELD = "malformed-field"
    """A field that no record can hold: a line feed, a colon in a name, bad base 64."""
    HASH = "hash-mismatch"
    """The fields make a record of another hash."""


class InvalidLine(IntegrityError):
    """A line does not say a record. ``reason`` says which check failed."""

    def __init__(self, reason: LineReason, message: str) -> None:
        super().__init__(f"{reason}: {message}")
        self.reason = reason
        self.detail = message


_ABSENT: Final = Raw()


class _Line(Struct, tag_field="kind", forbid_unknown_fields=True, kw_only=True):
    """The keys of a line, each with its value as it stands. Exactly one of ``text`` and ``data`` is there."""

    hash: Raw
    text: Raw = _ABSENT
    data: Raw = _ABSENT


class _Blob(_Line, tag="blob", kw_only=True):
    pass


class _Placed(_Line, kw_only=True):
    group: Raw
    app: Raw
    name: Raw
    tai: Raw
    headers: Raw


class _Plex(_Placed, tag="plex", kw_only=True):
    pass


class _Seal(_Placed, tag="seal", kw_only=True):
    signed_by: Raw
    signature: Raw


_encoder: Final = msgspec.json.Encoder()
_decoder: Final = msgspec.json.Decoder(_Blob | _Plex | _Seal)
_text_decoder: Final = msgspec.json.Decoder(str)
_headers_decoder: Final = msgspec.json.Decoder(
    Annotated[list[tuple[str, str]], Meta(max_length=profile.EXTRA_HEADERS_MAX)]
)


def encode(record: Record) -> bytes:
    """The line of a record, without line feed."""
    fields: dict[str, object] = {"kind": record.kind.name.lower(), "hash": record.hash}
    match record:
        case Blob():
            pass
        case Plex() | Seal():
            fields["group"] = record.group
            fields["app"] = record.app
            fields["name"] = record.name
            fields["tai"] = record.tai_text
            fields["headers"] = record.extras
            if isinstance(record, Seal):
                fields["signed_by"] = record.verifier
                fields["signature"] = b64a.encode(record.signature)
        case _:
            assert_never(record)
    key, text = _spell(record.data)
    fields[key] = text
    return _encoder.encode(fields)


def decode(line: bytes) -> bytes:
    """The bytes of the record that a line says, or ``InvalidLine``. White space around the object is allowed."""
    if len(line) > LINE_BYTES_MAX:
        raise InvalidLine(LineReason.TOO_LONG, f"a line has at most {LINE_BYTES_MAX} bytes")
    try:
        fields = _decoder.decode(line)
        said = _read_text("hash", fields.hash)
        raw = _rebuild(fields)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise InvalidLine(LineReason.MALFORMED, str(error)) from error
    except UnicodeEncodeError as error:
        raise InvalidLine(LineReason.MALFORMED_FIELD, "a field is not Unicode text") from error
    found = raw[_HASH].decode()
    if found != said:
        raise InvalidLine(LineReason.HASH, f"the fields make {found}, the line says {said[:80]}")
    return raw


def _spell(data: bytes) -> tuple[str, str]:
    """The key of the data in a line, and its value."""
    if not _BINARY.search(data):
        try:
            return "text", data.decode()
        except UnicodeDecodeError:
            pass
    return "data", binascii.b2a_base64(data, newline=False).decode()


def _bounded(key: str, value: Raw, limit: int) -> memoryview:
    """The value as it stands, if a record can need so many bytes."""
    view = memoryview(value)
    if len(view) > limit:
        raise InvalidLine(LineReason.MALFORMED_FIELD, f"{key} has at most {limit} bytes")
    return view


def _read_text(key: str, value: Raw, *, limit: int = _FIELD_BYTES_MAX) -> str:
    return _text_decoder.decode(_bounded(key, value, limit))


def _read_data(fields: _Line) -> bytes:
    if fields.text and not fields.data:
        data = _read_text("text", fields.text, limit=_DATA_BYTES_MAX).encode()
    elif fields.data and not fields.text:
        text = _read_text("data", fields.data, limit=_DATA_BYTES_MAX)
        try:
            data = binascii.a2b_base64(text.encode("ascii"), strict_mode=True)
        except (binascii.Error, UnicodeEncodeError) as error:
            raise InvalidLine(LineReason.MALFORMED_FIELD, f"data is not base 64: {error}") from error
    else:
        raise InvalidLine(LineReason.MALFORMED, "a line has either text or data")
    if len(data) > profile.DATA_BYTES_MAX:
        raise InvalidLine(LineReason.MALFORMED_FIELD, f"data has at most {profile.DATA_BYTES_MAX} bytes")
    return data


def _rebuild(fields: _Blob | _Plex | _Seal) -> bytes:
    record = canonical.blob_record(_read_data(fields))
    if isinstance(fields, _Blob):
        return record
    headers = [
        ("Group", _read_text("group", fields.group)),
        ("App", _read_text("app", fields.app)),
        ("Name", _read_text("name", fields.name)),
        ("TAI", _read_text("tai", fields.tai)),
        *_headers_decoder.decode(_bounded("headers", fields.headers, _HEADERS_BYTES_MAX)),
    ]
    for name, value in headers:
        _check_header(name, value)
    record = canonical.plex_record(headers, record)
    if isinstance(fields, _Plex):
        return record
    verifier, signature = _read_text("signed_by", fields.signed_by), _read_text("signature", fields.signature)
    _check_header("Signed-By", verifier)
    try:
        return canonical.seal_record(verifier, b64a.decode(signature), record)
    except b64a.B64aError as error:
        raise InvalidLine(LineReason.MALFORMED_FIELD, f"the signature: {error}") from error


def _check_header(name: str, value: str) -> None:
    """Refuse what would make a record that says something else than the line."""
    if "\n" in name or "\n" in value:
        raise InvalidLine(LineReason.MALFORMED_FIELD, f"a line feed inside the header {name[:80]!r}")
    if ":" in name:
        raise InvalidLine(LineReason.MALFORMED_FIELD, f"a colon inside the header name {name[:80]!r}")
