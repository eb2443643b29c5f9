"""``bobbin lake history``."""

from pathlib import Path

import pytest

from bobbin.cli.commands import lake_history
from bobbin.pipeline.jobs.ingest import REASON
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
    assert "3 in, 3 stored → records 2, quarantine 2" in lines[1]


def test_a_line_says_what_there_was_and_nothing_else(tmp_path: Path, cli: Cli) -> None:
    lake = Lake.create(tmp_path / "lake")
    with lake.begin("ingest") as run:
        counts = {"in": 1_203, "stored": 1_200, "duplicate": 0, "quarantined": 3, "quarantined_before": 1}
        run.commit(counts=counts | {"reason:blob-digest": 2, "reason:malformed-hash": 1})
    with lake.begin("select") as run:
        run.replace("selections/0123456789abcdef")
        run.commit(counts={"MaySend": 0}, outputs={"selections/0123456789abcdef": 0})
    newest, oldest = cli("lake", "history", lake.location).lines
    said = "1,203 in, 1,200 stored, 3 quarantined (2 blob-digest, 1 malformed-hash), 1 quarantined before"
    assert oldest.split("  ")[-2:] == [said, lake.runs()[1]]
    assert newest.split("  ")[-2:] == ["nothing → selections/0123… 1", lake.runs()[0]]
    assert lake_history._REASON == REASON


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
