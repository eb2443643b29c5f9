"""``bobbin policy check``."""

from pathlib import Path

from tests.unit.cli.command_line import Cli
from tests.unit.cli.policy_texts import DING, DING_IDENTIFIER, HIDE_ALL, TWO_MISTAKES


def test_valid_and_wrong_texts_are_told_apart(tmp_path: Path, cli: Cli) -> None:
    good, bad = tmp_path / "good.policy", tmp_path / "bad.policy"
    good.write_text(DING, encoding="utf-8")
    bad.write_text(TWO_MISTAKES, encoding="utf-8")
    answer = cli("policy", "check", good, bad)
    assert answer.code == 7
    assert answer.lines[0] == f"{good}  selector  {DING_IDENTIFIER}"
    assert answer.lines[1] == f"{bad}:1:27: nothing defines Feild (did you mean Field?)"
    assert cli("policy", "check", good).code == 0
    valid, wrong = cli("policy", "check", good, bad, "--json").rows
    assert (valid["identifier"], valid["diagnostics"], valid["remarks"]) == (DING_IDENTIFIER, [], [])
    assert wrong["identifier"] is None
    assert wrong["diagnostics"][0] == {
        "fault": "unknown-predicate",
        "message": "nothing defines Feild",
        "line": 1,
        "column": 27,
        "fix": "did you mean Field?",
    }


def test_remarks_do_not_make_a_text_wrong(cli: Cli) -> None:
    answer = cli("policy", "check", "-", stdin=b"SelectHave(P) :- Have(P).\n")
    assert answer.code == 0
    assert answer.lines[1].startswith("stdin:1:1: remark: nothing defines SelectAdvertised")


def test_the_role_can_be_said(cli: Cli) -> None:
    assert cli("policy", "check", "-", stdin=b"").code == 7
    assert cli("policy", "check", "-", "--role", "query", stdin=b"").code == 0
    assert cli("policy", "check", "-", "--role", "selector", stdin=HIDE_ALL.encode()).code == 7


def test_what_cannot_be_read(tmp_path: Path, cli: Cli) -> None:
    assert cli("policy", "check", tmp_path / "nothing").code == 4
    assert cli("policy", "check", "-", "-").code == 2
    assert cli("policy", "check").code == 2
