"""Rows of the table of facts, made from the bytes of records: what the table would hold if a job had made it."""

from collections.abc import Iterable
from typing import Any, Final

import pyarrow as pa

from bobbin.facts.extract import index_headers
from bobbin.records import b64a
from bobbin.records.record import Blob, Plex, Record, Seal
from bobbin.store.lake.tables import FACTS

_NAMES: Final = tuple(FACTS.schema.names)


def describe(records: Iterable[Record]) -> pa.RecordBatch:
    """One row for each record, in their order."""
    rows = [_row(record) for record in records]
    columns = zip(*rows, strict=True) if rows else [()] * len(_NAMES)
    arrays = [pa.array(list(column), type=field.type) for column, field in zip(columns, FACTS.schema, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=FACTS.schema)


def _row(record: Record) -> tuple[Any, ...]:
    if isinstance(record, Blob):
        place: tuple[str | None, ...] = (None,) * 6
        return record.hash, "B", *place, record.data_length, [], [], None, None
    signer = (record.verifier, b64a.encode(record.signature)) if isinstance(record, Seal) else (None, None)
    extras: list[dict[str, object]] = []
    links: list[dict[str, object]] = []
    for header in index_headers(record.extras):
        extras.append({"name": header.name, "index": header.index, "value": header.value})
        if header.link is not None:
            found = header.link
            links.append({"name": header.name, "index": header.index, "data": found.data, "target": found.target})
    return (
        record.hash,
        record.kind.letter,
        record.group,
        record.app,
        record.name,
        record.tai_text,
        *signer,
        record.data_length,
        extras,
        links,
        record.blob_hash if isinstance(record, Plex) else None,
        record.plex_hash if isinstance(record, Seal) else None,
    )
