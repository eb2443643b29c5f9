"""Texts as small integers, so that rules join on numbers.

Numbers are given once and never change meaning while the dictionary lives.
"""

from collections.abc import Iterable


class Values:
    """A two-way dictionary: text to number and back."""

    __slots__ = ("_numbers", "texts")

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}
        self.texts: list[str] = []
        """The text of each number; compiled rules index it directly."""

    def encode(self, text: str) -> int:
        """The number of a text, given now if it is new."""
        number = self._numbers.get(text)
        if number is None:
            number = self._numbers[text] = len(self.texts)
            self.texts.append(text)
        return number

    def find(self, text: str) -> int | None:
        """The number of a text if it has one: a text that no fact holds needs none."""
        return self._numbers.get(text)

    def encode_row(self, row: Iterable[str]) -> tuple[int, ...]:
        return tuple(map(self.encode, row))

    def decode_row(self, row: Iterable[int]) -> tuple[str, ...]:
        texts = self.texts
        return tuple(texts[number] for number in row)

    def __len__(self) -> int:
        return len(self.texts)
