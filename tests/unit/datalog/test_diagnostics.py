import pytest

from bobbin.datalog.diagnostics import Diagnostic, Fault, InvalidProgram, Report
from bobbin.datalog.syntax import Place
from bobbin.errors import ProgramError


def test_a_diagnostic_says_where_what_and_how_to_mend_it() -> None:
    found = Diagnostic(fault=Fault.ARITY, message="Field has 4 arguments", place=Place(2, 7), fix="write four")
    assert str(found) == "2:7: Field has 4 arguments (write four)"
    assert str(Diagnostic(fault=Fault.ARITY, message="no", place=Place(1, 1))) == "1:1: no"


def test_all_mistakes_are_raised_at_once_in_the_order_of_the_text() -> None:
    report = Report(10)
    report.add(Fault.UNSAFE, "third", Place(2, 1))
    report.add(Fault.SYNTAX, "first", Place(1, 9))
    report.add(Fault.ARITY, "second", Place(1, 10), "mend")
    with pytest.raises(InvalidProgram) as caught:
        report.raise_if_any()
    assert [found.message for found in caught.value.diagnostics] == ["first", "second", "third"]
    assert str(caught.value) == "1:9: first\n1:10: second (mend)\n2:1: third"
    assert isinstance(caught.value, ProgramError)


def test_an_empty_report_raises_nothing() -> None:
    Report(10).raise_if_any()


@pytest.mark.parametrize(("limit", "kept"), [(3, 3), (1, 1), (0, 1), (-1, 1)])
def test_a_report_is_bounded_but_never_swallows_everything(limit: int, kept: int) -> None:
    report = Report(limit)
    for number in range(10):
        report.add(Fault.SYNTAX, f"{number}", Place(1, number + 1))
    assert report.full
    with pytest.raises(InvalidProgram) as caught:
        report.raise_if_any()
    assert len(caught.value.diagnostics) == kept


def test_codes_are_stable() -> None:
    """Users filter by these texts: a code may be added, never renamed."""
    assert {fault.value for fault in Fault} == {
        "encoding",
        "normalization",
        "syntax",
        "constant",
        "arity",
        "shadowing",
        "unknown-predicate",
        "forbidden-predicate",
        "unsafe",
        "wildcard-in-head",
        "not-ground",
        "unstratified",
        "limit",
        "not-canonical",
        "facet",
    }
