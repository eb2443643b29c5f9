"""What a program derived, and how a rule runs on it."""

from bobbin.datalog.local.columns import ColumnTable
from bobbin.datalog.local.conjunction import Read, Source
from bobbin.datalog.syntax import Constant, Variable
from tests.unit.datalog.local.worlds import evaluate


def test_what_no_rule_defines_is_empty() -> None:
    state = evaluate("P(X) :- A(X).", {"A": [("1",)]})
    assert state.tuples("P") == {("1",)}
    assert state.tuples("A") == frozenset()
    assert (state.count("P"), state.count("Nothing")) == (1, 0)


def test_a_relation_is_derived_or_base() -> None:
    state = evaluate("P(X) :- B(X,_).", {"B": [("1", "2"), ("1", "3")]})
    assert state.size(Source("P")) == 1
    assert state.size(Source("B")) == 2
    assert set(state.block(Source("P")).rows()) == set(state.table(Source("P")).rows)


def test_an_estimate_is_rows_per_key() -> None:
    state = evaluate("P(X) :- B(X,_).", {"B": [(str(n % 2), str(n)) for n in range(10)]})
    read = Read(Source("B"), (Variable("X"), Variable("Y")))
    assert state.estimate(read, frozenset()) == 10
    assert state.estimate(read, frozenset({"X"})) == 5
    assert state.estimate(read, frozenset({"Y"})) == 1
    assert state.estimate(Read(Source("B"), (Constant("0"), Variable("Y"))), frozenset()) == 5


def test_what_settles_stays_the_same() -> None:
    state = evaluate("P(X) :- B(X,_).", {"B": [(str(number), "x") for number in range(500)]})
    expected = state.tuples("P")
    state.block(Source("P"))
    state.settle()
    assert isinstance(state.table(Source("P")), ColumnTable)
    assert isinstance(state.table(Source("B")), ColumnTable)
    assert state.tuples("P") == expected
    assert (state.size(Source("P")), state.size(Source("B"))) == (500, 500)
