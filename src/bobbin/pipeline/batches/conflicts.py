"""Pairs of changes, classified by workers: each task is one group of a window with itself, or with another group.

The rows of a task come one after the other, those of its first group before those of its second, and each group by
transaction. One task is in memory at a time.
"""

from collections.abc import Iterable, Iterator
from itertools import pairwise
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from bobbin.cluster.conflicts.batch import CLASSES, Found, compare
from bobbin.cluster.conflicts.classify import ACTIONS, ConflictClass, Thresholds
from bobbin.cluster.conflicts.columns import Columns, Numbers
from bobbin.errors import UsageError
from bobbin.store.lake.tables import CONFLICTS

FOUND: Final = CONFLICTS.schema.append(pa.field("pairs", pa.int64(), nullable=False))
"""A row of ``conflicts`` stands for one pair; one of class ``orthogonal`` for all that a task has found of it."""
_TASK: Final = ("window", "low", "high")
_ROWS_MAX: Final = 1 << 16
_CLASS_NAMES: Final = pa.array([one.value for one in CLASSES], pa.string())
_ACTION_NAMES: Final = pa.array([ACTIONS[one].value for one in CLASSES], pa.string())


def classify(batches: Iterable[pa.RecordBatch], thresholds: Thresholds) -> Iterator[pa.RecordBatch]:
    """Rows of ``FOUND`` for the rows of some tasks."""
    for task in tasks(batches):
        yield from classify_task(task, thresholds)


def tasks(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.Table]:
    """The rows of each task, put together."""
    held: list[pa.RecordBatch] = []
    current: tuple[int, ...] | None = None
    for batch in batches:
        if not batch.num_rows:
            continue
        columns = [batch.column(name).to_numpy() for name in _TASK]
        changed = np.zeros(batch.num_rows, bool)
        for column in columns:
            changed[1:] |= column[1:] != column[:-1]
        bounds = [0, *np.flatnonzero(changed).tolist(), batch.num_rows]
        for first, last in pairwise(bounds):
            task = tuple(int(column[first]) for column in columns)
            if held and task != current:
                yield pa.Table.from_batches(held)
                held = []
            current = task
            held.append(batch.slice(first, last - first))
    if held:
        yield pa.Table.from_batches(held)


def classify_task(task: pa.Table, thresholds: Thresholds) -> Iterator[pa.RecordBatch]:
    """All pairs of a task that are not Orthogonal, and then one row that says how many are."""
    whole = task.combine_chunks()
    window, low, high = (whole.column(name)[0].as_py() for name in _TASK)
    txs = _chunk(whole, "tx")
    _check_once(txs, window)
    columns, keys = _columns(whole)
    of_first = pc.sum(pc.equal(whole.column("side"), 0)).as_py()
    one = columns.slice(0, of_first)
    other = None if low == high else columns.slice(of_first, columns.rows)
    # Groups are made by chance, so the first of a pair may be in either.
    ranks = np.empty(columns.rows, np.int64)
    ranks[pc.sort_indices(txs).to_numpy()] = np.arange(columns.rows)
    orthogonal = 0
    for found in compare(one, other, thresholds):
        orthogonal += found.orthogonal
        yield from _rows(found, window, txs, keys, ranks, 0 if other is None else of_first)
    yield pa.RecordBatch.from_pylist(
        [
            {
                "window": window,
                "one": b"",
                "other": b"",
                "class": ConflictClass.ORTHOGONAL.value,
                "cosine": 0.0,
                "jaccard": 0.0,
                "keys": [],
                "action": ACTIONS[ConflictClass.ORTHOGONAL].value,
                "pairs": orthogonal,
            }
        ],
        FOUND,
    )


def _check_once(txs: pa.Array, window: int) -> None:
    """Refuse a transaction that a window has twice. By its hash it is twice in one group, where it follows itself."""
    doubled = pc.index(pc.equal(txs[1:], txs[:-1]), value=True).as_py()
    if doubled >= 0:
        raise UsageError(f"the transaction {txs[doubled].as_py().hex()} has several changes in window {window}")


def _columns(task: pa.Table) -> tuple[Columns, pa.Array]:
    """The changes of a task as columns, and the keys that their numbers stand for."""
    positions, starts = _unpacked(_chunk(task, "positions"), "<i4")
    values, _ = _unpacked(_chunk(task, "values"), "<f8")
    keys = _chunk(task, "keys")
    encoded = pc.dictionary_encode(keys.flatten())
    order = pc.sort_indices(encoded.dictionary)
    number_of = np.empty(len(order), np.int64)
    number_of[order.to_numpy()] = np.arange(len(order))
    key_starts = np.concatenate([[0], np.cumsum(keys.value_lengths().to_numpy(), dtype=np.int64)])
    numbers = number_of[encoded.indices.to_numpy()] if len(encoded) else np.empty(0, np.int64)
    columns = Columns(starts, positions.astype(np.int64), values, key_starts, numbers)
    return columns, encoded.dictionary.take(order)


def _unpacked(column: pa.Array, kind: str) -> tuple[NDArray[np.float64], Numbers]:
    """The numbers in a column of bytes, and where those of each row begin."""
    width = np.dtype(kind).itemsize
    _, places, content = column.buffers()
    offsets = np.frombuffer(places, np.int32, len(column) + 1, column.offset * 4).astype(np.int64)
    first, last = int(offsets[0]), int(offsets[-1])
    numbers = np.frombuffer(content, np.uint8, last - first, first).view(kind) if last > first else np.empty(0, kind)
    return numbers, (offsets - first) // width


def _chunk(table: pa.Table, name: str) -> pa.Array:
    """A column of a table whose chunks were combined."""
    column = table.column(name)
    return column.chunk(0) if column.num_chunks else pa.array([], column.type)


def _rows(
    found: Found, window: int, txs: pa.Array, keys: pa.Array, ranks: Numbers, shift: int
) -> Iterator[pa.RecordBatch]:
    """The pairs of a tile. ``shift``: the place of the second group's first change in the task."""
    for start in range(0, len(found.rows), _ROWS_MAX):
        some = slice(start, start + _ROWS_MAX)
        rows, columns = found.rows[some], found.columns[some] + shift
        is_turned = ranks[rows] > ranks[columns]
        one, other = np.where(is_turned, columns, rows), np.where(is_turned, rows, columns)
        count = len(rows)
        starts = found.shared.starts[start : start + count + 1]
        numbers = found.shared.numbers[starts[0] : starts[-1]]
        shared = pa.ListArray.from_arrays(pa.array((starts - starts[0]).astype(np.int32)), keys.take(pa.array(numbers)))
        yield pa.RecordBatch.from_arrays(
            [
                pa.array(np.full(count, window)),
                txs.take(pa.array(one)),
                txs.take(pa.array(other)),
                _CLASS_NAMES.take(pa.array(found.classes[some])),
                pa.array(found.cosines[some]),
                pa.array(found.jaccards[some]),
                shared.cast(FOUND.field("keys").type),
                _ACTION_NAMES.take(pa.array(found.classes[some])),
                pa.array(np.ones(count, np.int64)),
            ],
            schema=FOUND,
        )
