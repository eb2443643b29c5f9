"""The values of one column in the order of their texts, so that a range of times is found without a scan."""

import heapq
from array import array
from bisect import bisect_left, bisect_right, insort
from collections.abc import Callable, Iterable, Iterator
from typing import Final

import numpy as np
from numpy.typing import NDArray

from bobbin.datalog.local.values import Values

_LATE_MAX: Final = 4_096
"""New values wait in a short list until there are this many."""
_WORDS: Final = 3
"""Texts of up to this many words of eight bytes are sorted as numbers; a time takes twenty bytes."""
_CHUNK: Final = 16_384


class OrderedValues:
    """Distinct numbers sorted by text. A number whose last row is gone may stay; it then leads to no row."""

    def __init__(self, values: Values, numbers: NDArray[np.int32]) -> None:
        self._text = values.texts.__getitem__
        self._known = bytearray(len(values))
        """For each number whether it is here."""
        distinct = np.unique(numbers)
        np.frombuffer(self._known, dtype=np.uint8)[distinct] = 1
        self._main = _ascending(self._text, distinct)
        self._late: list[int] = []

    def add(self, numbers: Iterable[int]) -> None:
        """Take in numbers, known or not."""
        for number in self._new(numbers):
            insort(self._late, number, key=self._text)
        if len(self._late) > _LATE_MAX:
            self._main = array("i", heapq.merge(self._main, self._late, key=self._text))
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


def _ascending(text: Callable[[int], str], numbers: NDArray[np.int32]) -> "array[int]":
    """Numbers in the order of their texts, without holding all the texts at once where they are short."""
    size = len(numbers)
    words = np.empty((_WORDS, size), dtype=np.uint64)
    lengths = np.empty(size, dtype=np.uint8)
    for start in range(0, size, _CHUNK):
        chunk = numbers[start : start + _CHUNK].tolist()
        raw = [text(number).encode() for number in chunk]
        if max(map(len, raw)) > _WORDS * 8:
            return array("i", sorted(numbers.tolist(), key=text))
        padded = np.array(raw, dtype=f"S{_WORDS * 8}")
        words[:, start : start + len(chunk)] = padded.view(">u8").reshape(len(chunk), _WORDS).T
        lengths[start : start + len(chunk)] = [len(some) for some in raw]
    # UTF-8 sorts as its code points do. Texts that are equal but for zero bytes at the end sort by length.
    order = np.lexsort((lengths, *reversed(words)))
    return array("i", numbers[order].astype(np.intc).tobytes())
