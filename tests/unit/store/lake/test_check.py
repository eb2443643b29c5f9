"""Every kind of damage to a lake is found, and named where it is."""

from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from msgspec import structs

from bobbin.store.base import Rejected
from bobbin.store.lake import commit, manifest, staging, tables
from bobbin.store.lake.check import check, orphans
from bobbin.store.lake.lake import Lake
from tests.support.lake_tables import SMALL, batch, ingest, make_facts, quarantine_rows, record_rows, stage
from tests.support.lakes import some_records

RECORDS = some_records(30, 5)
BAD = Rejected(raw=b"no record", reason="r", detail="d", source="file", offset=3)


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    lake = Lake.create(tmp_path / "lake")
    ingest(lake, RECORDS[:20], rejected=[BAD], shape=SMALL)
    ingest(lake, RECORDS[20:])
    make_facts(lake, RECORDS)
    return lake


def findings(lake: Lake, *, quick: bool = False) -> list[tuple[str, str]]:
    return [(finding.where, finding.what) for finding in check(lake, quick=quick)]


def path_of(lake: Lake, table: str = "records", number: int = 0) -> Path:
    return Path(lake.location) / lake.manifest(table).files[number].path


def test_a_sound_lake_is_in_order_and_every_row_is_counted(lake: Lake) -> None:
    steps: list[tuple[int, int]] = []
    assert list(check(lake, progress=lambda done, total: steps.append((done, total)))) == []
    assert steps[-1] == (61, 61)
    assert findings(lake, quick=True) == []
    assert list(orphans(lake)) == []


def vanish(path: Path) -> None:
    path.unlink()


def grow(path: Path) -> None:
    path.write_bytes(path.read_bytes() + b"x")


