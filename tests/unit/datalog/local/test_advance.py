"""Following changes ends where a new evaluation would, at the cost of the change."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bobbin.datalog.limits import Limits
from bobbin.datalog.local import columns, relation
from bobbin.datalog.local.conjunction import Source
from bobbin.datalog.local.evaluate import Executable
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
    "fields": "P(X,V) :- Field(X,'n',_,V), not Field(X,'m',_,V). Q(N) :- Field(_,N,_,_).",
}
SMALL = st.sampled_from("012")
ROW = st.one_of(
    st.tuples(st.just("A"), st.tuples(SMALL)),
    st.tuples(st.sampled_from("BC"), st.tuples(SMALL, SMALL)),
    st.tuples(st.just("Z"), st.just(())),
    st.tuples(st.just("Field"), st.tuples(SMALL, st.sampled_from("nm"), st.just("0"), SMALL)),
)
CHANGE = st.tuples(st.lists(ROW, max_size=3), st.lists(ROW, max_size=3))


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
    frugal = Executable(plan, Limits(steps_max=50))
    derived = state.count("P")
    frugal.advance(state, facts_now.change(added={"B": [("new", "3")]}, removed={"C": [("4", "x")]}))
    assert state.count("P") == derived + 2
