"""The peer's claims as columns of numbers, for every program that reads them."""

from collections.abc import Iterable, Mapping
from itertools import chain
from typing import Final

import numpy as np

from bobbin.datalog.local.columns import Block, Column, pick, unique
from bobbin.datalog.local.conjunction import SLICED, Source
from bobbin.datalog.local.relation import Relation, constant, relation_of
from bobbin.datalog.local.values import Values
from bobbin.policy import vocabulary
from bobbin.policy.claims import ClaimedField

_NAME_AT: Final = SLICED[vocabulary.ADVERTISED_FIELD]


class ClaimColumns:
    """All claims of one source, encoded once. The relations made of them are each reader's own."""

    def __init__(self, claims: Mapping[str, tuple[ClaimedField, ...]], source: str, values: Values) -> None:
        self._values: Final = values
        self.records: Final = values.encode_many(list(claims))
        """The records that are advertised."""
        origin = values.encode(source)
        self._advertised: Final = Block([self.records, constant(origin, len(self.records))])
        # Most records say the same of themselves: what is said is encoded once, and then told of each.
        numbers: dict[tuple[ClaimedField, ...], int] = {}
        said = np.fromiter(
            (numbers.setdefault(fields, len(numbers)) for fields in claims.values()), dtype=np.int64, count=len(claims)
        )
        fields = list(chain.from_iterable(numbers))
        sizes = np.fromiter(map(len, numbers), dtype=np.int64, count=len(numbers))
        begins = np.cumsum(sizes) - sizes
        counts = sizes[said]
        places = np.arange(counts.sum()) + np.repeat(begins[said] - (np.cumsum(counts) - counts), counts)
        columns = [
            np.repeat(self.records, counts),
            constant(origin, len(places)),
            *(
                values.encode_many(texts)[places]
                for texts in (
                    [field.name for field in fields],
                    [field.index for field in fields],
                    [field.value for field in fields],
                )
            ),
        ]
        is_once = all(len(set(said_once)) == len(said_once) for said_once in numbers)
        self._fields: Final = Block(columns) if is_once else unique(columns, len(places))

    def relations(self, sources: Iterable[Source]) -> dict[Source, Relation]:
        """The relations of claims that a program reads."""
        return {source: relation_of(self._columns(source)) for source in sources}

    def _columns(self, source: Source) -> list[Column]:
        if source.predicate == vocabulary.ADVERTISED:
            return list(self._advertised.columns)
        columns = self._fields.columns
        if source.name is None:
            return list(columns)
        name = self._values.find(source.name)
        names = columns[_NAME_AT]
        rest = [*columns[:_NAME_AT], *columns[_NAME_AT + 1 :]]
        return pick(rest, names == (-1 if name is None else name))
