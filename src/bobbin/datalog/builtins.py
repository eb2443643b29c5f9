"""The predicates that compute instead of looking up (Lace-030): comparisons, text tests, decimal order, TAI sums.

All arguments are bound before a built-in runs, except the one that it yields. Text compares bytewise on its UTF-8,
which is the order of code points and so Python's own. A malformed number or time makes the literal false, never an
error: a peer's odd header must not stop an exchange.
"""

import operator
import re
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final

from msgspec import Struct

from bobbin.records import tai

_DECIMAL: Final = re.compile(r"0|[1-9][0-9]*", re.ASCII)


class Test(Struct, frozen=True):
    """A built-in that is true or false of bound arguments."""

    holds: Callable[[str, str], bool]
    arity: int = 2


class Function(Struct, frozen=True):
    """A built-in whose last argument follows from the others: its value, or None where there is none."""

    value: Callable[[str, str], str | None]
    arity: int = 3


def _numeric(compare: Callable[[int, int], bool]) -> Callable[[str, str], bool]:
    def holds(left: str, right: str) -> bool:
        if not (_DECIMAL.fullmatch(left) and _DECIMAL.fullmatch(right)):
            return False
        # Decimals without leading zeros: the longer one is the larger, so huge ones need no big arithmetic.
        if len(left) != len(right):
            return compare(len(left), len(right))
        return compare((left > right) - (left < right), 0)

    return holds


def _tai_sum(sign: int) -> Callable[[str, str], str | None]:
    def value(time: str, nanoseconds: str) -> str | None:
        if not _DECIMAL.fullmatch(nanoseconds) or len(nanoseconds) > 20:
            return None
        try:
            return tai.add(time, sign * int(nanoseconds))
        except tai.TaiError:
            return None

    return value


def holds(builtin: str, arguments: tuple[str | None, ...]) -> bool:
    """Whether a built-in is true of these arguments; None, for ``_``, stands for any value of a function."""
    first, second, *rest = arguments
    assert first is not None, "a safe rule binds what a built-in reads"
    assert second is not None, "a safe rule binds what a built-in reads"
    match BUILTINS[builtin]:
        case Test(test):
            return test(first, second)
        case Function(value):
            result = value(first, second)
            return result is not None and rest[0] in (None, result)


BUILTINS: Final[Mapping[str, Test | Function]] = MappingProxyType(
    {
        "Eq": Test(operator.eq),
        "Ne": Test(operator.ne),
        "Lt": Test(operator.lt),
        "Le": Test(operator.le),
        "Gt": Test(operator.gt),
        "Ge": Test(operator.ge),
        "StartsWith": Test(str.startswith),
        "EndsWith": Test(str.endswith),
        "Contains": Test(operator.contains),
        "NumLt": Test(_numeric(lambda left, right: left < right)),
        "NumLe": Test(_numeric(lambda left, right: left <= right)),
        "TaiAdd": Function(_tai_sum(1)),
        "TaiSub": Function(_tai_sum(-1)),
    }
)
