"""The facts that rules read, in memory: one table per relation, loaded when a rule first asks.

Base relations come from fact sources and stay loaded with their indexes, so the next evaluation finds them warm.
Derived relations belong to one evaluation (see ``evaluate``).

A database is the unit that is given back: tables, indexes, and every text that rules have read or made up are held by
it alone. Whoever keeps a database for a peer's rules evicts it by dropping it, with the states evaluated on it;
compiled programs hold nothing of it. ``len(database.values)`` says how many texts it has come to hold.
"""

from collections.abc import Callable, Collection, Iterable, Mapping
from types import MappingProxyType
from typing import Final, TypeAlias

import numpy as np

from bobbin.datalog.local.changes import Changes
from bobbin.datalog.local.columns import Block, Column, ColumnTable, block_of
from bobbin.datalog.local.conjunction import SLICED, Source
from bobbin.datalog.local.ordered import OrderedValues
from bobbin.datalog.local.relation import Relation, constant, relation, relation_of, settled
from bobbin.datalog.local.table import Row
from bobbin.datalog.local.values import Values
from bobbin.datalog.local.wide import WideRow, is_wide, read_wide
from bobbin.errors import UsageError
from bobbin.facts.relations import FIELD, HAVE, FactSource, Tuple

Facts: TypeAlias = Mapping[str, Collection[Tuple]]
"""Facts by predicate."""

_Change: TypeAlias = Callable[[Relation, Iterable[Row]], list[Row]]

_SINGLE_INDEX: Final = "0"
"""The index of a field that cannot be repeated."""


