"""``bobbin lake check``."""

from pathlib import Path

import pytest

from bobbin.store.lake.lake import Lake
from tests.support.lake_tables import ingest
from tests.support.lakes import some_records
from tests.unit.cli.command_line import Cli


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    lake = Lake.create(tmp_path / "lake")
    ingest(lake, some_records(20, 5))
    return lake


def test_a_sound_lake_is_in_order(lake: Lake, cli: Cli) -> None:
    assert cli("lake", "check", lake.location, "--json").json == {
        "event": "summary",
        "lake": lake.location,
        "rows": 20,
        "findings": 0,
        "orphans": 0,
        "quick": False,
    }
    assert cli("lake", "check", lake.location).text.startswith("in order · 20 rows checked")
    assert cli("lake", "check", lake.location, "--quick").text.startswith("in order · files compared")


def test_damage_is_a_finding_and_the_code_says_so(lake: Lake, cli: Cli) -> None:
    path = lake.manifest("records").files[0].path
    (Path(lake.location) / path).unlink()
    answer = cli("lake", "check", lake.location, "--json")
    assert answer.code == 3
    finding, *_, summary = answer.rows
    assert finding == {"event": "finding", "where": path, "what": "the file is gone"}
    assert summary["findings"] == len(answer.rows) - 1
    shown = cli("lake", "check", lake.location)
    assert shown.code == 3
    assert shown.lines[0] == f"damaged  {path}  the file is gone"


def test_what_belongs_to_nothing_is_named_and_does_no_harm(lake: Lake, cli: Cli) -> None:
    lake.files.write_new("records/data/mine.txt", b"123")
    answer = cli("lake", "check", lake.location, "--json")
    assert answer.code == 0
    assert answer.rows[0] == {"event": "orphan", "path": "records/data/mine.txt", "bytes": 3}
    assert "1 orphan" in cli("lake", "check", lake.location).lines[-1]
