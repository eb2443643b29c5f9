"""Changes as they come in, checked and packed: one row for each transaction, its vector as bytes.

What is wrong with a row is said with the transaction it belongs to, and nothing is taken then. Packed vectors go
through a shuffle as they are, where lists would be taken apart and put together again.
"""

from collections.abc import Iterable, Iterator
from typing import Final, TypeAlias

import msgspec
import numpy as np
import pyarrow as pa
from msgspec import Struct
from numpy.typing import NDArray

from bobbin.cluster.conflicts.delta import SPARSE_BELOW
from bobbin.errors import UsageError
from bobbin.store.lake.tables import Table

DELTAS: Final = Table(
    "deltas",
    1,
    pa.schema(
        [
            pa.field("tx", pa.binary(), nullable=False),
            pa.field("window", pa.int64(), nullable=False),
            pa.field("dimension", pa.int32(), nullable=False),
            pa.field("positions", pa.list_(pa.field("element", pa.int32(), nullable=False)), nullable=False),
            pa.field("values", pa.list_(pa.field("element", pa.float64(), nullable=False)), nullable=False),
            pa.field("keys", pa.list_(pa.field("element", pa.binary(), nullable=False)), nullable=False),
        ]
    ),
    (),
)
"""What a table of changes has, in any order of rows. Positions ascend, and there are as many values."""

PACKED: Final = pa.schema(
    [
        ("window", pa.int64()),
        ("tx", pa.binary()),
        ("positions", pa.binary()),
        ("values", pa.binary()),
        ("keys", pa.list_(pa.binary())),
    ]
)
"""The same, checked: positions as 32-bit and values as 64-bit numbers, least significant byte first; keys ascend."""

Ints: TypeAlias = NDArray[np.int64]
DIMENSION_MAX: Final = 65_536
_TX_BYTES_MAX: Final = 64
_LINE_SHOWN: Final = 60


class DeltaLine(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A change as a line of JSON; ``tx`` in hex, keys as text."""

    tx: str
    window: int = 0
    dimension: int
    positions: list[int]
    values: list[float]
    keys: tuple[str, ...] = ()


def parse(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Lines of JSON as rows of ``DELTAS``. Empty lines are none."""
    decoder = msgspec.json.Decoder(DeltaLine)
    for batch in batches:
        rows = []
        for line in batch.column(0).to_pylist():
            if not line.strip():
                continue
            try:
                one = decoder.decode(line)
                rows.append(
                    {
                        "tx": bytes.fromhex(one.tx),
                        "window": one.window,
                        "dimension": one.dimension,
                        "positions": one.positions,
                        "values": one.values,
                        "keys": [key.encode() for key in one.keys],
                    }
                )
            except (msgspec.DecodeError, ValueError) as error:
                raise UsageError(f"the line {line[:_LINE_SHOWN]!r} is no change: {error}") from error
        try:
            yield pa.RecordBatch.from_pylist(rows, DELTAS.schema)
        except (pa.ArrowException, OverflowError) as error:
            raise UsageError(f"a change has a number that is too large: {error}") from error


def pack(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Check rows of ``DELTAS`` and give them as rows of ``PACKED``, without values that are too small to matter."""
    for batch in batches:
        if batch.num_rows:
            yield _packed(batch)


def _packed(batch: pa.RecordBatch) -> pa.RecordBatch:
    for name in DELTAS.schema.names:
        column = batch.column(name)
        flat = column.flatten() if pa.types.is_list(column.type) else column
        if column.null_count or flat.null_count:
            raise UsageError(f"the column {name} of a table of changes has rows without a value")
    txs: list[bytes] = batch.column("tx").to_pylist()
    counts = batch.column("positions").value_lengths().to_numpy()
    positions = batch.column("positions").flatten().to_numpy()
    values = batch.column("values").flatten().to_numpy()
    rows = np.repeat(np.arange(len(txs)), counts)
    wrong = _first_wrong(batch, txs, positions, values, rows)
    if wrong is not None:
        row, reason = wrong
        raise UsageError(f"the change of transaction {txs[row].hex() or '(none)'} {reason}")
    kept = np.abs(values) >= SPARSE_BELOW
    starts = np.concatenate([[0], np.cumsum(np.bincount(rows[kept], minlength=len(txs)))])
    keys = [sorted(set(own)) for own in batch.column("keys").to_pylist()]
    return pa.RecordBatch.from_arrays(
        [
            batch.column("window"),
            batch.column("tx"),
            _binary(positions[kept].astype("<i4"), starts),
            _binary(values[kept].astype("<f8"), starts),
            pa.array(keys, PACKED.field("keys").type),
        ],
        schema=PACKED,
    )


def _first_wrong(
    batch: pa.RecordBatch, txs: list[bytes], positions: Ints, values: NDArray[np.float64], rows: NDArray[np.intp]
) -> tuple[int, str] | None:
    """A row that is not valid, and why."""
    counts = batch.column("positions").value_lengths().to_numpy()
    for row, tx in enumerate(txs):
        if not 0 < len(tx) <= _TX_BYTES_MAX:
            return row, f"has an id of {len(tx)} bytes, where 1 to {_TX_BYTES_MAX} are due"
    dimensions = batch.column("dimension").to_numpy()
    for wrong, reason in (
        ((dimensions <= 0) | (dimensions > DIMENSION_MAX), f"has a dimension that is not 1 to {DIMENSION_MAX}"),
        (counts != batch.column("values").value_lengths().to_numpy(), "has another number of positions than of values"),
    ):
        if wrong.any():
            return int(wrong.argmax()), reason
    falls = np.zeros(len(positions), bool)
    falls[1:] = (rows[1:] == rows[:-1]) & (positions[1:] <= positions[:-1])
    for wrong, reason in (
        ((positions < 0) | (positions >= dimensions[rows]), "has a position outside its dimension"),
        (falls, "has positions that do not ascend"),
        (~np.isfinite(values), "has a value that is not finite"),
    ):
        if wrong.any():
            return int(rows[wrong.argmax()]), reason
    return None


def _binary(numbers: NDArray[np.int32] | NDArray[np.float64], starts: Ints) -> pa.Array:
    """A row of bytes for each run of numbers."""
    offsets = (starts * numbers.dtype.itemsize).astype(np.int32)
    return pa.Array.from_buffers(pa.binary(), len(starts) - 1, [None, pa.py_buffer(offsets), pa.py_buffer(numbers)])
