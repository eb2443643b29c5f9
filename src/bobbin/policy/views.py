"""Where rules find their facts: in a store, in memory, in several places, or behind a peer's view (Lace-020 views).

A view is a set of records. Seen through it, the five relations of stored records keep exactly the tuples whose first
argument is in the set; a negated literal is tested in the same view, so a record outside of it cannot be felt, not
even by its absence.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from bobbin.facts import relations
from bobbin.facts.extract import Fact, extract
from bobbin.facts.relations import FactSource, Pattern, Tuple, check_pattern
from bobbin.records.record import Record

_LOOKUPS_MAX: Final = 4_096
"""Up to this many records a view asks record by record; a larger one makes one pass over the relation. A question for
the last place (a value, a target) goes straight to the source, whose index knows the few records that have it."""


class TupleSource:
    """Facts in memory, under any predicates. They keep their order; nothing is added later."""

    def __init__(self, facts: Mapping[str, Iterable[Tuple]]) -> None:
        self._facts: Final = {predicate: dict.fromkeys(tuples) for predicate, tuples in facts.items()}
        self._indexes: dict[tuple[str, tuple[int, ...]], dict[Tuple, list[Tuple]]] = {}

    def enumerate(self, predicate: str) -> Iterator[Tuple]:
        return iter(self._facts.get(predicate, ()))

    def match(self, predicate: str, pattern: Pattern) -> Iterator[Tuple]:
        key = tuple(value for value in pattern if value is not None)
        tuples = self._facts.get(predicate, {})
        if not key:
            return iter(tuples)
        if len(key) == len(pattern):
            return iter((key,) if key in tuples else ())
        places = tuple(place for place, value in enumerate(pattern) if value is not None)
        return iter(self._index(predicate, places).get(key, ()))

    def _index(self, predicate: str, places: tuple[int, ...]) -> dict[Tuple, list[Tuple]]:
        """The tuples of a predicate by their values at some places, sorted out when first asked for."""
        index = self._indexes.get((predicate, places))
        if index is None:
            index = self._indexes[predicate, places] = {}
            for values in self._facts.get(predicate, ()):
                index.setdefault(tuple(values[place] for place in places), []).append(values)
        return index


class RecordFacts(TupleSource):
    """The facts of stored records, in memory."""

    def __init__(self, facts: Iterable[Fact] = ()) -> None:
        sorted_out: dict[str, dict[Tuple, None]] = {predicate: {} for predicate in relations.ARITY}
        for predicate, values in facts:
            check_pattern(predicate, values)
            sorted_out[predicate][values] = None
        super().__init__(sorted_out)

    @classmethod
    def of_records(cls, records: Iterable[Record]) -> "RecordFacts":
        """What a store that holds these records would say."""
        return cls(fact for record in records for fact in extract(record))


class UnionSource:
    """Several sources as one. A tuple that two of them have comes once."""

    def __init__(self, *sources: FactSource) -> None:
        self._sources: Final = sources

    def enumerate(self, predicate: str) -> Iterator[Tuple]:
        return _once(source.enumerate(predicate) for source in self._sources)

    def match(self, predicate: str, pattern: Pattern) -> Iterator[Tuple]:
        return _once(source.match(predicate, pattern) for source in self._sources)


class FilteredSource:
    """Record facts as the owner of a view sees them: those whose first argument is a visible record."""

    def __init__(self, source: FactSource, visible: frozenset[str]) -> None:
        self._source: Final = source
        self._visible: Final = visible

    def enumerate(self, predicate: str) -> Iterator[Tuple]:
        return self.match(predicate, (None,) * relations.ARITY.get(predicate, 0))

    def match(self, predicate: str, pattern: Pattern) -> Iterator[Tuple]:
        check_pattern(predicate, pattern)
        record = pattern[0]
        if record is not None:
            return self._source.match(predicate, pattern) if record in self._visible else iter(())
        if len(self._visible) <= _LOOKUPS_MAX and pattern[-1] is None:
            rest = pattern[1:]
            return (
                values for record in sorted(self._visible) for values in self._source.match(predicate, (record, *rest))
            )
        if all(wanted is None for wanted in pattern):
            return (values for values in self._source.enumerate(predicate) if values[0] in self._visible)
        return (values for values in self._source.match(predicate, pattern) if values[0] in self._visible)


def _once(parts: Iterable[Iterator[Tuple]]) -> Iterator[Tuple]:
    seen: set[Tuple] = set()
    for part in parts:
        for values in part:
            if values not in seen:
                seen.add(values)
                yield values


def supply(predicates: Iterable[str], source: FactSource) -> dict[str, FactSource]:
    """One source for several predicates, as programs are given their facts."""
    return dict.fromkeys(predicates, source)
