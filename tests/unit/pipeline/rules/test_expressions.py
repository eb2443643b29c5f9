"""Every built-in on every pair of nasty values: Spark's answer is the engine's."""

from itertools import product
from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark.sql import functions as f

from bobbin.datalog import builtins
from bobbin.datalog.builtins import BUILTINS, Function
from bobbin.pipeline.rules import expressions

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TIME = "1640995200:000000001"
VALUES = [
    *("", " ", "a", "A", "ab", "b", "é", "e\u0301", "z", "zé", "￿", "𝄞", "\n", "\t", "'", "%", "_", "\\"),
    *("0", "1", "9", "10", "010", "-1", "1.5", "1\n", "١", "18446744073709551615", "99999999999999999999"),
    *("100000000000000000000", TIME, f"{TIME}\n", "9999999999:999999999", "0000000000:000000000", "1640995200:1"),
]


def test_spark_answers_as_the_engine_does(spark: "SparkSession") -> None:
    pairs = list(product(VALUES, VALUES))
    frame = spark.createDataFrame(pa.table([pa.array(column) for column in zip(*pairs, strict=True)], ["l", "r"]))
    left, right = f.col("l"), f.col("r")
    columns = [expressions.holds(name, left, right).alias(name) for name in BUILTINS]
    sums = [expressions.value(name, left, right).alias(f"{name}=") for name in ("TaiAdd", "TaiSub")]
    same = [expressions.holds(name, left, right, f.lit(TIME)).alias(f"{name}?") for name in ("TaiAdd", "TaiSub")]
    found = frame.select("l", "r", *columns, *sums, *same).toArrow().to_pylist()
    assert {(row["l"], row["r"]) for row in found} == set(pairs)
    for row in found:
        pair = row["l"], row["r"]
        for name, builtin in BUILTINS.items():
            if isinstance(builtin, Function):
                assert row[name] == builtins.holds(name, (*pair, None)), (name, pair)
                assert row[f"{name}="] == builtin.value(*pair), (name, pair)
                assert row[f"{name}?"] == builtins.holds(name, (*pair, TIME)), (name, pair)
            else:
                assert row[name] == builtins.holds(name, pair), (name, pair)


def test_the_sample_makes_every_builtin_both_true_and_false() -> None:
    for name, builtin in BUILTINS.items():
        wild = (None,) if isinstance(builtin, Function) else ()
        assert {builtins.holds(name, (*pair, *wild)) for pair in product(VALUES, VALUES)} == {True, False}
