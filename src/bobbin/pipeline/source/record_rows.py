"""Rows of records that are there as values: those of bundles and of lakes."""

from collections.abc import Iterable, Iterator, Sequence

import pyarrow as pa

from bobbin.pipeline.source import columns
from bobbin.records.record import Record
from bobbin.store.lake.describing import describe as rows_of


def batches(records: Iterable[Record], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """Batches of the columns that the schema names, bounded by rows and by bytes."""
    chunk: list[Record] = []
    size = 0
    for record in records:
        if chunk and (len(chunk) == columns.BATCH_ROWS_MAX or size + len(record.raw) > columns.BATCH_BYTES_MAX):
            yield _batch(chunk, schema)
            chunk, size = [], 0
        chunk.append(record)
        size += len(record.raw)
    if chunk:
        yield _batch(chunk, schema)


def _batch(records: Sequence[Record], schema: pa.Schema) -> pa.RecordBatch:
    own = {"id", "raw", "record"}
    facts = rows_of(records) if any(name not in own for name in schema.names) else None
    made = []
    for field in schema:
        if field.name == "id":
            made.append(pa.nulls(len(records), field.type))
        elif field.name == "raw":
            made.append(pa.array([record.raw for record in records], field.type))
        elif field.name == "record":
            made.append(pa.array([record.hash for record in records], field.type))
        else:
            assert facts is not None, "a column of what the records say"
            made.append(facts.column(field.name).cast(field.type))
    return pa.RecordBatch.from_arrays(made, schema=schema)
