from typing import TYPE_CHECKING

import pytest
from msgspec import structs

from bobbin.datalog.local.budget import LimitExceeded
from bobbin.pipeline.rules.limits import DEFAULT
from bobbin.pipeline.rules.relations import check_rows, listed, materialise_tagged, tagged, untagged

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def rows(frame: "DataFrame") -> list[tuple[str, ...]]:
    return sorted(tuple(row) for row in frame.collect())


def test_relations_of_every_arity_share_a_frame(spark: "SparkSession") -> None:
    contents: list[list[tuple[str, ...]]] = [[()], [("",), ("é",)], [("a", "b"), ("b", "")], []]
    arities = [0, 1, 2, 2]
    relations = [listed(spark, arity, facts) for arity, facts in zip(arities, contents, strict=True)]
    assert [relation.rows for relation in relations] == [1, 2, 2, 0]
    parts = [(number, relation.frame, relation.arity) for number, relation in enumerate(relations)]
    kept, counts = materialise_tagged(tagged(parts, 2), range(4))
    assert counts == {0: 1, 1: 2, 2: 2, 3: 0}
    found = [rows(untagged(kept, number, arity)) for number, arity in enumerate(arities)]
    assert found == [[("",)], contents[1], contents[2], []]


def test_too_many_rows_are_an_error() -> None:
    limits = structs.replace(DEFAULT, derived_rows_max=3)
    check_rows(3, limits)
    with pytest.raises(LimitExceeded) as caught:
        check_rows(4, limits)
    assert caught.value.limit == "derived_rows_max"
