"""A record is bytes (Lace-010): Blob, Plex and Seal, and how they are built, read and validated.

A *Blob* is data. A *Plex* gives a Blob a place (group, app, name), a time and headers. A *Seal* is a verifier's
signature over a Plex. Each begins with a *markline* that names the digest of everything after it, and each holds the
next one whole::

    🖧: S.<digest>.H3            ┐ Seal
    Signed-By: V.<x>.H3          │
    Signature: <86 symbols>      │
    🖧: P.<digest>.H3            │ ┐ Plex
    Group: u                     │ │
    App: ding                    │ │
    Name: links/1                │ │
    TAI: 1640995200:000000000    │ │
    🖧: B.<digest>.H3            │ │ ┐ Blob
    Data-Length: 5               │ │ │
                                 │ │ │
    hello                        ┘ ┘ ┘

A ``Blob``, ``Plex`` or ``Seal`` value exists only for bytes that passed every check, the signature included: whoever
holds one need not ask again. There is one spelling per record, so the fields and the bytes determine each other.

Valid records are accepted by one regular expression per kind and up to three digests; only a refusal walks the bytes
a second time, slowly, to name the first check that failed (``diagnose``). The two never disagree about acceptance.
"""

import re
from collections.abc import Iterable
from functools import lru_cache
from typing import ClassVar, Final, NamedTuple, Protocol, TypeAlias, cast

from blake3 import blake3
from msgspec import Struct

from bobbin import profile
from bobbin.errors import UsageError
from bobbin.records import b64a, canonical, coordinate, ids, signing, tai
from bobbin.records.canonical import MARK, is_canonical_text
from bobbin.records.coordinate import Coordinate
from bobbin.records.diagnose import diagnose
from bobbin.records.ids import Digest, HashText, Kind, Verifier
from bobbin.records.reasons import InvalidRecord, Reason
from bobbin.records.signing import SigningKey

Header: TypeAlias = tuple[str, str]


class _Stored(Struct, frozen=True, kw_only=True, array_like=True, gc=False):
    """What the three kinds share."""

    kind: ClassVar[Kind]

    raw: bytes
    """The whole record, markline included."""

    digest: Digest
    """BLAKE3-256 of everything after the markline."""

    data_offset: int
    """Where the data begins in ``raw``; it goes to the end."""

    @property
    def hash(self) -> HashText:
        """The record's name."""
        return ids.hash_text(self.kind, self.digest)

    @property
    def data(self) -> bytes:
        return self.raw[self.data_offset :]

    @property
    def data_length(self) -> int:
        return len(self.raw) - self.data_offset


class Blob(_Stored, frozen=True, kw_only=True, array_like=True, gc=False, tag="B"):
    """Raw bytes."""

    kind = Kind.BLOB


class _Placed(_Stored, frozen=True, kw_only=True, array_like=True, gc=False):
    """What a Plex and the Plex inside a Seal share."""

    group: str
    app: str
    name: str
    tai: int
    """Nanoseconds; ``tai_text`` is its spelling."""

    extras: tuple[Header, ...]
    """The extra headers, in canonical order."""

    blob: Digest
    """Digest of the Blob inside."""

    @property
    def coordinate(self) -> Coordinate:
        return Coordinate(group=self.group, app=self.app, name=self.name)

    @property
    def tai_text(self) -> str:
        return tai.render(self.tai)

    @property
    def blob_hash(self) -> HashText:
        return ids.hash_text(Kind.BLOB, self.blob)


class Plex(_Placed, frozen=True, kw_only=True, array_like=True, gc=False, tag="P"):
    """A Blob with a place, a time and headers."""

    kind = Kind.PLEX

    def inner(self) -> Blob:
        """The Blob inside, as a record of its own."""
        raw = canonical.blob_record(self.data)
        return Blob(raw=raw, digest=self.blob, data_offset=len(raw) - self.data_length)


class Seal(_Placed, frozen=True, kw_only=True, array_like=True, gc=False, tag="S"):
    """A verifier's signature over a Plex."""

    kind = Kind.SEAL

    verifier: Verifier
    signature: bytes
    plex: Digest
    """Digest of the Plex inside: what is signed."""

    @property
    def plex_hash(self) -> HashText:
        return ids.hash_text(Kind.PLEX, self.plex)

    def inner(self) -> Plex:
        """The Plex inside, as a record of its own. It says the same, but nobody has signed it."""
        start = canonical.SEAL_HEAD_SIZE
        return Plex(
            raw=self.raw[start:],
            digest=self.plex,
            data_offset=self.data_offset - start,
            group=self.group,
            app=self.app,
            name=self.name,
            tai=self.tai,
            extras=self.extras,
            blob=self.blob,
        )


