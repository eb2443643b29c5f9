from pathlib import Path

import pytest

from bobbin.records import tai
from bobbin.store.base import LostMark, Mark, StoreRecordId
from bobbin.store.lake import commit
from bobbin.store.lake.check import check
from bobbin.store.lake.clean import clean
from bobbin.store.lake.compact import compact
from bobbin.store.lake.lake import Lake, tai_now
from bobbin.store.lake.moment import open_moment
from tests.support.lake_tables import SMALL, ingest, make_facts, record_rows, stage
from tests.support.lakes import some_records

RECORDS = some_records(20, 5)


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    lake = Lake.create(tmp_path / "lake")
    ingest(lake, RECORDS[:10], shape=SMALL)
    ingest(lake, RECORDS[10:], shape=SMALL)
    return lake


def data(lake: Lake) -> set[str]:
    folder = Path(lake.location)
    return {path.relative_to(folder).as_posix() for path in folder.glob("*/data/*/*")}


def current(lake: Lake) -> set[str]:
    return {file.path for table in lake.tables() for file in lake.manifest(table).files}


def history(lake: Lake, table: str = "records") -> list[int]:
    return [manifest.number for manifest in lake.history(table)]


def test_files_of_older_manifests_go_when_they_are_old_enough(lake: Lake) -> None:
    before = current(lake)
    compact(lake)
    assert clean(lake) == (None, ())
    report, would = clean(lake, age_seconds=0, dry_run=True)
    assert report is None
    assert {file.path for file in would if "/data/" in file.path} == before
    assert data(lake) == before | current(lake)
    assert history(lake) == [3, 2, 1]
    report, removed = clean(lake, age_seconds=0)
    assert report is not None
    assert report.counts == {"files": len(removed), "bytes": sum(file.bytes for file in removed)}
    assert removed == would
    assert data(lake) == current(lake)
    assert list(check(lake)) == []
    assert clean(lake, age_seconds=0) == (None, ())


def test_the_current_files_stay_even_if_older_manifests_name_them_too(lake: Lake) -> None:
    before = data(lake)
    _, removed = clean(lake, age_seconds=0)
    assert [file.path for file in removed] == ["records/history/00000001.json"]
    assert data(lake) == before


def test_of_the_history_stays_what_is_referred_to(lake: Lake) -> None:
    make_facts(lake, RECORDS)
    made_from = int(lake.manifest("facts").properties["records"])
    for seed in (71, 72, 73):
        ingest(lake, some_records(1, seed))
    compact(lake)
    mark = open_moment(lake).mark()
    compact(lake, force=True)
    ingest(lake, some_records(1, 74))
    assert history(lake) == [8, 7, 6, 5, 4, 3, 2, 1]
    clean(lake, age_seconds=0)
    # The current one, the one that gave the rows their places, the one before it, and the one that facts names.
    assert history(lake) == [8, 7, 6, made_from]
    assert list(check(lake)) == []
    assert not lake.is_current("records", 5)
    assert open_moment(lake).changes(mark).stored == tuple(record.hash for record in some_records(1, 74))
    with pytest.raises(LostMark):
        open_moment(lake).changes(Mark(StoreRecordId(20), 0))
    ingest(lake, some_records(1, 75))
    assert lake.manifest("records").number == 9


def test_history_that_is_not_old_stays(lake: Lake) -> None:
    clean(lake, age_seconds=3600)
    assert history(lake) == [2, 1]
    with lake.begin("reader"):
        ingest(lake, some_records(1, 71))
        clean(lake, age_seconds=0)
        # The second was current when the reader began.
        assert history(lake) == [3, 2]


@pytest.mark.parametrize("content", [b"", b"{"])
def test_a_run_that_has_not_written_its_mark_yet_stops_nothing(lake: Lake, content: bytes) -> None:
    compact(lake)
    claim = lake.files.claim(commit.running_path("20200101T000000Z-000000-abcd"), content)
    try:
        # It is taken for one that began when its name says, long ago: all of this may be what it reads.
        assert clean(lake, age_seconds=0) == (None, ())
    finally:
        claim.release()
    assert clean(lake, age_seconds=0)[1] != ()


def test_when_a_run_began_is_in_its_name(lake: Lake) -> None:
    before = tai.parse(tai_now())
    with lake.begin("job") as run:
        assert before <= commit.began_ns(run.id) + 1000 <= tai.parse(tai_now()) + 1000


def test_a_run_that_is_going_keeps_what_was_current_when_it_began(lake: Lake) -> None:
    before = current(lake)
    with lake.begin("reader") as reader:
        base = reader.base("records")
        compact(lake)
        _, removed = clean(lake, age_seconds=0)
        assert not any("/data/" in file.path for file in removed)
        assert all(lake.files.exists(file.path) for file in base.files)
    _, removed = clean(lake, age_seconds=0)
    assert {file.path for file in removed if "/data/" in file.path} == before


def test_files_that_belong_to_nothing_go_and_their_folders_too(lake: Lake) -> None:
    lake.files.write_new("records/data/mine/deep.txt", b"1")
    with lake.begin("ingest") as living:
        stage(living, "records", record_rows(some_records(1, 77)))
        staged = f"{living.path('records')}/part-00000.parquet"
        assert clean(lake)[1] == ()
        _, removed = clean(lake, age_seconds=0)
        told = [(file.path, file.why) for file in removed if "/data/" in file.path]
        assert told == [("records/data/mine/deep.txt", "no manifest names it")]
        assert lake.files.exists(staged)
    assert not lake.files.exists("records/data/mine")
