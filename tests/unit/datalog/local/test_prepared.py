"""The forms of a rule: each answers its own question, and is compiled once."""

from bobbin.datalog.local.budget import PLAN_STEPS
from bobbin.datalog.local.conjunction import Absent, Source, flatten
from bobbin.datalog.local.prepared import IN_DOUBT, PreparedRule, PreparedStratum
from tests.unit.datalog.local.worlds import program


def prepared(text: str) -> PreparedRule:
    (union,) = program(text).plan.strata[0].unions
    return PreparedRule(flatten(union.predicate, union.inputs[0]))


RULE = "P(X,'c') :- A(X), B(X,Y), not C(Y,_)."


def test_what_a_rule_reads_and_negates() -> None:
    rule = prepared(RULE)
    assert rule.target == Source("P")
    assert rule.reads == {Source("A"), Source("B")}
    assert rule.absent == {Source("C")}


def test_new_rows_come_first() -> None:
    form = prepared(RULE).on_new(1)
    assert form.given == 1
    assert form.order(lambda _read, _bound: 1.0)[0] == 1


def test_a_form_that_looks_for_losses_ignores_negation() -> None:
    form = prepared(RULE).on_lost(0)
    assert not any(isinstance(guard, Absent) for guard in form.conjunction.guards)


def test_a_negated_relation_is_read_when_its_rows_are_given() -> None:
    rule = prepared(RULE)
    vanished, appeared = rule.on_vanished(0), rule.on_appeared(0)
    for form in (vanished, appeared):
        assert form.conjunction.reads[-1].source == IN_DOUBT
        assert form.conjunction.reads[-1].terms == rule.conjunction.guards[0].read.terms  # type: ignore[union-attr]
        assert form.given == 2
    assert any(isinstance(guard, Absent) for guard in vanished.conjunction.guards)
    assert not any(isinstance(guard, Absent) for guard in appeared.conjunction.guards)


def test_doubt_is_about_the_head() -> None:
    rule = prepared(RULE)
    assert rule.on_doubt().conjunction.reads[-1].terms == rule.conjunction.head


def test_a_form_is_made_once_and_compiled_once_for_similar_sizes() -> None:
    rule = prepared(RULE)
    assert rule.on_new(0) is rule.on_new(0)
    sizes = {"A": 10, "B": 10}
    first = rule.compiled(lambda source: sizes[source.predicate], lambda _read, _bound: 1.0)
    assert rule.compiled(lambda source: sizes[source.predicate] * 2, lambda _read, _bound: 1.0) is first
    assert rule.compiled(lambda source: sizes[source.predicate] * 1000, lambda _read, _bound: 1.0) is not first


def test_a_scan_echoes_the_variables_of_earlier_scans_that_are_finished() -> None:
    rule = prepared("P(X,Z) :- A(X), B(X,Y), C(Y,Z).")
    assert [rule.echoes(number, ()) for number in range(3)] == [(), (0,), (0,)]
    assert [rule.echoes(number, {Source("A")}) for number in range(3)] == [(), (), (0,)]


def test_a_stratum_knows_what_its_rules_read() -> None:
    plan = program("T(X,Y) :- B(X,Y), not C(X,Y). T(X,Z) :- T(X,Y), B(Y,Z).").plan
    (fixpoint,) = plan.strata
    rules = [PreparedRule(flatten("T", rule)) for union in fixpoint.unions for rule in union.inputs]
    stratum = PreparedStratum(fixpoint, rules)
    assert stratum.recursive
    assert stratum.targets == (Source("T"),)
    assert stratum.reads == {Source("B"), Source("T")}
    assert stratum.absent == {Source("C")}
    assert stratum.echoes[rules[1], 1] == (), "the earlier scan is of a relation that still grows"


def test_a_new_plan_is_paid_for() -> None:
    rule = prepared(RULE)
    spent: list[int] = []
    for _ in range(2):
        rule.compiled(lambda _source: 10, lambda _read, _bound: 1.0, spent.append)
    assert spent == [PLAN_STEPS * 2]
