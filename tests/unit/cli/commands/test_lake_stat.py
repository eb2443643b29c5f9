"""``bobbin lake stat``."""

from pathlib import Path

import pytest

from bobbin.store.lake.lake import Lake
from tests.support.lake_tables import ingest, make_facts
from tests.support.lakes import some_records
from tests.unit.cli.command_line import Cli


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    lake = Lake.create(tmp_path / "lake")
    ingest(lake, some_records(20, 5))
    make_facts(lake, some_records(20, 5))
    return lake


def test_each_table_with_its_size_and_its_run(lake: Lake, cli: Cli) -> None:
    value = cli("lake", "stat", lake.location, "--json").json
    tables = {table["table"]: table for table in value["tables"]}
    assert list(tables) == ["records", "quarantine", "facts"]
    records = lake.manifest("records")
    assert tables["records"] == {
        "table": "records",
        "rows": 20,
        "files": 1,
        "bytes": records.files[0].bytes,
        "manifest": 1,
        "schema": 1,
        "created": records.created,
        "run": records.run,
        "job": "ingest",
        "current": None,
        "properties": {},
    }
    assert (tables["facts"]["rows"], tables["facts"]["job"], tables["facts"]["current"]) == (20, "facts", True)
    assert (tables["quarantine"]["rows"], tables["quarantine"]["files"]) == (0, 0)
    assert (value["runs"], value["running"]) == (2, [])
    assert value["bytes"] == sum(table["bytes"] for table in tables.values())


def test_a_table_older_than_the_records_and_a_run_that_is_going_are_said(lake: Lake, cli: Cli) -> None:
    ingest(lake, some_records(1, 99))
    with lake.begin("ingest") as run:
        assert cli("lake", "stat", lake.location, "--json").json["running"] == [run.id]
        lines = cli("lake", "stat", lake.location).lines
    assert "older than the records" in lines[2]
    assert "21 rows" in lines[0]
    assert lines[-1].endswith("3 runs · 1 run going")


def test_no_lake_and_a_damaged_one(tmp_path: Path, lake: Lake, cli: Cli) -> None:
    assert cli("lake", "stat", tmp_path / "nowhere").code == 2
    lake.files.replace("records/manifest.json", b"{}")
    answer = cli("lake", "stat", lake.location, "--json")
    assert answer.code == 3
    assert "is no manifest" in answer.error["message"]
    assert "records/manifest.json of the lake" in answer.error["message"]
