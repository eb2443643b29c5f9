"""What a worker does, without Spark, and the whole way with it."""

import pickle
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from msgspec import structs

from bobbin.datalog.limits import Limits
from bobbin.datalog.local.budget import LimitExceeded
from bobbin.pipeline.rules import inputs, partitioned
from bobbin.pipeline.rules.body import Known
from bobbin.pipeline.rules.core import Core
from bobbin.pipeline.rules.limits import DEFAULT, CannotExecute
from bobbin.pipeline.rules.partition import find_partitioning, name_of
from bobbin.pipeline.rules.relations import TAG, listed
from tests.backends.cores import core_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

CORE = core_of("Tc(X,Y) :- Edge(X,Y).\nTc(X,Z) :- Tc(X,Y), Edge(Y,Z).\n")
EDGES = [(str(number), str(number + 1)) for number in range(9)]


def work() -> partitioned.Work:
    found = find_partitioning(CORE, {"in0": 1})
    assert found is not None
    return partitioned.Work(
        plan=Core(CORE.arities, CORE.inputs, found.rules).plan(),
        inputs=tuple((name_of(deal), 2) for deal in found.deals),
        outputs=(("Tc", 2),),
        width=2,
        limits=Limits(),
    )


def batch(*rows: tuple[int, str, str]) -> pa.RecordBatch:
    columns = [pa.array(column) for column in zip(*rows, strict=True)]
    return pa.RecordBatch.from_arrays(columns, [TAG, "_0", "_1"])


def test_a_partition_derives_what_its_keys_reach() -> None:
    # By number: first the start tuples with the keys of this partition, then all edges.
    batches = [batch((0, "a", "b"), (1, "a", "b")), batch((1, "b", "c"), (1, "b", "c"), (1, "c", "d"))]
    found = pa.Table.from_batches(partitioned.evaluate_partition(work(), batches)).to_pylist()
    assert sorted((row[TAG], row["_0"], row["_1"]) for row in found) == [(0, "a", "b"), (0, "a", "c"), (0, "a", "d")]


def test_an_empty_partition_derives_nothing() -> None:
    assert list(partitioned.evaluate_partition(work(), [])) == []


def test_a_limit_that_is_met_is_a_row() -> None:
    bounded = structs.replace(work(), limits=Limits(derived_tuples_max=1))
    (found,) = partitioned.evaluate_partition(bounded, [batch((0, "a", "b"), (1, "b", "c"))])
    assert found.to_pylist() == [{TAG: 1, "_0": "derived_tuples_max:the rules derive more than 1 tuples", "_1": ""}]


def test_work_can_be_sent() -> None:
    assert pickle.loads(pickle.dumps(work())) == work()


def test_partitions_together_give_the_whole_answer(spark: "SparkSession") -> None:
    given = inputs.compute(CORE, Known(session=spark, relations={"Edge": listed(spark, 2, EDGES)}), DEFAULT)
    found = partitioned.execute(spark, CORE, given, DEFAULT)["Tc"]
    assert found.rows == 45
    pairs = {tuple(row) for row in found.frame.collect()}
    assert pairs == {(str(one), str(other)) for one in range(10) for other in range(one + 1, 10)}
    few = structs.replace(DEFAULT, in_process=Limits(derived_tuples_max=7))
    with pytest.raises(LimitExceeded, match="derive more than 7 tuples, in one partition") as caught:
        partitioned.execute(spark, CORE, given, few)
    assert caught.value.limit == "derived_tuples_max"
    with pytest.raises(LimitExceeded, match="a copy of 9 rows"):
        partitioned.execute(spark, CORE, given, structs.replace(DEFAULT, replicated_rows_max=8))


def test_what_does_not_fall_apart_is_refused() -> None:
    partitioned.check(CORE)
    core = core_of("Tc(X,Y) :- Edge(X,Y).\nTc(X,Z) :- Tc(X,Y), Tc(Y,Z).\n")
    with pytest.raises(CannotExecute, match="no argument that every recursive literal shares"):
        partitioned.check(core)


def test_a_core_that_begins_nowhere_is_empty(spark: "SparkSession") -> None:
    core = core_of("P(X,Y) :- P(X,Y).\n")
    found = partitioned.execute(spark, core, inputs.compute(core, Known(session=spark), DEFAULT), DEFAULT)
    assert found["P"].rows == 0


def test_the_report_says_the_key_and_what_is_copied() -> None:
    found = find_partitioning(CORE, {"in0": 9})
    assert found is not None
    assert partitioned.describe(found, {"in0": 9}) == "Tc by argument 1; 9 rows copied to each partition"
