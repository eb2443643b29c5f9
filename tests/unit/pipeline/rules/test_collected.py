from typing import TYPE_CHECKING

import pytest
from msgspec import structs

from bobbin.datalog.local.budget import LimitExceeded
from bobbin.pipeline.rules import collected, inputs
from bobbin.pipeline.rules.body import Known
from bobbin.pipeline.rules.limits import DEFAULT
from bobbin.pipeline.rules.relations import listed
from tests.backends.cores import core_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

CORE = core_of("Tc(X,Y) :- Edge(X,Y).\nTc(X,Z) :- Tc(X,Y), Tc(Y,Z).\n")


def test_the_answer_comes_back_as_a_frame(spark: "SparkSession") -> None:
    known = Known(session=spark, relations={"Edge": listed(spark, 2, [("a", "b"), ("b", "a"), ("b", "c")])})
    given = inputs.compute(CORE, known, DEFAULT)
    found = collected.execute(spark, CORE, given, DEFAULT)["Tc"]
    assert found.rows == 6
    rows = sorted(tuple(row) for row in found.frame.collect())
    assert rows == [("a", "a"), ("a", "b"), ("a", "c"), ("b", "a"), ("b", "b"), ("b", "c")]
    with pytest.raises(LimitExceeded, match="read 3 rows after all filters, and at most 2") as caught:
        collected.execute(spark, CORE, given, structs.replace(DEFAULT, collected_rows_max=2))
    assert caught.value.limit == "collected_rows_max"
