"""The facts of stored records, answered from the tables (Lace-020).

Nothing is stored that only repeats: the fields that every record of a kind has are columns of its wide row, the others
are rows of ``header``, links are rows of ``link``. A bound pattern is answered through an index:

=====================================  ===============================================================================
bound                                  found by
=====================================  ===============================================================================
``P``, in any predicate                the record's key
``Field``, ``Group`` and value         the places of that group
``Field``, ``App`` and value           the places with that app
``Field``, ``Name`` and value          one jump per place: a name is only indexed within its place
``Field``, ``TAI`` and value           the index of times
``Field``, ``Signed-By`` and value     the index of signers
``Field``, an extra header and value   the index of headers; without the name, one jump per header name in use
``RecordLink``, target                 the index of targets
``BlobHash``, ``PlexHash``, ``H``      the index of inner records
=====================================  ===============================================================================

Every other pattern walks the rows of what it asks for: a value of ``Type``, ``Data-Length`` or ``Signature`` alone,
a ``RecordLink`` by its name or data. A ``Signature`` is read from the record's bytes, of which it touches only the
first page. Answers are streamed; memory does not grow with them.
"""

from collections.abc import Callable, Iterator, Mapping
from itertools import chain
from types import MappingProxyType
from typing import Final, Self

import apsw
from msgspec import Struct

from bobbin.facts import relations
from bobbin.facts.extract import Fact
from bobbin.facts.relations import Pattern, Tuple
from bobbin.records import b64a, ids, tai
from bobbin.records.canonical import SEAL_HEAD_SIZE
from bobbin.records.ids import HashText, IdentifierError, Kind
from bobbin.records.signing import SIGNATURE_SIZE
from bobbin.store.sqlite import coding, lookup, wide
from bobbin.store.sqlite.readers import Moment

_FIRST: Final = "0"
"""The index of a field that cannot be repeated."""

HAVE: Final = "SELECT kind, digest FROM fact"
HAVE_OF: Final = f"{HAVE} WHERE id = ?"
WIDE: Final = (
    "SELECT f.id, f.kind, f.digest, p.group_path, p.app, f.name, f.tai, f.data_length, t.value "
    "FROM fact f LEFT JOIN place p ON p.id = f.place LEFT JOIN text t ON t.id = f.signer"
)
WIDE_OF: Final = f"{WIDE} WHERE f.id = ?"
_WIDE_PLACES: Final = MappingProxyType(
    {"Type": 1, "Group": 3, "App": 4, "Name": 5, "TAI": 6, "Data-Length": 7, "Signed-By": 8}
)
"""Where the value of a field stands in a row of ``WIDE``."""

_HEADER_COLUMNS: Final = "SELECT f.kind, f.digest, n.value, h.position, v.value FROM"
_HEADER_JOINS: Final = "CROSS JOIN fact f ON f.id = h.record"
HEADERS: Final = (
    f"{_HEADER_COLUMNS} header h {_HEADER_JOINS} CROSS JOIN text n ON n.id = h.name CROSS JOIN text v ON v.id = h.value"
)
HEADERS_OF: Final = f"{HEADERS} WHERE h.record = ?"
HEADERS_BY_NAME: Final = (
    f"{_HEADER_COLUMNS} text n CROSS JOIN header h ON h.name = n.id {_HEADER_JOINS} "
    "CROSS JOIN text v ON v.id = h.value WHERE n.value = ?"
)
HEADERS_BY_NAME_AND_VALUE: Final = (
    f"{_HEADER_COLUMNS} text n CROSS JOIN text v CROSS JOIN header h ON h.name = n.id AND h.value = v.id "
    f"{_HEADER_JOINS} WHERE n.value = ? AND v.value = ?"
)
_NAMES_IN_USE: Final = (
    "WITH RECURSIVE used(name) AS (SELECT min(name) FROM header UNION ALL "
    "SELECT (SELECT min(h.name) FROM header h WHERE h.name > used.name) FROM used WHERE used.name IS NOT NULL)"
)
HEADERS_BY_VALUE: Final = (
    f"{_NAMES_IN_USE} {_HEADER_COLUMNS} text v CROSS JOIN used "
    f"CROSS JOIN header h ON h.name = used.name AND h.value = v.id {_HEADER_JOINS} "
    "CROSS JOIN text n ON n.id = h.name WHERE v.value = ?"
)

