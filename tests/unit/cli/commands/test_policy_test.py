"""``bobbin policy test``."""

from pathlib import Path

import pytest

from tests.unit.cli.command_line import Cli
from tests.unit.cli.policy_texts import DING, HIDE_ALL, SEALED, TWO_MISTAKES

CASES = """
case: what is of the group leaves
stored bell
    Group: u
    App: ding
stored letter
    Group: u
    App: mail
sent: bell

case: and nothing else
stored letter
    Group: u
    App: mail
sent: nothing
"""


@pytest.fixture
def cases(tmp_path: Path) -> Path:
    (tmp_path / "ding.policy").write_text(DING, encoding="utf-8")
    path = tmp_path / "ding.policy.cases"
    path.write_text(CASES, encoding="utf-8")
    return path


def test_cases_that_pass(cases: Path, cli: Cli) -> None:
    answer = cli("policy", "test", cases)
    assert answer.code == 0
    assert answer.lines == [
        f"ok      {cases}:2  what is of the group leaves",
        f"ok      {cases}:11  and nothing else",
        "2 cases: 2 passed, 0 failed",
    ]


def test_a_case_that_fails_is_explained_and_is_code_1(cases: Path, cli: Cli) -> None:
    cases.write_text(CASES.replace("sent: bell", "sent: bell, letter"), encoding="utf-8")
    answer = cli("policy", "test", cases)
    assert answer.code == 1
    assert "  letter was withheld, not sent" in answer.lines
    assert any("is 'mail', not 'ding'" in line for line in answer.lines)
    failed, passed, summary = cli("policy", "test", cases, "--json").rows
    assert [failed["event"], passed["event"]] == ["case", "case"]
    assert summary == {"event": "summary", "files": 1, "cases": 2, "passed": 1, "failed": 1}
    assert (failed["passed"], passed["passed"]) == (False, True)
    (surprise,) = failed["surprises"]
    assert (surprise["record"], surprise["expected"], surprise["actual"]) == ("letter", "sent", "withheld")
    assert surprise["verdict"]["sending"] == "withheld"


def test_a_file_names_its_policies_relative_to_itself(cases: Path, cli: Cli) -> None:
    (cases.parent / "sealed.policy").write_text(SEALED, encoding="utf-8")
    (cases.parent / "hide.policy").write_text(HIDE_ALL, encoding="utf-8")
    for line in ("peer policy: sealed.policy", "query policy: hide.policy"):
        cases.write_text(f"policy: ding.policy\n{line}\n{CASES}", encoding="utf-8")
        assert [row["passed"] for row in cli("policy", "test", cases, "--json").rows[:-1]] == [False, True]


@pytest.mark.parametrize(
    ("text", "place"),
    [
        (b"case: x\nnonsense here\n", ":2:1: expected a setting"),
        (b"case: x\nstored a\n    Name: \xff\n", ":3:11: this is not UTF-8"),
        (b"", ":1:1: there is no case"),
    ],
)
def test_cases_that_cannot_be_read_are_code_7(cases: Path, cli: Cli, text: bytes, place: str) -> None:
    cases.write_bytes(text)
    answer = cli("policy", "test", cases)
    assert (answer.code, answer.out) == (7, b"")
    assert f"{cases}{place}" in answer.err


def test_a_wrong_policy_keeps_every_file_from_running(cases: Path, cli: Cli) -> None:
    wrong = cases.with_name("wrong.policy.cases")
    wrong.write_text(CASES, encoding="utf-8")
    wrong.with_suffix("").write_text(TWO_MISTAKES, encoding="utf-8")
    answer = cli("policy", "test", cases, wrong)
    assert (answer.code, answer.out) == (7, b"")
    assert f"{wrong.with_suffix('')}:1:27: nothing defines Feild" in answer.err


def test_cases_that_name_no_policy_and_cases_whose_policy_is_missing(cases: Path, cli: Cli) -> None:
    assert cli("policy", "test", "-", stdin=CASES.encode()).code == 2
    cases.with_suffix("").unlink()
    assert cli("policy", "test", cases).code == 4


def test_mistakes_are_structured_with_json(cases: Path, cli: Cli) -> None:
    cases.write_text("case: x\nnonsense\n", encoding="utf-8")
    (mistake,) = cli("policy", "test", cases, "--json").error["mistakes"]
    assert (mistake["file"], mistake["line"], mistake["column"]) == (str(cases), 2, 1)
    cases.write_bytes(b"case: x\n\xff")
    (mistake,) = cli("policy", "test", cases, "--json").error["mistakes"]
    assert (mistake["line"], mistake["column"], mistake["fix"]) == (2, 1, "save the file as UTF-8")
    cases.write_text(CASES, encoding="utf-8")
    cases.with_suffix("").write_text(TWO_MISTAKES, encoding="utf-8")
    error = cli("policy", "test", cases, "--json").error
    assert error["exit_code"] == 7
    assert error["mistakes"][0] == {
        "file": str(cases.with_suffix("")),
        "line": 1,
        "column": 27,
        "fault": "unknown-predicate",
        "message": "nothing defines Feild",
        "fix": "did you mean Field?",
    }
