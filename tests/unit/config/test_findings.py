"""Everything that is wrong with a configuration is said at once, in the right family of errors."""

from pathlib import Path

import pytest

from bobbin.config.findings import PROBLEMS_MAX, Findings, InvalidConfiguration, InvalidPolicies
from bobbin.datalog.diagnostics import Diagnostic, Fault
from bobbin.datalog.syntax import Place
from bobbin.errors import ProgramError, UsageError

_FILE = Path("node.toml")
_MISTAKE = Diagnostic(fault=Fault.SYNTAX, message="no full stop", place=Place(2, 7))


def test_nothing_found_raises_nothing() -> None:
    findings = Findings()
    findings.raise_if_any()
    assert len(findings) == 0


def test_each_problem_has_a_line_with_file_and_key() -> None:
    findings = Findings()
    findings.add(_FILE, "links.total_max", "too many")
    findings.add(_FILE, "", "not TOML")
    with pytest.raises(InvalidConfiguration) as failure:
        findings.raise_if_any()
    assert isinstance(failure.value, UsageError)
    assert str(failure.value).splitlines() == ["node.toml: links.total_max: too many", "node.toml: not TOML"]
    assert [problem.key for problem in failure.value.problems] == ["links.total_max", ""]


def test_a_message_that_names_its_file_does_not_name_it_twice() -> None:
    findings = Findings()
    findings.add(_FILE, "", "there is no file node.toml")
    findings.add(_FILE, "peers", "there is no file node.toml")
    with pytest.raises(InvalidConfiguration) as failure:
        findings.raise_if_any()
    assert str(failure.value).splitlines() == [
        "there is no file node.toml",
        "node.toml: peers: there is no file node.toml",
    ]


def test_mistakes_in_policies_alone_are_the_fault_of_the_policies() -> None:
    findings = Findings()
    findings.add_mistakes(Path("lab.policy"), [_MISTAKE])
    with pytest.raises(InvalidPolicies) as failure:
        findings.raise_if_any()
    assert isinstance(failure.value, ProgramError)
    assert str(failure.value) == "lab.policy:2:7: no full stop"


def test_both_kinds_are_said_together() -> None:
    findings = Findings()
    findings.add_mistakes(Path("lab.policy"), [_MISTAKE])
    findings.add(_FILE, "key", "no")
    with pytest.raises(InvalidConfiguration) as failure:
        findings.raise_if_any()
    assert str(failure.value).splitlines() == ["node.toml: key: no", "lab.policy:2:7: no full stop"]


def test_there_is_a_bound() -> None:
    findings = Findings()
    for _ in range(PROBLEMS_MAX + 5):
        findings.add(_FILE, "key", "no")
    findings.add_mistakes(_FILE, [_MISTAKE] * (PROBLEMS_MAX + 5))
    assert len(findings) == 2 * (PROBLEMS_MAX + 5), "what is not shown was found all the same"
    with pytest.raises(InvalidConfiguration) as failure:
        findings.raise_if_any()
    assert (len(failure.value.problems), len(failure.value.mistakes)) == (PROBLEMS_MAX, PROBLEMS_MAX)
