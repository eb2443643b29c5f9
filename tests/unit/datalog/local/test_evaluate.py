"""Programs to their answers: facts in a program, strata, recursion, negation, built-ins."""

import pytest

from tests.unit.datalog.local.worlds import evaluate

CASES = {
    "facts of the program": ("P('a','b'). P('c',X) :- A(X).", {("a", "b"), ("c", "1"), ("c", "2")}),
    "repeated variable": ("P(X) :- B(X,X).", {("2",)}),
    "negation waits": ("Q(X) :- B(X,_). P(X) :- A(X), not Q(X).", set()),
    "wildcard under negation": ("P(X) :- A(X), not B(_,X).", {("1",)}),
    "recursion": ("P(X,Y) :- B(X,Y). P(X,Z) :- P(X,Y), P(Y,Z).", {("1", "2"), ("2", "2")}),
    "no arguments": ("Q() :- B(_,_). P(X) :- A(X), Q().", {("1",), ("2",)}),
    "built-in test": ("P(X) :- A(X), NumLt(X,'2').", {("1",)}),
    "built-in function": (
        "P(T) :- A(X), TaiAdd('0000000000:000000000',X,T).",
        {("0000000000:000000001",), ("0000000000:000000002",)},
    ),
    "a body without scans": ("P('x') :- Eq('a','a'), not Eq('a','b').", {("x",)}),
}
FACTS: dict[str, list[tuple[str, ...]]] = {"A": [("1",), ("2",)], "B": [("1", "2"), ("2", "2")]}


@pytest.mark.parametrize("columns_min", [0, 10**9])
@pytest.mark.parametrize("name", CASES)
def test_a_program_has_one_answer(name: str, columns_min: int) -> None:
    text, expected = CASES[name]
    assert evaluate(text, FACTS, columns_min=columns_min).tuples("P") == expected
