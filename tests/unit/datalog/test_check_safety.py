import pytest

from bobbin.datalog.check_safety import bound_variables, check_safety
from bobbin.datalog.diagnostics import Diagnostic, Fault, InvalidProgram, Report
from bobbin.datalog.limits import Limits
from bobbin.datalog.parse import parse
from bobbin.datalog.syntax import Place


def check(text: str, limits: Limits | None = None) -> list[Diagnostic]:
    report = Report(1000)
    check_safety(parse(text), limits or Limits(), report)
    try:
        report.raise_if_any()
    except InvalidProgram as problem:
        return problem.diagnostics
    return []


@pytest.mark.parametrize(
    "rule",
    [
        "A('x').",
        "A().",
        "A(X) :- B(X).",
        "A('x') :- B(_).",
        "A(X) :- B(X,X), not C(X), not D(_,X), not E(_).",
        "A('x') :- not B('y').",
        "A('x') :- not B(_).",
        "A() :- Eq('x','y').",
        "A(X) :- Lt(X,Y), B(X,Y).",
        "A(X) :- not Lt(X,Y), B(X,Y).",
        "A(R) :- B(T), TaiAdd(T,'1',R).",
        "A(R) :- TaiAdd(T,'1',R), B(T).",
        "A(R) :- TaiAdd('0000000000:000000000','1',R).",
        "A(S) :- TaiSub(R,N,S), TaiAdd(T,'1',R), B(T), C(N).",
        "A(T) :- B(T), TaiAdd(T,'1',_).",
        "A(T) :- B(T), TaiAdd(T,'0',T).",
        "A(T) :- B(T), not TaiAdd(T,'1',_).",
        "A(T) :- B(T,R), not TaiAdd(T,'1',R).",
        "A(R) :- B(T), TaiAdd(T,'1',R), not C(R), Lt(T,R).",
        "A(X) :- B(X), C(Y).",
        "A(V3) :- TaiAdd(V2,'1',V3), TaiAdd(V1,'1',V2), TaiAdd(V0,'1',V1), B(V0).",
    ],
)
def test_safe_rules(rule: str) -> None:
    assert check(rule) == []


@pytest.mark.parametrize(
    ("rule", "column", "message"),
    [
        ("A(X) :- B('x').", 1, "gives X of the head a value"),
        ("A(X) :- not B(X).", 1, "gives X of the head a value"),
        ("A(X) :- Eq(X,'x').", 1, "gives X of the head a value"),
        ("A(X) :- B(Y), Eq(X,Y).", 1, "gives X of the head a value"),
        ("A('x') :- not B(X).", 11, "the negated literal reads X"),
        ("A(P) :- B(P), not Field(P,N,_,_).", 15, "the negated literal reads N"),
        ("A('x') :- Lt(X,'y').", 11, "the built-in Lt reads X"),
        ("A('x') :- B(Y), Contains(Y,X).", 17, "the built-in Contains reads X"),
        ("A('x') :- B(Y), not Lt(X,Y).", 17, "the negated literal reads X"),
        ("A(R) :- TaiAdd(T,'1',R).", 9, "the built-in TaiAdd reads T"),
        ("A(R) :- B(T), TaiAdd(T,N,R).", 15, "the built-in TaiAdd reads N"),
        ("A('x') :- B(T), not TaiAdd(T,'1',R).", 17, "the negated literal reads R"),
        ("A(R) :- TaiAdd(R,'1',R).", 9, "the built-in TaiAdd reads R"),
        ("A(R) :- TaiAdd(S,'1',R), TaiSub(R,'1',S).", 9, "the built-in TaiAdd reads S"),
        ("A(T) :- B(R), TaiAdd(T,'1',R).", 1, "gives T of the head a value"),
        ("A('x') :- B(T), not TaiAdd(T,'1',R), TaiAdd(T,R,_).", 38, "the built-in TaiAdd reads R"),
    ],
)
def test_unsafe_rules(rule: str, column: int, message: str) -> None:
    found = check(f"# a line before\n{rule}")
    assert (Fault.UNSAFE, Place(2, column)) in [(one.fault, one.place) for one in found]
    assert any(message in one.message and one.fix is not None for one in found)


@pytest.mark.parametrize(
    ("rule", "column"),
    [
        ("A() :- Eq(_,'x').", 8),
        ("A() :- B(X), Lt(X,_).", 14),
        ("A() :- B(X), not Lt(X,_).", 14),
        ("A() :- TaiAdd(_,'1','x').", 8),
        ("A() :- B(X), TaiAdd(X,_,_).", 14),
        ("A() :- B(X), not TaiAdd(X,_,_).", 14),
    ],
)
def test_a_built_in_cannot_read_a_wildcard(rule: str, column: int) -> None:
    (found,) = check(rule)
    assert (found.fault, found.place) == (Fault.UNSAFE, Place(1, column))
    assert "'_' has no value" in found.message


@pytest.mark.parametrize("rule", ["A(_).", "A(X,_) :- B(X).", "A(_,_) :- B(_)."])
def test_no_wildcard_in_a_head(rule: str) -> None:
    (found,) = check(rule)
    assert (found.fault, found.place) == (Fault.WILDCARD_IN_HEAD, Place(1, 1))


def test_a_fact_is_ground() -> None:
    (found,) = check("A('x').\n  Member(V,'y').")
    assert (found.fault, found.place) == (Fault.NOT_GROUND, Place(2, 3))
    assert found.message == "the fact Member(V,'y') holds a variable"


def test_variables_of_a_rule() -> None:
    literals = [f"B({','.join(f'X{row}_{place}' for place in range(16))})" for row in range(4)]
    assert check(f"A(X0_0) :- {', '.join(literals)}.") == []
    (found,) = check(f"C('x').\nA(X0_0) :- {', '.join(literals)}, D(One).")
    assert (found.fault, found.place) == (Fault.LIMIT, Place(2, 1))
    assert found.message == "at most 64 variables in a rule, not 65"
    assert check("A(X) :- B(X,Y).", Limits(variables_max=1))[0].fault == Fault.LIMIT


def test_every_unsafe_variable_is_reported() -> None:
    found = check("A(X,Y,X) :- not B(Z,W), Lt(U,V).")
    assert [one.place.column for one in found] == [1, 1, 13, 13, 25, 25]


def test_bound_variables() -> None:
    (rule,) = parse("A() :- B(X,_), not C(Y), Lt(Z,X), TaiAdd(X,'1',R), TaiAdd(R,Q,S), TaiSub(R,X,T).").rules
    assert bound_variables(rule.body) == {"X", "R", "T"}


def test_a_long_chain_of_functions_in_the_worst_order() -> None:
    chain = ", ".join(f"TaiAdd(V{number},'1',V{number + 1})" for number in reversed(range(31)))
    assert check(f"A(V31) :- {chain}, B(V0).") == []
    assert len(check(f"A(V31) :- {chain}, B('x').")) == 32
