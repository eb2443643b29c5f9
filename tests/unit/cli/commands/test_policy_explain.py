"""``bobbin policy explain``."""

from pathlib import Path

import pytest

from tests.unit.cli.command_line import PLACE, PLEX_1, Cli
from tests.unit.cli.policy_texts import DING, HIDE_ALL, PEER, SEALED, TWO_MISTAKES


@pytest.fixture
def texts(tmp_path: Path) -> dict[str, Path]:
    files = {}
    for name, text in {"ding": DING, "sealed": SEALED, "hide": HIDE_ALL, "wrong": TWO_MISTAKES}.items():
        files[name] = tmp_path / f"{name}.policy"
        files[name].write_text(text, encoding="utf-8")
    return files


def test_a_record_that_is_sent_and_one_that_is_withheld(filled: Path, texts: dict[str, Path], cli: Cli) -> None:
    sent = cli("policy", "explain", filled, "--policy", texts["ding"], "--peer", "source:lab", PLEX_1)
    assert sent.code == 0
    assert sent.lines[:2] == [PLEX_1, "  to source:lab: sent"]
    withheld = cli("policy", "explain", filled, "--policy", texts["sealed"], "--peer", "source:lab", PLEX_1)
    assert withheld.code == 0
    assert withheld.lines[1] == "  to source:lab: withheld"
    assert withheld.lines[-1].strip() == f"because {PLEX_1[:10]}… has no Signed-By"
    full = cli("policy", "explain", filled, "--policy", texts["sealed"], "--peer", "source:lab", "--full", PLEX_1)
    assert full.lines[-1].strip() == f"because {PLEX_1} has no Signed-By"


def test_each_side_can_be_the_one_that_refuses(filled: Path, texts: dict[str, Path], cli: Cli) -> None:
    def failing(*options: str | Path) -> list[str]:
        arguments = ("policy", "explain", filled, "--policy", texts["ding"], "--peer", PEER, *options)
        verdict = cli(*arguments, "//u//ding//links/1", "--json").json
        assert (verdict["record"], verdict["peer"]) == (PLEX_1, PEER)
        return [condition["check"] for condition in verdict["to_send"] if not condition["holds"]]

    assert failing() == []
    assert failing("--peer-policy", texts["sealed"]) == ["peer-selects"]
    assert failing("--query-policy", texts["hide"]) == ["visible", "peer-selects"]


def test_a_record_that_the_peer_offers(filled: Path, texts: dict[str, Path], tmp_path: Path, cli: Cli) -> None:
    theirs = tmp_path / "theirs.lace"
    cli("init", theirs)
    offered = cli("put", theirs, *PLACE, "-", stdin=b"theirs").text.strip()
    arguments = ("policy", "explain", filled, "--policy", texts["ding"], "--peer", PEER, offered, "--json")
    assert cli(*arguments).json["requesting"] == "not requested"
    assert cli(*arguments, "--peer-lace", theirs).json["requesting"] == "requested"


def test_a_coordinate_is_looked_up_there_where_it_is_not_here(
    filled: Path, texts: dict[str, Path], tmp_path: Path, cli: Cli
) -> None:
    theirs = tmp_path / "theirs.lace"
    cli("init", theirs)
    offered = cli("put", theirs, "-g", "u", "-a", "ding", "-N", "theirs", "-", stdin=b"x").text.strip()
    cli("put", theirs, *PLACE, "-", stdin=b"newer")
    arguments = ("policy", "explain", filled, "--policy", texts["ding"], "--peer", PEER, "--peer-lace", theirs)
    assert cli(*arguments, "//u//ding//theirs", "--json").json["record"] == offered
    assert cli(*arguments, "//u//ding//links/1", "--json").json["record"] == PLEX_1, "what is here comes first"
    nowhere = cli(*arguments, "//u//ding//nothing")
    assert (nowhere.code, f"in {filled} or in {theirs}" in nowhere.err) == (1, True)


def test_rules_are_cited_by_file_and_line(filled: Path, texts: dict[str, Path], cli: Cli) -> None:
    arguments = ("policy", "explain", filled, "--policy", texts["ding"], "--peer", PEER, PLEX_1)
    text = cli(*arguments, "--peer-policy", texts["sealed"]).text
    assert f"{texts['sealed']}:1: SelectHave(P)" in text, "both files are the user's"
    value = cli(*arguments, "--peer-policy", texts["sealed"], "--json").json
    assert value["texts"] == {"own-selector": str(texts["ding"]), "peer-selector": str(texts["sealed"])}


@pytest.mark.parametrize("option", ["--policy", "--peer-policy", "--query-policy", "--peer-lace", "--peer", "--tick"])
def test_an_option_with_one_value_is_given_once(filled: Path, texts: dict[str, Path], cli: Cli, option: str) -> None:
    answer = cli(
        "policy", "explain", filled, "--policy", texts["ding"], "--peer", PEER, PLEX_1, option, "x", option, "y"
    )
    assert (answer.code, answer.out) == (2, b"")
    assert f"{option} is given" in answer.err


def test_what_is_not_there_and_what_makes_no_sense(filled: Path, texts: dict[str, Path], cli: Cli) -> None:
    arguments = ("policy", "explain", filled, "--peer", PEER)
    assert cli(*arguments, "--policy", texts["ding"], "//u//ding//nothing").code == 1
    assert cli(*arguments, "--policy", texts["wrong"], PLEX_1).code == 7
    assert cli(*arguments, "--policy", texts["ding"], "nonsense").code == 2
    assert cli(*arguments, PLEX_1).code == 2


def test_a_record_that_was_removed_here_is_refused_not_requested(
    filled: Path, texts: dict[str, Path], tmp_path: Path, cli: Cli
) -> None:
    theirs = tmp_path / "theirs.lace"
    cli("init", theirs)
    offered = cli("put", theirs, *PLACE, "-", stdin=b"theirs").text.strip()
    arguments = ("policy", "explain", filled, "--policy", texts["ding"], "--peer", PEER, offered)
    assert cli(*arguments, "--peer-lace", theirs, "--json").json["refusal"] is None
    cli("remove", filled, offered, "--reason", "not ours")
    verdict = cli(*arguments, "--peer-lace", theirs, "--json").json
    assert (verdict["requesting"], verdict["refusal"]["reason"]) == ("refused", "not ours")
    assert cli(*arguments, "--json").json["requesting"] == "not requested", "nobody offers it"
    lines = cli(*arguments, "--peer-lace", theirs).lines
    assert f"  from {PEER[:10]}…: refused" in lines
    assert lines[-1] == "    ✗ it was removed here and is refused: not ours"
