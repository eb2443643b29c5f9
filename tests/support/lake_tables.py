"""The tables of a lake, written for tests by pyarrow: any rows, records and their facts, rejected bytes."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import pyarrow as pa
from blake3 import blake3

from bobbin.facts.extract import index_headers
from bobbin.records import b64a
from bobbin.records.record import Blob, Plex, Record, Seal
from bobbin.store.base import Rejected
from bobbin.store.lake import tables
from bobbin.store.lake.lake import Lake, Report, Run
from bobbin.store.lake.tables import Table
from bobbin.store.lake.writing import PartWriter, Shape

Row = Mapping[str, Any]
SMALL = Shape(group_rows_max=3, file_bytes_max=4_000)
"""Row groups and files so small that a few records need several."""


def stage(run: Run, table: str, rows: Sequence[Row], *, shape: Shape | None = None) -> None:
    """Write rows, in the order they come, into the folder of a run."""
    kind = tables.table(table)
    with PartWriter(run.lake.files, kind, run.path(table), shape) as writer:
        if rows:
            writer.write(batch(kind, rows))


def batch(table: Table, rows: Sequence[Row]) -> pa.RecordBatch:
    """Rows as Arrow has them."""
    return pa.RecordBatch.from_pylist([dict(row) for row in rows], schema=table.schema)


def record_rows(records: Iterable[Record]) -> list[Row]:
    """The rows of ``records``, sorted."""
    return sorted(({"record": one.hash, "raw": one.raw} for one in records), key=lambda row: row["record"])


def fact_rows(records: Iterable[Record]) -> list[Row]:
    """The rows of ``facts``, sorted."""
    return sorted(map(fact_row, records), key=lambda row: row["record"])


def fact_row(record: Record) -> Row:
    """What one record says."""
    row: dict[str, Any] = dict.fromkeys(tables.FACTS.schema.names)
    row |= {"record": record.hash, "type": record.kind.letter, "data_length": record.data_length}
    row |= {"extras": [], "links": []}
    if isinstance(record, Blob):
        return row
    row |= {"group": record.group, "app": record.app, "name": record.name, "tai": record.tai_text}
    if isinstance(record, Seal):
        row |= {"signer": record.verifier, "signature": b64a.encode(record.signature), "plex_hash": record.plex_hash}
    if isinstance(record, Plex):
        row["blob_hash"] = record.blob_hash
    for header in index_headers(record.extras):
        row["extras"].append({"name": header.name, "index": header.index, "value": header.value})
        if header.link is not None:
            link = {"data": header.link.data, "target": header.link.target}
            row["links"].append({"name": header.name, "index": header.index, **link})
    return row


def quarantine_rows(rejected: Iterable[Rejected], run: str) -> list[Row]:
    """The rows of ``quarantine``, sorted."""
    rows = [
        {
            "raw": one.raw,
            "size": len(one.raw),
            "digest": blake3(one.raw).digest(),
            "reason": one.reason,
            "detail": one.detail,
            "source": one.source,
            "offset": one.offset,
            "run": run,
        }
        for one in rejected
    ]
    return sorted(rows, key=lambda row: (row["source"], -1 if row["offset"] is None else row["offset"]))


def ingest(
    lake: Lake, records: Sequence[Record], *, rejected: Sequence[Rejected] = (), shape: Shape | None = None
) -> Report:
    """Put records that are not in the lake yet into it, as one run."""
    with lake.begin("ingest") as run:
        stage(run, "records", record_rows(records), shape=shape)
        stage(run, "quarantine", quarantine_rows(rejected, run.id), shape=shape)
        run.append("records")
        run.append("quarantine")
        given = len(records) + len(rejected)
        return run.commit(
            inputs={"records": given},
            outputs={"records": len(records), "quarantine": len(rejected)},
            counts={"in": given, "stored": len(records), "duplicate": 0, "quarantined": len(rejected)},
        )


def make_facts(lake: Lake, records: Sequence[Record], *, shape: Shape | None = None) -> Report:
    """Make the table of facts anew, of the records that the lake has now."""
    with lake.begin("facts") as run:
        stage(run, "facts", fact_rows(records), shape=shape)
        run.replace("facts", properties={"records": str(lake.manifest("records").number)})
        return run.commit(outputs={"facts": len(records)})
