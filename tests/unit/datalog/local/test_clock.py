"""A clock that moves: the result is that of a new evaluation, and only the stretch that it crossed is looked at."""

from itertools import pairwise
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bobbin.datalog.limits import Limits
from bobbin.datalog.local.clock import shape_of, stretch
from bobbin.datalog.local.conjunction import flatten
from bobbin.datalog.local.evaluate import Executable
from bobbin.records import tai
from tests.unit.datalog.local.worlds import database, program

if TYPE_CHECKING:
    from bobbin.facts.relations import Tuple

WINDOW = "Due(P) :- Field(P,'TAI',_,T), TickTAI(N), Le(T,N), TaiSub(N,'5',L), Gt(T,L)."
PROGRAMS = [
    WINDOW,
    "Due(P) :- Field(P,'TAI',_,T), TickTAI(N), Ge(T,N), not A(P).",
    "Due(P) :- Field(P,'TAI',_,T), TickTAI(N), Lt(N,T). Late(P) :- Field(P,'TAI',_,_), not Due(P).",
    "Due(P) :- Field(P,'TAI',_,T), TickTAI(N), not Lt(T,N). Due(P) :- A(P).",
    "Due(N) :- TickTAI(N).",
    "Due(P) :- Field(P,'TAI',_,T), TickTAI(T).",
    "Due(P) :- Field(P,'TAI',_,T), TickTAI(N), TaiAdd(T,'3',N).",
    "Due(P) :- A(P), TickTAI(N), Lt('0000000000:000000010',N).",
    "Due(P) :- Field(P,'TAI',_,T), TickTAI(N), Le(T,N). Due(Q) :- Due(P), B(P,Q).",
]
TIMES = st.integers(0, 20)


def instant(number: int) -> str:
    return tai.render(number)


@pytest.mark.parametrize("text", PROGRAMS)
def test_following_the_clock_is_evaluating_anew(text: str) -> None:
    @given(st.lists(TIMES, max_size=12), st.lists(TIMES, min_size=2, max_size=5), st.sets(st.integers(0, 11)))
    def law(times: list[int], ticks: list[int], marked: set[int]) -> None:
        facts: dict[str, list[Tuple]] = {
            "Field": [(str(number), "TAI", "0", instant(time)) for number, time in enumerate(times)],
            "A": [(str(number),) for number in marked],
            "B": [(str(number), str(number + 1)) for number in marked],
            "TickTAI": [(instant(ticks[0]),)],
        }
        executable = Executable(program(text).plan)
        facts_now = database(facts)
        state = executable.evaluate(facts_now)
        for before, after in pairwise(ticks):
            removed, added = {"TickTAI": [(instant(before),)]}, {"TickTAI": [(instant(after),)]}
            executable.advance(state, facts_now.change(added=added, removed=removed))
            again = executable.evaluate(database({**facts, "TickTAI": added["TickTAI"]}))
            for predicate in ("Due", "Late"):
                assert state.tuples(predicate) == again.tuples(predicate)

    law()


def test_only_the_rows_of_the_stretch_are_given() -> None:
    facts: dict[str, list[Tuple]] = {
        "Field": [(str(n), "TAI", "0", instant(n)) for n in range(1000)],
        "TickTAI": [(instant(500),)],
    }
    facts_now = database(facts)
    lacegram = program("Due(P) :- Field(P,'TAI',_,T), TickTAI(N), Le(T,N).")
    executable = Executable(lacegram.plan)
    state = executable.evaluate(facts_now)
    conjunction = flatten("Due", lacegram.plan.strata[0].unions[0].inputs[0])
    shape = shape_of(conjunction, 1)
    assert shape is not None
    assert shape.timed == 0
    changes = facts_now.change(added={"TickTAI": [(instant(503),)]}, removed={"TickTAI": [(instant(500),)]})
    rows = stretch(shape, conjunction, changes, state)
    assert rows is not None
    assert {state.database.values.texts[row[0]] for row in rows} == {"500", "501", "502", "503"}


def test_a_tick_costs_the_records_that_it_crosses() -> None:
    facts: dict[str, list[Tuple]] = {
        "Field": [(str(n), "TAI", "0", instant(n)) for n in range(2000)],
        "TickTAI": [(instant(500),)],
    }
    facts_now = database(facts)
    # A full evaluation would take more steps than this; following the clock does not.
    plan = program("Due(P) :- Field(P,'TAI',_,T), TickTAI(N), Le(T,N).").plan
    state = Executable(plan).evaluate(facts_now)
    # The first move makes the indexes that the next ones find.
    first = facts_now.change(added={"TickTAI": [(instant(499),)]}, removed={"TickTAI": [(instant(500),)]})
    Executable(plan).advance(state, first)
    facts_now.change(added={"TickTAI": [(instant(500),)]}, removed={"TickTAI": [(instant(499),)]})
    state = Executable(plan).evaluate(facts_now)
    frugal = Executable(plan, Limits(steps_max=900))
    changes = facts_now.change(added={"TickTAI": [(instant(510),)]}, removed={"TickTAI": [(instant(500),)]})
    frugal.advance(state, changes)
    assert state.count("Due") == 511


@pytest.mark.parametrize("text", PROGRAMS[4:8])
def test_rules_that_use_the_time_otherwise_have_no_shape(text: str) -> None:
    (union,) = program(text).plan.strata[0].unions
    conjunction = flatten(union.predicate, union.inputs[0])
    (clock,) = [number for number, read in enumerate(conjunction.reads) if read.source.predicate == "TickTAI"]
    assert shape_of(conjunction, clock) is None
