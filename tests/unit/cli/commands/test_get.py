"""``bobbin get``."""

import json
from pathlib import Path

import pytest

from bobbin.records import jsonl
from bobbin.records.record import build_plex
from tests.unit.cli.command_line import PLACE, PLEX_1, Cli

RECORD_1 = Path(__file__).resolve().parents[3] / "vectors" / "plex-1.record"


@pytest.mark.parametrize("wanted", [PLEX_1, f"////{PLEX_1}", "//u//ding//links/1"])
def test_data_and_whole_record_byte_for_byte(filled: Path, cli: Cli, wanted: str) -> None:
    assert cli("get", filled, wanted).out == b"hello"
    assert cli("get", filled, wanted, "--record").out == RECORD_1.read_bytes()


def test_a_coordinate_means_its_newest_record(filled: Path, cli: Cli) -> None:
    cli("put", filled, "-", *PLACE, "--tai", "1640995200:000000001", stdin=b"newer")
    cli("put", filled, "-", *PLACE, "--tai", "1640995199:999999999", stdin=b"older")
    assert cli("get", filled, "//u//ding//links/1").out == b"newer"


def test_json_is_the_record_as_a_line_of_jsonl(filled: Path, cli: Cli) -> None:
    answer = cli("get", filled, PLEX_1, "--json")
    assert jsonl.decode(answer.out.rstrip(b"\n")) == RECORD_1.read_bytes()
    assert answer.json["text"] == "hello"


def test_json_cannot_act_on_a_terminal(folder: Path, cli: Cli) -> None:
    data = "x\u202e\x9b".encode()
    stored = cli("put", folder, "-", *PLACE, stdin=data)
    answer = cli("get", folder, stored.text.strip(), "--json")
    assert answer.text.rstrip("\n").isprintable()
    assert json.loads(answer.text)["text"].encode() == data


@pytest.mark.parametrize(
    "wanted", ["//u//ding//links/2", PLEX_1.replace("ty", "ux"), f"////{PLEX_1}".replace("P.", "S.")]
)
def test_what_is_not_there_is_code_1_and_nothing_on_stdout(filled: Path, cli: Cli, wanted: str) -> None:
    answer = cli("get", filled, wanted)
    assert (answer.code, answer.out) == (1, b"")
    assert wanted.removeprefix("////") in answer.err
    assert cli("get", filled, wanted, "--json").error["error"] == "not-found"


@pytest.mark.parametrize("wanted", ["nonsense", "//u//ding//", "//u", "P.x.H3", ""])
def test_what_is_no_address_is_code_2(filled: Path, cli: Cli, wanted: str) -> None:
    assert cli("get", filled, wanted).code == 2


def test_no_lace_is_code_2_and_says_how_to_make_one(tmp_path: Path, cli: Cli) -> None:
    answer = cli("get", tmp_path / "nowhere", PLEX_1)
    assert answer.code == 2
    assert "bobbin init" in answer.err
    assert not (tmp_path / "nowhere").exists()


def test_the_vector_is_what_the_fields_make() -> None:
    plex = build_plex(group="u", app="ding", name="links/1", tai_ns=1640995200 * 10**9, data=b"hello")
    assert plex.raw == RECORD_1.read_bytes()
