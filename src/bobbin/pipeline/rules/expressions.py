r"""Built-ins as Spark expressions: native where Spark means exactly the same, through Arrow where it might not.

Spark compares texts by the bytes of their UTF-8, which is the order of code points and so Python's own; searching in
texts agrees for the same reason. Decimals are compared as the in-process engine does it, by length and then as texts.
Its regular expressions are anchored with ``\A`` and ``\z``: ``$`` would let a line break pass. A TAI sum is computed
by the engine's own function, on Arrow arrays.
"""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final

import pyarrow as pa
from pyspark.sql import Column
from pyspark.sql import functions as f
from pyspark.sql.pandas.functions import arrow_udf
from pyspark.sql.types import StringType

from bobbin.datalog.builtins import BUILTINS, Function

_DECIMAL: Final = r"\A(?:0|[1-9][0-9]*)\z"


def _numeric(compare: Callable[[Column, Column], Column]) -> Callable[[Column, Column], Column]:
    def holds(left: Column, right: Column) -> Column:
        by_length = f.length(left) != f.length(right)
        order = f.when(by_length, compare(f.length(left), f.length(right))).otherwise(compare(left, right))
        return left.rlike(_DECIMAL) & right.rlike(_DECIMAL) & order

    return holds


_TESTS: Final[Mapping[str, Callable[[Column, Column], Column]]] = MappingProxyType(
    {
        "Eq": lambda left, right: left == right,
        "Ne": lambda left, right: left != right,
        "Lt": lambda left, right: left < right,
        "Le": lambda left, right: left <= right,
        "Gt": lambda left, right: left > right,
        "Ge": lambda left, right: left >= right,
        "StartsWith": lambda left, right: left.startswith(right),
        "EndsWith": lambda left, right: left.endswith(right),
        "Contains": lambda left, right: left.contains(right),
        "NumLt": _numeric(lambda left, right: left < right),
        "NumLe": _numeric(lambda left, right: left <= right),
    }
)


def holds(builtin: str, left: Column, right: Column, result: Column | None = None) -> Column:
    """Whether a built-in is true; for a function, whether it has a value, and this one where ``result`` is given."""
    if builtin in _TESTS:
        return _TESTS[builtin](left, right)
    found = value(builtin, left, right)
    return found.isNotNull() if result is None else f.coalesce(found == result, f.lit(False))  # noqa: FBT003


def value(builtin: str, left: Column, right: Column) -> Column:
    """The value of a function, null where it has none."""
    return _vectorised(builtin)(left, right)


def tai_add(times: pa.Array, amounts: pa.Array) -> pa.Array:
    """``TaiAdd`` of each pair."""
    return _each("TaiAdd", times, amounts)


def tai_sub(times: pa.Array, amounts: pa.Array) -> pa.Array:
    """``TaiSub`` of each pair."""
    return _each("TaiSub", times, amounts)


def _each(builtin: str, first: pa.Array, second: pa.Array) -> pa.Array:
    function = BUILTINS[builtin]
    assert isinstance(function, Function)
    pairs = zip(first.to_pylist(), second.to_pylist(), strict=True)
    return pa.array([function.value(one, other) for one, other in pairs], pa.string())


_VECTORS: Final[Mapping[str, Callable[[pa.Array, pa.Array], pa.Array]]] = MappingProxyType(
    {"TaiAdd": tai_add, "TaiSub": tai_sub}
)


def _vectorised(builtin: str) -> Callable[[Column, Column], Column]:
    # Made anew each time: such a function belongs to the session that was there when it was first used.
    function = _VECTORS[builtin]
    made: Callable[[Column, Column], Column] = arrow_udf(function, StringType())  # type: ignore[call-overload]
    return made