_LINK_COLUMNS: Final = "SELECT f.kind, f.digest, n.value, l.position, d.value, t.value FROM"
_LINK_JOINS: Final = "CROSS JOIN fact f ON f.id = l.record CROSS JOIN text n ON n.id = l.name"
LINKS: Final = (
    f"{_LINK_COLUMNS} link l {_LINK_JOINS} CROSS JOIN text d ON d.id = l.data CROSS JOIN text t ON t.id = l.target"
)
LINKS_OF: Final = f"{LINKS} WHERE l.record = ?"
LINKS_BY_TARGET: Final = (
    f"{_LINK_COLUMNS} text t CROSS JOIN link l ON l.target = t.id {_LINK_JOINS} "
    "CROSS JOIN text d ON d.id = l.data WHERE t.value = ?"
)

INNER: Final = "SELECT kind, digest, inner FROM fact WHERE kind = ?"
INNER_OF: Final = "SELECT kind, digest, inner FROM fact WHERE kind = ? AND id = ?"
INNER_BY_KEY: Final = "SELECT kind, digest, inner FROM fact WHERE kind = ? AND inner_key = ? AND inner = ?"

SEALS: Final = "SELECT id, digest FROM fact WHERE signer IS NOT NULL"
_SIGNATURE_SYMBOLS: Final = b64a.length(SIGNATURE_SIZE)
_SIGNATURE_AT: Final = SEAL_HEAD_SIZE - 1 - _SIGNATURE_SYMBOLS

_KINDS: Final = MappingProxyType(
    {relations.BLOB_HASH: (Kind.PLEX, Kind.BLOB), relations.PLEX_HASH: (Kind.SEAL, Kind.PLEX)}
)
"""Which kind of record each predicate speaks of, and the kind inside."""


# ---- the fields of the wide row, by name --------------------------------------------------------------------------


class Column(Struct, frozen=True, kw_only=True):
    """How one field is asked for. Both statements answer kind, digest and value."""

    every: str
    bound: str
    encode: Callable[[str], int | str | None] = lambda text: text
    """A text as the column holds it; None for a text that no record has."""
    decode: Callable[[int], str] | None = None
    """The text of what the column holds, where that is not the text itself."""


def _encode_kind(text: str) -> int | None:
    return {kind.letter: int(kind) for kind in Kind}.get(text)


def _decode_kind(column: int) -> str:
    return Kind(column).letter


def _encode_tai(text: str) -> int | None:
    try:
        return coding.tai_column(tai.parse(text))
    except tai.TaiError:
        return None


def _decode_tai(column: int) -> str:
    return tai.render(coding.tai_of_column(column))


def _encode_length(text: str) -> int | None:
    is_canonical = text.isascii() and text.isdecimal() and len(text) < 18 and str(int(text)) == text
    return int(text) if is_canonical else None


COLUMNS: Final[Mapping[str, Column]] = MappingProxyType(
    {
        "Type": Column(
            every="SELECT kind, digest, kind FROM fact",
            bound="SELECT kind, digest, kind FROM fact WHERE kind = ?",
            encode=_encode_kind,
            decode=_decode_kind,
        ),
        "Group": Column(
            every="SELECT f.kind, f.digest, p.group_path FROM fact f CROSS JOIN place p ON p.id = f.place",
            bound="SELECT f.kind, f.digest, p.group_path FROM place p CROSS JOIN fact f ON f.place = p.id "
            "WHERE p.group_path = ?",
        ),
        "App": Column(
            every="SELECT f.kind, f.digest, p.app FROM fact f CROSS JOIN place p ON p.id = f.place",
            bound="SELECT f.kind, f.digest, p.app FROM place p CROSS JOIN fact f ON f.place = p.id WHERE p.app = ?",
        ),
        "Name": Column(
            every="SELECT kind, digest, name FROM fact WHERE name IS NOT NULL",
            bound="SELECT f.kind, f.digest, f.name FROM place p CROSS JOIN fact f ON f.place = p.id AND f.name = ?",
        ),
        "TAI": Column(
            every="SELECT kind, digest, tai FROM fact WHERE tai IS NOT NULL",
            bound="SELECT kind, digest, tai FROM fact WHERE tai = ?",
            encode=_encode_tai,
            decode=_decode_tai,
        ),
        "Signed-By": Column(
            every="SELECT f.kind, f.digest, t.value FROM fact f CROSS JOIN text t ON t.id = f.signer",
            bound="SELECT f.kind, f.digest, t.value FROM text t CROSS JOIN fact f ON f.signer = t.id WHERE t.value = ?",
        ),
        "Data-Length": Column(
            every="SELECT kind, digest, data_length FROM fact",
            bound="SELECT kind, digest, data_length FROM fact WHERE data_length = ?",
            encode=_encode_length,
            decode=str,
        ),
    }
)


