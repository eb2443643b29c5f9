"""The columns of the data source, and how batches of them are made.

``id`` is the ``StoreRecordId`` of a record in a lace, and null elsewhere. ``record`` and ``raw`` are those of the table
``records`` of a lake, the others those of its table ``facts``. A query that needs few of them says so with a schema or
with the option ``columns``: what is not asked for is not made.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

import pyarrow as pa

from bobbin.errors import UsageError
from bobbin.store.lake.tables import FACTS, RECORDS

_WIDE: Final = ("type", "group", "app", "name", "tai", "signer", "data_length", "extras")

TYPES: Final[Mapping[str, pa.DataType]] = {
    "id": pa.int64(),
    "record": RECORDS.schema.field("record").type,
    "raw": RECORDS.schema.field("raw").type,
    **{name: FACTS.schema.field(name).type for name in _WIDE},
}
"""Every column in its order, with its type."""

NAMES: Final = tuple(TYPES)

BATCH_ROWS_MAX: Final = 10_000
BATCH_BYTES_MAX: Final = 16 * 1024 * 1024
"""A batch ends before it has more raw bytes than this, unless one record alone has more."""


def schema(names: Iterable[str] = NAMES) -> pa.Schema:
    """The columns of these names. Every one may be null, as in all that Spark reads."""
    return pa.schema([pa.field(name, TYPES[name]) for name in checked(names)])


def checked(names: Iterable[str]) -> tuple[str, ...]:
    """Names of columns, if they are."""
    chosen = tuple(names)
    for name in chosen:
        if name not in TYPES:
            raise UsageError(f"the source bobbin has no column {name!r}; it has {', '.join(NAMES)}")
    if not chosen or len(set(chosen)) < len(chosen):
        raise UsageError("name at least one column, and each once")
    return chosen


def batch(columns: Mapping[str, Sequence[object]], schema: pa.Schema) -> pa.RecordBatch:
    """One batch: columns by name, in the order and with the types of the schema."""
    return pa.RecordBatch.from_arrays([pa.array(columns[field.name], field.type) for field in schema], schema=schema)
