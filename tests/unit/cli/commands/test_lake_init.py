"""``bobbin lake init``."""

from pathlib import Path

from tests.unit.cli.command_line import Cli


def test_a_new_lake_is_empty_and_made_once(tmp_path: Path, cli: Cli) -> None:
    lake = tmp_path / "a.lake"
    assert cli("lake", "init", lake, "--json").json == {"lake": str(lake), "version": 1}
    assert cli("lake", "stat", lake).lines == ["empty"]
    answer = cli("lake", "init", lake, "--json")
    assert answer.code == 2
    assert "already" in answer.error["message"]


def test_lines_for_people(tmp_path: Path, cli: Cli) -> None:
    answer = cli("lake", "init", tmp_path / "a.lake")
    assert answer.text == f"created {tmp_path / 'a.lake'}\n"
    assert "bobbin pipeline ingest" in answer.err


def test_a_folder_with_something_else_in_it_is_left_alone(tmp_path: Path, cli: Cli) -> None:
    (tmp_path / "mine").touch()
    assert cli("lake", "init", tmp_path).code == 2
    assert [path.name for path in tmp_path.iterdir()] == ["mine"]
