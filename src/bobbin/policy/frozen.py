"""A standing decision at rest: everything that its programs have read and derived, as columns of numbers.

Each program has numbers of its own for the texts that occur in it; all programs share one list of the texts themselves.
Taking up a program again is copying columns: no store is read, no rule is run, and no text is looked at twice.
"""

from collections.abc import Iterable, Mapping
from typing import Final

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from bobbin.datalog.local.columns import Block, Column
from bobbin.datalog.local.conjunction import Source
from bobbin.datalog.local.relation import Relation, relation_of
from bobbin.datalog.local.table import Table
from bobbin.datalog.local.values import Texts
from bobbin.policy.claims import ClaimedField
from bobbin.policy.runtime_facts import RuntimeFacts

FORMAT: Final = 1
"""Rises when a program, taken up from what was frozen before, might not be what an evaluation would make it."""
_NUMBERS: Final = np.dtype("<i4")


class FrozenRelation(Struct, frozen=True, array_like=True):
    """One relation. A column of one value throughout is that value."""

    source: Source
    arity: int
    size: int
    columns: list[bytes]

    def table(self, numbers: Column) -> Relation:
        """The relation. ``numbers`` says what each number of its program has become."""
        if not self.arity:
            return Table(0, [()] * self.size)
        return relation_of([self._column(raw, numbers) for raw in self.columns])

    def _column(self, raw: bytes, numbers: Column) -> Column:
        column = numbers[np.frombuffer(raw, dtype=_NUMBERS)]
        return column if len(column) == self.size else np.broadcast_to(column, (self.size,))


class FrozenProgram(Struct, frozen=True, array_like=True):
    """One program."""

    texts: bytes
    """For each of its numbers, the place of the text in the list."""
    base: list[FrozenRelation]
    derived: list[FrozenRelation]

    @property
    def places(self) -> NDArray[np.int32]:
        """For each of its numbers, the place of the text in the list."""
        return np.frombuffer(self.texts, dtype=_NUMBERS)

    def spell(self, texts: list[str]) -> list[str]:
        """Its texts, in the order of its numbers."""
        return list(map(texts.__getitem__, self.places.tolist()))


class Frozen(Struct, frozen=True, kw_only=True, array_like=True):
    """A decision with everything that it was computed from."""

    format: int
    texts: list[str]
    own: FrozenProgram
    offer: FrozenProgram | None
    """None where claims make no difference to what is offered."""
    query: FrozenProgram
    peer: FrozenProgram
    visible: bytes
    may_send: bytes
    may_request: bytes
    runtime: RuntimeFacts
    claims: dict[str, tuple[ClaimedField, ...]]

    def records(self, numbers: bytes) -> set[str]:
        """The texts at these places of the list."""
        return set(map(self.texts.__getitem__, np.frombuffer(numbers, dtype=_NUMBERS).tolist()))


class Pool:
    """The one list of texts, while a decision is frozen."""

    def __init__(self) -> None:
        self._places: dict[str, int] = {}
        self._numbered: dict[int, tuple[Texts, NDArray[np.int32]]] = {}
        """For each numbering of texts the places of its numbers: programs that have one in common have most texts in
        common, too."""
        self._sets: dict[int, tuple[frozenset[str], bytes]] = {}

    @property
    def texts(self) -> list[str]:
        return list(self._places)

    def places(self, texts: Iterable[str]) -> bytes:
        """The places of texts in the list; new ones are put at its end."""
        known, asked = self._places, list(texts)
        new = [text for text in dict.fromkeys(asked) if text not in known]
        known.update(zip(new, range(len(known), len(known) + len(new)), strict=True))
        return np.fromiter(map(known.__getitem__, asked), dtype=_NUMBERS, count=len(asked)).tobytes()

    def places_of_set(self, texts: frozenset[str]) -> bytes:
        """The same for a set, which may have been asked about before: equal ones are held once."""
        if id(texts) not in self._sets:
            self._sets[id(texts)] = texts, self.places(texts)
        return self._sets[id(texts)][1]

    def _places_of(self, numbers: Column, texts: Texts) -> bytes:
        """The places of texts that have numbers."""
        _, places = self._numbered.setdefault(id(texts), (texts, np.full(len(texts), -1, dtype=np.int32)))
        new = numbers[places[numbers] < 0]
        places[new] = np.frombuffer(self.places(texts.spell(new)), dtype=_NUMBERS)
        return places[numbers].astype(_NUMBERS).tobytes()

    def program(self, base: Mapping[Source, Block], derived: Mapping[Source, Block], texts: Texts) -> FrozenProgram:
        """A program, with only the texts that occur in its relations: others have come and gone."""
        columns = [column for block in (*base.values(), *derived.values()) for column in block.columns]
        is_used = np.zeros(len(texts), dtype=np.bool_)
        for column in columns:
            is_used[_once(column)] = True
        used = np.flatnonzero(is_used).astype(np.int32)
        numbers = np.zeros(len(texts), dtype=_NUMBERS)
        numbers[used] = np.arange(len(used))

        def freeze(relations: Mapping[Source, Block]) -> list[FrozenRelation]:
            return [
                FrozenRelation(
                    source, len(block.columns), block.size, [numbers[_once(one)].tobytes() for one in block.columns]
                )
                for source, block in relations.items()
            ]

        return FrozenProgram(self._places_of(used, texts), freeze(base), freeze(derived))


def _once(column: Column) -> Column:
    """The column; where it is one value held once, just that."""
    return column[:1] if column.strides == (0,) else column
