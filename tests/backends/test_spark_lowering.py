"""Lowering on Spark: random pairs of policies decide as the node does. `make evidence` runs more of them."""

from typing import TYPE_CHECKING

import pytest

from bobbin.pipeline.rules.planner import Executor
from tests.backends.lowering import check_lowering

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SEEDS = (1, 2, 3)
"""Their rules read the recursion."""


def test_random_policies_decide_as_on_a_node(spark: "SparkSession") -> None:
    assert sum(check_lowering(spark, seed) for seed in (1, 2, 3)) > 0


@pytest.mark.parametrize("executor", [Executor.LOOP, Executor.PARTITIONED])
def test_policies_decide_the_same_by_executors_that_a_small_table_never_gets(
    spark: "SparkSession", executor: Executor
) -> None:
    assert sum(check_lowering(spark, seed, executor) for seed in SEEDS) > 0
