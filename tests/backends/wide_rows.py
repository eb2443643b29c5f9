"""Facts about made-up records as rows of the table ``facts``: what no real record says can be tried, too."""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from bobbin.facts import relations
from bobbin.facts.relations import FactSource
from bobbin.pipeline import frames
from bobbin.pipeline.batches.describe import FIXED_FIELDS
from bobbin.pipeline.rules.wide import WideTable
from bobbin.policy.claims import Claims
from bobbin.store.lake.tables import FACTS

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def wide_records(session: "SparkSession", facts: FactSource) -> WideTable:
    """Stored records that say this."""
    rows: dict[str, dict[str, Any]] = {record: _row(record) for (record,) in facts.enumerate(relations.HAVE)}
    for record, *field in facts.enumerate(relations.FIELD):
        _add_field(rows[record], *field)
    for record, name, index, data, target in facts.enumerate(relations.RECORD_LINK):
        rows[record]["links"].append({"name": name, "index": int(index), "data": data, "target": target})
    for predicate, column in ((relations.BLOB_HASH, "blob_hash"), (relations.PLEX_HASH, "plex_hash")):
        for record, hash in facts.enumerate(predicate):
            rows[record][column] = hash
    return _table(session, rows.values(), None)


def wide_claims(session: "SparkSession", claims: Claims) -> WideTable:
    """What a peer claims."""
    rows = {record: _row(record) for record in claims.records()}
    for record, row in rows.items():
        for field in claims.fields(record):
            _add_field(row, field.name, field.index, field.value)
    return _table(session, rows.values(), claims.source)


def _row(record: str) -> dict[str, Any]:
    return {"record": record, "extras": [], "links": []}


def _add_field(row: dict[str, Any], name: str, index: str, value: str) -> None:
    if name in FIXED_FIELDS:
        assert index == "0"
        row[FIXED_FIELDS[name]] = int(value) if name == "Data-Length" else value
    else:
        row["extras"].append({"name": name, "index": int(index), "value": value})


def _table(session: "SparkSession", rows: Iterable[dict[str, Any]], source: str | None) -> WideTable:
    nullable = pa.schema([field.with_nullable(nullable=True) for field in FACTS.schema])
    table = pa.Table.from_pylist(list(rows), schema=nullable)
    frame = session.createDataFrame(table, frames.schema_of(FACTS))
    return WideTable(frame=frame, rows=table.num_rows, source=source)
