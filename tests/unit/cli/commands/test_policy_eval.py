"""``bobbin policy eval``."""

from pathlib import Path

import pytest

from tests.unit.cli.command_line import PLACE, PLEX_1, VERIFIER, Cli
from tests.unit.cli.policy_texts import DING, PEER, TWO_MISTAKES


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "ding.policy"
    path.write_text(f"{DING}Us(V) :- Here(V).\n", encoding="utf-8")
    return path


def test_everything_that_the_rules_derive(filled: Path, file: Path, cli: Cli) -> None:
    assert cli("policy", "eval", filled, file).lines == [f"SelectHave('{PLEX_1}')", f"Us('{VERIFIER}')"]
    assert cli("policy", "eval", filled, file, "--predicate", "SelectHave", "--json").json == {
        "predicate": "SelectHave",
        "values": [PLEX_1],
    }
    assert cli("policy", "eval", filled, file, "--limit", "1").lines == [f"SelectHave('{PLEX_1}')"]
    assert cli("policy", "eval", filled, file, "--predicate", "SelectAdvertised").out == b""


def test_what_a_peer_offers_comes_from_its_lace(filled: Path, file: Path, tmp_path: Path, cli: Cli) -> None:
    theirs = tmp_path / "theirs.lace"
    cli("init", theirs)
    offered = cli("put", theirs, *PLACE, "-", stdin=b"theirs").text.strip()
    arguments = ("policy", "eval", filled, file, "-p", "SelectAdvertised", "--peer-lace", theirs)
    assert cli(*arguments, "--peer", PEER).lines == [f"SelectAdvertised('{offered}','{PEER}')"]
    assert cli(*arguments).code == 2


def test_a_query_policy_sees_what_a_selector_chooses(filled: Path, file: Path, tmp_path: Path, cli: Cli) -> None:
    query = tmp_path / "x.query.policy"
    query.write_text("Queryable(P,O) :- OwnSelected(P), Viewer(O).\n", encoding="utf-8")
    arguments = ("policy", "eval", filled, query, "--peer", "source:lab")
    assert cli(*arguments).lines == []
    assert cli(*arguments, "--selector", file).lines == [f"Queryable('{PLEX_1}','source:lab')"]
    file.write_text("SelectAdvertised(P,S) :- Advertised(P,S).\n", encoding="utf-8")
    answer = cli(*arguments, "--selector", file)
    assert (answer.code, answer.lines) == (0, [])
    assert cli("policy", "eval", filled, file, "--selector", file).code == 2


def test_the_time_is_an_input(filled: Path, cli: Cli) -> None:
    text = b"SelectHave(P) :- Have(P), TickTAI(Now), Lt(Now,'1640995200:000000000').\n"
    assert len(cli("policy", "eval", filled, "-", "--tick", "1640995199:000000000", stdin=text).lines) == 1
    assert cli("policy", "eval", filled, "-", stdin=text).lines == []
    assert cli("policy", "eval", filled, "-", "--tick", "noon", stdin=text).code == 2


def test_mistakes(filled: Path, file: Path, cli: Cli) -> None:
    unknown = cli("policy", "eval", filled, file, "--predicate", "Have")
    assert unknown.code == 2
    assert "it defines SelectAdvertised, SelectHave, Us" in unknown.err
    assert cli("policy", "eval", filled, "-", stdin=TWO_MISTAKES.encode()).code == 7
