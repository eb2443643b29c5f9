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
from typing import ClassVar, Final, TypeAlias, TypedDict

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


class _Stored(Struct, frozen=True, kw_only=True, array_like=True):
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


class Blob(_Stored, frozen=True, kw_only=True, array_like=True, tag="B"):
    """Raw bytes."""

    kind = Kind.BLOB


class _Placed(_Stored, frozen=True, kw_only=True, array_like=True):
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


class Plex(_Placed, frozen=True, kw_only=True, array_like=True, tag="P"):
    """A Blob with a place, a time and headers."""

    kind = Kind.PLEX

    def inner(self) -> Blob:
        """The Blob inside, as a record of its own."""
        raw = canonical.blob_record(self.data)
        return Blob(raw=raw, digest=self.blob, data_offset=len(raw) - self.data_length)


class Seal(_Placed, frozen=True, kw_only=True, array_like=True, tag="S"):
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

_SYMBOLS: Final = b64a.PATTERN + rb"{43}"
_PATH: Final = rb"(" + coordinate.PATH_PATTERN + rb")"
# The bounds on extra headers keep the matcher's memory small on hostile lines; what is beyond them is refused anyway.
_LINE: Final = b"%d" % profile.HEADER_LINE_BYTES_MAX
_EXTRA: Final = rb"(?!%b)[^\x00-\x20\x7f:]{1,%b}: (?! )[^\x00-\x1f\x7f]{1,%b}\n" % (MARK, _LINE, _LINE)
_BLOB_HEAD: Final = MARK + rb": B\.(" + _SYMBOLS + rb")\.H3\nData-Length: (0|[1-9][0-9]{0,7})\n\n"
_PLEX_HEAD: Final = (
    (MARK + rb": P\.(" + _SYMBOLS + rb")\.H3\n")
    + (rb"Group: " + _PATH + rb"\nApp: " + _PATH + rb"\nName: " + _PATH + rb"\n")
    + rb"TAI: ([0-9]{10}):([0-9]{9})\n"
    + (rb"((?:" + _EXTRA + rb"){0,%d})" % profile.EXTRA_HEADERS_MAX)
    + _BLOB_HEAD
)
_SEAL_HEAD: Final = (MARK + rb": S\.(" + _SYMBOLS + rb")\.H3\n") + (
    rb"Signed-By: (V\." + _SYMBOLS + rb"\.H3)\nSignature: (" + b64a.PATTERN + rb"{86})\n"
)
_match_blob: Final = re.compile(_BLOB_HEAD).match
_match_plex: Final = re.compile(_PLEX_HEAD).match
_match_seal: Final = re.compile(_SEAL_HEAD).match

_KIND_AT: Final = len(MARK) + 2
_AFTER_SYMBOLS: Final = len(".H3\n")


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


def _read(raw: bytes, *, trusted: bool) -> Record | None:
    if len(raw) > profile.RECORD_BYTES_MAX:
        return None
    letter = raw[_KIND_AT : _KIND_AT + 1]
    if letter == b"S":
        return _read_seal(raw, trusted=trusted)
    if letter == b"P":
        parts = _read_plex(raw, 0, trusted=trusted)
        return parts and Plex(raw=raw, **parts)
    return _read_blob(raw, trusted=trusted)


def _read_blob(raw: bytes, *, trusted: bool) -> Blob | None:
    match = _match_blob(raw)
    if match is None or not _fits(raw, match.end(), match[2]):
        return None
    digest = _digest_after(raw, match, 1, trusted=trusted)
    return Blob(raw=raw, digest=digest, data_offset=match.end()) if digest else None


class _PlexParts(TypedDict):
    digest: Digest
    data_offset: int
    group: str
    app: str
    name: str
    tai: int
    extras: tuple[Header, ...]
    blob: Digest


def _read_plex(raw: bytes, at: int, *, trusted: bool) -> _PlexParts | None:
    """The Plex that begins at ``at`` and goes to the end of ``raw``."""
    match = _match_plex(raw, at)
    if match is None or not _fits(raw, match.end(), match[9]):
        return None
    _, group, app, name, seconds, nanoseconds, extra_lines, _, _ = match.groups()
    extras = _read_extras(extra_lines) if extra_lines else ()
    if extras is None or not _are_paths(group, app, name):
        return None
    blob = _digest_after(raw, match, 8, trusted=trusted)
    digest = blob and _digest_after(raw, match, 1, trusted=trusted)
    if not (digest and blob):
        return None
    return {
        "digest": digest,
        "data_offset": match.end(),
        "group": group.decode(),
        "app": app.decode(),
        "name": name.decode(),
        "tai": int(seconds + nanoseconds),
        "extras": extras,
        "blob": blob,
    }


def _read_seal(raw: bytes, *, trusted: bool) -> Seal | None:
    match = _match_seal(raw)
    parts = match and _read_plex(raw, match.end(), trusted=trusted)
    if not (match and parts):
        return None
    verifier = match[2].decode()
    try:
        public_x = ids.parse_verifier(verifier)
        signature = b64a.decode(match[3])
    except (ids.IdentifierError, b64a.B64aError):
        return None
    digest = _digest_after(raw, match, 1, trusted=trusted)
    plex = parts["digest"]
    if not digest or not (trusted or signing.is_valid(public_x, plex, signature)):
        return None
    parts["digest"] = digest
    return Seal(raw=raw, verifier=Verifier(verifier), signature=signature, plex=plex, **parts)


def _fits(raw: bytes, start: int, length: bytes) -> bool:
    return len(raw) - start == int(length) <= profile.DATA_BYTES_MAX


def _are_paths(group: bytes, app: bytes, name: bytes) -> bool:
    """What the pattern leaves open about a coordinate: lengths, and the form of text that is not ASCII."""
    if len(group) > profile.GROUP_BYTES_MAX or len(app) > profile.APP_BYTES_MAX:
        return False
    if len(name) > profile.SEGMENT_BYTES_MAX and (
        len(name) > profile.HEADER_LINE_BYTES_MAX - len("Name: ")
        or any(len(segment) > profile.SEGMENT_BYTES_MAX for segment in name.split(b"/"))
    ):
        return False
    return is_canonical_text(group) and is_canonical_text(app) and is_canonical_text(name)


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


def _digest_after(raw: bytes, match: re.Match[bytes], group: int, *, trusted: bool) -> Digest | None:
    """The digest that the markline in this group of the match names, if the bytes after that line have it."""
    symbols = match[group]
    if trusted:
        try:
            return Digest(b64a.decode(symbols))
        except b64a.B64aError:
            return None
    digest = blake3(memoryview(raw)[match.end(group) + _AFTER_SYMBOLS :]).digest()
    return Digest(digest) if b64a.encode_bytes(digest) == symbols else None


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
