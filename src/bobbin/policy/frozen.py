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

    @property
    def texts(self) -> list[str]:
        return list(self._places)

    def places(self, texts: Iterable[str]) -> bytes:
        """The places of texts in the list; new ones are put at its end."""
        known = self._places
        return np.fromiter((known.setdefault(text, len(known)) for text in texts), dtype=_NUMBERS).tobytes()

    def program(self, base: Mapping[Source, Block], derived: Mapping[Source, Block], texts: Texts) -> FrozenProgram:
        """A program, with only the texts that occur in its relations: others have come and gone."""
        columns = [column for block in (*base.values(), *derived.values()) for column in block.columns]
        used = np.unique(np.concatenate([np.empty(0, dtype=np.int32), *map(_once, columns)]))
        numbers = np.zeros(len(texts), dtype=_NUMBERS)
        numbers[used] = np.arange(len(used))

        def freeze(relations: Mapping[Source, Block]) -> list[FrozenRelation]:
            return [
                FrozenRelation(
                    source, len(block.columns), block.size, [numbers[_once(one)].tobytes() for one in block.columns]
                )
                for source, block in relations.items()
            ]

        return FrozenProgram(self.places(texts.spell(used)), freeze(base), freeze(derived))


def _once(column: Column) -> Column:
    """The column; where it is one value held once, just that."""
    return column[:1] if column.strides == (0,) else column
