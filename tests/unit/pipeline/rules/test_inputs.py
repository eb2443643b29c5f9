from typing import TYPE_CHECKING

import pytest
from msgspec import structs

from bobbin.datalog.local.budget import LimitExceeded
from bobbin.pipeline.rules import inputs
from bobbin.pipeline.rules.body import Known
from bobbin.pipeline.rules.limits import DEFAULT
from bobbin.pipeline.rules.relations import listed
from tests.backends.cores import core_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

CORE = core_of("Tc(X,Y) :- Edge(X,Y), not Revoked(X).\nTc(X,Z) :- Tc(X,Y), Edge(Y,Z), not Edge('q',_).\n")


def known(session: "SparkSession") -> Known:
    return Known(
        session=session,
        relations={
            "Edge": listed(session, 2, [("a", "b"), ("b", "c"), ("q", "r")]),
            "Revoked": listed(session, 1, [("a",), ("x",)]),
        },
    )


def test_all_inputs_are_computed_and_counted_together(spark: "SparkSession") -> None:
    found = inputs.compute(CORE, known(spark), DEFAULT)
    assert found.rows == {"in0": 2, "in1": 1, "in2": 3}
    assert found.total == 6
    assert [found.relation(name).arity for name in found.arities] == [2, 0, 2]
    assert sorted(map(tuple, found.relation("in0").frame.collect())) == [("b", "c"), ("q", "r")]
    assert found.relation("in1").frame.count() == 1


def test_too_many_rows_are_an_error(spark: "SparkSession") -> None:
    with pytest.raises(LimitExceeded, match="more than 5 rows"):
        inputs.compute(CORE, known(spark), structs.replace(DEFAULT, derived_rows_max=5))
