"""From records to rows: the hot path of every write.

Rows are built as plain tuples, a table at a time, and handed over in one call per table. There is no query per
record: places and texts are numbered for the whole batch first.
"""

from array import array
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

import apsw

from bobbin.facts.extract import IndexedHeader, index_headers
from bobbin.records.record import Blob, Record, Seal
from bobbin.store.sqlite import coding
from bobbin.store.sqlite.dictionary import Place, Places, Texts

_RECORD: Final = "INSERT INTO record(id, key, raw) VALUES (?, ?, ?)"
_FACT: Final = (
    "INSERT INTO fact(id, kind, digest, place, name, tai, data_length, signer, inner_key, inner) "
    "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
)
_RAW: Final = "SELECT id, raw FROM record WHERE id IN carray(?)"
_MEND: Final = "UPDATE record SET raw = ? WHERE id = ?"
_HEADER: Final = "INSERT INTO header(record, name, position, value) VALUES (?, ?, ?, ?)"
_LINK: Final = "INSERT INTO link(record, name, position, data, target) VALUES (?, ?, ?, ?, ?)"

_Row = tuple[int | str | bytes | None, ...]
_Numbered = tuple[int, IndexedHeader]


def mend(connection: apsw.Connection, stored: Mapping[int, bytes]) -> None:
    """Put valid bytes where the stored ones of the same record have been damaged.

    What came again is the one chance to heal a record, and reading it costs little beside validating it. The counts
    were made when the record was whole, so they stay.
    """
    if not stored:
        # A new record may share its key with a stored one, and an empty array cannot be bound.
        return
    found = connection.execute(_RAW, (apsw.carray(array("q", stored)),))
    damaged = [(stored[number], number) for number, raw in found if raw != stored[number]]
    if damaged:
        connection.executemany(_MEND, damaged)


def insert(
    connection: apsw.Connection,
    records: Sequence[Record],
    keys: Sequence[int],
    *,
    first_id: int,
    places: Places,
    texts: Texts,
) -> tuple[dict[Place, int], dict[str, int]]:
    """Write records that are not stored yet, numbered from ``first_id`` on, inside a write transaction.

    ``keys`` are those of the records, in the same order. Answers which numbers their places and texts have, to be
    remembered after the commit.
    """
    numbers = range(first_id, first_id + len(records))
    placed = [record for record in records if not isinstance(record, Blob)]
    headers = [
        (number, header)
        for number, record in zip(numbers, records, strict=True)
        if not isinstance(record, Blob) and record.extras
        for header in index_headers(record.extras)
    ]
    place_of = places.numbers(connection, {(record.group, record.app) for record in placed})
    signers = {record.verifier for record in placed if isinstance(record, Seal)}
    text_of = texts.numbers(connection, signers | _texts_of(headers))
    connection.executemany(_RECORD, zip(numbers, keys, [record.raw for record in records], strict=True))
    connection.executemany(_FACT, _fact_rows(numbers, records, place_of, text_of))
    if headers:
        _insert_headers(connection, headers, text_of)
    return place_of, text_of


def _fact_rows(
    numbers: Sequence[int], records: Sequence[Record], place_of: dict[Place, int], text_of: dict[str, int]
) -> Iterator[_Row]:
    """One wide row per record, made when it is bound, so that a batch of them never stands in memory."""
    inners = [_inner(record) for record in records]
    inner_keys = iter(coding.keys_of([inner for inner in inners if inner is not None]))
    for number, record, inner in zip(numbers, records, inners, strict=True):
        data_length = len(record.raw) - record.data_offset
        if isinstance(record, Blob):
            yield number, 1, record.digest, None, None, None, data_length, None, None, None
            continue
        is_seal = isinstance(record, Seal)
        yield (
            number,
            3 if is_seal else 2,
            record.digest,
            place_of[record.group, record.app],
            record.name,
            coding.tai_column(record.tai),
            data_length,
            text_of[record.verifier] if isinstance(record, Seal) else None,
            next(inner_keys),
            inner,
        )


def _inner(record: Record) -> bytes | None:
    """The digest of the record inside."""
    if isinstance(record, Seal):
        return record.plex
    return None if isinstance(record, Blob) else record.blob


def _texts_of(headers: Sequence[_Numbered]) -> set[str]:
    values = {text for _, header in headers for text in (header.name, header.value)}
    for _, header in headers:
        if header.link is not None:
            values.add(header.link.data)
            values.add(header.link.target)
    return values


def _insert_headers(connection: apsw.Connection, headers: Sequence[_Numbered], text_of: dict[str, int]) -> None:
    connection.executemany(
        _HEADER, [(number, text_of[header.name], header.index, text_of[header.value]) for number, header in headers]
    )
    links = [
        (number, text_of[header.name], header.index, text_of[header.link.data], text_of[header.link.target])
        for number, header in headers
        if header.link is not None
    ]
    connection.executemany(_LINK, links)


def delete(connection: apsw.Connection, number: int) -> int:
    """Take one record out, with everything that it said. Answers how many bytes it had."""
    connection.execute("DELETE FROM link WHERE record = ?", (number,))
    connection.execute("DELETE FROM header WHERE record = ?", (number,))
    connection.execute("DELETE FROM fact WHERE id = ?", (number,))
    size: int = connection.execute("DELETE FROM record WHERE id = ? RETURNING length(raw)", (number,)).get
    return size
