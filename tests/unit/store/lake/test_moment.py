"""Marks over appending and compacting, and which facts cover which records."""

from pathlib import Path

import pytest

from bobbin.errors import UsageError
from bobbin.store.base import LostMark, Mark, StoreRecordId
from bobbin.store.lake.compact import compact
from bobbin.store.lake.lake import Lake
from bobbin.store.lake.moment import open_moment
from tests.support.lake_tables import SMALL, ingest, make_facts
from tests.support.lakes import some_records

RECORDS = some_records(30, 3)


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    lake = Lake.create(tmp_path / "lake")
    ingest(lake, RECORDS[:10], shape=SMALL)
    return lake


def names(start: int, end: int) -> set[str]:
    return {record.hash for record in RECORDS[start:end]}


def test_a_mark_survives_appending_and_compacting_as_long_as_its_place_does(lake: Lake) -> None:
    mark = open_moment(lake).mark()
    assert mark == Mark(StoreRecordId(10), 0)
    compact(lake)
    assert not open_moment(lake).changes(mark)
    assert open_moment(lake).mark().high_water == 10
    ingest(lake, RECORDS[10:20], shape=SMALL)
    assert set(open_moment(lake).changes(mark).stored) == names(10, 20)
    compacted = open_moment(lake).changes(mark).mark
    compact(lake)
    with pytest.raises(LostMark, match="other places"):
        open_moment(lake).changes(mark)
    assert not open_moment(lake).changes(compacted)
    assert set(open_moment(lake).changes(Mark()).stored) == names(0, 20)
    ingest(lake, RECORDS[20:], shape=SMALL)
    assert set(open_moment(lake).changes(compacted).stored) == names(20, 30)


def test_a_mark_of_another_lake_or_of_the_future_is_refused(lake: Lake) -> None:
    for ahead in (Mark(StoreRecordId(11), 0), Mark(StoreRecordId(10), 1)):
        with pytest.raises(UsageError, match="not of this lake"):
            open_moment(lake).changes(ahead)


def covered(lake: Lake) -> tuple[int, int]:
    rows = open_moment(lake).rows
    return sum(file.rows for file in rows._table), sum(file.rows for file in rows._uncovered)


def test_facts_cover_the_records_that_they_were_made_from(lake: Lake) -> None:
    assert covered(lake) == (0, 10)
    make_facts(lake, RECORDS[:10], shape=SMALL)
    assert covered(lake) == (10, 0)
    compact(lake)
    assert covered(lake) == (10, 0)
    ingest(lake, RECORDS[10:20], shape=SMALL)
    assert covered(lake) == (10, 10)
    compact(lake)
    assert covered(lake) == (0, 20), "what is new is anywhere now"
    make_facts(lake, RECORDS[:20])
    assert covered(lake) == (20, 0)
    assert open_moment(lake).has_all_facts


def test_facts_that_miss_a_record_are_not_believed(lake: Lake) -> None:
    make_facts(lake, RECORDS[:9])
    assert covered(lake) == (0, 10)


def test_bytes_are_read_together_up_to_a_bound(lake: Lake) -> None:
    moment = open_moment(lake)
    wanted = [record.hash for record in RECORDS[:11]]
    found = moment.get_many(wanted, bytes_max=10**9)
    assert list(found) == wanted[:10]
    assert found[wanted[3]] == RECORDS[3].raw
    assert list(moment.get_many(["no name", *wanted], bytes_max=1)) == wanted[:1]
    assert moment.record_bytes() == sum(len(record.raw) for record in RECORDS[:10])