Record: TypeAlias = Blob | Plex | Seal

# ---- reading ------------------------------------------------------------------------------------------------------

# Symbols are taken by their number alone, in half the time that looking at each takes: a digest's are compared with the
# digest, and those of a verifier and of a signature are looked at when they are decoded.
_SYMBOLS: Final = rb"(?s:.{43})"
_SIGNATURE_SYMBOLS: Final = rb"(?s:.{86})"
# The bounds on extra headers keep the matcher's memory small on hostile lines; what is beyond them is refused anyway.
_LINE: Final = b"%d" % profile.HEADER_LINE_BYTES_MAX
_EXTRA: Final = rb"(?!%b)[^\x00-\x20\x7f:]{1,%b}: (?! )[^\x00-\x1f\x7f]{1,%b}\n" % (MARK, _LINE, _LINE)
_BLOB_HEAD: Final = MARK + rb": B\.(" + _SYMBOLS + rb")\.H3\nData-Length: (0|[1-9][0-9]{0,7})\n\n"
_PLEX_HEAD: Final = (
    (MARK + rb": P\.(" + _SYMBOLS + rb")\.H3\n")
    + (rb"Group: ([^\n]{1,%d})\nApp: ([^\n]{1,%d})\n" % (profile.GROUP_BYTES_MAX, profile.APP_BYTES_MAX))
    + (rb"Name: (" + coordinate.PATH_PATTERN + rb")\n")
    + rb"TAI: ([0-9]{10}):([0-9]{9})\n"
    + (rb"((?:" + _EXTRA + rb"){0,%d})" % profile.EXTRA_HEADERS_MAX)
    + _BLOB_HEAD
)
_SEAL_HEAD: Final = (MARK + rb": S\.(" + _SYMBOLS + rb")\.H3\n") + (
    rb"Signed-By: (V\." + _SYMBOLS + rb"\.H3)\nSignature: (" + _SIGNATURE_SYMBOLS + rb")\n"
)
_BLOB: Final = re.compile(_BLOB_HEAD)
_PLEX: Final = re.compile(_PLEX_HEAD)
_SEAL: Final = re.compile(_SEAL_HEAD + _PLEX_HEAD)
_PATH: Final = re.compile(coordinate.PATH_PATTERN)

_KIND_AT: Final = len(MARK) + 2
_AFTER_SYMBOLS: Final = len(".H3\n")
_PLEX_PAYLOAD_IN_SEAL: Final = canonical.SEAL_HEAD_SIZE + canonical.MARKLINE_SIZE
_COPIED_BYTES_MAX: Final = 64 * 1024
"""Copying a small record is cheaper than a view of it; a large one is not copied."""

_REMEMBERED_MAX: Final = 4096


def validate(raw: bytes, *, requested: HashText | None = None) -> Record:
    """The record that these bytes are, or ``InvalidRecord`` with the first check that failed.

    With ``requested``, the record must also be the one of that name.
    """
    record = _read(raw, trusted=False)
    if record is None:
        failure = diagnose(raw)
        assert failure is not None, "the reader refuses only what the diagnosis can explain"
        raise failure
    if requested is not None and record.hash != requested:
        raise InvalidRecord(Reason.NOT_REQUESTED, f"asked for {requested}, got {record.hash}")
    return record


def read_trusted(raw: bytes) -> Record:
    """The record that bytes from our own store are: digests and signature were checked when they were stored."""
    record = _read(raw, trusted=True)
    if record is None:
        raise diagnose(raw) or InvalidRecord(Reason.HEADER_SYNTAX, "stored bytes have lost their structure")
    return record


def recognise(buffer: memoryview, at: int) -> Record | None:
    """The valid record that begins at ``at``; None where there is none, or where not all of it is there yet.

    For readers of streams: the record's end, its fields and its digests are found in one pass.
    """
    reader = _READERS.get(buffer[at + _KIND_AT]) if len(buffer) > at + _KIND_AT else None
    match = reader and reader.pattern.match(buffer, at)
    if not (reader and match):
        return None
    end = match.end() + int(match[reader.length])
    if end > len(buffer) or end - at > profile.RECORD_BYTES_MAX:
        return None
    return reader.finish(buffer[at:end].tobytes(), match, at, trusted=False)


