"""What a query asks of the rows, as plain values: the part of Spark's filters that a store can use.

A condition speaks of one column. Conditions of a query hold together: a row that fails one of them is not wanted. A
condition is *exact* where whoever reads the rows answers it fully; where it only narrows what is read, Spark looks at
the rows again. A row whose column is null meets no condition.
"""

from typing import Final, TypeAlias

from msgspec import Struct

Value: TypeAlias = str | int

TEXTS: Final = frozenset({"record", "group", "app", "name", "tai", "signer"})
NUMBERS: Final = frozenset({"id"})
COLUMNS: Final = TEXTS | NUMBERS
"""The columns for which conditions are of use: a store of records finds rows by them."""


class OneOf(Struct, frozen=True):
    """The column has one of these values. Without values there is no such row."""

    column: str
    values: tuple[Value, ...]


class Within(Struct, frozen=True):
    """The column is beyond a bound, or at it where the bound is included. Texts compare by their UTF-8 bytes."""

    column: str
    low: Value | None = None
    low_included: bool = True
    high: Value | None = None
    high_included: bool = True


class StartsWith(Struct, frozen=True):
    """The column begins with this text."""

    column: str
    prefix: str


Condition: TypeAlias = OneOf | Within | StartsWith


def meets(condition: Condition, value: Value | None) -> bool:
    """Whether a value meets a condition: the meaning that every faster way must agree with."""
    if value is None:
        return False
    match condition:
        case OneOf(values=values):
            return value in values
        case StartsWith(prefix=prefix):
            return isinstance(value, str) and value.startswith(prefix)
        case Within():
            return _is_above(condition, value) and _is_below(condition, value)


def _is_above(condition: Within, value: Value) -> bool:
    if condition.low is None:
        return True
    low, own = _sortable(condition.low), _sortable(value)
    return own > low or (condition.low_included and own == low)


def _is_below(condition: Within, value: Value) -> bool:
    if condition.high is None:
        return True
    high, own = _sortable(condition.high), _sortable(value)
    return own < high or (condition.high_included and own == high)


def _sortable(value: Value) -> tuple[int, bytes]:
    return (value, b"") if isinstance(value, int) else (0, value.encode("utf-8", "surrogatepass"))
