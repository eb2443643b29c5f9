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

    assert sum(summary["reasons"].values()) == 10
    assert summary["earlier"] == {}

    again = cli("pipeline", "load", lake, path)
    assert again.code == 1, "what was left out is still not in the lake"
    *rejected, counts, words = again.lines
    assert sorted(line.split()[2] for line in rejected) == sorted(summary["reasons"])
    assert all(line.endswith("by an earlier load") for line in rejected)
    assert counts == "0 stored · 0 duplicate · 0 quarantined  (0 records in 0 runs)"
    assert words == "an earlier load had read all of it and put 10 pieces into the quarantine"
    assert cli("pipeline", "load", lake, path, "--json").json["earlier"] == summary["reasons"]


@pytest.mark.usefixtures("spark")
def test_a_load_of_which_nothing_was_left_out(cli: Cli, tmp_path: Path) -> None:
    path, lake = tmp_path / "x.bundle", tmp_path / "x.lake"
    path.write_bytes(samples.plex(1).raw)
    assert cli("pipeline", "load", lake, path).code == 0
    again = cli("pipeline", "load", lake, path)
    assert again.code == 0
    assert again.lines[-1] == "an earlier load had taken all of it"


@pytest.mark.usefixtures("spark")
def test_a_source_that_grew_is_another_one(cli: Cli, tmp_path: Path) -> None:
    path, lake = tmp_path / "x.bundle", tmp_path / "x.lake"
    path.write_bytes(samples.plex(1).raw)
    assert cli("pipeline", "load", lake, path).code == 0
    path.write_bytes(samples.plex(1).raw + samples.plex(2).raw)
    assert cli("pipeline", "load", lake, path).lines == ["1 stored · 1 duplicate · 0 quarantined  (2 records in 1 run)"]


def test_a_source_that_is_not_there(cli: Cli, tmp_path: Path) -> None:
    missing = cli("pipeline", "load", tmp_path / "x.lake", tmp_path / "nothing")
    assert missing.code == 4
    assert "there is no source" in missing.err
    assert not (tmp_path / "x.lake").exists()
