"""``bobbin policy diff``."""

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


@pytest.fixture
def theirs(tmp_path: Path, cli: Cli) -> Path:
    path = tmp_path / "theirs.lace"
    cli("init", path)
    cli("key", "new", path)
    return path


def test_what_newly_leaves_and_what_no_longer_does(filled: Path, texts: dict[str, Path], cli: Cli) -> None:
    forward = cli("policy", "diff", filled, texts["ding"], texts["sealed"], "--peer", PEER)
    assert (forward.code, forward.lines) == (1, [f"no longer leaves   {PLEX_1}"])
    back = cli("policy", "diff", filled, texts["sealed"], texts["ding"], "--peer", PEER, "--json")
    assert (back.code, back.json) == (1, {"change": "newly-leaves", "record": PLEX_1})


def test_what_newly_arrives(filled: Path, texts: dict[str, Path], theirs: Path, cli: Cli) -> None:
    plain = cli("put", theirs, *PLACE, "-", stdin=b"plain").text.strip()
    sealed = cli("put", theirs, "-g", "v", "-a", "x", "-N", "y", "--sign", "-", stdin=b"sealed").text.strip()
    arguments = ("--peer", PEER, "--peer-lace", theirs, "--json")
    assert cli("policy", "diff", filled, texts["ding"], texts["sealed"], *arguments).rows == [
        {"change": "no-longer-leaves", "record": PLEX_1},
        {"change": "newly-arrives", "record": sealed},
        {"change": "no-longer-arrives", "record": plain},
    ]


def test_a_peer_or_a_view_that_allows_nothing_makes_no_difference(
    filled: Path, texts: dict[str, Path], cli: Cli
) -> None:
    arguments = ("policy", "diff", filled, texts["sealed"], texts["ding"], "--peer", "source:lab")
    assert cli(*arguments).code == 1
    for option in (("--peer-policy", texts["sealed"]), ("--query-policy", texts["hide"])):
        answer = cli(*arguments, *option)
        assert (answer.code, answer.out) == (0, b"")


def test_mistakes(filled: Path, texts: dict[str, Path], cli: Cli) -> None:
    assert cli("policy", "diff", filled, texts["ding"], texts["wrong"], "--peer", PEER).code == 7
    assert cli("policy", "diff", filled, texts["ding"], texts["sealed"]).code == 2
    assert cli("policy", "diff", filled, texts["ding"], texts["sealed"], "--peer", "somebody").code == 2


def test_what_was_removed_here_does_not_arrive(filled: Path, texts: dict[str, Path], theirs: Path, cli: Cli) -> None:
    offered = cli("put", theirs, "-g", "v", "-a", "x", "-N", "y", "--sign", "-", stdin=b"sealed").text.strip()
    cli("remove", filled, offered, "--reason", "not ours")
    cli("remove", filled, PLEX_1, "--reason", "so that nothing leaves")
    arguments = ("--peer", PEER, "--peer-lace", theirs)
    answer = cli("policy", "diff", filled, texts["ding"], texts["sealed"], *arguments, "--json")
    assert (answer.code, answer.json) == (0, {"change": "refused", "record": offered})
    shown = cli("policy", "diff", filled, texts["ding"], texts["sealed"], *arguments)
    assert shown.lines == [f"refused            {offered}"]
    assert "removed here" in shown.err
    back = cli("policy", "diff", filled, texts["sealed"], texts["ding"], *arguments)
    assert (back.code, back.out) == (0, b"")


def test_a_selector_is_not_taken_for_a_query_policy(filled: Path, texts: dict[str, Path], cli: Cli) -> None:
    arguments = ("policy", "diff", filled, texts["ding"], texts["sealed"], "--peer", PEER)
    answer = cli(*arguments, "--query-policy", texts["ding"])
    assert answer.code == 2
    assert "is a selector" in answer.err
