from typing import TYPE_CHECKING

import pytest
from msgspec import structs

from bobbin.datalog.local.budget import LimitExceeded
from bobbin.pipeline.rules import inputs, loop
from bobbin.pipeline.rules.body import Known
from bobbin.pipeline.rules.limits import DEFAULT
from bobbin.pipeline.rules.relations import listed
from tests.backends.cores import core_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

CORE = core_of("Tc(X,Y) :- Edge(X,Y).\nTc(X,Z) :- Tc(X,Y), Edge(Y,Z).\n")
ADAPTIVE = "spark.sql.adaptive.enabled"


def given(session: "SparkSession", length: int) -> inputs.Inputs:
    edges = [(str(number), str(number + 1)) for number in range(length)]
    return inputs.compute(CORE, Known(session=session, relations={"Edge": listed(session, 2, edges)}), DEFAULT)


def test_a_chain_takes_as_many_rounds_as_it_is_long(spark: "SparkSession") -> None:
    """More rounds than what has gathered is left in pieces for."""
    before = spark.conf.get(ADAPTIVE)
    found = loop.execute(spark, CORE, given(spark, 8), DEFAULT)
    assert found.rounds == 8
    assert found.relations["Tc"].rows == 36
    pairs = {tuple(row) for row in found.relations["Tc"].frame.collect()}
    assert pairs == {(str(one), str(other)) for one in range(9) for other in range(one + 1, 9)}
    assert spark.conf.get(ADAPTIVE) == before


def test_nothing_to_begin_with_is_nothing(spark: "SparkSession") -> None:
    found = loop.execute(spark, CORE, given(spark, 0), DEFAULT)
    assert (found.rounds, found.relations["Tc"].frame.count()) == (0, 0)


def test_rounds_and_rows_are_bounded(spark: "SparkSession") -> None:
    ready = given(spark, 4)
    with pytest.raises(LimitExceeded, match="no fixed point within 2 rounds"):
        loop.execute(spark, CORE, ready, structs.replace(DEFAULT, rounds_max=2))
    with pytest.raises(LimitExceeded, match="derive more than 6 rows"):
        loop.execute(spark, CORE, ready, structs.replace(DEFAULT, derived_rows_max=6))
