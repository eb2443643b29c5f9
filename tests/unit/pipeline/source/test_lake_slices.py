from collections.abc import Sequence
from pathlib import Path

import pytest
from msgspec import structs

from bobbin.pipeline.source import columns, lake_slices
from bobbin.pipeline.source.conditions import OneOf, StartsWith, Within
from bobbin.pipeline.source.lake_slices import LakeSlice
from bobbin.store.lake.errors import DamagedLake, NoLake
from bobbin.store.lake.lake import Lake
from tests.support.lakes import some_records, store


def _rows(slices: Sequence[LakeSlice], *, verify: bool = True) -> list[tuple[str, bytes]]:
    schema = columns.schema(("record", "raw"))
    made = [
        row for one in slices for batch in lake_slices.read(one, schema, verify=verify) for row in batch.to_pylist()
    ]
    return sorted((row["record"], row["raw"]) for row in made)


def test_a_slice_for_each_file(tmp_path: Path) -> None:
    lake = Lake.create(tmp_path / "lake")
    assert lake_slices.plan(str(tmp_path / "lake")) == []
    first, second = some_records(20, 1), some_records(20, 2)
    store(lake, first)
    store(lake, second)
    slices = lake_slices.plan(str(tmp_path / "lake"))
    assert len(slices) == 2
    assert _rows(slices) == sorted((record.hash, record.raw) for record in first + second)


def test_files_that_cannot_hold_a_name_are_not_read(tmp_path: Path) -> None:
    lake = Lake.create(tmp_path / "lake")
    records = sorted(some_records(40, 1), key=lambda record: record.hash)
    for begin in range(0, 40, 10):
        store(lake, records[begin : begin + 10])
    location = str(tmp_path / "lake")
    assert len(lake_slices.plan(location)) == 4
    wanted = records[13].hash
    assert len(lake_slices.plan(location, [OneOf("record", (wanted,))])) == 1
    found = _rows(lake_slices.plan(location, [StartsWith("record", wanted[:8])]))
    assert wanted in dict(found)
    assert len(found) <= 20
    assert lake_slices.plan(location, [OneOf("record", ())]) == []
    assert len(lake_slices.plan(location, [OneOf("name", ("x",)), Within("record", low="B")])) == 4


def test_a_record_under_a_wrong_name_is_damage(tmp_path: Path) -> None:
    lake = Lake.create(tmp_path / "lake")
    one, other = some_records(2, 1)
    changed = structs.replace(one, raw=one.raw[:-1] + bytes([one.raw[-1] ^ 1]))
    store(lake, [changed, other])
    slices = lake_slices.plan(str(tmp_path / "lake"))
    with pytest.raises(DamagedLake, match="lake check"):
        _rows(slices)
    assert len(_rows(slices, verify=False)) == 2


def test_no_lake(tmp_path: Path) -> None:
    with pytest.raises(NoLake):
        lake_slices.plan(str(tmp_path))