class Database:
    """Base facts from several sources, each answering for the predicates that it is given for."""

    def __init__(
        self, sources: Mapping[str, FactSource], arities: Mapping[str, int], values: Values | None = None
    ) -> None:
        """``sources`` says who supplies a predicate; a predicate of ``arities`` without source is empty.

        ``values``: the numbers of texts that databases have in common, so that columns can go from one to another.
        """
        self.values = Values() if values is None else values
        self._sources = sources
        self._arities = arities
        self.tables: Final[dict[Source, Relation]] = {}
        """What is loaded. Only the database itself puts anything here."""
        self._readers: dict[str, dict[str | None, Source]] = {}
        """The loaded relations of each predicate, by the name that they are kept apart by."""
        self._ordered: dict[tuple[Source, int], OrderedValues] = {}
        self._blocks: dict[Source, tuple[int, Block]] = {}

    def table(self, source: Source) -> Relation:
        """The rows of a base relation, read from its source on first use."""
        table = self.tables.get(source)
        if table is None:
            table = self._hold(source, self._load(source))
        return table

    def load(self, fields: Collection[str], rows: Iterable[WideRow]) -> None:
        """Take in ``Have`` and these names of ``Field`` from one pass over rows as ``WideSource.wide`` gives them.

        The rows must speak of every record, each once, and of nothing that is loaded already.
        """
        wanted = [Source(HAVE), *(Source(FIELD, name) for name in fields)]
        if known := [source for source in wanted if source in self.tables]:
            raise UsageError(f"loaded already: {', '.join(source.name or source.predicate for source in known)}")
        self._load_wide(fields, rows)

    def _load_wide(self, fields: Collection[str], rows: Iterable[WideRow]) -> None:
        subjects, columns = read_wide(iter(rows), len(fields), self.values)
        if Source(HAVE) not in self.tables:
            self._hold(Source(HAVE), relation_of([subjects]))
        index = self.values.encode(_SINGLE_INDEX)
        for name, (records, found) in zip(fields, columns, strict=True):
            self._hold(Source(FIELD, name), relation_of([records, constant(index, len(records)), found]))

    def prepare(self, sources: Iterable[Source]) -> None:
        """Load what a program is about to read, in one pass where the source of the records can do that."""
        supply = self._sources.get(FIELD)
        if supply is self._sources.get(HAVE) and is_wide(supply):
            known = supply.wide_fields()
            names = {source.name for source in sources if source.predicate == FIELD and source not in self.tables}
            fields = tuple(sorted(name for name in names if name is not None and name in known))
            if fields:
                self._load_wide(fields, supply.wide(fields))

    def put(self, source: Source, table: Relation) -> None:
        """Take in a base relation whose rows are numbers of this database already, instead of what it was."""
        self._blocks.pop(source, None)
        for known in [known for known in self._ordered if known[0] == source]:
            del self._ordered[known]
        self._hold(source, table)

    def block(self, source: Source) -> Block:
        """The rows of a base relation as columns, kept until the relation changes."""
        table = self.table(source)
        if isinstance(table, ColumnTable):
            before = table.block
            if table.merged() is not before:
                self._share(table)
            return table.block
        known = self._blocks.get(source)
        if known is None or known[0] != table.version:
            known = self._blocks[source] = table.version, block_of(table.arity, table.rows)
        return known[1]

    def ordered(self, source: Source, place: int) -> OrderedValues:
        """The values of one column of a base relation, in the order of their texts."""
        order = self._ordered.get((source, place))
        if order is None:
            order = self._ordered[source, place] = OrderedValues(self.values, self._column(source, place))
        return order

    def change(
        self,
        *,
        added: Facts = MappingProxyType({}),
        removed: Facts = MappingProxyType({}),
        fresh: int | None = None,
    ) -> Changes:
        """Take facts out and in, in this order; returns the net change of the relations that somebody reads.

        What no rule has asked for yet is not kept here: its source answers for it when it is loaded. ``fresh``: numbers
        from this one on occur in no relation here, though another database may have given them since.
        """
        fresh = len(self.values) if fresh is None else fresh
        numbers = _Numbers(self.values)
        out = self._each(removed, _discard, numbers) if removed else {}
        new = self._each(added, _add, numbers) if added else {}
        for (source, place), order in self._ordered.items():
            if rows := new.get(source):
                order.add([row[place] for row in rows])
        for source in out.keys() & new.keys():
            unchanged = set(out[source]) & set(new[source])
            out[source] = [row for row in out[source] if row not in unchanged]
            new[source] = [row for row in new[source] if row not in unchanged]
        return Changes(_named(new), _named(out), fresh)

    def settle(self) -> None:
        """Nothing more is asked for the moment: hold what is loaded in little room."""
        for source, table in list(self.tables.items()):
            before = table.block if isinstance(table, ColumnTable) else None
            now = settled(table)
            if now is not table:
                self._blocks.pop(source, None)
                self._hold(source, now)
            elif isinstance(now, ColumnTable) and now.block is not before:
                self._share(now)

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

    def _hold(self, source: Source, table: Relation) -> Relation:
        self.tables[source] = table
        self._readers.setdefault(source.predicate, {})[source.name] = source
        if isinstance(table, ColumnTable):
            self._share(table)
        return table

    def _share(self, table: ColumnTable) -> None:
        """Hold the columns that another relation has too only once."""
        for other in self.tables.values():
            if isinstance(other, ColumnTable):
                table.block.adopt(other.block)

    def _column(self, source: Source, place: int) -> Column:
        """Every value of one column, in any order; values of rows that are gone may be among them."""
        table = self.table(source)
        late = table.tail.rows if isinstance(table, ColumnTable) else table.rows
        numbers = np.fromiter((row[place] for row in late), dtype=np.int32, count=len(late))
        return np.concatenate([table.block.columns[place], numbers]) if isinstance(table, ColumnTable) else numbers

    def _each(self, facts: Facts, change: _Change, numbers: "_Numbers") -> dict[Source, list[Row]]:
        """Apply a change to every loaded relation that these facts belong to."""
        encode = numbers.__getitem__
        rows: dict[Source, list[Row]] = {}
        for predicate, found in facts.items():
            readers = self._readers.get(predicate, {})
            whole = readers.get(None)
            if whole is not None:
                rows[whole] = [tuple(map(encode, row)) for row in found]
            position = SLICED.get(predicate)
            if position is None or len(readers) == (whole is not None):
                continue
            for row in found:
                source = readers.get(row[position])
                if source is not None:
                    rows.setdefault(source, []).append(tuple(map(encode, _without(row, position))))
        affected: dict[Source, list[Row]] = {}
        for source, some in rows.items():
            table = self.tables[source]
            before = table.block if isinstance(table, ColumnTable) else None
            affected[source] = change(table, some)
            if isinstance(table, ColumnTable) and table.block is not before:
                self._share(table)
        return affected


class _Numbers(dict[str, int]):
    """The numbers of the texts of one change. A record's name stands in each of its facts."""

    def __init__(self, values: Values) -> None:
        self._encode = values.encode

    def __missing__(self, text: str) -> int:
        number = self[text] = self._encode(text)
        return number


def _add(table: Relation, rows: Iterable[Row]) -> list[Row]:
    return table.add(rows)


def _discard(table: Relation, rows: Iterable[Row]) -> list[Row]:
    return table.discard(rows)


def _named(rows: dict[Source, list[Row]]) -> dict[Source, list[Row]]:
    return {source: some for source, some in rows.items() if some}


def _without(row: Tuple, position: int) -> Tuple:
    return row[:position] + row[position + 1 :]
