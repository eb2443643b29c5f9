"""Spark's filters as conditions.

Spark hands over a list of filters that hold together, and takes back those that it is to look at itself. A filter that
becomes a condition says nothing else than before: a column that is null passes neither. What has no condition here
(negation, null tests, the middle of a text) stays with Spark.
"""

from typing import Any

from pyspark.sql.datasource import (
    EqualNullSafe,
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    LessThan,
    LessThanOrEqual,
    StringStartsWith,
)

from bobbin.pipeline.source.conditions import NUMBERS, TEXTS, Condition, OneOf, StartsWith, Value, Within
from bobbin.store.sqlite.coding import can_be_stored


def condition_of(filter_: Filter) -> Condition | None:
    """The condition that a filter is, or None where it is none."""
    path: tuple[str, ...] = getattr(filter_, "attribute", ())
    column = path[0] if len(path) == 1 else ""
    if column not in TEXTS and column not in NUMBERS:
        return None
    match filter_:
        case In(value=raws):
            # Nothing equals null, so a null in the list finds no row.
            values = [raw for raw in raws if raw is not None]
            fits = all(_fits(column, raw) for raw in values)
            return OneOf(column, tuple(dict.fromkeys(values))) if fits else None
        case StringStartsWith(value=prefix):
            return StartsWith(column, prefix) if column in TEXTS and _fits(column, prefix) else None
        case _:
            value: Any = getattr(filter_, "value", None)
            return _comparison(filter_, column, value) if _fits(column, value) else None


def _comparison(filter_: Filter, column: str, value: Value) -> Condition | None:
    match filter_:
        case EqualTo() | EqualNullSafe():
            return OneOf(column, (value,))
        case GreaterThan():
            return Within(column, low=value, low_included=False)
        case GreaterThanOrEqual():
            return Within(column, low=value)
        case LessThan():
            return Within(column, high=value, high_included=False)
        case LessThanOrEqual():
            return Within(column, high=value)
        case _:
            return None


def _fits(column: str, value: Any) -> bool:  # noqa: ANN401 -- whatever literal the query has
    """Whether a literal is one that the column can be compared with."""
    if column in NUMBERS:
        return isinstance(value, int) and not isinstance(value, bool)
    return isinstance(value, str) and can_be_stored(value)
