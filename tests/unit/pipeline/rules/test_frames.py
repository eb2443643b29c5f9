from typing import TYPE_CHECKING

import pytest

from bobbin.datalog.compile import compile as compile_program
from bobbin.pipeline.rules import frames
from bobbin.pipeline.rules.body import Known
from bobbin.pipeline.rules.limits import DEFAULT, CannotExecute
from bobbin.pipeline.rules.relations import listed
from tests.backends.cores import VOCABULARY

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def test_rules_of_a_predicate_are_united_and_every_row_comes_once(spark: "SparkSession") -> None:
    text = "P(X) :- Edge(X,_).\nP(Y) :- Edge(_,Y).\nP('a').\nP('z').\n"
    known = Known(session=spark, relations={"Edge": listed(spark, 2, [("a", "b"), ("b", "c")])})
    (stratum,) = compile_program(text, VOCABULARY).plan.strata
    found = frames.execute(stratum, known, DEFAULT)
    assert sorted(row[0] for row in found["P"].frame.collect()) == ["a", "b", "c", "z"]


def test_facts_of_the_program_are_known_without_spark(spark: "SparkSession") -> None:
    (stratum,) = compile_program("P('a').\nP('b').\n", VOCABULARY).plan.strata
    found = frames.execute(stratum, Known(session=spark), DEFAULT)["P"].tuples
    assert sorted(found or ()) == [("a",), ("b",)]


def test_recursion_is_refused(spark: "SparkSession") -> None:
    (stratum,) = compile_program("P(X) :- Edge(X,_).\nP(Y) :- P(X), Edge(X,Y).\n", VOCABULARY).plan.strata
    with pytest.raises(CannotExecute, match="rules for P are recursive"):
        frames.execute(stratum, Known(session=spark), DEFAULT)
