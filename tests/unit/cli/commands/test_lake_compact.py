"""``bobbin lake compact``."""

from pathlib import Path

import pytest

from bobbin.store.lake.lake import Lake
from tests.support.lake_tables import SMALL, ingest
from tests.support.lakes import some_records
from tests.unit.cli.command_line import Cli


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    lake = Lake.create(tmp_path / "lake")
    ingest(lake, some_records(20, 5), shape=SMALL)
    return lake


def test_many_files_become_one(lake: Lake, cli: Cli) -> None:
    before = lake.manifest("records")
    value = cli("lake", "compact", lake.location, "--json").json
    after = lake.manifest("records")
    assert value["run"] == after.run
    assert value["tables"] == [
        {
            "table": "records",
            "rows": 20,
            "files_before": len(before.files),
            "files_after": 1,
            "bytes_before": sum(file.bytes for file in before.files),
            "bytes_after": after.files[0].bytes,
        }
    ]
    assert cli("lake", "compact", lake.location).lines == ["nothing to do"]
    assert cli("lake", "compact", lake.location, "--json").json["run"] is None
    assert "1 file" in cli("lake", "compact", lake.location, "--force", "-t", "records").text


def test_tables_that_are_made_anew_are_not_compacted(lake: Lake, cli: Cli) -> None:
    assert cli("lake", "compact", lake.location, "--table", "partitions").code == 2
