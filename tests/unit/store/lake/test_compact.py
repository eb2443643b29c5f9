from itertools import pairwise
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from bobbin.errors import UsageError
from bobbin.store.base import Rejected
from bobbin.store.lake import merging, tables
from bobbin.store.lake.check import check
from bobbin.store.lake.compact import compact, needs_it
from bobbin.store.lake.errors import Conflict, DamagedLake
from bobbin.store.lake.lake import Lake
from bobbin.store.lake.writing import Shape
from tests.support.lake_tables import SMALL, batch, ingest, make_facts, stage
from tests.support.lakes import some_records

RECORDS = some_records(60, 3)


def bad(number: int) -> Rejected:
    return Rejected(raw=b"bytes %d" % number, reason="r", detail="d", source=f"file {number % 2}", offset=number)


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    lake = Lake.create(tmp_path / "lake")
    for start in range(0, 60, 20):
        ingest(lake, RECORDS[start : start + 20], rejected=[bad(start), bad(start + 1)], shape=SMALL)
    make_facts(lake, RECORDS, shape=SMALL)
    return lake


def rows_of(lake: Lake, table: str) -> list[dict[str, object]]:
    parts = [pq.read_table(Path(lake.location) / file.path) for file in lake.manifest(table).files]
    rows: list[dict[str, object]] = pa.concat_tables(parts).to_pylist()
    return rows


def test_many_files_become_few_with_the_same_rows_in_order(lake: Lake) -> None:
    before = {table: sorted(map(str, rows_of(lake, table))) for table in ("records", "facts", "quarantine")}
    steps: list[tuple[int, int]] = []
    report, told = compact(lake, progress=lambda done, total: steps.append((done, total)))
    assert report is not None
    assert report.inputs == report.outputs == {"records": 60, "facts": 60, "quarantine": 6}
    assert [(one.table, one.files_after, one.rows) for one in told] == [
        ("records", 1, 60),
        ("facts", 1, 60),
        ("quarantine", 1, 6),
    ]
    assert steps[-1] == (126, 126)
    for table, rows in before.items():
        assert sorted(map(str, rows_of(lake, table))) == rows
    names = [row["record"] for row in rows_of(lake, "records")]
    assert names == sorted(record.hash for record in RECORDS)
    assert list(check(lake)) == []
    assert all(lake.files.exists(file.path) for manifest in lake.history("records") for file in manifest.files)


def test_what_was_made_from_the_rows_stays_current(lake: Lake) -> None:
    made_from = int(lake.manifest("facts").properties["records"])
    compact(lake)
    compact(lake, force=True)
    assert lake.manifest("records").number == made_from + 2
    assert lake.is_current("records", made_from)
    assert lake.is_current("records", made_from + 1)
    assert not lake.is_current("records", made_from - 1)
    assert not lake.is_current("records", made_from + 3)
    assert lake.manifest("facts").properties["records"] == str(made_from)
    ingest(lake, some_records(1, 99))
    assert not lake.is_current("records", made_from)
    assert not lake.is_current("records", made_from + 2)


def test_files_are_as_large_as_asked_for_and_do_not_overlap(lake: Lake) -> None:
    compact(lake, ["records"], shape=Shape(group_rows_max=5, file_bytes_max=3_000))
    files = lake.manifest("records").files
    assert len(files) > 2
    assert all(one.high < other.low for one, other in pairwise(files) if one.high and other.low)


def test_what_is_in_good_shape_is_left_alone(lake: Lake) -> None:
    compact(lake)
    number = lake.manifest("records").number
    assert compact(lake) == (None, ())
    assert lake.manifest("records").number == number
    assert not needs_it(lake.manifest("records"))
    report, told = compact(lake, ["quarantine"], force=True)
    assert report is not None
    assert [one.table for one in told] == ["quarantine"]


def test_only_tables_that_grow_are_compacted(lake: Lake) -> None:
    with pytest.raises(UsageError, match="selections is not compacted"):
        compact(lake, ["selections"])


def test_what_is_added_meanwhile_stays_where_it_is(lake: Lake) -> None:
    made_from = int(lake.manifest("facts").properties["records"])
    more = some_records(2, 99)

    def meanwhile(done: int, total: int) -> None:
        if done == total:
            ingest(lake, more[:1])
            ingest(lake, more[1:])

    report, _ = compact(lake, progress=meanwhile)
    assert report is not None
    current = lake.manifest("records")
    assert (current.rows, len(current.files), current.number) == (62, 3, made_from + 3)
    assert current.files[0].rows == 60
    assert [row["record"] for row in rows_of(lake, "records")][60:] == [record.hash for record in more]
    assert not lake.is_current("records", made_from)
    assert lake.is_current("records", current.number - 1)
    assert list(check(lake)) == []


def test_a_table_that_was_made_anew_meanwhile_is_a_conflict_and_stays_as_it_is(lake: Lake) -> None:
    def meanwhile(done: int, total: int) -> None:
        if done == total:
            make_facts(lake, RECORDS, shape=SMALL)

    with pytest.raises(Conflict):
        compact(lake, progress=meanwhile)
    assert lake.manifest("records").rows == 60
    assert list(check(lake)) == []


def test_more_files_than_may_be_open_are_merged_in_turns(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    before = {table: sorted(map(str, rows_of(lake, table))) for table in ("records", "facts", "quarantine")}
    assert len(lake.manifest("records").files) > 4
    monkeypatch.setattr(merging, "OPEN_FILES_MAX", 2)
    compact(lake)
    for table, rows in before.items():
        assert sorted(map(str, rows_of(lake, table))) == rows
    assert list(check(lake)) == []
    assert not list(Path(lake.location).rglob("_merging"))


def test_a_record_that_is_there_twice_stops_it(lake: Lake) -> None:
    with lake.begin("ingest") as run:
        stage(run, "records", [{"record": RECORDS[0].hash, "raw": RECORDS[0].raw}])
        run.append("records")
        run.commit()
    with pytest.raises(DamagedLake, match="a record twice"):
        compact(lake)


def test_a_file_that_is_not_sorted_stops_it(tmp_path: Path) -> None:
    lake = Lake.create(tmp_path / "lake")
    with lake.begin("ingest") as run:
        made = batch(tables.RECORDS, [{"record": name, "raw": b""} for name in ("P.b", "P.a", "P.c")])
        pq.write_table(pa.Table.from_batches([made]), Path(lake.location) / run.path("records") / "a.parquet")
        run.append("records")
        run.commit()
    with pytest.raises(DamagedLake, match="not sorted"):
        compact(lake, force=True)
    assert lake.manifest("records").number == 1


def test_a_damaged_file_is_not_made_good_by_writing_it_anew(lake: Lake) -> None:
    """What comes out would have a digest of its own, and nothing would ever tell that it had been damaged."""
    file = lake.manifest("records").files[1]
    path = Path(lake.location) / file.path
    raw = bytearray(path.read_bytes())
    raw[len(raw) // 3] ^= 1
    path.write_bytes(raw)
    with pytest.raises(DamagedLake, match=r"are not those that were committed; nothing was compacted"):
        compact(lake, force=True)
    assert [found.where for found in check(lake, quick=True)] == [file.path]
