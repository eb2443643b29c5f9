"""``bobbin list``."""

from pathlib import Path

import pytest

from bobbin import Lace
from bobbin.records.record import build_blob
from tests.unit.cli.command_line import AT, PLEX_1, VERIFIER, Cli


@pytest.fixture
def three(filled: Path, cli: Cli) -> Path:
    """Two records at links/1 (one signed, newer) and one at links/2."""
    cli("put", filled, "-", "-g", "u", "-a", "ding", "-N", "links/1", "--tai", "1640995201:000000000", "-s", stdin=b"x")
    cli("put", filled, "-", "-g", "u", "-a", "ding", "-N", "links/2", "--tai", AT, stdin=b"y")
    return filled


def _names(cli: Cli, *arguments: str | Path) -> list[tuple[str, str]]:
    return [(row["name"], row["tai"]) for row in cli("list", *arguments, "--json").rows]


def test_a_prefix_lists_by_coordinate_the_newest_first(three: Path, cli: Cli) -> None:
    assert _names(cli, three, "//u//ding//") == [
        ("links/1", "1640995201:000000000"),
        ("links/1", AT),
        ("links/2", AT),
    ]
    assert _names(cli, three, "//u//") == _names(cli, three, "//u//ding//links/") == _names(cli, three, "//u//ding//")


def test_a_coordinate_lists_only_itself(three: Path, cli: Cli) -> None:
    assert _names(cli, three, "//u//ding//links/2") == [("links/2", AT)]


def test_tips_and_limit(three: Path, cli: Cli) -> None:
    assert _names(cli, three, "//u//", "--tips") == [("links/1", "1640995201:000000000"), ("links/2", AT)]
    assert _names(cli, three, "//u//", "--limit", "1") == [("links/1", "1640995201:000000000")]
    assert _names(cli, three, "//u//", "--limit", "0") == []


def test_json_rows_hold_everything_and_lines_are_for_people(three: Path, cli: Cli) -> None:
    signed, plain, _ = cli("list", three, "//u//", "--json").rows
    assert signed["signed_by"] == VERIFIER
    assert plain == {
        "hash": PLEX_1,
        "group": "u",
        "app": "ding",
        "name": "links/1",
        "tai": AT,
        "utc": "2021-12-31T23:59:23Z",
        "signed_by": None,
        "data_length": 5,
    }
    assert cli("list", three, "//u//").lines[1] == f"{PLEX_1}  2021-12-31T23:59:23Z       5 B  //u//ding//links/1"


def test_without_a_place_everything_is_listed(three: Path, cli: Cli) -> None:
    first = _names(cli, three, "//u//")
    cli("put", three, "-", "-g", "a", "-a", "x", "-N", "later", "--tai", AT, stdin=b"z")
    assert _names(cli, three) == [*first, ("later", AT)]
    assert _names(cli, three, "--limit", "1") == first[:1]
    assert _names(cli, three, "--limit", "3") == first
    assert _names(cli, three, "--limit", "0") == []
    assert _names(cli, three, "--tips") == [first[0], first[2], ("later", AT)]
    assert len(cli("list", three).lines) == 4


def test_what_has_no_place_comes_last(three: Path, cli: Cli) -> None:
    blob = build_blob(b"only data")
    with Lace.open(three) as lace:
        lace.put_record(blob)
    *placed, last = cli("list", three, "--json").rows
    assert len(placed) == 3
    assert (last["hash"], last["name"], last["tai"], last["data_length"]) == (blob.hash, None, None, 9)
    assert cli("list", three).lines[-1].split() == [blob.hash, "9", "B", "(no", "place)"]
    assert len(cli("list", three, "--limit", "3").lines) == 3
    assert len(cli("list", three, "--tips").lines) == 2


def test_an_empty_lace_says_so(folder: Path, cli: Cli) -> None:
    answer = cli("list", folder)
    assert (answer.code, answer.out) == (0, b"")
    assert "no records yet" in answer.err


def test_nothing_is_a_fine_answer(three: Path, cli: Cli) -> None:
    answer = cli("list", three, "//nobody//")
    assert (answer.code, answer.out) == (0, b"")
    assert "nothing" in answer.err


def test_names_cannot_act_on_a_terminal(folder: Path, cli: Cli) -> None:
    cli("put", folder, "-", "-g", "u", "-a", "ding", "-N", "evil\u202e\x9b2J", stdin=b"x")
    assert cli("list", folder, "//u//").lines[0].endswith("//u//ding//evil\\u{202e}\\x9b2J")


@pytest.mark.parametrize("place", ["u", "//u", f"////{PLEX_1}", "//u//ding//a|b"])
def test_what_is_no_place_is_code_2(three: Path, cli: Cli, place: str) -> None:
    assert cli("list", three, place).code == 2
