"""A stratum from nothing: small ones in loops, large ones on columns, the same answer; rounds are bounded."""

import pytest

from bobbin.datalog.limits import Limits
from bobbin.datalog.local.budget import LimitExceeded
from bobbin.datalog.local.columns import ColumnTable
from bobbin.datalog.local.conjunction import Source
from bobbin.datalog.local.evaluate import Executable
from bobbin.datalog.local.table import Table
from tests.unit.datalog.local.worlds import database, evaluate, program

REACH = "T(X,Y) :- B(X,Y). T(X,Z) :- T(X,Y), B(Y,Z)."
CHAIN = {"B": [(str(number), str(number + 1)) for number in range(20)]}


@pytest.mark.parametrize(("columns_min", "form"), [(0, ColumnTable), (40, ColumnTable), (10**9, Table)])
def test_the_form_follows_the_size_and_the_answer_does_not(columns_min: int, form: type) -> None:
    state = evaluate(REACH, CHAIN, columns_min=columns_min if columns_min != 40 else 20)
    assert type(state.table(Source("T"))) is form
    assert state.count("T") == 20 * 21 // 2


@pytest.mark.parametrize("columns_min", [0, 10**9])
def test_a_long_chain_needs_its_rounds(columns_min: int) -> None:
    plan = program(REACH).plan
    Executable(plan, Limits(rounds_max=25), columns_min=columns_min).evaluate(database(CHAIN))
    with pytest.raises(LimitExceeded) as caught:
        Executable(plan, Limits(rounds_max=10), columns_min=columns_min).evaluate(database(CHAIN))
    assert caught.value.limit == "rounds_max"


def test_a_second_evaluation_starts_from_nothing() -> None:
    facts = database(CHAIN)
    executable = Executable(program(REACH).plan)
    first = executable.evaluate(facts)
    facts.change(removed={"B": [("0", "1")]})
    assert executable.evaluate(facts).count("T") == 19 * 20 // 2
    assert first.count("T") == 20 * 21 // 2


def test_few_rows_that_make_many_are_held_as_columns_from_then_on() -> None:
    facts = {"A": [(str(number),) for number in range(30)]}
    state = evaluate("P(X,Y) :- A(X), A(Y). Q(X) :- P(X,X). R() :- P(_,_).", facts, columns_min=100)
    assert [type(state.table(Source(name))) for name in "PQR"] == [ColumnTable, ColumnTable, ColumnTable]
    assert [state.count(name) for name in "PQR"] == [900, 30, 1]
    state = evaluate("P(X,Y) :- A(X), A(Y).", facts, columns_min=901)
    assert type(state.table(Source("P"))) is Table
