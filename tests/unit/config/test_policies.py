"""Policies that a configuration names: found beside it, compiled once, every mistake with its place."""

from pathlib import Path

import pytest

from bobbin.config.findings import Findings, InvalidConfiguration, InvalidPolicies
from bobbin.config.policies import Policies
from bobbin.config.sources import Sources
from bobbin.policy.modules import compile_selector

_GOOD = "SelectHave(P) :- Have(P), Field(P,'Group',_,'u').\n"
_BAD = "SelectHave(P) :- Have(Q).\nSelectHave(P) :- Nothing(P).\n"


@pytest.fixture
def findings() -> Findings:
    return Findings()


@pytest.fixture
def policies(findings: Findings) -> Policies:
    return Policies(Sources(), findings)


def test_a_policy_is_found_relative_to_the_file_that_names_it(
    tmp_path: Path, policies: Policies, findings: Findings
) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "a.policy").write_text(_GOOD)
    found = policies.selector("sub/a.policy", file=tmp_path / "peers.toml", key="policy")
    assert found is not None
    assert found.identifier == compile_selector(_GOOD).identifier
    assert policies.selector("sub/a.policy", file=tmp_path / "node.toml", key="policy") is found
    absolute = str(tmp_path / "sub" / "a.policy")
    assert policies.selector(absolute, file=Path("elsewhere/node.toml"), key="policy") is found
    assert len(findings) == 0


def test_every_mistake_of_a_policy_is_said_once_with_its_place(
    tmp_path: Path, policies: Policies, findings: Findings
) -> None:
    (tmp_path / "bad.policy").write_text(_BAD)
    for _ in range(2):
        assert policies.selector("bad.policy", file=tmp_path / "peers.toml", key="policy") is None
    with pytest.raises(InvalidPolicies) as failure:
        findings.raise_if_any()
    assert [mistake.diagnostic.place.line for mistake in failure.value.mistakes] == [1, 2]
    assert f"{tmp_path / 'bad.policy'}:1:" in str(failure.value)


def test_a_policy_that_is_missing_is_said_for_each_key_that_names_it(
    tmp_path: Path, policies: Policies, findings: Findings
) -> None:
    for key in ("a", "b"):
        assert policies.selector("none.policy", file=tmp_path / "peers.toml", key=key) is None
    with pytest.raises(InvalidConfiguration) as failure:
        findings.raise_if_any()
    assert [problem.key for problem in failure.value.problems] == ["a", "b"]


def test_a_selector_is_no_query_policy_and_an_empty_file_is_one(
    tmp_path: Path, policies: Policies, findings: Findings
) -> None:
    (tmp_path / "empty").touch()
    (tmp_path / "selector").write_text("Helper(P) :- Have(P).\n")
    assert policies.query("empty", file=tmp_path / "peers.toml", key="query_policy") is not None
    assert len(findings) == 0
    assert policies.query("selector", file=tmp_path / "peers.toml", key="query_policy") is None
    with pytest.raises(InvalidConfiguration, match="Queryable"):
        findings.raise_if_any()
