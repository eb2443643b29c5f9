"""Records as rows of the table of facts: one row for each, with its extra headers and links as lists."""

from collections.abc import Iterable, Sequence
from typing import Final

import pyarrow as pa

from bobbin.facts.extract import index_headers
from bobbin.records import b64a, tai
from bobbin.records.record import Blob, Record, Seal
from bobbin.store.lake.tables import FACTS

_PLAIN: Final = ("record", "type", "group", "app", "name", "tai", "signer", "signature", "data_length")
_HASHES: Final = ("blob_hash", "plex_hash")


def describe(records: Iterable[Record]) -> pa.RecordBatch:
    """One row for each record, in their order."""
    read = list(records)
    return describe_as([record.hash for record in read], read)


def describe_as(names: Sequence[str], read: Sequence[Record]) -> pa.RecordBatch:
    """The same, where the names are at hand and need not be spelt again."""
    rows = list(map(_fixed, names, read))
    columns = dict(zip(_PLAIN + _HASHES, zip(*rows, strict=True), strict=True)) if rows else {}
    extras, links = _Lists(), _Lists()
    for record in read:
        if not isinstance(record, Blob) and record.extras:
            for header in index_headers(record.extras):
                extras.rows.append((header.name, header.index, header.value))
                if header.link is not None:
                    links.rows.append((header.name, header.index, header.link.data, header.link.target))
        extras.ends.append(len(extras.rows))
        links.ends.append(len(links.rows))
    lists = {"extras": extras, "links": links}
    arrays = [
        lists[field.name].array(field.type)
        if field.name in lists
        else pa.array(columns.get(field.name, ()), field.type)
        for field in FACTS.schema
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=FACTS.schema)


class _Lists:
    """A column of lists in the making: the rows of all lists, and where each list ends."""

    def __init__(self) -> None:
        self.rows: Final[list[tuple[str | int, ...]]] = []
        self.ends: Final = [0]

    def array(self, kind: pa.ListType) -> pa.ListArray:
        parts = list(kind.value_type)
        columns = zip(*self.rows, strict=True) if self.rows else ((),) * len(parts)
        members = [pa.array(column, part.type) for column, part in zip(columns, parts, strict=True)]
        values = pa.StructArray.from_arrays(members, fields=parts)
        return pa.ListArray.from_arrays(pa.array(self.ends, pa.int32()), values, type=kind)


def _fixed(name: str, record: Record) -> tuple[str | int | None, ...]:
    """The columns of one record that are no lists, in the order of ``_PLAIN`` and ``_HASHES``."""
    if isinstance(record, Blob):
        return name, "B", None, None, None, None, None, None, record.data_length, None, None
    place = record.group, record.app, record.name, tai.render(record.tai)
    if isinstance(record, Seal):
        signed = record.verifier, b64a.encode(record.signature)
        return name, "S", *place, *signed, record.data_length, None, record.plex_hash
    return name, "P", *place, None, None, record.data_length, record.blob_hash, None
