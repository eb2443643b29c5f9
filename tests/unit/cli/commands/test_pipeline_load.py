"""``bobbin pipeline load``."""

from pathlib import Path

import pytest

from tests.conformance import samples
from tests.unit.cli.command_line import Cli
from tests.unit.cli.damaged import write_damaged


@pytest.mark.usefixtures("spark")
def test_what_is_said_in_json_and_to_people(cli: Cli, tmp_path: Path) -> None:
    path, lake = tmp_path / "x.bundle", tmp_path / "x.lake"
    write_damaged(path, good=40, bad=10)
    answer = cli("pipeline", "load", lake, path, "--json")
    assert answer.code == 1
    stretch, summary = answer.rows
    assert (stretch["event"], stretch["in"]) == ("stretch", 50)
    assert (summary["event"], summary["form"], summary["resumed"]) == ("summary", "bundle", False)
    assert (summary["read"], summary["stored"], summary["quarantined"]) == (50, 40, 10)

    again = cli("pipeline", "load", lake, path)
    assert again.code == 0
    assert again.lines == [
        "0 stored · 0 duplicate · 0 quarantined  (0 records in 0 runs)",
        "an earlier load had taken all of it",
    ]


@pytest.mark.usefixtures("spark")
def test_a_source_that_grew_is_another_one(cli: Cli, tmp_path: Path) -> None:
    path, lake = tmp_path / "x.bundle", tmp_path / "x.lake"
    path.write_bytes(samples.plex(1).raw)
    assert cli("pipeline", "load", lake, path).code == 0
    path.write_bytes(samples.plex(1).raw + samples.plex(2).raw)
    assert cli("pipeline", "load", lake, path).lines == ["1 stored · 1 duplicate · 0 quarantined  (2 records in 1 run)"]


def test_a_source_that_is_not_there(cli: Cli, tmp_path: Path) -> None:
    missing = cli("pipeline", "load", tmp_path / "x.lake", tmp_path / "nothing")
    assert missing.code == 2
    assert "there is nothing at" in missing.err
    assert not (tmp_path / "x.lake").exists()
