"""``bobbin export``."""

import os
from pathlib import Path

import pytest

from bobbin.records import jsonl
from tests.unit.cli.command_line import PLEX_1, Cli
from tests.unit.cli.damaged import change_store, sealed, write_damaged


@pytest.fixture
def ten(folder: Path, cli: Cli, tmp_path: Path) -> Path:
    write_damaged(tmp_path / "ten.bundle", good=10, bad=0)
    assert cli("import", folder, tmp_path / "ten.bundle").code == 0
    return folder


def test_a_bundle_is_the_records_in_the_order_of_storing(ten: Path, cli: Cli, tmp_path: Path) -> None:
    answer = cli("export", ten, tmp_path / "out", "--json")
    content = (tmp_path / "out").read_bytes()
    assert content == (tmp_path / "ten.bundle").read_bytes()
    assert answer.json == {"file": str(tmp_path / "out"), "form": "bundle", "records": 10, "bytes": len(content)}


@pytest.mark.parametrize("arguments", [("out.jsonl",), ("out", "--form", "jsonl")])
def test_jsonl_by_name_or_by_option_gives_the_same_records_back(
    ten: Path, cli: Cli, tmp_path: Path, arguments: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert cli("export", ten, *arguments, "--json").json["form"] == "jsonl"
    lines = (tmp_path / arguments[0]).read_bytes().splitlines()
    assert [jsonl.decode(line) for line in lines] == [sealed(number).raw for number in range(1, 11)]


def test_a_place(ten: Path, cli: Cli) -> None:
    answer = cli("export", ten, "-", "--at", "//u//ding//n/3")
    assert answer.out == sealed(3).raw
    assert "1 record" in answer.err
    assert cli("export", ten, "-", "--at", "//nobody//").out == b""
    assert cli("export", ten, "-", "--at", f"////{PLEX_1}").code == 2


def test_stdout_gets_only_the_records(ten: Path, cli: Cli, tmp_path: Path) -> None:
    answer = cli("export", ten, "-", "--json")
    assert answer.out == (tmp_path / "ten.bundle").read_bytes()
    assert answer.error["records"] == 10


def test_the_file_is_replaced_whole_and_nothing_is_left_beside_it(ten: Path, cli: Cli, tmp_path: Path) -> None:
    target = tmp_path / "folder" / "out"
    target.parent.mkdir()
    target.write_text("old")
    assert cli("export", ten, target).code == 0
    assert target.read_bytes() == (tmp_path / "ten.bundle").read_bytes()
    assert [entry.name for entry in target.parent.iterdir()] == ["out"]


def test_a_link_is_followed_and_a_device_is_written_to(ten: Path, cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "real")
    assert cli("export", ten, tmp_path / "link").code == 0
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "real").read_bytes() == (tmp_path / "ten.bundle").read_bytes()
    (tmp_path / "null").symlink_to(os.devnull)
    assert cli("export", ten, tmp_path / "null").code == 0
    assert Path(os.devnull).is_char_device()


def test_targets_that_cannot_be(ten: Path, cli: Cli, tmp_path: Path) -> None:
    assert cli("export", ten, tmp_path).code == 2
    assert cli("export", ten, tmp_path / "no" / "such" / "folder").code == 4


@pytest.mark.parametrize("name", ["records.db", "lace.toml", "new.bundle", "keys/x"])
def test_nothing_is_written_into_a_lace(ten: Path, cli: Cli, tmp_path: Path, name: str) -> None:
    before = {path: path.read_bytes() for path in ten.rglob("*") if path.is_file()}
    (tmp_path / "soft").symlink_to(ten / name)
    (tmp_path / "door").symlink_to(ten)
    assert cli("init", tmp_path / "other.lace").code == 0
    for folder, target in (
        (ten, ten / name),
        (ten, tmp_path / "soft"),
        (ten, tmp_path / "door" / name),
        (tmp_path / "other.lace", ten / name),
    ):
        answer = cli("export", folder, target)
        assert answer.code == 2
        assert "inside the lace" in answer.err
    assert {path: path.read_bytes() for path in ten.rglob("*") if path.is_file()} == before


@pytest.mark.parametrize("arguments", [(), ("--at", "//u//ding//"), ("--form", "jsonl")])
@pytest.mark.parametrize("spoilt", ["data", "name"])
def test_a_damaged_record_is_named_and_no_file_appears(
    ten: Path, cli: Cli, tmp_path: Path, arguments: tuple[str, ...], spoilt: str
) -> None:
    name = sealed(3).hash.encode()
    if spoilt == "data":
        change_store(ten, b"data of 3\n", b"data of X\n")
    else:
        change_store(ten, name, name[:2] + (b"B" if name[2:3] == b"A" else b"A") + name[3:])
    target = tmp_path / "folder" / "out"
    target.parent.mkdir()
    answer = cli("export", ten, target, *arguments)
    assert (answer.code, answer.out) == (3, b"")
    if spoilt == "data":
        assert sealed(3).hash in answer.err
    assert list(target.parent.iterdir()) == []
