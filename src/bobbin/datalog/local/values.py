"""Texts as small integers, so that rules join on numbers.

Numbers are given once, counting up, and never change meaning while the dictionary lives. The newest texts are ordinary
Python strings in a dictionary; when there are many of them they move to an *archive*: one string of bytes, found again
through sorted hashes. A million texts take a third of the memory there, and one look-up a few microseconds more.
"""

from array import array
from bisect import bisect_left
from collections.abc import Iterable, Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

_YOUNG_MIN: Final = 65_536
_YOUNG_FRACTION: Final = 16
"""Texts move to the archive when this part of it would be new, so that moving costs little per text."""


class Texts:
    """The text of each number: what compiled rules index."""

    __slots__ = ("_bytes", "_ends", "_young")

    def __init__(self) -> None:
        self._bytes = bytearray()
        self._ends = array("q")
        """Where the text of each archived number ends."""
        self._young: list[str] = []

    def __getitem__(self, number: int) -> str:
        young = number - len(self._ends)
        if young >= 0:
            return self._young[young]
        start = self._ends[number - 1] if number else 0
        return self._bytes[start : self._ends[number]].decode()

    def __len__(self) -> int:
        return len(self._ends) + len(self._young)

    def append(self, text: str) -> None:
        """Give a text the next number."""
        self._young.append(text)

    def archive(self) -> list[str]:
        """Move the newest texts to the archive; returns them."""
        moved, self._young = self._young, []
        end = len(self._bytes)
        for text in moved:
            raw = text.encode()
            end += len(raw)
            self._bytes += raw
            self._ends.append(end)
        return moved


class Values:
    """A two-way dictionary: text to number and back."""

    __slots__ = ("_hashes", "_numbers", "_young", "texts")

    def __init__(self) -> None:
        self.texts: Final = Texts()
        self._young: dict[str, int] = {}
        self._hashes: NDArray[np.int64] = np.empty(0, dtype=np.int64)
        """The hashes of the archived texts, ascending."""
        self._numbers: NDArray[np.int32] = np.empty(0, dtype=np.int32)
        """The number behind each of them."""

    def encode(self, text: str) -> int:
        """The number of a text, given now if it is new."""
        number = self.find(text)
        if number is None:
            number = self._add(text)
            self._archive_when_due()
        return number

    def find(self, text: str) -> int | None:
        """The number of a text if it has one."""
        number = self._young.get(text)
        if number is not None or not len(self._hashes):
            return number
        wanted = hash(text)
        return self._behind(text, wanted, bisect_left(self._hashes.data, wanted))

    def encode_many(self, texts: Sequence[str]) -> NDArray[np.int32]:
        """The numbers of many texts."""
        known = {text: number for text in dict.fromkeys(texts) if (number := self._young.get(text)) is not None}
        unknown = [text for text in dict.fromkeys(texts) if text not in known]
        if len(self._hashes):
            wanted = np.fromiter(map(hash, unknown), dtype=np.int64, count=len(unknown))
            places = np.searchsorted(self._hashes, wanted)
            for text, digest, place in zip(unknown, wanted.tolist(), places.tolist(), strict=True):
                number = self._behind(text, digest, place)
                if number is not None:
                    known[text] = number
        for text in unknown:
            if text not in known:
                known[text] = self._add(text)
        self._archive_when_due()
        return np.fromiter(map(known.__getitem__, texts), dtype=np.int32, count=len(texts))

    def encode_row(self, row: Iterable[str]) -> tuple[int, ...]:
        """The numbers of one tuple of texts."""
        return tuple(map(self.encode, row))

    def decode_row(self, row: Iterable[int]) -> tuple[str, ...]:
        """The texts of one tuple of numbers."""
        return tuple(map(self.texts.__getitem__, row))

    def __len__(self) -> int:
        return len(self.texts)

    def _add(self, text: str) -> int:
        number = self._young[text] = len(self.texts)
        self.texts.append(text)
        return number

    def _behind(self, text: str, wanted: int, place: int) -> int | None:
        """The number of an archived text, looked for from ``place`` on; equal hashes need not be equal texts."""
        while place < len(self._hashes) and self._hashes[place] == wanted:
            number = int(self._numbers[place])
            if self.texts[number] == text:
                return number
            place += 1
        return None

    def _archive_when_due(self) -> None:
        if len(self._young) < max(_YOUNG_MIN, len(self._hashes) // _YOUNG_FRACTION):
            return
        moved = self.texts.archive()
        first = len(self.texts) - len(moved)
        hashes = np.fromiter(map(hash, moved), dtype=np.int64, count=len(moved))
        order = np.argsort(hashes, kind="stable")
        places = np.searchsorted(self._hashes, hashes[order], side="right")
        self._hashes = np.insert(self._hashes, places, hashes[order])
        self._numbers = np.insert(self._numbers, places, (order + first).astype(np.int32))
        self._young = {}
