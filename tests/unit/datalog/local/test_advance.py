"""Following changes ends where a new evaluation would, at the cost of the change."""

from collections.abc import Collection

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bobbin.datalog.limits import Limits
from bobbin.datalog.local import columns, relation
from bobbin.datalog.local.budget import Budget
from bobbin.datalog.local.conjunction import Source
from bobbin.datalog.local.evaluate import Executable, State
from bobbin.datalog.local.prepared import PreparedRule
from bobbin.datalog.local.state import Rows
from bobbin.datalog.local.table import Row
from bobbin.facts.relations import Tuple
from tests.unit.datalog.local.worlds import database, program

PROGRAMS = {
    "join": "P(X,Y) :- B(X,W), C(W,Y).",
    "self join": "P(X) :- B(X,Y), B(Y,X).",
    "union": "P(X) :- A(X). P(X) :- B(X,_). P('0') :- Z().",
    "negation": "P(X) :- A(X), not B(X,_).",
    "negated with constant": "P(X) :- B(X,Y), not C(Y,'1'), Ne(X,Y).",
    "two negations": "P(X) :- A(X), not B(X,X), not C(X,_). Q(X) :- A(X), not P(X).",
    "recursion": "T(X,Y) :- B(X,Y). T(X,Z) :- T(X,Y), B(Y,Z).",
    "recursion over negation": "T(X,Y) :- B(X,Y), not C(X,Y). T(X,Z) :- T(X,Y), T(Y,Z). R(X) :- A(X), not T(X,X).",
    "mutual recursion": "E(X) :- A(X). O(Y) :- E(X), B(X,Y). E(Y) :- O(X), B(X,Y).",
    "projection": "P() :- A(_). Q(X) :- A(X), not P(). R('1',X) :- B(_,X), Z().",
    "records": "M('0'). M(V) :- M(W), Field(P,'n',_,W), A(P), Field(P,'m',_,V), not C(V,V). "
    "S(P) :- A(P), Field(P,'n',_,V), M(V), not B(P,P). L(P,Q) :- S(P), B(P,Q), S(Q), Field(Q,'m',_,P).",
    "fields": "P(X,V) :- Field(X,'n',_,V), not Field(X,'m',_,V). Q(N) :- Field(_,N,_,_).",
}


def rows_of(value: st.SearchStrategy[str]) -> st.SearchStrategy[tuple[str, Tuple]]:
    return st.one_of(
        st.tuples(st.just("A"), st.tuples(value)),
        st.tuples(st.sampled_from("BC"), st.tuples(value, value)),
        st.tuples(st.just("Z"), st.just(())),
        st.tuples(st.just("Field"), st.tuples(value, st.sampled_from("nm"), st.just("0"), value)),
    )


ROW = rows_of(st.sampled_from("012"))
LATER = st.one_of(ROW, rows_of(st.sampled_from("01xyz")))
"""Changes also speak of things that nothing has spoken of before."""
CHANGE = st.tuples(st.lists(ROW, max_size=3), st.lists(LATER, max_size=6))


def grouped(rows: list[tuple[str, Tuple]]) -> dict[str, list[Tuple]]:
    found: dict[str, list[Tuple]] = {}
    for predicate, row in rows:
        found.setdefault(predicate, []).append(row)
    return found


@pytest.mark.parametrize("form", ["tables", "columns"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_following_changes_is_evaluating_anew(name: str, form: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if form == "columns":
        monkeypatch.setattr(relation, "COLUMNS_MIN", 1)
        monkeypatch.setattr(columns, "_MERGE_MIN", 2)
    lacegram = program(PROGRAMS[name])
    predicates = {union.predicate for stratum in lacegram.plan.strata for union in stratum.unions}

    @given(st.lists(ROW, max_size=15), st.lists(CHANGE, min_size=1, max_size=4))
    def law(
        first: list[tuple[str, Tuple]], changes: list[tuple[list[tuple[str, Tuple]], list[tuple[str, Tuple]]]]
    ) -> None:
        executable = Executable(lacegram.plan, columns_min=0 if form == "columns" else 10**9)
        facts = {predicate: set(rows) for predicate, rows in grouped(first).items()}
        facts_now = database(facts)
        state = executable.evaluate(facts_now)
        for removed, added in changes:
            before = {predicate: state.tuples(predicate) for predicate in predicates}
            told = executable.advance(state, facts_now.change(added=grouped(added), removed=grouped(removed)))
            for predicate, rows in grouped(removed).items():
                facts.setdefault(predicate, set()).difference_update(rows)
            for predicate, rows in grouped(added).items():
                facts.setdefault(predicate, set()).update(rows)
            again = executable.evaluate(database(facts))
            for predicate in predicates:
                now = state.tuples(predicate)
                assert now == again.tuples(predicate)
                decode = facts_now.values.decode_row
                assert {decode(row) for row in told.added.get(Source(predicate), [])} == now - before[predicate]
                assert {decode(row) for row in told.removed.get(Source(predicate), [])} == before[predicate] - now

    law()


def test_one_fact_more_costs_little() -> None:
    facts = {"B": [(str(n), str(n + 1)) for n in range(3000)], "C": [(str(n), "x") for n in range(0, 3000, 2)]}
    facts_now = database(facts)
    plan = program("P(X) :- B(X,Y), not C(Y,_). Q(X,Z) :- B(X,Y), B(Y,Z), P(X).").plan
    state = Executable(plan).evaluate(facts_now)
    # The first change makes the indexes that the next ones find.
    Executable(plan).advance(state, facts_now.change(added={"B": [("old", "5")]}, removed={"C": [("8", "x")]}))
    frugal = Executable(plan, Limits(steps_max=100))
    derived = state.count("P")
    frugal.advance(state, facts_now.change(added={"B": [("new", "3")]}, removed={"C": [("4", "x")]}))
    assert state.count("P") == derived + 2


def test_a_new_record_runs_each_rule_once(monkeypatch: pytest.MonkeyPatch) -> None:
    text = "P(X) :- A(X), Field(X,'n',_,V), Field(X,'m',_,W), B(V,W). Q(X) :- A(X), not P(X)."
    fields = [(str(number), name, "0", "0") for number in range(20) for name in "nm"]
    facts_now = database({"A": [(str(number),) for number in range(20)], "Field": fields, "B": [("0", "0")]})
    executable = Executable(program(text).plan)
    state = executable.evaluate(facts_now)
    runs: list[str] = []
    run = State.run

    def counted(
        self: State,
        rule: PreparedRule,
        given: Collection[Row] = (),
        *,
        budget: Budget,
        past: Rows | None = None,
        only_new: bool = True,
    ) -> set[Row]:
        runs.append(rule.conjunction.predicate)
        return run(self, rule, given, budget=budget, past=past, only_new=only_new)

    monkeypatch.setattr(State, "run", counted)
    added: dict[str, list[Tuple]] = {"A": [("new",)], "Field": [("new", "n", "0", "0"), ("new", "m", "0", "0")]}
    told = executable.advance(state, facts_now.change(added=added))
    assert {facts_now.values.decode_row(row) for row in told.added[Source("P")]} == {("new",)}
    assert runs.count("P") == 1, "its other facts join with nothing but its own"
    runs.clear()
    executable.advance(state, facts_now.change(added={"A": [("0.5",)], "Field": [("0", "n", "0", "1")]}))
    assert runs.count("P") == 2, "what was spoken of before may join with what was there"
