"""One program of a plan, with the facts that it reads, kept up to date at the cost of what changes.

Every relation that the program reads is loaded when it is first evaluated, so that no source is asked later, when it
might answer for another moment. What the program does not read is not held and costs nothing.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from bobbin.datalog.builtins import BUILTINS, Function
from bobbin.datalog.local.budget import LimitExceeded
from bobbin.datalog.local.changes import Changes
from bobbin.datalog.local.columns import Column, difference, pick
from bobbin.datalog.local.conjunction import SLICED, Source
from bobbin.datalog.local.database import Database, Facts
from bobbin.datalog.local.evaluate import State
from bobbin.datalog.local.relation import Relation, relation_of
from bobbin.datalog.local.table import Row
from bobbin.datalog.local.values import Values
from bobbin.datalog.syntax import Program
from bobbin.facts.relations import FIELD, FactSource, Tuple
from bobbin.policy import vocabulary
from bobbin.policy.executables import LocalPolicy, Part, PolicyLimitExceeded
from bobbin.policy.frozen import FrozenProgram, Pool

_AGAIN_MIN: Final = 20_000
"""From so many changed rows on, and if they are more than there are derived ones, everything is derived anew."""

Mask: TypeAlias = NDArray[np.bool_]
"""For each number, whether it is meant."""


class Running:
    """A program and its state. After an error the state is worthless: evaluate anew."""

    def __init__(self, policy: LocalPolicy, part: Part, values: Values | None = None) -> None:
        """``values``: the numbers of texts that programs have in common."""
        role = vocabulary.QUERY if part is Part.QUERY else vocabulary.SELECTOR
        self.part: Final = part
        self.values = Values() if values is None else values
        """Where texts get their numbers from the next evaluation on."""
        self._executable: Final = policy.executable(part)
        self._arities: Final = role.base
        self._state: State | None = None

    @property
    def state(self) -> State:
        assert self._state is not None, "a program is evaluated, or taken up, before it is asked"
        return self._state

    @property
    def cells(self) -> int:
        """How many values the relations hold that the program reads or derives."""
        if self._state is None:
            return 0
        tables = (*self._state.database.tables.values(), *self._state.derived.values())
        return sum(len(table) * table.arity for table in tables)

    def reads(self, predicates: Collection[str]) -> list[Source]:
        """The base relations that the program reads, of these predicates."""
        return [source for source in self._executable.sources if source.predicate in predicates]

    def evaluate(
        self, sources: Mapping[str, FactSource], given: Mapping[Source, Relation] = MappingProxyType({})
    ) -> None:
        """Everything from nothing. What is ``given``, in numbers of ``values``, no source is asked for."""
        database = Database(sources, self._arities, self.values)
        for source, table in given.items():
            database.put(source, table)
        self._fill(database)
        self._evaluate(database)

    def replace(self, given: Mapping[Source, Relation]) -> None:
        """Evaluate anew with other facts for some relations, and with those that are loaded for the others."""
        database = self.state.database
        for source, table in given.items():
            database.put(source, table)
        if given:
            self._evaluate(database)

    def _evaluate(self, database: Database) -> None:
        try:
            self._state = self._executable.evaluate(database)
        except LimitExceeded as error:
            raise PolicyLimitExceeded(self.part, error) from error

    def forget(self) -> None:
        """Give back what is held. To be evaluated, or taken up, before anything else is asked."""
        self._state = None

    def part_of(self, sources: Iterable[Source], seen: Mask | None = None) -> dict[Source, Relation]:
        """What is loaded of these relations, cut down to the rows about records that are ``seen``: for another program.

        Columns are shared where nothing is cut off; the relations and their indexes are the reader's own.
        """
        tables = self.state.database.tables
        found: dict[Source, Relation] = {}
        for source in sources:
            if source in tables:
                columns = list(self.state.database.block(source).columns)
                found[source] = relation_of(columns if seen is None else pick(columns, seen[columns[0]]))
        return found

    def advance(self, *, added: Facts, removed: Facts, fresh: int | None = None) -> Changes:
        """Take facts out and in, and carry the change forward; returns how the derived relations changed.

        ``fresh``: see ``Database.change``.
        """
        changes = self.state.database.change(added=added, removed=removed, fresh=fresh)
        changed = sum(map(len, (*changes.added.values(), *changes.removed.values())))
        if not changed:
            return Changes()
        try:
            if changed >= _AGAIN_MIN and changed >= sum(map(len, self.state.derived.values())):
                return self._again()
            return self._executable.advance(self.state, changes)
        except LimitExceeded as error:
            raise PolicyLimitExceeded(self.part, error) from error

    def _again(self) -> Changes:
        """Evaluate over the facts that are loaded: where most is different, that is less work than what changed."""
        before, self._state = self.state, self._executable.evaluate(self.state.database)
        added: dict[Source, list[Row]] = {}
        removed: dict[Source, list[Row]] = {}
        for source in self._state.derived:
            old, new = before.block(source), self._state.block(source)
            added[source] = list(difference(new, old).rows())
            removed[source] = list(difference(old, new).rows())
        return Changes(
            {source: rows for source, rows in added.items() if rows},
            {source: rows for source, rows in removed.items() if rows},
        )

    def settle(self) -> None:
        """Nothing more is asked for the moment: hold everything in little room."""
        self.state.settle()

    def holds(self, predicate: str, values: Tuple) -> bool:
        """Whether a fact holds: a derived one, or one of a relation that the program reads whole."""
        numbers = [self.state.database.values.find(value) for value in values]
        row = tuple(number for number in numbers if number is not None)
        return len(row) == len(numbers) and row in self.state.table(Source(predicate)).rows

    def derives(self, predicate: str) -> bool:
        """Whether any rule defines a predicate."""
        return Source(predicate) in self.state.derived

    def tuples(self, predicate: str) -> Iterator[Tuple]:
        """Everything that is derived for a predicate."""
        table = self.state.derived.get(Source(predicate))
        return iter(()) if table is None else self.texts(table.rows)

    def subjects(self, rows: Iterable[Row], *rest: str) -> set[str]:
        """The first values of the rows whose other values are these."""
        values = self.state.database.values
        others = tuple(values.find(text) for text in rest)
        texts = values.texts
        if not others:
            return {texts[row[0]] for row in rows}
        return {texts[row[0]] for row in rows if row[1:] == others}

    def column(self, predicate: str, *rest: str) -> Column:
        """The first column of a relation, derived or read whole, of the rows whose other values are these.

        Nothing for a predicate that is neither.
        """
        source = Source(predicate)
        if not self.derives(predicate) and source not in self.state.database.tables:
            return np.empty(0, dtype=np.int32)
        block = self.state.block(source)
        mask = np.ones(block.size, dtype=np.bool_)
        for column, text in zip(block.columns[1:], rest, strict=True):
            number = self.state.database.values.find(text)
            mask &= column == (-1 if number is None else number)
        return pick(block.columns[:1], mask)[0]

    def spell(self, numbers: Column) -> list[str]:
        """The texts behind numbers."""
        return self.state.database.values.texts.spell(numbers)

    def texts(self, rows: Iterable[Row]) -> Iterator[Tuple]:
        """Rows as the texts that they stand for."""
        return map(self.state.database.values.decode_row, rows)

    def about(self, predicates: Collection[str], subjects: Iterable[str]) -> dict[str, list[Tuple]]:
        """The facts that the program holds whose first argument is one of these."""
        values = self.state.database.values
        numbers = [number for subject in subjects if (number := values.find(subject)) is not None]
        found: dict[str, list[Tuple]] = {}
        if not numbers:
            return found
        for source in self.reads(predicates):
            table = self.state.database.table(source)
            index = table.index((0,))
            tuples = self.texts(row for number in numbers for row in index.get(number, ()))
            found.setdefault(source.predicate, []).extend(_whole(source, values) for values in tuples)
        return found

    def freeze(self, pool: Pool) -> FrozenProgram:
        """Everything read and derived, at rest."""
        state = self.state
        base = {source: state.database.block(source) for source in self._executable.sources}
        derived = {source: state.block(source) for source in state.derived}
        return pool.program(base, derived, state.database.values.texts)

    def resume(self, frozen: FrozenProgram, texts: list[str], numbers: Column | None = None) -> None:
        """Go on from what was frozen. ``numbers``: those of all the texts, where ``values`` holds every one already."""
        database = Database({}, self._arities, self.values)
        mine = self.values.encode_many(frozen.spell(texts)) if numbers is None else numbers[frozen.places]
        for relation in frozen.base:
            database.put(relation.source, relation.table(mine))
        state = State({relation.source.predicate: relation.arity for relation in frozen.derived}, database)
        state.derived.update({relation.source: relation.table(mine) for relation in frozen.derived})
        self._state = state

    def _fill(self, database: Database) -> None:
        """Load everything that the program reads."""
        database.prepare(self._executable.sources)
        for source in self._executable.sources:
            database.table(source)


def computes(program: Program) -> bool:
    """Whether any rule makes up texts, which count against its budget as far as its values do not know them yet."""
    return any(
        isinstance(BUILTINS.get(literal.atom.predicate), Function) for rule in program.rules for literal in rule.body
    )


def slice_of(source: Source, arity: int) -> tuple[str | None, ...]:
    """The pattern that asks for exactly what a relation holds."""
    position = None if source.name is None else SLICED[source.predicate]
    return tuple(source.name if place == position else None for place in range(arity))


def fields_read(programs: Iterable[Running]) -> frozenset[str] | None:
    """The fields of stored records that any of these programs reads; None where one reads all."""
    names = {source.name for program in programs for source in program.reads({FIELD})}
    return None if None in names else frozenset(name for name in names if name is not None)


def _whole(source: Source, values: Tuple) -> Tuple:
    """A tuple of a relation that is kept apart by name, with the name in its place."""
    if source.name is None:
        return values
    position = SLICED[source.predicate]
    return (*values[:position], source.name, *values[position:])
