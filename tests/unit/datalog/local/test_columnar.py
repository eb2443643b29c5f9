"""Whole rules on columns give what loops give."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bobbin.datalog.limits import Limits
from bobbin.datalog.local.budget import LimitExceeded
from bobbin.datalog.local.evaluate import Executable
from bobbin.facts.relations import Tuple
from tests.unit.datalog.local.worlds import database, evaluate, program

SMALL = st.sampled_from(["0", "1", "2", "10"])
PROGRAMS = [
    "P(X,Y) :- B(X,Y), C(Y,X).",
    "P(X) :- B(X,X), not C(X,_), not A(X).",
    "P(X,Y,W) :- B(X,Y), C(Y,W), B(W,_), Lt(X,W), not Eq(Y,W).",
    "P(X,R) :- B(X,Y), TaiAdd('0000000000:000000007',Y,R).",
    "P(X) :- B(X,Y), TaiSub('0000000000:000000007',Y,_), not TaiAdd('0000000000:000000000',Y,'x').",
    "P() :- B(_,_). Q(X) :- A(X), not P().",
    "P(X,Y) :- A(X), A(Y).",
    "P(X,Y) :- B(X,Y). P(X,W) :- P(X,Y), P(Y,W).",
    "P('c',X) :- A(X), NumLe(X,'2').",
    "P(X,Y,W,X) :- B(X,Y), C(Y,W). Q(X) :- P(X,_,W,X), B(W,X).",
]


@pytest.mark.parametrize("text", PROGRAMS)
def test_columns_and_loops_agree(text: str) -> None:
    @given(st.sets(st.tuples(SMALL)), st.sets(st.tuples(SMALL, SMALL)), st.sets(st.tuples(SMALL, SMALL)))
    def law(a: set[Tuple], b: set[Tuple], c: set[Tuple]) -> None:
        facts = {"A": a, "B": b, "C": c}
        loops, columns = evaluate(text, facts), evaluate(text, facts, columns_min=0)
        for predicate in "PQ":
            assert loops.tuples(predicate) == columns.tuples(predicate)

    law()


@pytest.mark.parametrize(
    ("limits", "name"),
    [
        (Limits(held_cells_max=1000), "held_cells_max"),
        (Limits(steps_max=1000), "steps_max"),
        (Limits(derived_tuples_max=1000), "derived_tuples_max"),
    ],
)
def test_a_product_is_stopped_before_it_is_made(limits: Limits, name: str) -> None:
    facts = {"A": [(str(number),) for number in range(300)]}
    executable = Executable(program("P(X,Y) :- A(X), A(Y).").plan, limits, columns_min=0)
    with pytest.raises(LimitExceeded) as caught:
        executable.evaluate(database(facts))
    assert caught.value.limit == name
