"""From records to rows: the hot path of every write.

Rows are built as plain tuples, a table at a time, and handed over in one call per table. There is no query per
record: places and texts are numbered for the whole batch first.
"""

from collections.abc import Sequence
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
_HEADER: Final = "INSERT INTO header(record, name, position, value) VALUES (?, ?, ?, ?)"
_LINK: Final = "INSERT INTO link(record, name, position, data, target) VALUES (?, ?, ?, ?, ?)"

_Row = tuple[int | str | bytes | None, ...]
_Numbered = tuple[int, IndexedHeader]


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
    headers = [
        (number, header)
        for number, record in enumerate(records, first_id)
        if not isinstance(record, Blob) and record.extras
        for header in index_headers(record.extras)
    ]
    placed = {(record.group, record.app) for record in records if not isinstance(record, Blob)}
    signers = {record.verifier for record in records if isinstance(record, Seal)}
    place_of = places.numbers(connection, placed)
    text_of = texts.numbers(connection, signers | _texts_of(headers))
    numbers = range(first_id, first_id + len(records))
    record_rows = [(number, key, record.raw) for number, key, record in zip(numbers, keys, records, strict=True)]
    connection.executemany(_RECORD, record_rows)
    connection.executemany(_FACT, _fact_rows(numbers, records, place_of, text_of))
    if headers:
        _insert_headers(connection, headers, text_of)
    return place_of, text_of


def _fact_rows(
    numbers: Sequence[int], records: Sequence[Record], place_of: dict[Place, int], text_of: dict[str, int]
) -> list[_Row]:
    key_of, tai_column = coding.key_of, coding.tai_column
    rows: list[_Row] = []
    for number, record in zip(numbers, records, strict=True):
        data_length = len(record.raw) - record.data_offset
        if isinstance(record, Blob):
            rows.append((number, 1, record.digest, None, None, None, data_length, None, None, None))
            continue
        place = place_of[record.group, record.app]
        tai = tai_column(record.tai)
        if isinstance(record, Seal):
            kind, signer, inner = 3, text_of[record.verifier], record.plex
        else:
            kind, signer, inner = 2, None, record.blob
        rows.append((number, kind, record.digest, place, record.name, tai, data_length, signer, key_of(inner), inner))
    return rows


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