def _by_column(connection: apsw.Connection, name: str, value: str | None) -> Iterator[Tuple]:
    column = COLUMNS[name]
    if value is None:
        rows = connection.execute(column.every)
    else:
        encoded = column.encode(value)
        if encoded is None:
            return
        rows = connection.execute(column.bound, (encoded,))
    decode = column.decode
    for kind, digest, found in rows:
        yield coding.hash_text(kind, digest), name, _FIRST, found if decode is None else decode(found)


# ---- Field --------------------------------------------------------------------------------------------------------


def _fields(connection: apsw.Connection, pattern: Pattern) -> Iterator[Tuple]:
    _, name, _, value = pattern
    if name is not None:
        yield from _fields_by_name(connection, name, value)
    elif value is not None:
        for known in (*COLUMNS, "Signature"):
            yield from _fields_by_name(connection, known, value)
        yield from _header_fields(connection, HEADERS_BY_VALUE, (value,))
    else:
        yield from _wide_fields(connection, connection.execute(WIDE))
        yield from _header_fields(connection, HEADERS, ())


def _fields_by_name(connection: apsw.Connection, name: str, value: str | None) -> Iterator[Tuple]:
    if name in COLUMNS:
        return _by_column(connection, name, value)
    if name == "Signature":
        return _signatures(connection)
    if value is None:
        return _header_fields(connection, HEADERS_BY_NAME, (name,))
    return _header_fields(connection, HEADERS_BY_NAME_AND_VALUE, (name, value))


def _wide_fields(connection: apsw.Connection, rows: apsw.Cursor) -> Iterator[Tuple]:
    with Signatures(connection) as signatures:
        for number, kind, digest, group, app, name, column, data_length, signer in rows:
            own = coding.hash_text(kind, digest)
            yield own, "Type", _FIRST, own[0]
            yield own, "Data-Length", _FIRST, str(data_length)
            if group is not None:
                yield own, "Group", _FIRST, group
                yield own, "App", _FIRST, app
                yield own, "Name", _FIRST, name
                yield own, "TAI", _FIRST, _decode_tai(column)
            if signer is not None:
                yield own, "Signed-By", _FIRST, signer
                yield own, "Signature", _FIRST, signatures.of(number)


def _header_fields(connection: apsw.Connection, statement: str, bindings: tuple[int | str, ...]) -> Iterator[Tuple]:
    for kind, digest, name, position, value in connection.execute(statement, bindings):
        yield coding.hash_text(kind, digest), name, str(position), value


def _signatures(connection: apsw.Connection) -> Iterator[Tuple]:
    with Signatures(connection) as signatures:
        for number, digest in connection.execute(SEALS):
            yield coding.hash_text(Kind.SEAL, digest), "Signature", _FIRST, signatures.of(number)


class Signatures:
    """Reads signatures out of the bytes of Seals without loading the rest of them."""

    def __init__(self, connection: apsw.Connection) -> None:
        self._connection = connection
        self._blob: apsw.Blob | None = None

    def of(self, number: int) -> str:
        if self._blob is None:
            self._blob = self._connection.blob_open("main", "record", "raw", number, writeable=False)
        else:
            self._blob.reopen(number)
        self._blob.seek(_SIGNATURE_AT)
        return self._blob.read(_SIGNATURE_SYMBOLS).decode("ascii")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._blob is not None:
            self._blob.close()


# ---- the other predicates -----------------------------------------------------------------------------------------


def _haves(rows: apsw.Cursor) -> Iterator[Tuple]:
    for kind, digest in rows:
        yield (coding.hash_text(kind, digest),)


def _links(rows: apsw.Cursor) -> Iterator[Tuple]:
    for kind, digest, name, position, data, target in rows:
        yield coding.hash_text(kind, digest), name, str(position), data, target


def _links_by_pattern(connection: apsw.Connection, pattern: Pattern) -> Iterator[Tuple]:
    target = pattern[4]
    return _links(connection.execute(LINKS) if target is None else connection.execute(LINKS_BY_TARGET, (target,)))


def _inner(inner_kind: Kind, rows: apsw.Cursor) -> Iterator[Tuple]:
    for kind, digest, inner in rows:
        yield coding.hash_text(kind, digest), coding.hash_text(inner_kind, inner)


def _inner_by_pattern(connection: apsw.Connection, predicate: str, pattern: Pattern) -> Iterator[Tuple]:
    outer_kind, inner_kind = _KINDS[predicate]
    wanted = pattern[1]
    if wanted is None:
        return _inner(inner_kind, connection.execute(INNER, (outer_kind,)))
    try:
        _, digest = ids.parse_hash(wanted)
    except IdentifierError:
        return iter(())
    return _inner(inner_kind, connection.execute(INNER_BY_KEY, (outer_kind, coding.key_of(digest), digest)))


# ---- the answer to a pattern --------------------------------------------------------------------------------------


