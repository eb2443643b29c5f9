import math
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from bobbin.errors import UsageError
from bobbin.pipeline.batches.deltas import DELTAS, PACKED, pack, parse

_ROW: dict[str, Any] = {
    "tx": b"\x01",
    "window": 3,
    "dimension": 9,
    "positions": [0, 4, 8],
    "values": [1.0, 1e-7, -2.0],
    "keys": [b"b", b"a", b"b"],
}


def _packed(*rows: dict[str, Any]) -> list[dict[str, Any]]:
    batch = pa.RecordBatch.from_pylist(list(rows), pa.schema([(field.name, field.type) for field in DELTAS.schema]))
    (found,) = pack([batch])
    assert found.schema.equals(PACKED)
    told: list[dict[str, Any]] = found.to_pylist()
    return told


def test_a_row_is_packed_without_what_is_too_small_to_matter() -> None:
    (row,) = _packed(_ROW)
    assert (row["window"], row["tx"], row["keys"]) == (3, b"\x01", [b"a", b"b"])
    assert np.frombuffer(row["positions"], "<i4").tolist() == [0, 8]
    assert np.frombuffer(row["values"], "<f8").tolist() == [1.0, -2.0]


def test_rows_keep_what_is_theirs() -> None:
    rows = _packed(_ROW, {**_ROW, "positions": [], "values": []}, {**_ROW, "positions": [2], "values": [5.0]})
    assert [np.frombuffer(row["positions"], "<i4").tolist() for row in rows] == [[0, 8], [], [2]]


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"tx": b""}, "id of 0 bytes"),
        ({"tx": bytes(65)}, "id of 65 bytes"),
        ({"dimension": 0}, "dimension"),
        ({"dimension": 65_537}, "dimension"),
        ({"values": [1.0]}, "another number"),
        ({"positions": [0, 4, 9]}, "outside its dimension"),
        ({"positions": [-1, 4, 8]}, "outside its dimension"),
        ({"positions": [0, 4, 4]}, "do not ascend"),
        ({"values": [1.0, math.nan, 1.0]}, "not finite"),
        ({"values": [1.0, 1.0, math.inf]}, "not finite"),
        ({"window": None}, "column window"),
        ({"positions": [0, None, 8]}, "column positions"),
        ({"keys": None}, "column keys"),
    ],
)
def test_what_is_wrong_is_said_with_its_transaction(change: dict[str, Any], reason: str) -> None:
    with pytest.raises(UsageError, match=reason):
        _packed({**_ROW, "tx": b"\x02"}, {**_ROW, **change})


def test_the_transaction_at_fault_is_named() -> None:
    with pytest.raises(UsageError, match="transaction ab "):
        _packed({**_ROW, "positions": [5], "values": [1.0]}, {**_ROW, "tx": b"\xab", "positions": [3, 2, 1]})


def test_positions_may_fall_from_one_row_to_the_next() -> None:
    assert len(_packed(_ROW, _ROW)) == 2


def test_lines_of_json_are_rows() -> None:
    lines = pa.RecordBatch.from_pydict(
        {"value": ['{"tx": "0a", "dimension": 2, "positions": [1], "values": [2], "keys": ["ä"]}', " "]}
    )
    (found,) = parse([lines])
    assert found.to_pylist() == [
        {"tx": b"\n", "window": 0, "dimension": 2, "positions": [1], "values": [2.0], "keys": ["ä".encode()]}
    ]


@pytest.mark.parametrize(
    "line",
    [
        "x",
        "{}",
        '{"tx": "zz", "dimension": 2, "positions": [], "values": []}',
        '{"tx": "0a", "dimension": 2, "positions": [1.5], "values": []}',
        '{"tx": "0a", "dimension": 2, "positions": [], "values": [], "more": 1}',
        '{"tx": "0a", "dimension": 2, "positions": [99999999999], "values": [1]}',
        '{"tx": "0a", "dimension": 2, "window": 9999999999999999999999, "positions": [], "values": []}',
    ],
)
def test_what_is_no_change_is_refused(line: str) -> None:
    with pytest.raises(UsageError):
        list(parse([pa.RecordBatch.from_pydict({"value": [line]})]))


def test_no_rows_give_nothing() -> None:
    assert list(pack([pa.RecordBatch.from_pylist([], DELTAS.schema)])) == []