def change(path: Path) -> None:
    raw = bytearray(path.read_bytes())
    raw[len(raw) // 2] ^= 1
    path.write_bytes(raw)


@pytest.mark.parametrize(
    ("spoil", "words"), [(vanish, "gone"), (grow, "bytes, not"), (change, "not those that were committed")]
)
@pytest.mark.parametrize("quick", [False, True])
def test_a_file_that_is_not_what_was_committed_is_found(
    lake: Lake, spoil: Callable[[Path], None], words: str, *, quick: bool
) -> None:
    path = path_of(lake)
    spoil(path)
    found = findings(lake, quick=quick)
    assert found[0][0] == lake.manifest("records").files[0].path
    assert words in found[0][1]


def falsify(lake: Lake, **values: object) -> None:
    """A manifest that says something else about its first file, with its history."""
    table = "records"
    current = lake.manifest(table)
    first = structs.replace(current.files[0], **values)
    rows = current.rows - current.files[0].rows + first.rows
    changed = structs.replace(current, files=(first, *current.files[1:]), rows=rows)
    for path in (commit.manifest_path(table), commit.history_path(table, current.number)):
        lake.files.replace(path, manifest.encode(changed))


@pytest.mark.parametrize(("what", "value"), [("rows", 1), ("low", "A"), ("high", "Z")])
def test_a_manifest_that_says_something_else_is_found(lake: Lake, what: str, value: object) -> None:
    falsify(lake, **{what: value})
    assert any(f"the manifest says {what} = {value!r}" in words for _, words in findings(lake, quick=True))


def committed(lake: Lake, table: str, made: pa.RecordBatch) -> str:
    with lake.begin("ingest") as run:
        path = run.path(table)
        pq.write_table(pa.Table.from_batches([made]), Path(lake.location) / path / "a.parquet")
        run.append(table)
        run.commit()
        return f"{path}/a.parquet"


def test_bytes_that_are_no_record_are_found(lake: Lake) -> None:
    good, other = some_records(2, 77)
    rows = sorted(
        [{"record": good.hash, "raw": good.raw[:-1] + b"?"}, {"record": other.hash, "raw": other.raw}],
        key=lambda row: str(row["record"]),
    )
    path = committed(lake, "records", batch(tables.RECORDS, rows))
    ((where, what),) = findings(lake)
    assert where == path
    assert what.startswith(f"{good.hash} is no valid record: ")


def test_a_record_under_another_name_is_found(lake: Lake) -> None:
    good, other = some_records(2, 77)
    path = committed(lake, "records", batch(tables.RECORDS, [{"record": good.hash, "raw": other.raw}]))
    assert findings(lake) == [(path, f"the row of {good.hash} holds the record {other.hash}")]


def test_rows_out_of_order_are_found(lake: Lake) -> None:
    rows = list(reversed(record_rows(some_records(9, 77))))
    path = committed(lake, "records", batch(tables.RECORDS, rows))
    assert (path, "the rows are not sorted by record") in findings(lake)


def test_a_record_in_two_files_is_found(lake: Lake) -> None:
    committed(lake, "records", batch(tables.RECORDS, record_rows(RECORDS[3:5])))
    names = sorted(record.hash for record in RECORDS[3:5])
    assert findings(lake) == [("records", f"{name} is there twice") for name in names]


def test_a_missing_value_is_found(lake: Lake) -> None:
    nullable = pa.schema([pa.field(field.name, field.type) for field in tables.RECORDS.schema])
    made = pa.RecordBatch.from_pylist([{"record": RECORDS[0].hash, "raw": None}], schema=nullable)
    path = committed(lake, "records", made)
    assert any(where == path and "null values" in what for where, what in findings(lake))


def test_quarantined_bytes_are_compared_with_their_digest_and_size(lake: Lake) -> None:
    row = dict(quarantine_rows([BAD], "run")[0])
    path = committed(lake, "quarantine", batch(tables.QUARANTINE, [row | {"digest": bytes(32), "size": 4}]))
    assert findings(lake) == [
        (path, "the quarantined bytes from file at 3 do not have their digest"),
        (path, "the quarantined bytes from file at 3 are 9, not 4"),
    ]


def test_of_many_faults_in_one_file_some_are_told_and_the_rest_counted(lake: Lake) -> None:
    rows = [{"record": name, "raw": b"none"} for name in sorted(record.hash for record in some_records(50, 77))]
    committed(lake, "records", batch(tables.RECORDS, rows))
    found = findings(lake)
    assert len(found) == 21
    assert found[-1][1] == "and 30 more like these"


def test_counts_that_do_not_add_up_are_found(lake: Lake) -> None:
    with lake.begin("ingest") as run:
        run.commit(counts={"in": 5, "stored": 1, "duplicate": 1, "quarantined": 1})
    assert findings(lake) == [
        (
            f"runs/{run.id}.json",
            "the counts of the run do not add up: 5 in, 1 stored, 1 duplicate, 1 quarantined",
        )
    ]


def test_facts_of_another_number_of_records_are_found(lake: Lake) -> None:
    make_facts(lake, RECORDS[:-1])
    assert findings(lake) == [("facts", "there are facts of 29 records; the lake has 30")]


def test_damaged_manifests_histories_and_reports_are_found(lake: Lake) -> None:
    lake.files.replace("facts/manifest.json", b"{}")
    lake.files.delete("records/history/00000002.json")
    run = lake.manifest("records").run
    lake.files.replace(commit.report_path(run), b"{}")
    places = {where for where, _ in findings(lake, quick=True)}
    assert {"facts", "records", commit.report_path(run)} <= places


def test_a_history_that_was_never_current_is_found(lake: Lake) -> None:
    later = structs.replace(lake.manifest("records"), number=3)
    lake.files.write_new(commit.history_path("records", 3), manifest.encode(later))
    assert findings(lake, quick=True) == [("records", "the history has a manifest 3 that was never current")]


def test_a_manifest_swapped_by_hand_is_found(lake: Lake) -> None:
    other = structs.replace(lake.manifest("records"), properties={"by": "hand"})
    lake.files.replace("records/manifest.json", manifest.encode(other))
    assert findings(lake, quick=True) == [("records", "the manifest 2 is another than the one in the history")]


def test_files_that_belong_to_nothing_are_named_and_those_of_a_living_run_are_not(lake: Lake) -> None:
    run = lake.manifest("records").run
    lake.files.write_new(f"records/data/{run}/spare.parquet", b"12345")
    lake.files.write_new("records/data/mine/deep/file.txt", b"1")
    with lake.begin("ingest") as living:
        stage(living, "records", record_rows(some_records(1, 77)))
        assert [(orphan.path, orphan.bytes) for orphan in orphans(lake)] == [
            (f"records/data/{run}/spare.parquet", 5),
            ("records/data/mine/deep/file.txt", 1),
        ]
    assert findings(lake) == []
    assert staging.digest_of(lake.files, f"records/data/{run}/spare.parquet")


def test_rows_that_cannot_be_read_are_not_counted_as_checked(lake: Lake) -> None:
    file = lake.manifest("records").files[0]
    (Path(lake.location) / file.path).unlink()
    every = sum(lake.manifest(name).rows for name in lake.tables())
    counted: list[int] = [0]
    findings = list(check(lake, progress=lambda done, _: counted.append(done)))
    assert file.path in {found.where for found in findings}
    assert counted[-1] == every - file.rows


def test_progress_of_one_table_is_that_of_its_rows(lake: Lake) -> None:
    steps: list[tuple[int, int]] = []
    assert list(check(lake, progress=lambda done, total: steps.append((done, total)), counted="records")) == []
    rows = lake.manifest("records").rows
    assert steps[-1] == (rows, rows)
