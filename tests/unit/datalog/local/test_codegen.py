"""Generated functions: nothing of a program's text in them, any number of scans, steps counted by whole buckets."""

import pytest

from bobbin.datalog.limits import Limits
from bobbin.datalog.local.budget import LimitExceeded
from bobbin.datalog.local.codegen import generate
from bobbin.datalog.local.conjunction import flatten
from bobbin.datalog.local.evaluate import Executable
from tests.unit.datalog.local.worlds import database, evaluate, program

NASTY = '\'); import os; os._exit(1) #\\\n\r\t{}%s"""\u2028'


def quoted(text: str) -> str:
    return text.replace("\\", "\\\\").replace("'", "\\'").replace("\n", "\\n").replace("\r", "\\r").replace("\t", "\\t")


def test_no_text_of_a_program_becomes_source() -> None:
    text = f"Exec(X) :- B(X,'{quoted(NASTY)}'), not C(X,'{quoted(NASTY)}'), Ne(X,'{quoted(NASTY)}')."
    (union,) = program(text).plan.strata[0].unions
    compiled = generate(flatten("Exec", union.inputs[0]), (0,), delta=None)
    assert "import os" not in compiled.source
    assert "Exec" not in compiled.source
    assert set(compiled.constants) == {NASTY}
    assert evaluate(text, {"B": [("1", NASTY), (NASTY, NASTY), ("2", "x")]}).tuples("Exec") == {("1",)}


@pytest.mark.parametrize("names", [("n0", "texts", "encode"), ("budget", "out", "steps"), ("for", "None", "rule1")])
def test_variables_may_be_called_like_anything(names: tuple[str, ...]) -> None:
    first, second, third = (name.capitalize() for name in names)
    text = f"P({first},{third}) :- B({first},{second}), C({second},{third})."
    assert evaluate(text, {"B": [("1", "2")], "C": [("2", "3")]}).tuples("P") == {("1", "3")}


@pytest.mark.parametrize("length", [1, 14, 15, 16, 30, 31, 32])
def test_a_rule_may_have_more_scans_than_python_nests_loops(length: int) -> None:
    body = ", ".join(f"B(X{place},X{place + 1})" for place in range(length))
    chain = [(str(number), str(number + 1)) for number in range(40)]
    found = evaluate(f"P(X0,X{length}) :- {body}.", {"B": chain}).tuples("P")
    assert found == {(str(number), str(number + length)) for number in range(41 - length)}


def test_a_cross_join_is_stopped() -> None:
    facts = database({"A": [(str(number),) for number in range(1000)]})
    executable = Executable(program("P(X) :- A(X), A(_), A(Y), A(Z), Lt(Y,Z), Lt(Z,Y).").plan, Limits(steps_max=10**5))
    with pytest.raises(LimitExceeded) as caught:
        executable.evaluate(facts)
    assert caught.value.limit == "steps_max"
