"""A record that is not there may be inside another one, and then the answer says so."""

from pathlib import Path

import pytest

from bobbin.cli.exit_codes import ExitCode
from bobbin.cli.missing import record_not_found
from bobbin.cli.output import Output
from bobbin.lace import Lace
from bobbin.records.coordinate import Coordinate
from tests.unit.cli.command_line import AT, PLACE, PLEX_1, Cli

HELLO_BLOB = "B.kQIYZC1_~Q_ji4~Twe2_7m9Zn2scg_Cu9zNTkbk9zq8.H3"


def test_the_plex_inside_a_seal(folder: Path, cli: Cli) -> None:
    seal = cli("put", folder, "-", *PLACE, "--tai", AT, "--sign", stdin=b"hello").text.strip()
    for command in ("get", "show", "sign"):
        answer = cli(command, folder, PLEX_1)
        assert answer.code == 1
        assert f"inside {seal}" in answer.err


def test_the_blob_inside_a_plex(filled: Path, cli: Cli) -> None:
    assert f"inside {PLEX_1}" in cli("get", filled, HELLO_BLOB).err


def test_nowhere_at_all(filled: Path, cli: Cli) -> None:
    assert "inside" not in cli("get", filled, PLEX_1.replace("ty", "ux")).err
    assert "//u//ding//nothing" in cli("get", filled, "//u//ding//nothing").err


def test_two_laces_were_looked_through(
    filled: Path, tmp_path: Path, capsysbinary: pytest.CaptureFixture[bytes]
) -> None:
    with Lace.open(filled) as lace:
        place = Coordinate(group="u", app="ding", name="no")
        code = record_not_found(Output(as_json=False), lace, place, also=tmp_path / "y.lace")
    assert code is ExitCode.NOT_ALL
    assert (
        f"no record at //u//ding//no in {filled} or in {tmp_path / 'y.lace'}" in capsysbinary.readouterr().err.decode()
    )
