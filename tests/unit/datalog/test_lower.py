from bobbin.datalog.algebra import AntiJoin, Compute, Filter, Join, Plan, Project, Scan
from bobbin.datalog.diagnostics import Report
from bobbin.datalog.limits import Limits
from bobbin.datalog.lower import lower
from bobbin.datalog.parse import parse
from bobbin.datalog.stratify import stratify
from bobbin.datalog.syntax import Constant, Variable, Wildcard

X, Y, T, R, S = map(Variable, "XYTRS")


def plan_of(text: str) -> Plan:
    report = Report(10)
    strata = stratify(parse(text), Limits(), report)
    report.raise_if_any()
    return lower(strata)


def only(text: str) -> Project:
    (stratum,) = plan_of(text).strata
    (union,) = stratum.unions
    (project,) = union.inputs
    return project


def test_positive_literals_are_one_join() -> None:
    project = only("A(X,'c',X) :- B(X,_), C('d',X).")
    assert project.terms == (X, Constant("c"), X)
    assert project.input == Join((Scan("B", (X, Wildcard())), Scan("C", (Constant("d"), X))))
    assert str(project.rule) == "A(X,'c',X) :- B(X,_), C('d',X)."


def test_a_fact_is_a_projection_of_the_empty_join() -> None:
    project = only("A('x').")
    assert (project.input, project.terms) == (Join(()), (Constant("x"),))


def test_functions_then_tests_then_negations() -> None:
    project = only("A(R) :- not C(R,_), Lt(T,R), TaiAdd(T,'1',R), not Eq(R,'x'), B(T).")
    join = Join((Scan("B", (T,)),))
    computed = Compute(join, "TaiAdd", (T, Constant("1")), R)
    compared = Filter(computed, "Lt", (T, R), negated=False)
    differs = Filter(compared, "Eq", (R, Constant("x")), negated=True)
    assert project.input == AntiJoin(differs, Scan("C", (R, Wildcard())))


def test_functions_wait_for_their_inputs() -> None:
    project = only("A(S) :- TaiSub(R,'2',S), TaiAdd(T,'1',R), B(T).")
    join = Join((Scan("B", (T,)),))
    assert project.input == Compute(Compute(join, "TaiAdd", (T, Constant("1")), R), "TaiSub", (R, Constant("2")), S)


def test_a_negated_function_is_a_condition() -> None:
    project = only("A(T) :- B(T), not TaiAdd(T,'1',_).")
    assert project.input == Filter(Join((Scan("B", (T,)),)), "TaiAdd", (T, Constant("1"), Wildcard()), negated=True)


def test_rules_of_one_predicate_are_a_union_and_strata_keep_their_order() -> None:
    plan = plan_of("A(X) :- B(X). B('x'). A(X) :- A(X), not C(X). C('y'). B('z').")
    shape = [
        ([(union.predicate, len(union.inputs)) for union in stratum.unions], stratum.recursive)
        for stratum in plan.strata
    ]
    assert shape[-1] == ([("A", 2)], True)
    assert sorted(shape[:-1]) == [([("B", 2)], False), ([("C", 1)], False)]


def test_mutual_recursion_is_one_fixpoint() -> None:
    (stratum,) = plan_of("B(X) :- A(X). A(X) :- B(X). A('x').").strata
    assert [(union.predicate, len(union.inputs)) for union in stratum.unions] == [("A", 2), ("B", 1)]
    assert stratum.recursive
