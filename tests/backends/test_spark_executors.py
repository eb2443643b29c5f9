"""Random programs on Spark: every executor that can do them gives what the engine, a naive evaluator and clingo give.

Ten programs; `make evidence` runs hundreds (``evidence/spark_equality.py``).
"""

from collections import Counter
from itertools import islice
from typing import TYPE_CHECKING

import pytest

from bobbin.pipeline.rules.core import split
from bobbin.pipeline.rules.partition import partitionings
from tests.backends.cases import any_cases, flat_cases, keyed_cases
from tests.backends.executors import check

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.mark.parametrize("number", range(4))
def test_recursion_is_the_same_on_the_driver_and_in_a_loop(spark: "SparkSession", number: int) -> None:
    case, lacegram = next(islice(any_cases(100), number, None))
    applied = check(spark, case, lacegram, planned=number == 0)
    assert applied["collected"] == applied["loop"] == 1


@pytest.mark.parametrize("number", range(4))
def test_what_falls_apart_is_the_same_in_partitions(spark: "SparkSession", number: int) -> None:
    case, lacegram = next(islice(keyed_cases(200), number, None))
    applied = check(spark, case, lacegram)
    assert applied == Counter(collected=1, partitioned=1, loop=1)


@pytest.mark.parametrize("number", range(2))
def test_frames_alone_do_what_has_no_recursion(spark: "SparkSession", number: int) -> None:
    case, lacegram = next(islice(flat_cases(300), number, None))
    assert check(spark, case, lacegram) == Counter(frames=1)


def test_keyed_programs_fall_apart() -> None:
    for _, lacegram in islice(keyed_cases(), 100):
        strata = [stratum for stratum in lacegram.plan.strata if stratum.recursive]
        assert strata
        assert all(any(partitionings(split(stratum, ()))) for stratum in strata)
