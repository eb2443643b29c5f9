"""Every example of docs/policy-cookbook.md is a tested file, and the page shows the files as they are."""

import re
from pathlib import Path

import pytest

from bobbin.policy import intersect, unite
from bobbin.policy.cases import CaseFile, parse_cases, run_cases
from bobbin.policy.check import check, identify
from bobbin.policy.decide import evaluate
from bobbin.policy.executables import Part, make_policy
from bobbin.policy.layout import lay_out
from bobbin.policy.modules import Query, Role, Selector, compile_query, compile_selector
from bobbin.policy.narrate import narrate
from bobbin.policy.verdict import explain
from tests.conftest import Golden

_DOCS = Path(__file__).resolve().parent.parent.parent / "docs"
_FOLDER = _DOCS / "cookbook"
_PAGE = (_DOCS / "policy-cookbook.md").read_text(encoding="utf-8")
_POLICIES = sorted(path.name for path in _FOLDER.glob("*.policy"))
_CASES = sorted(path.name for path in _FOLDER.glob("*.cases"))

# A marked block of the page: what it shows, and its text.
_BLOCKS = re.findall(r"^<!-- (\w+) (\S+) -->\n```\w*\n(.*?)^```$", _PAGE, flags=re.MULTILINE | re.DOTALL)


def _read(name: str) -> str:
    return (_FOLDER / name).read_text(encoding="utf-8")


def _load(name: str) -> tuple[CaseFile, Selector, Query | None]:
    """A file of cases with the policies that it is about; by default the one beside it."""
    file = parse_cases(_read(name))
    own = compile_selector(_read(file.policy or name.removesuffix(".cases")))
    query = None if file.query_policy is None else compile_query(_read(file.query_policy))
    return file, own, query


def _blocks(kind: str) -> dict[str, str]:
    return {name: text for found, name, text in _BLOCKS if found == kind}


@pytest.mark.parametrize("name", _POLICIES)
def test_every_policy_is_valid_neat_and_without_remark(name: str) -> None:
    checked = check(_read(name))
    assert checked.diagnostics == ()
    assert checked.remarks == ()
    assert checked.role is (Role.QUERY if name.endswith(".query.policy") else Role.SELECTOR)
    assert lay_out(_read(name)) == _read(name)


@pytest.mark.parametrize("name", _CASES)
def test_every_case_passes(name: str) -> None:
    file, own, query = _load(name)
    failed = {
        result.title: [narrate(surprise.verdict) for surprise in result.surprises]
        for result in run_cases(file, own, query=query)
        if not result.passed
    }
    assert failed == {}


@pytest.mark.parametrize("name", _CASES)
def test_every_case_passes_when_both_sides_have_the_policy(name: str) -> None:
    file, own, query = _load(name)
    assert [result.title for result in run_cases(file, own, peer=own, query=query) if not result.passed] == []


def test_every_policy_has_cases_and_a_place_on_the_page() -> None:
    assert [f"{name}.cases" for name in _POLICIES] == _CASES
    assert sorted(_blocks("file")) == sorted(set(_blocks("file")) | set(_POLICIES))


@pytest.mark.parametrize(("name", "text"), _blocks("file").items())
def test_the_page_shows_the_file(name: str, text: str) -> None:
    assert text == _read(name)


@pytest.mark.parametrize(("name", "text"), _blocks("builds").items())
def test_the_builder_makes_the_policy(name: str, text: str) -> None:
    """The examples in Python give the policies that they stand beside, under the same name."""
    assert identify(_built(text)) == identify(_read(name))


@pytest.mark.parametrize(("name", "text"), _blocks("behaves").items())
def test_the_builder_makes_a_policy_that_does_the_same(name: str, text: str) -> None:
    """Where the builder words its rules otherwise, the cases say that they mean the same."""
    built = compile_selector(_built(text))
    file, _, query = _load(f"{name}.cases")
    assert [result.title for result in run_cases(file, built, query=query) if not result.passed] == []


def test_several_policies_become_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    selectors = []
    for name in ("group.policy", "signer.policy"):
        (tmp_path / name).write_text(_read(name), encoding="utf-8")
        selectors.append(compile_selector(_read(name)))
    monkeypatch.chdir(tmp_path)
    scope: dict[str, object] = {}
    exec(_blocks("runs")["several"], scope)
    assert scope["either"] == unite(selectors)
    assert scope["both"] == intersect(selectors) == (tmp_path / "both.policy").read_text(encoding="utf-8")


def _built(example: str) -> str:
    """What an example in Python makes, run as it stands: its imports are all that it has."""
    scope: dict[str, object] = {}
    exec(example, scope)
    built = scope["text"]
    assert isinstance(built, str)
    return built


def test_the_explanation_on_the_page_is_real(golden: Golden) -> None:
    """The note of somebody who has left, from the cases of members.policy."""
    file, own, query = _load("members.policy.cases")
    (case,) = [case for case in file.cases if case.title == "who has left writes no more"]
    link = make_policy(own, own, own_origin=case.here, peer_origin=case.peer, query=query)
    text = narrate(
        explain(evaluate(link, case.situation), case.records["note"]), texts={Part.OWN_SELECTOR: "members.policy"}
    )
    golden("policy/withheld.txt", text)
    assert _blocks("golden")["policy/withheld.txt"] == text
