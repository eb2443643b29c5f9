"""One program of a plan, with the facts that it reads, kept up to date at the cost of what changes.

Every relation that the program reads is loaded when it is first evaluated, so that no source is asked later, when it
might answer for another moment. What the program does not read is not held and costs nothing.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Final

from bobbin.datalog.local.budget import LimitExceeded
from bobbin.datalog.local.changes import Changes
from bobbin.datalog.local.columns import Column, difference
from bobbin.datalog.local.conjunction import SLICED, Source
from bobbin.datalog.local.database import Database, Facts
from bobbin.datalog.local.evaluate import State
from bobbin.datalog.local.table import Row
from bobbin.facts.relations import FactSource, Tuple
from bobbin.policy import vocabulary
from bobbin.policy.executables import LocalPolicy, Part, PolicyLimitExceeded
from bobbin.policy.frozen import FrozenProgram, Pool

_AGAIN_MIN: Final = 20_000
"""From so many changed rows on, and if they are more than there are derived ones, everything is derived anew."""
_IDLE_TEXTS_MAX: Final = 200_000


class Running:
    """A program and its state. After an error the state is worthless: evaluate anew."""

    def __init__(self, policy: LocalPolicy, part: Part) -> None:
        role = vocabulary.QUERY if part is Part.QUERY else vocabulary.SELECTOR
        self.part: Final = part
        self._executable: Final = policy.executable(part)
        self._arities: Final = role.base
        self._state: State | None = None

    @property
    def state(self) -> State:
        assert self._state is not None, "a program is evaluated, or taken up, before it is asked"
        return self._state

    def reads(self, predicates: Collection[str]) -> list[Source]:
        """The base relations that the program reads, of these predicates."""
        return [source for source in self._executable.sources if source.predicate in predicates]

    def evaluate(self, sources: Mapping[str, FactSource]) -> None:
        """Everything from nothing."""
        database = Database(sources, self._arities)
        self._fill(database)
        try:
            self._state = self._executable.evaluate(database)
        except LimitExceeded as error:
            raise PolicyLimitExceeded(self.part, error) from error

    def advance(self, *, added: Facts, removed: Facts) -> Changes:
        """Take facts out and in, and carry the change forward; returns how the derived relations changed."""
        self._forget_texts()
        changes = self.state.database.change(added=added, removed=removed)
        changed = sum(map(len, (*changes.added.values(), *changes.removed.values())))
        if not changed:
            return Changes()
        try:
            if changed >= _AGAIN_MIN and changed >= sum(map(len, self.state.derived.values())):
                return self._again()
            return self._executable.advance(self.state, changes)
        except LimitExceeded as error:
            raise PolicyLimitExceeded(self.part, error) from error

    def _forget_texts(self) -> None:
        """Number the texts anew when most of them occur nowhere any more: a peer can claim and withdraw for ever."""
        state = self.state
        base = map(state.database.table, self._executable.sources)
        cells = sum(len(table) * table.arity for table in (*base, *state.derived.values()))
        if len(state.database.values) > _IDLE_TEXTS_MAX + 2 * cells:
            pool = Pool()
            self.resume(self.freeze(pool), pool.texts)

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

    def column(self, predicate: str) -> Column:
        """The first column of a relation, derived or read whole."""
        return self.state.block(Source(predicate)).columns[0]

    def spell(self, numbers: Column) -> Iterator[str]:
        """The texts behind numbers."""
        return map(self.state.database.values.texts.__getitem__, numbers.tolist())

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

    def resume(self, frozen: FrozenProgram, texts: list[str]) -> None:
        """Go on from what was frozen."""
        database = Database({}, self._arities)
        database.values.encode_many(frozen.spell(texts))
        for relation in frozen.base:
            database.put(relation.source, relation.table())
        state = State({relation.source.predicate: relation.arity for relation in frozen.derived}, database)
        state.derived.update({relation.source: relation.table() for relation in frozen.derived})
        self._state = state

    def _fill(self, database: Database) -> None:
        """Load everything that the program reads."""
        database.prepare(self._executable.sources)
        for source in self._executable.sources:
            database.table(source)


def slice_of(source: Source, arity: int) -> tuple[str | None, ...]:
    """The pattern that asks for exactly what a relation holds."""
    position = None if source.name is None else SLICED[source.predicate]
    return tuple(source.name if place == position else None for place in range(arity))


def _whole(source: Source, values: Tuple) -> Tuple:
    """A tuple of a relation that is kept apart by name, with the name in its place."""
    if source.name is None:
        return values
    position = SLICED[source.predicate]
    return (*values[:position], source.name, *values[position:])
