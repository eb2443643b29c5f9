"""``bobbin lake clean``."""

from pathlib import Path

import pytest

from bobbin.store.lake.compact import compact
from bobbin.store.lake.lake import Lake
from tests.support.lake_tables import SMALL, ingest
from tests.support.lakes import some_records
from tests.unit.cli.command_line import Cli


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    lake = Lake.create(tmp_path / "lake")
    ingest(lake, some_records(20, 5), shape=SMALL)
    compact(lake)
    return lake


def test_old_files_go_when_they_are_old_enough(lake: Lake, cli: Cli) -> None:
    old = next(manifest for manifest in lake.history("records") if manifest.number == 1).files
    assert cli("lake", "clean", lake.location).lines == ["removed 0 files, 0 B"]
    rows = cli("lake", "clean", lake.location, "--older-than", "0", "--dry-run", "--json").rows
    assert {row["path"] for row in rows[:-1]} == {file.path for file in old}
    assert rows[-1]["dry_run"] is True
    assert all(lake.files.exists(file.path) for file in old)
    *files, summary = cli("lake", "clean", lake.location, "--older-than", "0", "--json").rows
    assert len(files) == summary["files"] == len(old)
    assert summary["bytes"] == sum(file.bytes for file in old)
    assert not any(lake.files.exists(file.path) for file in old)
    assert cli("lake", "check", lake.location).code == 0


def test_an_age_that_is_none_changes_nothing(lake: Lake, cli: Cli) -> None:
    assert cli("lake", "clean", lake.location, "--older-than", "soon").code == 2
