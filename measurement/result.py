"""The form of a measured result.

A module of `benchmarks/` or `evidence/` answers one question. Its ``run`` returns a mapping of this form, or a
`Result` itself:

``question``
    the question, as a sentence;
``rows``
    what was measured: ``name``, ``value``, ``unit``, ``note``;
``ratios``
    what was promised: ``name``, ``value``, ``bar``, ``comparison`` (``">="`` or ``"<="``) and perhaps ``stretch``, a
    bar beyond the bar. Without a bar the ratio is only shown;
``notes``
    sentences that belong under the tables.

`read_result` is the gateway: a mapping with a missing, misspelt or infinite value is refused there, so that nothing
half-right reaches a page.
"""

import math
from collections.abc import Mapping
from typing import Literal

import msgspec

Comparison = Literal[">=", "<="]


class MalformedResultError(ValueError):
    """A module returned something that is not a result. Nothing was written."""


class Row(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One measured value."""

    name: str
    value: int | float | str
    unit: str = ""
    note: str = ""


class Ratio(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One promise and how it went."""

    name: str
    value: int | float
    bar: int | float | None = None
    comparison: Comparison = ">="
    stretch: int | float | None = None
    note: str = ""

    @property
    def missed(self) -> bool:
        """Whether there is a bar and the value is on the wrong side of it."""
        return self.bar is not None and not self._reaches(self.bar)

    @property
    def verdict(self) -> str:
        """The word the page shows. A missed bar is always called missed."""
        if self.bar is None:
            return "shown"
        if self.missed:
            return "missed"
        if self.stretch is None:
            return "pass"
        return "pass, stretch reached" if self._reaches(self.stretch) else "pass, stretch missed"

    def _reaches(self, bar: float) -> bool:
        return self.value >= bar if self.comparison == ">=" else self.value <= bar


class Result(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The answer to one question."""

    question: str
    rows: list[Row]
    ratios: list[Ratio] = []
    notes: list[str] = []


def read_result(returned: object) -> Result:
    """Check what a module's ``run`` returned and give it its type."""
    if not isinstance(returned, Result | Mapping):
        raise MalformedResultError(f"run() must return a mapping or a Result, not {type(returned).__name__}")
    try:
        result = returned if isinstance(returned, Result) else msgspec.convert(returned, Result)
    except msgspec.ValidationError as problem:
        raise MalformedResultError(str(problem)) from problem
    numbers = [row.value for row in result.rows]
    for ratio in result.ratios:
        numbers += [number for number in (ratio.value, ratio.bar, ratio.stretch) if number is not None]
        if ratio.stretch is not None and ratio.bar is None:
            raise MalformedResultError(f"ratio {ratio.name!r} has a stretch but no bar")
    if any(isinstance(number, float) and not math.isfinite(number) for number in numbers):
        raise MalformedResultError("a value is not a finite number")
    if not result.rows and not result.ratios:
        raise MalformedResultError("a result needs at least one row or ratio")
    return result
