"""The values of one column in the order of their texts, so that a range of times is found without a scan."""

import heapq
from array import array
from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterable, Iterator
from typing import Final

from bobbin.datalog.local.values import Values

_LATE_MAX: Final = 4_096
"""New values wait in a short list until there are this many."""


class OrderedValues:
    """Distinct numbers sorted by text. A number whose last row is gone may stay; it then leads to no row."""

    def __init__(self, values: Values, numbers: Iterable[int]) -> None:
        self._text = values.texts.__getitem__
        self._known = bytearray(len(values))
        """For each number whether it is here."""
        self._main = array("l", sorted(self._new(numbers), key=self._text))
        self._late: list[int] = []

    def add(self, numbers: Iterable[int]) -> None:
        """Take in numbers, known or not."""
        for number in self._new(numbers):
            insort(self._late, number, key=self._text)
        if len(self._late) > _LATE_MAX:
            self._main = array("l", heapq.merge(self._main, self._late, key=self._text))
            self._late = []

    def _new(self, numbers: Iterable[int]) -> Iterator[int]:
        known = self._known
        for number in numbers:
            if number >= len(known):
                known.extend(bytes(number + 1 - len(known)))
            if not known[number]:
                known[number] = 1
                yield number

    def between(self, low: str, high: str) -> list[int]:
        """The numbers of the texts from ``low`` to ``high``, both included."""
        found: list[int] = []
        for numbers in (self._main, self._late):
            start = bisect_left(numbers, low, key=self._text)
            found += numbers[start : bisect_right(numbers, high, key=self._text)]
        return found
