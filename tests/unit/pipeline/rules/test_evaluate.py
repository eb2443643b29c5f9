from typing import TYPE_CHECKING

import pytest
from msgspec import structs

from bobbin.datalog.compile import compile as compile_program
from bobbin.datalog.limits import Limits
from bobbin.datalog.local.budget import LimitExceeded
from bobbin.pipeline.rules.body import Known
from bobbin.pipeline.rules.evaluate import evaluate
from bobbin.pipeline.rules.limits import DEFAULT, CannotExecute
from bobbin.pipeline.rules.planner import Executor
from bobbin.pipeline.rules.relations import listed
from tests.backends.cores import VOCABULARY
from tests.backends.executors import fetch

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TEXT = (
    "Tc(X,Y) :- Edge(X,Y).\n"
    "Tc(X,Z) :- Tc(X,Y), Edge(Y,Z).\n"
    "Far(Y) :- Tc('a',Y), not Edge('a',Y).\n"
    "Unasked(X,Y,Z) :- Node(X), Node(Y), Node(Z).\n"
)
PLAN = compile_program(TEXT, VOCABULARY).plan


def known(session: "SparkSession") -> Known:
    edges = [("a", "b"), ("b", "c"), ("c", "d")]
    return Known(session=session, relations={"Edge": listed(session, 2, edges)})


def test_only_what_is_wanted_is_computed_and_the_report_says_how(spark: "SparkSession") -> None:
    answer = evaluate(PLAN, known(spark), wanted=["Far"])
    assert fetch(answer) == {"Far": {("c",), ("d",)}}
    assert [(run.predicates, run.executor) for run in answer.runs] == [
        (("Tc",), Executor.COLLECTED),
        (("Far",), Executor.FRAMES),
    ]
    assert str(answer.runs[0]) == "Tc: collected (3 rows after filters, at most 2000000 go to the driver)"
    assert answer.runs[0].rows_read == 3


def test_a_forced_executor_runs_or_says_that_it_cannot(spark: "SparkSession") -> None:
    answer = evaluate(PLAN, known(spark), wanted=["Far"], executor=Executor.LOOP)
    assert str(answer.runs[0]) == "Tc: loop (asked for, 3 rounds)"
    with pytest.raises(CannotExecute, match="recursive"):
        evaluate(PLAN, known(spark), wanted=["Far"], executor=Executor.FRAMES)
    square = compile_program("Tc(X,Y) :- Edge(X,Y).\nTc(X,Z) :- Tc(X,Y), Tc(Y,Z).\n", VOCABULARY).plan
    with pytest.raises(CannotExecute, match="no argument"):
        evaluate(square, known(spark), wanted=["Tc"], executor=Executor.PARTITIONED)


def test_what_is_too_much_for_the_driver_goes_on_elsewhere(spark: "SparkSession") -> None:
    tight = structs.replace(DEFAULT, in_process=Limits(derived_tuples_max=3))
    answer = evaluate(PLAN, known(spark), wanted=["Tc"], limits=tight)
    assert answer.runs[0].executor is not Executor.COLLECTED
    assert len(fetch(answer)["Tc"]) == 6
    with pytest.raises(LimitExceeded, match="derive more than 3 tuples"):
        evaluate(PLAN, known(spark), wanted=["Tc"], limits=tight, executor=Executor.COLLECTED)


def test_derived_rows_are_bounded_in_all_strata(spark: "SparkSession") -> None:
    with pytest.raises(LimitExceeded, match="derive more than 5 rows"):
        evaluate(PLAN, known(spark), wanted=["Far"], limits=structs.replace(DEFAULT, derived_rows_max=5))


def test_a_predicate_without_rules_is_empty(spark: "SparkSession") -> None:
    answer = evaluate(PLAN, known(spark), wanted=["Nobody"])
    assert fetch(answer) == {"Nobody": set()}
    assert answer.runs == ()
