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
"""

import binascii
import re
from enum import StrEnum
from typing import Final, assert_never

import msgspec
from msgspec import Struct

from bobbin import profile
from bobbin.errors import IntegrityError
from bobbin.records import b64a, canonical
from bobbin.records.record import Blob, Plex, Record, Seal

LINE_BYTES_MAX: Final = 3 * profile.RECORD_BYTES_MAX
"""The longest line that is read: room for every record, also from writers that escape whatever is not ASCII."""

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


class _Line(Struct, tag_field="kind", forbid_unknown_fields=True, omit_defaults=True, kw_only=True):
    """The shape of a line. Exactly one of ``text`` and ``data`` is there, whatever the kind."""

    hash: str


class _Blob(_Line, tag="blob", kw_only=True):
    text: str | None = None
    data: str | None = None


class _Placed(_Line, kw_only=True):
    group: str
    app: str
    name: str
    tai: str
    headers: list[tuple[str, str]]


class _Plex(_Placed, tag="plex", kw_only=True):
    text: str | None = None
    data: str | None = None


class _Seal(_Placed, tag="seal", kw_only=True):
    signed_by: str
    signature: str
    text: str | None = None
    data: str | None = None


_encoder: Final = msgspec.json.Encoder()
_decoder: Final = msgspec.json.Decoder(_Blob | _Plex | _Seal)


def encode(record: Record) -> bytes:
    """The line of a record, without line feed."""
    text, data = _spell(record.data)
    match record:
        case Blob():
            return _encoder.encode(_Blob(hash=record.hash, text=text, data=data))
        case Plex():
            return _encoder.encode(
                _Plex(
                    hash=record.hash,
                    group=record.group,
                    app=record.app,
                    name=record.name,
                    tai=record.tai_text,
                    headers=list(record.extras),
                    text=text,
                    data=data,
                )
            )
        case Seal():
            return _encoder.encode(
                _Seal(
                    hash=record.hash,
                    group=record.group,
                    app=record.app,
                    name=record.name,
                    tai=record.tai_text,
                    headers=list(record.extras),
                    signed_by=record.verifier,
                    signature=b64a.encode(record.signature),
                    text=text,
                    data=data,
                )
            )
        case _:
            assert_never(record)


def decode(line: bytes) -> bytes:
    """The bytes of the record that a line says, or ``InvalidLine``. White space around the object is allowed."""
    if len(line) > LINE_BYTES_MAX:
        raise InvalidLine(LineReason.TOO_LONG, f"a line has at most {LINE_BYTES_MAX} bytes")
    try:
        fields = _decoder.decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise InvalidLine(LineReason.MALFORMED, str(error)) from error
    try:
        raw = _rebuild(fields)
    except UnicodeEncodeError as error:
        raise InvalidLine(LineReason.MALFORMED_FIELD, "a field is not Unicode text") from error
    found = raw[_HASH].decode()
    if found != fields.hash:
        raise InvalidLine(LineReason.HASH, f"the fields make {found}, the line says {fields.hash[:80]}")
    return raw


def _spell(data: bytes) -> tuple[str | None, str | None]:
    """``text`` and ``data`` of a line: one of them, the other None."""
    if not _BINARY.search(data):
        try:
            return data.decode(), None
        except UnicodeDecodeError:
            pass
    return None, binascii.b2a_base64(data, newline=False).decode()


def _read_data(fields: _Blob | _Plex | _Seal) -> bytes:
    if (fields.text is None) == (fields.data is None):
        raise InvalidLine(LineReason.MALFORMED, "a line has either text or data")
    if fields.text is not None:
        return fields.text.encode()
    assert fields.data is not None, "one of the two is there"
    try:
        return binascii.a2b_base64(fields.data.encode("ascii"), strict_mode=True)
    except (binascii.Error, UnicodeEncodeError) as error:
        raise InvalidLine(LineReason.MALFORMED_FIELD, f"data is not base 64: {error}") from error


def _rebuild(fields: _Blob | _Plex | _Seal) -> bytes:
    record = canonical.blob_record(_read_data(fields))
    if isinstance(fields, _Blob):
        return record
    headers = [("Group", fields.group), ("App", fields.app), ("Name", fields.name), ("TAI", fields.tai)]
    headers += fields.headers
    for name, value in headers:
        _check_header(name, value)
    record = canonical.plex_record(headers, record)
    if isinstance(fields, _Plex):
        return record
    _check_header("Signed-By", fields.signed_by)
    try:
        return canonical.seal_record(fields.signed_by, b64a.decode(fields.signature), record)
    except b64a.B64aError as error:
        raise InvalidLine(LineReason.MALFORMED_FIELD, f"the signature: {error}") from error


def _check_header(name: str, value: str) -> None:
    """Refuse what would make a record that says something else than the line."""
    if "\n" in name or "\n" in value:
        raise InvalidLine(LineReason.MALFORMED_FIELD, f"a line feed inside the header {name[:80]!r}")
    if ":" in name:
        raise InvalidLine(LineReason.MALFORMED_FIELD, f"a colon inside the header name {name[:80]!r}")
