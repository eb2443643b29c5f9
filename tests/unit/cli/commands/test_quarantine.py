"""``bobbin quarantine``."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from bobbin import Lace
from bobbin.store.base import Quarantined
from tests.unit.cli.command_line import Cli
from tests.unit.cli.damaged import damage, sealed

BAD, REASON = damage(sealed(1), 0)
GOOD = sealed(2).raw


@pytest.fixture
def with_two(folder: Path, cli: Cli) -> Path:
    assert cli("import", folder, "-", stdin=BAD + GOOD + b"\x1b[2J rubbish").code == 1
    return folder


def test_rows_are_listed(with_two: Path, cli: Cli) -> None:
    first, second = cli("quarantine", "list", with_two, "--json").rows
    assert {key: first[key] for key in ("source", "offset", "size", "kept", "reason")} == {
        "source": "stdin",
        "offset": 0,
        "size": len(BAD),
        "kept": True,
        "reason": REASON,
    }
    assert second["offset"] == len(BAD) + len(GOOD)
    lines = cli("quarantine", "list", with_two).lines
    assert "stdin:0" in lines[0]
    assert len(cli("quarantine", "list", with_two, "--limit", "1").lines) == 1


def test_one_row_can_be_looked_at_and_taken_out_byte_for_byte(with_two: Path, cli: Cli) -> None:
    first, second = (str(row["id"]) for row in cli("quarantine", "list", with_two, "--json").rows)
    assert cli("quarantine", "show", with_two, first, "--raw").out == BAD
    shown = cli("quarantine", "show", with_two, second).text
    assert "\\x1b[2J rubbish" in shown
    assert all(line.isprintable() for line in shown.splitlines())
    assert cli("quarantine", "show", with_two, first, "--json").json["reason"] == REASON


def test_rows_can_be_forgotten(with_two: Path, cli: Cli) -> None:
    first, _ = (row["id"] for row in cli("quarantine", "list", with_two, "--json").rows)
    assert cli("quarantine", "release", with_two, str(first), "--json").json == {"released": 1, "missing": []}
    again = cli("quarantine", "release", with_two, str(first), "--json")
    assert (again.code, again.json) == (1, {"released": 0, "missing": [first]})
    assert cli("quarantine", "release", with_two, "--all", "--json").json["released"] == 1
    assert cli("quarantine", "list", with_two).out == b""


def test_what_is_not_there_and_what_makes_no_sense(with_two: Path, cli: Cli) -> None:
    assert cli("quarantine", "show", with_two, "999").code == 1
    assert cli("quarantine", "release", with_two).code == 2
    assert cli("quarantine", "release", with_two, "1", "--all").code == 2
    assert cli("quarantine", "show", with_two, "one").code == 2


def test_all_rows_go_in_one_step_or_none(with_two: Path, cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    def one_by_one(_self: Lace, _number: int) -> bool:
        raise AssertionError

    monkeypatch.setattr(Lace, "release", one_by_one)
    assert cli("quarantine", "release", with_two, "--all", "--json").json == {"released": 2, "missing": []}
    assert cli("quarantine", "release", with_two, "--all", "--json").json == {"released": 0, "missing": []}


def test_a_listing_does_not_load_the_bytes(with_two: Path, cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[bool] = []
    listing = Lace.quarantined

    def spy(self: Lace, *, with_bytes: bool = True) -> Iterator[Quarantined]:
        asked.append(with_bytes)
        return listing(self, with_bytes=with_bytes)

    monkeypatch.setattr(Lace, "quarantined", spy)
    rows = cli("quarantine", "list", with_two, "--json").rows
    assert [row["kept"] for row in rows] == [True, True]
    assert cli("quarantine", "show", with_two, str(rows[0]["id"]), "--raw").out == BAD
    assert asked == [False]
