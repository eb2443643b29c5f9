from bobbin.datalog.local import conjunction as forms
from bobbin.datalog.local.conjunction import Absent, Computed, Conjunction, Read, Source, flatten
from bobbin.datalog.syntax import Constant, Variable, Wildcard
from tests.unit.datalog.local.worlds import program

X, T, R = map(Variable, "XTR")


def conjunction(text: str, *defined: str) -> Conjunction:
    union = program(text).plan.strata[-1].unions[0]
    return flatten(union.predicate, union.inputs[0], defined)


def test_scans_guards_and_head() -> None:
    found = conjunction("P(X,'c') :- A(X), B(X,T), TaiAdd(T,'1',R), Lt(T,R), not C(X,_), not Eq(X,'n').")
    assert (found.predicate, found.head) == ("P", (X, Constant("c")))
    assert found.reads == (Read(Source("A"), (X,)), Read(Source("B"), (X, T)))
    assert found.guards == (
        Computed("TaiAdd", (T, Constant("1")), R),
        forms.Tested("Lt", (T, R), negated=False),
        forms.Tested("Eq", (X, Constant("n")), negated=True),
        Absent(Read(Source("C"), (X, Wildcard()))),
    )
    assert str(found.rule).startswith("P(X,'c') :- A(X), ")


def test_a_constant_field_name_is_a_relation_of_its_own() -> None:
    found = conjunction("P(X) :- Field(X,'Group',_,T), Field(X,T,_,_), not Field(X,'App','0',_).")
    assert found.reads == (
        Read(Source("Field", "Group"), (X, Wildcard(), T)),
        Read(Source("Field"), (X, T, Wildcard(), Wildcard())),
    )
    assert found.guards == (Absent(Read(Source("Field", "App"), (X, Constant("0"), Wildcard()))),)


def test_a_relation_that_rules_define_is_never_kept_apart() -> None:
    text = "P(X) :- Field(X,'Group',_,_), not Field(X,'App',_,_)."
    found = conjunction(text, "Field")
    assert found.reads[0].source == Source("Field")
    assert isinstance(found.guards[0], Absent)
    assert found.guards[0].read.source == Source("Field")


def test_what_a_guard_waits_for() -> None:
    assert Computed("TaiAdd", (T, Constant("1")), R).needs() == {"T"}
    assert forms.Tested("Lt", (T, Constant("1")), negated=True).needs() == {"T"}
    assert Absent(Read(Source("C"), (X, Wildcard(), Constant("c"), T))).needs() == {"X", "T"}
    assert Read(Source("C"), (X, Wildcard(), X)).variables() == {"X"}
