from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from bobbin.errors import UsageError
from bobbin.records.ids import Kind, hash_text
from bobbin.store.lake import lookup, reading, tables
from bobbin.store.lake.errors import DamagedLake
from bobbin.store.lake.lake import Lake
from bobbin.store.lake.lookup import Records
from tests.support.lake_tables import SMALL, batch, ingest, record_rows
from tests.support.lakes import some_records

RECORDS = some_records(60, 3)
UNKNOWN = [hash_text(kind, bytes([number]) * 32) for kind in Kind for number in (0, 100, 255)]


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    lake = Lake.create(tmp_path / "lake")
    ingest(lake, RECORDS[:40], shape=SMALL)
    ingest(lake, RECORDS[40:], shape=SMALL)
    return lake


def opened(lake: Lake) -> Records:
    return Records(lake.files, lake.manifest("records"))


def test_every_record_is_found_by_name_and_by_number(lake: Lake) -> None:
    records = opened(lake)
    scanned = list(records.scan())
    assert [line.id for line in scanned] == list(range(1, 61))
    assert {line.hash for line in scanned} == {record.hash for record in RECORDS}
    for line in scanned:
        assert records.locate(line.hash) == line.id
        assert records.get(line.hash) == line.raw == records.raw(line.id)
    assert len(records) == 60
    records.close()
    assert records.get(RECORDS[0].hash) == RECORDS[0].raw


def test_many_are_found_at_once_in_any_order_and_what_is_not_there_is_0(lake: Lake) -> None:
    records = opened(lake)
    asked = [*UNKNOWN, *(record.hash for record in reversed(RECORDS)), "no name", "P.é", RECORDS[0].hash, ""]
    expected = [records.locate(name) or 0 for name in asked]
    assert records.locate_many(asked).tolist() == expected
    assert expected[:9] == [0] * 9
    assert records.locate_many([]).tolist() == []
    assert records.locate_many(["none", "of them"]).tolist() == [0, 0]


def test_a_scan_begins_anywhere(lake: Lake) -> None:
    records = opened(lake)
    every = list(records.scan())
    for after in (0, 1, 3, 39, 40, 41, 59, 60, 1_000):
        assert list(records.scan(after=after)) == every[after:]
    assert list(records.scan(after=5, limit=7)) == every[5:12]


def test_kinds_are_counted(lake: Lake) -> None:
    kinds = [record.kind for record in RECORDS]
    assert opened(lake).kinds() == {kind: kinds.count(kind) for kind in Kind}


def test_little_is_held_in_memory_however_much_is_read(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    for bound in ("NAMES_BYTES_MAX", "RAW_BYTES_MAX", "FILES_OPEN_MAX"):
        monkeypatch.setattr(lookup, bound, 1)
    records = opened(lake)
    for record in RECORDS:
        assert records.get(record.hash) == record.raw
    assert len(records._opened.clear()) == len(records._names.clear()) == len(records._raws.clear()) == 1


def test_row_groups_that_are_large_are_read_in_pieces(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lake = Lake.create(tmp_path / "lake")
    ingest(lake, RECORDS)
    monkeypatch.setattr(reading, "PIECE_ROWS_MAX", 7)
    records = opened(lake)
    for record in RECORDS:
        assert records.get(record.hash) == record.raw
    assert len(records._raws.clear()) == 9


def test_whoever_asks_in_order_reads_a_large_row_group_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lake = Lake.create(tmp_path / "lake")
    ingest(lake, RECORDS)
    monkeypatch.setattr(reading, "PIECE_ROWS_MAX", 7)
    monkeypatch.setattr(lookup, "RAW_BYTES_MAX", 1)
    begun: list[int] = []
    real = reading.group_pieces

    def counted(*arguments: Any, **named: Any) -> Any:  # noqa: ANN401 -- whatever it is called with
        begun.append(1)
        return real(*arguments, **named)

    records = opened(lake)
    ordered = sorted(record.hash for record in RECORDS)
    records.get(ordered[0])
    monkeypatch.setattr(reading, "group_pieces", counted)
    assert all(records.get(name) for name in ordered)
    assert len(begun) <= 1
    assert records.get(ordered[0]) is not None
    assert len(begun) <= 2


def committed(lake: Lake, rows: list[dict[str, object]], **options: bool) -> None:
    with lake.begin("ingest") as run:
        table = pa.Table.from_batches([batch(tables.RECORDS, rows)])
        pq.write_table(table, Path(lake.location) / run.path("records") / "a.parquet", row_group_size=4, **options)
        run.append("records")
        run.commit()


def test_a_file_without_statistics_is_read_for_its_bounds(tmp_path: Path) -> None:
    lake = Lake.create(tmp_path / "lake")
    committed(lake, [dict(row) for row in record_rows(RECORDS)], write_statistics=False)
    records = opened(lake)
    assert all(records.get(record.hash) == record.raw for record in RECORDS)
    assert records.get(UNKNOWN[0]) is None


def test_other_bytes_under_a_name_are_damage(tmp_path: Path) -> None:
    lake = Lake.create(tmp_path / "lake")
    committed(lake, [{"record": RECORDS[0].hash, "raw": RECORDS[1].raw}])
    with pytest.raises(DamagedLake, match="open with another name"):
        opened(lake).get(RECORDS[0].hash)


def test_a_name_that_is_none_is_damage(tmp_path: Path) -> None:
    lake = Lake.create(tmp_path / "lake")
    committed(lake, [{"record": "A", "raw": b""}, {"record": "Z", "raw": b""}])
    with pytest.raises(DamagedLake, match="no name of a record"):
        opened(lake).get(RECORDS[0].hash)


def test_names_are_taken_from_a_slice_as_they_are() -> None:
    names = sorted(record.hash for record in RECORDS)
    assert lookup.names_of(pa.array(names).slice(3, 4), "here").tolist() == [name.encode() for name in names[3:7]]
    assert lookup.names_of(pa.array([], pa.string()), "here").dtype == np.dtype("S48")


def test_a_limit_is_a_number_of_records() -> None:
    lookup.check_limit(None)
    lookup.check_limit(0)
    with pytest.raises(UsageError):
        lookup.check_limit(-1)