def of_record(connection: apsw.Connection, predicate: str, number: int) -> Iterator[Tuple]:
    """The tuples of a predicate that the record of this number gives."""
    match predicate:
        case relations.HAVE:
            yield from _haves(connection.execute(HAVE_OF, (number,)))
        case relations.FIELD:
            yield from _wide_fields(connection, connection.execute(WIDE_OF, (number,)))
            yield from _header_fields(connection, HEADERS_OF, (number,))
        case relations.RECORD_LINK:
            yield from _links(connection.execute(LINKS_OF, (number,)))
        case _:
            outer_kind, inner_kind = _KINDS[predicate]
            yield from _inner(inner_kind, connection.execute(INNER_OF, (outer_kind, number)))


def after(connection: apsw.Connection, number: int, fields: frozenset[str] | None = None) -> Iterator[Fact]:
    """Every fact of the records above this number: one walk per table, from there on.

    With ``fields``, of their fields only these: most rules read few, and a signature is the dearest field of all.
    """
    for values in _haves(connection.execute(f"{HAVE} WHERE id > ?", (number,))):
        yield relations.HAVE, values
    for values in _fields_after(connection, number, fields):
        yield relations.FIELD, values
    for values in _links(connection.execute(f"{LINKS} WHERE l.record > ?", (number,))):
        yield relations.RECORD_LINK, values
    for predicate, (outer_kind, inner_kind) in _KINDS.items():
        for values in _inner(inner_kind, connection.execute(f"{INNER} AND id > ?", (outer_kind, number))):
            yield predicate, values


def _fields_after(connection: apsw.Connection, number: int, fields: frozenset[str] | None) -> Iterator[Tuple]:
    rows = connection.execute(f"{WIDE} WHERE f.id > ?", (number,))
    if fields is None or "Signature" in fields:
        found = chain(
            _wide_fields(connection, rows), _header_fields(connection, f"{HEADERS} WHERE h.record > ?", (number,))
        )
        yield from found if fields is None else (values for values in found if values[1] in fields)
        return
    columns = [(name, place, COLUMNS[name].decode) for name, place in _WIDE_PLACES.items() if name in fields]
    if columns:
        for row in rows:
            own = coding.hash_text(row[1], row[2])
            for name, place, decode in columns:
                if (value := row[place]) is not None:
                    yield own, name, _FIRST, value if decode is None else decode(value)
    if fields - _WIDE_PLACES.keys():
        headers = _header_fields(connection, f"{HEADERS} WHERE h.record > ?", (number,))
        yield from (values for values in headers if values[1] in fields)


def matching(connection: apsw.Connection, predicate: str, pattern: Pattern) -> Iterator[Tuple]:
    """The tuples of a predicate that agree with the pattern."""
    if not all(value is None or coding.can_be_stored(value) for value in pattern):
        return
    found: Iterator[Tuple]
    if pattern[0] is not None:
        number = _number(connection, pattern[0])
        found = iter(()) if number is None else of_record(connection, predicate, number)
    elif predicate == relations.HAVE:
        found = _haves(connection.execute(HAVE))
    elif predicate == relations.FIELD:
        found = _fields(connection, pattern)
    elif predicate == relations.RECORD_LINK:
        found = _links_by_pattern(connection, pattern)
    else:
        found = _inner_by_pattern(connection, predicate, pattern)
    if any(value is not None for value in pattern):
        found = (values for values in found if relations.agrees(values, pattern))
    yield from found


def _number(connection: apsw.Connection, subject: str) -> int | None:
    """The number of the record that a text names; None if it names none, or is no name at all."""
    try:
        return lookup.locate(connection, HashText(subject))
    except IdentifierError:
        return None


class SqliteFacts:
    """The facts of one moment. Patterns are checked at once, tuples are read when they are asked for."""

    def __init__(self, moment: Moment) -> None:
        self._moment = moment

    def enumerate(self, predicate: str) -> Iterator[Tuple]:
        """Every tuple of a predicate."""
        return self.match(predicate, (None,) * relations.ARITY.get(predicate, 0))

    def match(self, predicate: str, pattern: Pattern) -> Iterator[Tuple]:
        """The tuples of a predicate that agree with the pattern, found by an index where one fits."""
        relations.check_pattern(predicate, pattern)
        return self._moment.walk(lambda connection: matching(connection, predicate, pattern))

    def wide_fields(self) -> frozenset[str]:
        """The fields that ``wide`` can answer for."""
        return frozenset(wide.COLUMNS)

    def wide(self, fields: tuple[str, ...]) -> Iterator[wide.WideRow]:
        """One row for every record: its name, then its value of each of these fields, None where it has none."""
        return chain.from_iterable(self._moment.walk(lambda connection: wide.wide(connection, fields)))
