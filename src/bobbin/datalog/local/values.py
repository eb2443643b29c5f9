"""Texts as small integers, so that rules join on numbers.

Numbers are given once, counting up, and never change meaning while the dictionary lives. The newest texts are ordinary
Python strings in a dictionary; when there are many of them they move to an *archive*: one string of bytes, found again
through sorted hashes. A text takes twelve bytes beside its own there instead of two hundred, and one look-up a few
microseconds more; the archived texts that were asked for lately are therefore kept at hand.

Nothing is ever taken out of one dictionary. What a peer's rules made up goes when the database that holds it goes.
"""

from array import array
from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from itertools import accumulate
from typing import Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

Hashes: TypeAlias = NDArray[np.uint32]

_YOUNG_MIN: Final = 262_144
_YOUNG_FRACTION: Final = 32
"""Texts move to the archive when this part of it would be new, so that moving costs little per text."""
_RECENT_MAX: Final = 4_096
"""Archived texts that are kept at hand: the few that almost every record has, such as its group."""
_HASH_MASK: Final = 0xFFFFFFFF
_NARROW_MAX: Final = 0xFFFFFFFF
"""Up to this many bytes of text, four bytes say where a text ends."""


class Texts:
    """The text of each number: what compiled rules index."""

    __slots__ = ("_bytes", "_ends", "_young")

    def __init__(self) -> None:
        self._bytes = bytearray()
        self._ends = array("I")
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

    def extend(self, texts: Iterable[str]) -> None:
        """Give each text the next number."""
        self._young.extend(texts)

    def spell(self, numbers: NDArray[np.int32]) -> list[str]:
        """The texts of many numbers."""
        text = self.__getitem__ if len(self._ends) else self._young.__getitem__
        return list(map(text, numbers.tolist()))

    def archive(self) -> list[str]:
        """Move the newest texts to the archive; returns them."""
        moved, self._young = self._young, []
        raw = [text.encode() for text in moved]
        ends = accumulate(map(len, raw), initial=len(self._bytes))
        next(ends)  # where the texts before these end
        self._bytes += b"".join(raw)
        if len(self._bytes) > _NARROW_MAX and self._ends.typecode == "I":
            self._ends = array("Q", self._ends)
        self._ends.extend(ends)
        return moved


class Values:
    """A two-way dictionary: text to number and back."""

    __slots__ = ("_hashes", "_numbers", "_recent", "_young", "texts")

    def __init__(self) -> None:
        self.texts: Final = Texts()
        self._young: dict[str, int] = {}
        self._recent: dict[str, int] = {}
        """Some archived texts."""
        self._hashes: Hashes = np.empty(0, dtype=np.uint32)
        """Half of the hash of each archived text, ascending."""
        self._numbers: NDArray[np.int32] = np.empty(0, dtype=np.int32)
        """The number behind each of them."""

    def encode(self, text: str) -> int:
        """The number of a text, given now if it is new."""
        number = self._young.get(text)
        if number is None:
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
        number = self._recent.get(text)
        if number is None:
            wanted = hash(text) & _HASH_MASK
            number = self._behind(text, wanted, bisect_left(self._hashes.data, wanted))
            if number is not None:
                if len(self._recent) >= _RECENT_MAX:
                    self._recent.clear()
                self._recent[text] = number
        return number

    def encode_many(self, texts: Sequence[str]) -> NDArray[np.int32]:
        """The numbers of many texts."""
        known = self._young
        try:
            return _numbers(known, texts)
        except KeyError:
            pass  # some are new, or archived
        distinct = dict.fromkeys(texts)
        unknown = [text for text in distinct if text not in known]
        archived = self._find_archived(unknown) if len(self._hashes) else {}
        if archived:
            unknown = [text for text in unknown if text not in archived]
        first = len(self.texts)
        self.texts.extend(unknown)
        known.update(zip(unknown, range(first, first + len(unknown)), strict=True))
        if archived:
            known = archived | {text: known[text] for text in distinct if text not in archived}
        numbers = _numbers(known, texts)
        self._archive_when_due()
        return numbers

    def _find_archived(self, texts: Sequence[str]) -> dict[str, int]:
        """The numbers of those texts that are in the archive."""
        wanted = _hashes_of(texts)
        places = np.searchsorted(self._hashes, wanted)
        found: dict[str, int] = {}
        for text, digest, place in zip(texts, wanted.tolist(), places.tolist(), strict=True):
            number = self._behind(text, digest, place)
            if number is not None:
                found[text] = number
        return found

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
        hashes = _hashes_of(moved)
        order = np.argsort(hashes, kind="stable")
        places = np.searchsorted(self._hashes, hashes[order], side="right")
        self._hashes = np.insert(self._hashes, places, hashes[order])
        self._numbers = np.insert(self._numbers, places, (order + first).astype(np.int32))
        self._young = {}


def _numbers(known: Mapping[str, int], texts: Sequence[str]) -> NDArray[np.int32]:
    return np.fromiter(map(known.__getitem__, texts), dtype=np.int32, count=len(texts))


def _hashes_of(texts: Sequence[str]) -> Hashes:
    return (np.fromiter(map(hash, texts), dtype=np.int64, count=len(texts)) & _HASH_MASK).astype(np.uint32)
