import struct
from collections.abc import Iterator
from random import Random
from typing import Any

import pyarrow as pa
import pytest

from bobbin.cluster.conflicts.classify import DEFAULT, ConflictClass, detect_conflict
from bobbin.cluster.conflicts.delta import DeltaVector
from bobbin.cluster.geometry import Embedding
from bobbin.errors import UsageError
from bobbin.pipeline.batches import conflicts as module
from bobbin.pipeline.batches.conflicts import FOUND, classify, tasks

_ROWS = pa.schema(
    [
        ("window", pa.int64()),
        ("low", pa.int32()),
        ("high", pa.int32()),
        ("side", pa.int32()),
        ("tx", pa.binary()),
        ("positions", pa.binary()),
        ("values", pa.binary()),
        ("keys", pa.list_(pa.binary())),
    ]
)


def _deltas(seed: int, count: int) -> list[DeltaVector]:
    chance = Random(seed)
    deltas = []
    for _ in range(count):
        held = {chance.randrange(12): chance.choice([1.0, -1.0, 2.0]) for _ in range(chance.randrange(5))}
        keys = [bytes([chance.randrange(5)]) for _ in range(chance.randrange(3))]
        deltas.append(DeltaVector.of(Embedding.of(12, held), keys, chance.randbytes(4)))
    return deltas


def _row(delta: DeltaVector, window: int, low: int, high: int, side: int) -> dict[str, Any]:
    size = len(delta.delta.positions)
    return {
        "window": window,
        "low": low,
        "high": high,
        "side": side,
        "tx": delta.tx,
        "positions": struct.pack(f"<{size}i", *delta.delta.positions),
        "values": struct.pack(f"<{size}d", *delta.delta.values),
        "keys": list(delta.keys),
    }


def _batches(rows: list[dict[str, Any]], size: int) -> Iterator[pa.RecordBatch]:
    for start in range(0, len(rows), size):
        yield pa.RecordBatch.from_pylist(rows[start : start + size], _ROWS)


@pytest.mark.parametrize("size", [1, 7, 1_000])
@pytest.mark.parametrize("rows_max", [3, 1 << 16])
def test_tasks_of_a_window_have_all_its_pairs_once(monkeypatch: pytest.MonkeyPatch, size: int, rows_max: int) -> None:
    monkeypatch.setattr(module, "_ROWS_MAX", rows_max)
    groups = [sorted(_deltas(seed, 12), key=lambda delta: delta.tx) for seed in (1, 2)]
    rows = [_row(delta, 8, 0, 0, 0) for delta in groups[0]]
    rows += [_row(delta, 8, 0, 1, side) for side in (0, 1) for delta in groups[side]]
    rows += [_row(delta, 8, 1, 1, 0) for delta in groups[1]]
    found = [row for batch in classify(_batches(rows, size), DEFAULT) for row in batch.to_pylist()]
    tallies = [row["pairs"] for row in found if row["class"] == "orthogonal"]
    pairs = {(row["one"], row["other"]): row for row in found if row["class"] != "orthogonal"}
    assert len(tallies) == 3
    assert sum(tallies) + len(pairs) == 24 * 23 // 2
    assert len(pairs) == len(found) - 3
    everything = sorted([*groups[0], *groups[1]], key=lambda delta: delta.tx)
    for at, one in enumerate(everything):
        for other in everything[at + 1 :]:
            expected = detect_conflict(one, other)
            row = pairs.pop((one.tx, other.tx), None)
            assert (row is None) == (expected.conflict_class is ConflictClass.ORTHOGONAL)
            if row is not None:
                assert (row["class"], row["action"]) == (expected.conflict_class.value, expected.action.value)
                assert tuple(row["keys"]) == expected.overlapping_keys
                assert (row["window"], row["pairs"], row["jaccard"]) == (8, 1, expected.jaccard)
    assert not pairs


def test_tasks_are_told_apart_within_and_across_batches() -> None:
    (delta,) = _deltas(3, 1)
    rows = [_row(delta, window, low, 1, 0) for window, low in ((1, 0), (1, 0), (1, 1), (2, 1), (2, 1), (2, 1))]
    for size in (1, 2, 4, 6):
        assert [task.num_rows for task in tasks(_batches(rows, size))] == [2, 1, 3]
    assert list(tasks([pa.RecordBatch.from_pylist([], _ROWS)])) == []


def test_what_is_found_has_one_form() -> None:
    rows = [_row(delta, 1, 0, 0, 0) for delta in _deltas(5, 4)]
    for batch in classify(_batches(rows, 10), DEFAULT):
        assert batch.schema.equals(FOUND)


def test_changes_without_keys_and_positions_are_orthogonal() -> None:
    empty = [DeltaVector(Embedding.zero(1), (), bytes([number])) for number in range(3)]
    (batch,) = classify(_batches([_row(delta, 1, 0, 0, 0) for delta in empty], 10), DEFAULT)
    assert batch.column("pairs").to_pylist() == [3]


def test_a_transaction_that_is_there_twice_is_refused() -> None:
    (delta,) = _deltas(6, 1)
    rows = [_row(one, 4, 0, 0, 0) for one in (DeltaVector(delta.delta, (), b"\x01"), delta, delta)]
    with pytest.raises(UsageError, match=f"{delta.tx.hex()} has several changes in window 4"):
        list(classify(_batches(rows, 10), DEFAULT))
