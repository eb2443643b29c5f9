"""What a snapshot answers is held to by the conformance kit; here, how long it does."""

from pathlib import Path

import pytest

from bobbin.errors import UsageError
from bobbin.records.coordinate import Prefix
from bobbin.store.lake.compact import compact
from bobbin.store.lake.lake import Lake
from bobbin.store.lake.store import open_lake_store
from tests.support.lake_tables import SMALL, ingest
from tests.support.lakes import some_records

RECORDS = some_records(30, 3)


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    lake = Lake.create(tmp_path / "lake")
    ingest(lake, RECORDS[:20], shape=SMALL)
    return lake


def test_a_snapshot_outlives_commits_compacting_and_the_store(lake: Lake) -> None:
    store = open_lake_store(lake.location)
    then = store.snapshot()
    walk = then.scan()
    first = next(walk)
    ingest(lake, RECORDS[20:], shape=SMALL)
    compact(lake)
    store.close()
    assert {first.hash, *(line.hash for line in walk)} == {record.hash for record in RECORDS[:20]}
    assert then.get(RECORDS[0].hash) == RECORDS[0].raw
    assert not then.have(RECORDS[25].hash)
    assert then.high_water() == 20


def test_a_closed_snapshot_says_so(lake: Lake) -> None:
    with open_lake_store(lake.location) as store:
        then = store.snapshot()
        walks = [then.scan(), then.list(Prefix(group="u")), then.facts_after(then.mark().high_water)]
        begun = then.scan()
        next(begun)
        then.close()
        then.close()
        for walk in (*walks, begun):
            with pytest.raises(UsageError, match="closed"):
                next(walk)
        with pytest.raises(UsageError, match="closed"):
            then.kept("a", "b")
