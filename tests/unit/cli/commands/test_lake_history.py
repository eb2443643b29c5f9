"""``bobbin lake history``."""

from pathlib import Path

import pytest

from bobbin.store.lake.compact import compact
from bobbin.store.lake.lake import Lake
from tests.support.lake_tables import ingest
from tests.support.lakes import some_records
from tests.unit.cli.command_line import Cli


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    lake = Lake.create(tmp_path / "lake")
    ingest(lake, some_records(20, 5))
    ingest(lake, some_records(3, 6))
    compact(lake)
    return lake


def test_runs_come_newest_first(lake: Lake, cli: Cli) -> None:
    rows = cli("lake", "history", lake.location, "--json").rows
    assert [(row["event"], row["job"], row["tables"]) for row in rows] == [
        ("run", "compact", {"records": 3}),
        ("run", "ingest", {"records": 2, "quarantine": 2}),
        ("run", "ingest", {"records": 1, "quarantine": 1}),
    ]
    assert rows[1]["counts"] == {"in": 3, "stored": 3, "duplicate": 0, "quarantined": 0}
    lines = cli("lake", "history", lake.location, "--limit", "2").lines
    assert len(lines) == 2
    assert "3 in, 3 stored, 0 duplicate, 0 quarantined → records 2, quarantine 2" in lines[1]


def test_the_manifests_of_one_table(lake: Lake, cli: Cli) -> None:
    rows = cli("lake", "history", lake.location, "--table", "records", "--json").rows
    assert [(row["number"], row["rows"], row["added"], row["files"]) for row in rows] == [
        (3, 23, 0, 1),
        (2, 23, 3, 2),
        (1, 20, 20, 1),
    ]
    lines = cli("lake", "history", lake.location, "--table", "records", "-n", "2").lines
    assert "(same)" in lines[0]
    assert "(+3)" in lines[1]
    assert len(lines) == 2
    assert cli("lake", "history", lake.location, "--table", "facts").lines == []
    assert cli("lake", "history", lake.location, "--table", "rows").code == 2
