import pyarrow as pa
import pytest

from bobbin.datalog.limits import Limits
from bobbin.datalog.local.budget import LimitExceeded
from bobbin.pipeline.rules.in_process import evaluate
from tests.backends.cores import core_of

CLOSURE = core_of("Tc(X,Y) :- Edge(X,Y).\nTc(X,Z) :- Tc(X,Y), Edge(Y,Z), not Revoked(Z).\n").plan()


def columns(*rows: tuple[str, ...]) -> list[pa.ChunkedArray]:
    """Rows as columns of two chunks, the second with everything once more."""
    return [pa.chunked_array([pa.array(column), pa.array(column)]) for column in zip(*rows, strict=True)]


def test_columns_in_and_columns_out() -> None:
    edges = columns(("a", "b"), ("b", "é"), ("é", "𝄞"))
    kept = columns(("a", "b"), ("b", "é"))
    found = evaluate(CLOSURE, {"in0": edges, "in1": kept}, {"in0": 6, "in1": 4}, Limits())
    rows = sorted(zip(*(column.to_pylist() for column in found["Tc"]), strict=True))
    assert rows == [("a", "b"), ("a", "é"), ("b", "é"), ("é", "𝄞")]


def test_no_rows_are_no_rows() -> None:
    nothing = [pa.chunked_array([], pa.string())] * 2
    found = evaluate(CLOSURE, {"in0": nothing, "in1": nothing}, {"in0": 0, "in1": 0}, Limits())
    assert [len(column) for column in found["Tc"]] == [0, 0]


@pytest.mark.parametrize("rows", [0, 1])
def test_relations_without_arguments(rows: int) -> None:
    core = core_of("A() :- Edge('a',_).\nA() :- B().\nB() :- A().\n")
    found = evaluate(core.plan(), {"in0": []}, {"in0": rows}, Limits())
    assert {name: column.to_pylist() for name, (column,) in found.items()} == {"A": [""] * rows, "B": [""] * rows}


def test_limits_are_those_of_the_engine() -> None:
    edges = columns(("a", "b"), ("b", "c"))
    with pytest.raises(LimitExceeded, match="derive more than 2"):
        evaluate(CLOSURE, {"in0": edges, "in1": edges}, {"in0": 4, "in1": 4}, Limits(derived_tuples_max=2))
