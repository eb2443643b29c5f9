"""A vector in two steps: the nearest centroid of the global book, and what is left of it in the book of its domain."""

from typing import Final

from msgspec import Struct

from bobbin.cluster.codebook.global_book import GlobalCodebook
from bobbin.cluster.codebook.local_book import LocalCodebook
from bobbin.cluster.geometry import Embedding

RESIDUAL_MIN: Final = 0.05
"""What is left must be longer than this to be worth a code of its own."""


class Codes(Struct, frozen=True):
    """Both below 65,536. Only the global one may stand in a header."""

    global_code: int
    local_code: int | None


class Hierarchy:
    """A global book, and a local one for each domain that was met."""

    def __init__(self, book: GlobalCodebook, *, residual_min: float = RESIDUAL_MIN) -> None:
        self.book = book
        self._residual_min = residual_min
        self._domains: dict[str, LocalCodebook] = {}

    def domain(self, name: str) -> LocalCodebook:
        """The book of a domain; a new one is empty."""
        return self._domains.setdefault(name, LocalCodebook())

    def quantize(self, vector: Embedding, *, domain: str, now_ms: int) -> Codes | None:
        """The codes of a vector; the domain's book learns from what is left. None where the global book has none."""
        found = self.book.quantize(vector)
        if found is None:
            return None
        if not found.residual.norm > self._residual_min:
            return Codes(found.code, None)
        return Codes(found.code, self.domain(domain).learn(found.residual, now_ms=now_ms))
