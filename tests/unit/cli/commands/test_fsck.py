"""``bobbin fsck``."""

import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from tests.unit.cli.command_line import Cli
from tests.unit.cli.damaged import change_store


def test_a_sound_lace_is_in_order(filled: Path, cli: Cli) -> None:
    assert cli("fsck", filled, "--json").json == {
        "event": "summary",
        "lace": str(filled),
        "records": 1,
        "findings": 0,
    }
    assert cli("fsck", filled).text.startswith("in order · 1 record checked")


def test_a_key_that_others_can_read_is_a_finding(filled: Path, cli: Cli) -> None:
    (filled / "keys" / "main.key").chmod(0o644)
    answer = cli("fsck", filled, "--json")
    finding, summary = answer.rows
    assert answer.code == 3
    assert finding["where"] == "key main"
    assert "chmod" in finding["what"]
    assert summary["findings"] == 1


def test_a_changed_byte_in_the_store_is_found(filled: Path, cli: Cli) -> None:
    change_store(filled, b"hello", b"hallo")
    answer = cli("fsck", filled, "--json")
    assert answer.code == 3
    assert len(answer.rows) >= 2
    assert cli("verify", filled).code == 3


def _empty_tally(path: Path) -> None:
    with closing(sqlite3.connect(path)) as database, database:
        database.execute("DELETE FROM tally")


def _spoil_header(path: Path) -> None:
    with path.open("r+b") as stream:
        stream.write(b"Sqlite")


def _cut_off(path: Path) -> None:
    with path.open("r+b") as stream:
        stream.truncate(5000)


@pytest.mark.parametrize(
    "spoil", [_empty_tally, _spoil_header, _cut_off, Path.unlink, lambda path: path.write_bytes(b"")]
)
def test_damage_is_a_finding_however_bad_it_is(filled: Path, cli: Cli, spoil: Callable[[Path], object]) -> None:
    with closing(sqlite3.connect(filled / "records.db")) as database:
        database.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    spoil(filled / "records.db")
    (filled / "keys" / "main.key").chmod(0o644)
    answer = cli("fsck", filled, "--json")
    *findings, summary = answer.rows
    assert answer.code == 3
    assert {finding["event"] for finding in findings} == {"finding"}
    assert len(findings) >= 2, "the keys are looked at, too"
    assert findings[-1]["where"] == "key main"
    assert summary["findings"] == len(findings)
    assert cli("fsck", filled).code == 3
    assert cli("stat", filled).code == 3


@pytest.mark.parametrize(
    "spoil",
    [
        Path.unlink,
        lambda path: path.write_bytes(b"\xff\x00"),
        lambda path: path.write_text(path.read_text(encoding="utf-8").replace("format = 1", "format = 0")),
    ],
)
def test_damaged_settings_are_a_finding_and_the_rest_is_checked(
    filled: Path, cli: Cli, spoil: Callable[[Path], object]
) -> None:
    spoil(filled / "lace.toml")
    answer = cli("fsck", filled, "--json")
    finding, summary = answer.rows
    assert (answer.code, finding["where"]) == (3, "lace.toml")
    assert (summary["records"], summary["findings"]) == (1, 1)
    assert cli("stat", filled).code == 3
    change_store(filled, b"hello", b"hallo")
    assert cli("fsck", filled, "--json").rows[-1]["findings"] > 1
    (filled / "records.db").write_bytes(b"")
    assert [row.get("where") for row in cli("fsck", filled, "--json").rows] == ["lace.toml", "store", None]


def test_a_folder_that_is_no_lace_is_a_usage_error(tmp_path: Path, cli: Cli) -> None:
    assert cli("fsck", tmp_path).code == 2
