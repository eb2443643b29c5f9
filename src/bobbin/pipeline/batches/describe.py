"""What records say, as rows of the table ``facts``, and back from such rows to facts.

The table is wide: one row for each record, with a column for each field that every record of a kind has. Extra headers
and the links that they make are lists in the row, with the index that each has among headers of its name. A row holds
exactly what ``facts.extract`` says of the record: ``facts_of_rows`` gives the same tuples again.

Records are read as trusted: digests and signatures were checked when they were stored, and checking a signature costs
more than all the rest. What is checked is that the bytes still have the structure of a record and open with the name
that the row says. Bytes that changed at rest are found by ``bobbin lake check``, which compares whole files.
"""

from collections.abc import Iterator, Mapping
from typing import Final

import pyarrow as pa

from bobbin.facts import relations
from bobbin.facts.extract import Fact
from bobbin.facts.relations import Tuple
from bobbin.records.canonical import MARK
from bobbin.records.reasons import InvalidRecord
from bobbin.records.record import Record, read_trusted
from bobbin.store.lake.describing import describe_as
from bobbin.store.lake.errors import DamagedLake

FIXED_FIELDS: Final = {
    "Type": "type",
    "Signed-By": "signer",
    "Signature": "signature",
    "Group": "group",
    "App": "app",
    "Name": "name",
    "TAI": "tai",
    "Data-Length": "data_length",
}
"""The fields that are not extra headers, in record order, with their columns."""


def describe(batch: pa.RecordBatch) -> pa.RecordBatch:
    """The rows of ``facts`` for rows of ``records``."""
    names = batch.column("record").to_pylist()
    return describe_as(names, list(map(_read, names, batch.column("raw").to_pylist())))


def facts_of_rows(batch: pa.RecordBatch) -> Iterator[Fact]:
    """Every fact that rows of ``facts`` hold: for each row what ``facts.extract`` says of its record."""
    for row in batch.to_pylist():
        own = row["record"]
        yield relations.HAVE, (own,)
        for values in fields_of_row(row):
            yield relations.FIELD, values
        for link in row["links"]:
            yield relations.RECORD_LINK, (own, link["name"], str(link["index"]), link["data"], link["target"])
        if row["blob_hash"] is not None:
            yield relations.BLOB_HASH, (own, row["blob_hash"])
        if row["plex_hash"] is not None:
            yield relations.PLEX_HASH, (own, row["plex_hash"])


def field_rows(batch: pa.RecordBatch) -> Iterator[Tuple]:
    """The tuples of ``Field`` that rows of ``facts`` hold."""
    for row in batch.to_pylist():
        yield from fields_of_row(row)


def fields_of_row(row: Mapping[str, object]) -> Iterator[Tuple]:
    """The tuples of ``Field`` that one row of ``facts`` holds, or those of the columns that are there."""
    own, extras = row["record"], row.get("extras", [])
    assert isinstance(own, str)
    assert isinstance(extras, list)
    plain = {header["name"] for header in extras}
    for name, column in FIXED_FIELDS.items():
        value = row.get(column)
        if value is not None and name not in plain:
            yield own, name, "0", str(value)
    for header in extras:
        yield own, header["name"], str(header["index"]), header["value"]


def _read(name: str, raw: bytes) -> Record:
    try:
        record = read_trusted(raw)
    except InvalidRecord as failure:
        raise DamagedLake(f"the bytes stored as {name} are no record any more: {failure.detail}") from failure
    # A record opens with its name. Comparing that is cheaper than spelling the name.
    if not raw.startswith(b"%b: %b\n" % (MARK, name.encode())):
        raise DamagedLake(f"the bytes stored as {name} are those of {record.hash}")
    return record
