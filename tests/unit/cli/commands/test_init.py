"""``bobbin init``."""

from pathlib import Path

import pytest

from bobbin.records import tai
from tests.unit.cli.command_line import Cli


def test_a_new_lace_has_its_files_and_no_key(tmp_path: Path, cli: Cli) -> None:
    answer = cli("init", tmp_path / "x.lace")
    assert answer.code == 0
    assert "x.lace" in answer.text
    assert "bobbin key new" in answer.err
    assert {"lace.toml", "records.db", "keys"} <= {entry.name for entry in (tmp_path / "x.lace").iterdir()}
    assert list((tmp_path / "x.lace" / "keys").iterdir()) == []


def test_json(tmp_path: Path, cli: Cli) -> None:
    answer = cli("init", tmp_path / "x.lace", "--json")
    value = answer.json
    tai.parse(value.pop("created"))
    assert value == {"lace": str(tmp_path / "x.lace"), "format": 1, "default_key": "main"}
    assert answer.err == ""


def test_an_existing_lace_is_left_alone(folder: Path, cli: Cli) -> None:
    before = (folder / "lace.toml").read_bytes()
    answer = cli("init", folder)
    assert (answer.code, answer.out) == (2, b"")
    assert "already" in answer.err
    assert (folder / "lace.toml").read_bytes() == before


def test_a_folder_with_something_in_it_is_refused_and_left_alone(tmp_path: Path, cli: Cli) -> None:
    (tmp_path / "thesis.txt").write_text("precious")
    answer = cli("init", tmp_path)
    assert answer.code == 2
    assert "thesis.txt" in answer.err
    assert [entry.name for entry in tmp_path.iterdir()] == ["thesis.txt"]


def test_an_empty_folder_and_the_current_one_will_do(tmp_path: Path, cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert cli("init", ".").code == 0
    assert cli("stat", tmp_path).code == 0


def test_a_killed_init_does_not_stand_in_the_way_of_the_next(tmp_path: Path, cli: Cli) -> None:
    folder = tmp_path / "x.lace"
    (folder / "keys").mkdir(parents=True)
    for name in (".records.db.0123456789ab.tmp", ".records.db.0123456789ab.tmp-journal", ".lace.toml.0123456789ab.tmp"):
        (folder / name).write_bytes(b"half")
    assert cli("init", folder).code == 0
    assert sorted(entry.name for entry in folder.iterdir()) == ["keys", "lace.toml", "records.db"]
    assert cli("fsck", folder).code == 0
