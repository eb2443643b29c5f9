import pytest
from hypothesis import given
from hypothesis import strategies as st

from bobbin.datalog.diagnostics import Diagnostic, Fault, InvalidProgram, Report
from bobbin.datalog.limits import Limits
from bobbin.datalog.parse import parse
from bobbin.datalog.stratify import Stratum, stratify
from bobbin.datalog.syntax import Place
from tests.oracle import naive


def run(text: str, limits: Limits | None = None) -> tuple[tuple[Stratum, ...], list[Diagnostic]]:
    report = Report(100)
    strata = stratify(parse(text), limits or Limits(), report)
    try:
        report.raise_if_any()
    except InvalidProgram as problem:
        return strata, problem.diagnostics
    return strata, []


def order(text: str) -> list[list[str]]:
    strata, found = run(text)
    assert found == []
    return [sorted(stratum.predicates) for stratum in strata]


def test_what_is_read_comes_first() -> None:
    assert order("A() :- B(). B() :- C(). C() :- Have('x').") == [["C"], ["B"], ["A"]]
    assert order("A() :- not B(). B() :- not C(). C().") == [["C"], ["B"], ["A"]]


def test_predicates_that_need_one_another_share_a_stratum() -> None:
    text = "A(X) :- B(X). B(X) :- C(X), not D(X). C(X) :- A(X). C('x'). D('y')."
    assert order(text) == [["D"], ["A", "B", "C"]]


def test_recursion_is_told_from_plain_definition() -> None:
    strata, _ = run("A(X) :- A(X). B(X) :- A(X). C(X) :- D(X). D(X) :- C(X).")
    assert {name: stratum.recursive for stratum in strata for name in stratum.predicates} == {
        "A": True,
        "B": False,
        "C": True,
        "D": True,
    }


def test_every_rule_stands_in_the_stratum_of_its_head() -> None:
    strata, _ = run("A('x'). B(X) :- A(X). A('y'). B('z').")
    assert [[str(rule) for rule in stratum.rules] for stratum in strata] == [
        ["A('x').", "A('y')."],
        ["B(X) :- A(X).", "B('z')."],
    ]


def test_the_empty_program_has_no_stratum() -> None:
    assert run("") == ((), [])


@pytest.mark.parametrize(
    ("text", "place", "path"),
    [
        ("Win(X) :- Move(X,Y), not Win(Y).", Place(1, 22), "(Win)"),
        ("A() :- not B().\nB() :- A().", Place(1, 8), "(B → A)"),
        ("A() :- B(). B() :- C().\nC() :- Have('x'), not A().", Place(2, 19), "(A → B → C)"),
        ("A() :- not A().", Place(1, 8), "(A)"),
        ("A() :- B(), not B(). B() :- A().", Place(1, 13), "(B → A)"),
    ],
)
def test_negation_through_recursion_names_the_cycle(text: str, place: Place, path: str) -> None:
    _, found = run(text)
    assert [(one.fault, one.place) for one in found] == [(Fault.UNSTRATIFIED, place)]
    assert path in found[0].message
    assert "depends on 'not" in found[0].message


def test_two_negations_in_a_cycle_do_not_cancel() -> None:
    _, found = run("A() :- not B().\nB() :- not A().")
    assert [one.place for one in found] == [Place(1, 8), Place(2, 8)]


def test_a_long_cycle_is_shown_in_part() -> None:
    rules = "".join(f"P{number}() :- P{number + 1}().\n" for number in range(500))
    _, found = run(f"{rules}P500() :- not P0().")
    assert "P0 → P1 → P2 → P3 → P4 → … → P496 → P497 → P498 → P499 → P500" in found[0].message


def test_strata_count_by_negation() -> None:
    def chain(length: int) -> str:
        return "P0().\n" + "".join(f"P{number}() :- not P{number - 1}().\n" for number in range(1, length))

    assert run(chain(64))[1] == []
    _, found = run(chain(65))
    assert [(one.fault, one.message) for one in found] == [(Fault.LIMIT, "at most 64 strata, not 65")]
    assert run(chain(3), Limits(strata_max=2))[1]
    # Predicates that only build on one another are one stratum of the textbook, however many there are.
    assert run("P0().\n" + "".join(f"P{number}() :- P{number - 1}().\n" for number in range(1, 500)))[1] == []


def test_one_great_cycle_of_negations_ends_soon() -> None:
    """Thousands of negated edges, each a search through the whole graph, were the report not full."""
    count = 500
    rules = (
        f"P{number}() :- " + ", ".join(f"not P{(number + step) % count}()" for step in range(1, 29)) + ".\n"
        for number in range(count)
    )
    _, found = run("".join(rules))
    assert len(found) == 100


def test_deep_dependencies_need_no_deep_recursion() -> None:
    rules = "".join(f"P{number}() :- P{number + 1}().\n" for number in range(5000))
    strata = stratify(parse(f"{rules}P5000().", Limits(rules_max=10_000)), Limits(), Report(1))
    assert len(strata) == 5001


_NAMES = st.sampled_from("ABCDE")
_RULES = st.lists(
    st.tuples(_NAMES, st.lists(st.tuples(st.booleans(), _NAMES | st.just("Base")), max_size=3)), max_size=8
)


@given(_RULES)
def test_exactly_the_programs_without_a_negative_cycle_pass(rules: list[tuple[str, list[tuple[bool, str]]]]) -> None:
    lines = []
    for head, body in rules:
        literals = ", ".join(f"{'not ' if negated else ''}{name}()" for negated, name in body)
        lines.append(f"{head}() :- {literals}." if body else f"{head}().")
    text = "\n".join(lines)
    strata, found = run(text)
    assert (naive.stratify(parse(text).rules) is None) == bool(found)
    if not found:
        done: set[str] = set()
        heads = {head for head, _ in rules}
        for stratum in strata:
            for rule in stratum.rules:
                below = {literal.atom.predicate for literal in rule.body if literal.negated} & heads
                assert below <= done
                assert {literal.atom.predicate for literal in rule.body} & heads <= done | stratum.predicates
            done |= stratum.predicates
        assert done == heads
