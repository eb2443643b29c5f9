import pytest
from pyspark.sql.datasource import (
    EqualNullSafe,
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNotNull,
    IsNull,
    LessThan,
    LessThanOrEqual,
    Not,
    StringContains,
    StringEndsWith,
    StringStartsWith,
)

from bobbin.pipeline.source.conditions import Condition, OneOf, StartsWith, Within
from bobbin.pipeline.source.filters import condition_of


@pytest.mark.parametrize(
    ("filter_", "expected"),
    [
        (EqualTo(("group",), "u"), OneOf("group", ("u",))),
        (EqualNullSafe(("group",), "u"), OneOf("group", ("u",))),
        (In(("name",), ("a", None, "b", "a")), OneOf("name", ("a", "b"))),
        (In(("id",), (1, 2)), OneOf("id", (1, 2))),
        (GreaterThan(("id",), 4), Within("id", low=4, low_included=False)),
        (GreaterThanOrEqual(("tai",), "16"), Within("tai", low="16")),
        (LessThan(("tai",), "16"), Within("tai", high="16", high_included=False)),
        (LessThanOrEqual(("signer",), "V."), Within("signer", high="V.")),
        (StringStartsWith(("record",), "P."), StartsWith("record", "P.")),
    ],
)
def test_filters_that_are_conditions(filter_: Filter, expected: Condition) -> None:
    assert condition_of(filter_) == expected


@pytest.mark.parametrize(
    "filter_",
    [
        EqualTo(("data_length",), 4),
        EqualTo(("raw",), b"x"),
        EqualTo(("extras", "name"), "x"),
        EqualTo(("group",), 4),
        EqualTo(("group",), None),
        EqualNullSafe(("group",), None),
        EqualTo(("id",), value=True),
        EqualTo(("id",), "4"),
        EqualTo(("group",), "\ud800"),
        In(("id",), (1, "2")),
        Not(EqualTo(("group",), "u")),
        IsNull(("group",)),
        IsNotNull(("group",)),
        StringContains(("name",), "x"),
        StringEndsWith(("name",), "x"),
    ],
)
def test_filters_that_stay_with_spark(filter_: Filter) -> None:
    assert condition_of(filter_) is None
