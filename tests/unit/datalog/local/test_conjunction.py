"""A rule taken apart: scans by the relation that they read, guards in an order that works."""

from bobbin.datalog.local import conjunction
from bobbin.datalog.local.conjunction import Absent, Computed, Conjunction, Read, Source, flatten
from bobbin.datalog.syntax import Constant, Variable, Wildcard
from tests.unit.datalog.local.worlds import program

X, V, N, R = map(Variable, "XVNR")


def taken_apart(text: str) -> Conjunction:
    (union,) = program(text).plan.strata[0].unions
    return flatten(union.predicate, union.inputs[0])


def test_a_constant_field_name_makes_a_relation_of_its_own() -> None:
    rule = taken_apart("P(X) :- Field(X,'n',_,V), Field(X,N,_,V), not Field(X,'m',_,'c').")
    assert rule.reads == (
        Read(Source("Field", "n"), (X, Wildcard(), V)),
        Read(Source("Field"), (X, N, Wildcard(), V)),
    )
    assert rule.guards == (Absent(Read(Source("Field", "m"), (X, Wildcard(), Constant("c")))),)


def test_functions_come_before_tests_and_tests_before_negations() -> None:
    rule = taken_apart("P(X) :- not B(X,R), Lt(X,R), A(X), TaiAdd(X,'1',R).")
    assert rule.guards == (
        Computed("TaiAdd", (X, Constant("1")), R),
        conjunction.Tested("Lt", (X, R), negated=False),
        Absent(Read(Source("B"), (X, R))),
    )
    assert [guard.needs() for guard in rule.guards] == [{"X"}, {"X", "R"}, {"X", "R"}]


def test_the_head_and_the_rule_stay() -> None:
    rule = taken_apart("P(X,'c') :- A(X).")
    assert rule.predicate == "P"
    assert rule.head == (X, Constant("c"))
    assert str(rule.rule) == "P(X,'c') :- A(X)."