def recognise_run(buffer: memoryview) -> tuple[list[Record], int]:
    """The valid records that stand one right after the other at the front, and how many bytes they have together."""
    records: list[Record] = []
    size = 0
    while record := recognise(buffer, size):
        records.append(record)
        size += len(record.raw)
    return records, size


def _read(raw: bytes, *, trusted: bool) -> Record | None:
    if not _KIND_AT < len(raw) <= profile.RECORD_BYTES_MAX:
        return None
    reader = _READERS.get(raw[_KIND_AT])
    match = reader and reader.pattern.match(raw)
    return reader.finish(raw, match, 0, trusted=trusted) if reader and match else None


# The three below get the headers as they were matched, ``at`` bytes into whatever they were matched in, and ``raw``,
# which begins there.


def _finish_blob(raw: bytes, match: re.Match[bytes], at: int, *, trusted: bool) -> Blob | None:
    start = match.end() - at
    if not _fits(raw, start, match[2]):
        return None
    digests = _digests(raw, (canonical.MARKLINE_SIZE,), (match[1],), trusted=trusted)
    return Blob(raw=raw, digest=digests[0], data_offset=start) if digests else None


def _finish_plex(raw: bytes, match: re.Match[bytes], at: int, *, trusted: bool) -> Plex | None:
    own, group, app, name, seconds, nanoseconds, extra_lines, symbols, length = match.groups()
    start = match.end() - at
    extras = _read_extras(extra_lines) if extra_lines else ()
    place = _place(group, app)
    if extras is None or place is None or not _fits(raw, start, length) or not _is_name(name):
        return None
    payloads = canonical.MARKLINE_SIZE, match.end(8) + _AFTER_SYMBOLS - at
    digests = _digests(raw, payloads, (own, symbols), trusted=trusted)
    if digests is None:
        return None
    return Plex(
        raw=raw,
        digest=digests[0],
        data_offset=start,
        group=place[0],
        app=place[1],
        name=name.decode(),
        tai=int(seconds + nanoseconds),
        extras=extras,
        blob=digests[1],
    )


def _finish_seal(raw: bytes, match: re.Match[bytes], at: int, *, trusted: bool) -> Seal | None:
    own, signed_by, signed, inner, group, app, name, seconds, nanoseconds, extra_lines, symbols, length = match.groups()
    start = match.end() - at
    extras = _read_extras(extra_lines) if extra_lines else ()
    place = _place(group, app)
    if extras is None or place is None or not _fits(raw, start, length) or not _is_name(name):
        return None
    payloads = canonical.MARKLINE_SIZE, _PLEX_PAYLOAD_IN_SEAL, match.end(11) + _AFTER_SYMBOLS - at
    digests = _digests(raw, payloads, (own, inner, symbols), trusted=trusted)
    signer = digests and _signer(signed_by)
    if not (digests and signer):
        return None
    digest, plex, blob = digests
    try:
        signature = b64a.decode_counted(signed)
    except b64a.B64aError:
        return None
    if not (trusted or signing.is_valid(signer[1], plex, signature)):
        return None
    return Seal(
        raw=raw,
        digest=digest,
        data_offset=start,
        group=place[0],
        app=place[1],
        name=name.decode(),
        tai=int(seconds + nanoseconds),
        extras=extras,
        blob=blob,
        verifier=signer[0],
        signature=signature,
        plex=plex,
    )


class _Finish(Protocol):
    def __call__(self, raw: bytes, match: re.Match[bytes], at: int, *, trusted: bool) -> Record | None: ...


class _Reader(NamedTuple):
    """How one kind of record is read: its headers matched, then everything else checked."""

    pattern: re.Pattern[bytes]
    length: int
    """Which group of the match is the length of the data."""
    finish: _Finish


_READERS: Final = {
    ord("S"): _Reader(_SEAL, 12, _finish_seal),
    ord("P"): _Reader(_PLEX, 9, _finish_plex),
    ord("B"): _Reader(_BLOB, 2, _finish_blob),
}


def _fits(raw: bytes, start: int, length: bytes) -> bool:
    return len(raw) - start == int(length) <= profile.DATA_BYTES_MAX


@lru_cache(maxsize=_REMEMBERED_MAX)
def _place(group: bytes, app: bytes) -> tuple[str, str] | None:
    """The texts of a group and an app; None where one is no path. Few repeat often, so each pair is looked at once."""
    if all(_PATH.fullmatch(path) and is_canonical_text(path) for path in (group, app)):
        return group.decode(), app.decode()
    return None


