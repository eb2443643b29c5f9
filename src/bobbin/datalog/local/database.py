"""The facts that rules read, in memory: one table per relation, loaded when a rule first asks.

Base relations come from fact sources and stay loaded with their indexes, so the next evaluation finds them warm.
Derived relations belong to one evaluation (see ``evaluate``).
"""

from collections.abc import Callable, Collection, Iterable, Mapping
from types import MappingProxyType
from typing import TypeAlias

from bobbin.datalog.local.changes import Changes
from bobbin.datalog.local.columns import Block, ColumnTable, block_of
from bobbin.datalog.local.conjunction import SLICED, Source
from bobbin.datalog.local.ordered import OrderedValues
from bobbin.datalog.local.relation import Relation, relation
from bobbin.datalog.local.table import Row
from bobbin.datalog.local.values import Values
from bobbin.facts.relations import FactSource, Tuple

Facts: TypeAlias = Mapping[str, Collection[Tuple]]
"""Facts by predicate."""

_Change: TypeAlias = Callable[[Relation, Iterable[Row]], list[Row]]


class Database:
    """Base facts from several sources, each answering for the predicates that it is given for."""

    def __init__(self, sources: Mapping[str, FactSource], arities: Mapping[str, int]) -> None:
        """``sources`` says who supplies a predicate; a predicate of ``arities`` without source is empty."""
        self.values = Values()
        self._sources = sources
        self._arities = arities
        self._tables: dict[Source, Relation] = {}
        self._ordered: dict[tuple[Source, int], OrderedValues] = {}
        self._blocks: dict[Source, tuple[int, Block]] = {}

    def table(self, source: Source) -> Relation:
        """The rows of a base relation, read from its source on first use."""
        table = self._tables.get(source)
        if table is None:
            table = self._tables[source] = self._load(source)
        return table

    def block(self, source: Source) -> Block:
        """The rows of a base relation as columns, kept until the relation changes."""
        table = self.table(source)
        if isinstance(table, ColumnTable):
            return table.merged()
        known = self._blocks.get(source)
        if known is None or known[0] != table.version:
            known = self._blocks[source] = table.version, block_of(table.arity, table.rows)
        return known[1]

    def ordered(self, source: Source, place: int) -> OrderedValues:
        """The values of one column of a base relation, in the order of their texts."""
        order = self._ordered.get((source, place))
        if order is None:
            numbers = (row[place] for row in self.table(source).rows)
            order = self._ordered[source, place] = OrderedValues(self.values, numbers)
        return order

    def change(self, *, added: Facts = MappingProxyType({}), removed: Facts = MappingProxyType({})) -> Changes:
        """Take facts out and in, in this order; returns the net change of the relations that somebody reads.

        What no rule has asked for yet is not kept here: its source answers for it when it is loaded.
        """
        out = self._each(removed, lambda table, rows: table.discard(rows))
        new = self._each(added, lambda table, rows: table.add(rows))
        for (source, place), order in self._ordered.items():
            order.add(row[place] for row in new.get(source, ()))
        for source in out.keys() & new.keys():
            unchanged = set(out[source]) & set(new[source])
            out[source] = [row for row in out[source] if row not in unchanged]
            new[source] = [row for row in new[source] if row not in unchanged]
        return Changes(_named(new), _named(out))

    def _load(self, source: Source) -> Relation:
        arity = self._arities[source.predicate]
        supply = self._sources.get(source.predicate)
        if source.name is None:
            rows = supply.enumerate(source.predicate) if supply else ()
            return relation(arity, rows, self.values)
        position = SLICED[source.predicate]
        pattern = tuple(source.name if place == position else None for place in range(arity))
        matches = supply.match(source.predicate, pattern) if supply else ()
        return relation(arity - 1, (_without(row, position) for row in matches), self.values)

    def _each(self, facts: Facts, change: _Change) -> dict[Source, list[Row]]:
        """Apply a change to every loaded relation that these facts belong to."""
        affected: dict[Source, list[Row]] = {}
        for source, table in self._tables.items():
            if source.predicate not in facts:
                continue
            rows: Iterable[Tuple] = facts[source.predicate]
            if source.name is not None:
                position = SLICED[source.predicate]
                rows = (_without(row, position) for row in rows if row[position] == source.name)
            affected[source] = change(table, map(self.values.encode_row, rows))
        return affected


def _named(rows: dict[Source, list[Row]]) -> dict[Source, list[Row]]:
    return {source: some for source, some in rows.items() if some}


def _without(row: Tuple, position: int) -> Tuple:
    return row[:position] + row[position + 1 :]
