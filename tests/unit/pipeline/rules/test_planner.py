from typing import TYPE_CHECKING, cast

from msgspec import structs

from bobbin.pipeline.rules.core import Core
from bobbin.pipeline.rules.inputs import Inputs
from bobbin.pipeline.rules.limits import DEFAULT
from bobbin.pipeline.rules.planner import Executor, choose
from tests.backends.cores import core_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

LINEAR = core_of("Tc(X,Y) :- Edge(X,Y).\nTc(X,Z) :- Tc(X,Y), Edge(Y,Z).\n")
SQUARE = core_of("Tc(X,Y) :- Edge(X,Y).\nTc(X,Z) :- Tc(X,Y), Tc(Y,Z).\n")
LIMITS = structs.replace(DEFAULT, collected_rows_max=10, replicated_rows_max=50)


def chosen(core: Core, rows: int) -> list[tuple[Executor, str]]:
    nowhere = cast("DataFrame", None)
    given = Inputs(frame=nowhere, width=2, arities={"in0": 2}, rows={"in0": rows})
    return [(choice.executor, choice.reason) for choice in choose(core, given, LIMITS)]


def test_what_is_small_goes_to_the_driver_and_elsewhere_if_that_fails() -> None:
    first, *others = chosen(LINEAR, 10)
    assert first == (Executor.COLLECTED, "10 rows after filters, at most 10 go to the driver")
    assert [executor for executor, _ in others] == [Executor.PARTITIONED, Executor.LOOP]


def test_what_falls_apart_goes_to_the_workers() -> None:
    first, *_ = chosen(LINEAR, 11)
    reason = "11 rows after filters are more than 10; Tc by argument 1; 11 rows copied to each partition"
    assert first == (Executor.PARTITIONED, reason)


def test_anything_else_is_a_loop() -> None:
    ((executor, reason),) = chosen(SQUARE, 11)
    assert executor is Executor.LOOP
    assert reason.endswith("no argument that all recursive literals share")
    ((executor, reason),) = chosen(LINEAR, 51)
    assert executor is Executor.LOOP
    assert reason.endswith("51 rows are too many to copy to each partition")
