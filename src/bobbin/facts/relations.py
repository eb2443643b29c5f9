"""The five relations that say what stored records say (Lace-020), and how to ask for them.

A fact is a predicate name and a tuple of texts. Only stored, valid records give facts: what a peer merely claims about
a record is another type (an advertisement), and neither is ever taken for the other.

=====================================  ====================================================
``Have(P)``                            valid bytes of ``P`` are stored here
``Field(P, Name, Index, Value)``       one field occurrence; ``Index`` counts equal names from 0
``RecordLink(P, Name, Index, Data,     one well-formed link header
Target)``
``BlobHash(P, H)``                     the Blob inside a Plex
``PlexHash(P, H)``                     the Plex inside a Seal
=====================================  ====================================================
"""

from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Final, Protocol, TypeAlias

from bobbin.errors import UsageError

HAVE: Final = "Have"
FIELD: Final = "Field"
RECORD_LINK: Final = "RecordLink"
BLOB_HASH: Final = "BlobHash"
PLEX_HASH: Final = "PlexHash"

ARITY: Final[Mapping[str, int]] = MappingProxyType({HAVE: 1, FIELD: 4, RECORD_LINK: 5, BLOB_HASH: 2, PLEX_HASH: 2})

Tuple: TypeAlias = tuple[str, ...]
Pattern: TypeAlias = tuple[str | None, ...]
"""A tuple in which None stands for any value."""


class FactSource(Protocol):
    """Something that can be asked for facts. Each answer is a set: no tuple comes twice, the order means nothing."""

    def enumerate(self, predicate: str) -> Iterator[Tuple]:
        """Every tuple of a predicate."""
        ...

    def match(self, predicate: str, pattern: Pattern) -> Iterator[Tuple]:
        """The tuples of a predicate that agree with the pattern, found by an index where one fits."""
        ...


def check_pattern(predicate: str, pattern: Pattern) -> None:
    """Refuse a predicate that is none of the five, or a pattern of the wrong arity."""
    if predicate not in ARITY:
        raise UsageError(f"no record fact is called {predicate}; there are {', '.join(ARITY)}")
    if len(pattern) != ARITY[predicate]:
        raise UsageError(f"{predicate} has {ARITY[predicate]} arguments, not {len(pattern)}")


def agrees(values: Tuple, pattern: Pattern) -> bool:
    """Whether a tuple agrees with a pattern."""
    return all(wanted is None or wanted == value for value, wanted in zip(values, pattern, strict=True))