@lru_cache(maxsize=_REMEMBERED_MAX)
def _signer(text: bytes) -> tuple[Verifier, bytes] | None:
    """A verifier and its x-coordinate; None where the symbols spell none."""
    try:
        verifier = Verifier(text.decode("ascii"))
        return verifier, ids.parse_verifier(verifier)
    except (UnicodeDecodeError, ids.IdentifierError):
        return None


def _is_name(name: bytes) -> bool:
    """What the pattern leaves open about a name: lengths, and the form of text that is not ASCII."""
    if len(name) > profile.SEGMENT_BYTES_MAX and (
        len(name) > profile.HEADER_LINE_BYTES_MAX - len("Name: ")
        or any(len(segment) > profile.SEGMENT_BYTES_MAX for segment in name.split(b"/"))
    ):
        return False
    return name.isascii() or is_canonical_text(name)


def _read_extras(lines: bytes) -> tuple[Header, ...] | None:
    if not is_canonical_text(lines):
        return None
    extras: list[Header] = []
    for line in lines.decode().split("\n")[:-1]:
        name, _, value = line.partition(": ")
        if name in profile.RESERVED_HEADERS or name.startswith(profile.RESERVED_HEADER_PREFIXES):
            return None
        if len(line) > profile.HEADER_LINE_BYTES_MAX // 4 and len(line.encode()) > profile.HEADER_LINE_BYTES_MAX:
            return None
        extras.append((name, value))
    if len(extras) > profile.EXTRA_HEADERS_MAX:
        return None
    if profile.EXTRA_HEADERS_SORTED and extras != canonical.sorted_headers(extras):
        return None
    return tuple(extras)


def _digests(
    raw: bytes, payloads: tuple[int, ...], symbols: tuple[bytes, ...], *, trusted: bool
) -> list[Digest] | None:
    """The digest of everything from each payload's begin on, if these are the ones that the marklines spell."""
    if trusted:
        try:
            return [Digest(b64a.decode_counted(one)) for one in symbols]
        except b64a.B64aError:
            return None
    source = raw if len(raw) <= _COPIED_BYTES_MAX else memoryview(raw)
    digests = cast("list[Digest]", [blake3(source[start:]).digest() for start in payloads])
    # All are spelled in one go: with a zero byte after it a digest ends where a symbol does, and the byte is a zero.
    return digests if b64a.encode_bytes(b"\0".join(digests)) == b"0".join(symbols) else None


# ---- building -----------------------------------------------------------------------------------------------------


class MalformedField(UsageError):
    """A record cannot be built from these fields. ``reason`` says which check they fail."""

    def __init__(self, reason: Reason, message: str) -> None:
        super().__init__(message)
        self.reason = reason


def build_blob(data: bytes) -> Blob:
    """The Blob of these bytes."""
    record = _built(canonical.blob_record(data))
    assert isinstance(record, Blob)
    return record


def build_plex(*, group: str, app: str, name: str, tai_ns: int, data: bytes, extras: Iterable[Header] = ()) -> Plex:
    """The Plex of these fields. Extra headers may come in any order; those of one name keep theirs."""
    headers = [("Group", group), ("App", app), ("Name", name), ("TAI", tai.render(tai_ns))]
    headers += canonical.sorted_headers(extras)
    # A line feed or a colon in the wrong place would make another record of these fields, not an invalid one.
    for field, value in headers:
        if "\n" in field or "\n" in value:
            raise MalformedField(Reason.HEADER_CONTROL, f"a line feed inside the header {field!r}")
        if ":" in field:
            raise MalformedField(Reason.HEADER_SYNTAX, f"a colon inside the header name {field!r}")
    try:
        raw = canonical.plex_record(headers, canonical.blob_record(data))
    except UnicodeEncodeError as error:
        raise MalformedField(Reason.HEADER_ENCODING, "a header is not Unicode text") from error
    record = _built(raw)
    assert isinstance(record, Plex)
    return record


def seal(plex: Plex, key: SigningKey, *, auxiliary: bytes) -> Seal:
    """Sign a Plex. ``auxiliary`` is 32 fresh random bytes."""
    signature = key.sign(plex.digest, auxiliary=auxiliary)
    record = _built(canonical.seal_record(key.verifier, signature, plex.raw))
    assert isinstance(record, Seal)
    return record


def _built(raw: bytes) -> Record:
    try:
        return validate(raw)
    except InvalidRecord as failure:
        raise MalformedField(failure.reason, failure.detail) from failure
