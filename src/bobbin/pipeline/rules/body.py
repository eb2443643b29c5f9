"""One rule as a data frame: its literals joined, its built-ins and negations applied, its head projected.

Literals about one record are one star; every other literal is a scan of a relation. They are joined one after the
other, each with what it shares variables with; a scan that binds nothing that is needed later is a semi-join. What is
known to be small is broadcast. A product, of parts that share no variable, needs a side that is known to be small, so
that no rule makes Spark multiply two large tables.
"""

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Final

import pyarrow as pa
from msgspec import Struct
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as f

from bobbin.datalog.local.budget import LimitExceeded
from bobbin.datalog.local.conjunction import Absent, Computed, Conjunction, Guard, Read, Tested
from bobbin.datalog.syntax import Constant, Term, Variable, Wildcard
from bobbin.pipeline.rules import expressions
from bobbin.pipeline.rules.limits import RuleLimits
from bobbin.pipeline.rules.relations import UNIT, Relation, column_names, listed, materialise
from bobbin.pipeline.rules.wide import Star, WideTable

_EXISTS: Final = "exists"
_INLINE_MAX: Final = 1
"""A known relation of so many rows is written into the rule."""


class Known(Struct, frozen=True, kw_only=True):
    """What rules may read: tables of records, and relations by name. A predicate that is in neither is empty."""

    session: SparkSession
    tables: Mapping[str, WideTable] = MappingProxyType({})
    relations: Mapping[str, Relation] = MappingProxyType({})

    def with_relations(self, more: Mapping[str, Relation]) -> "Known":
        """The same and these."""
        return Known(session=self.session, tables=self.tables, relations={**self.relations, **more})

    def relation(self, predicate: str, arity: int) -> Relation:
        found = self.relations.get(predicate)
        return listed(self.session, arity, ()) if found is None else found


class Derived(Struct, frozen=True, kw_only=True):
    """What a rule derives. Rows may come twice unless ``distinct``."""

    frame: DataFrame
    weight: int
    distinct: bool


def derive(
    conjunction: Conjunction,
    known: Known,
    limits: RuleLimits,
    given: Mapping[int, Relation] = MappingProxyType({}),
) -> Derived | None:
    """The rows of a rule's head, or None where plainly there are none. ``given`` replaces what a scan reads."""
    try:
        return _Body(conjunction, known, limits, given).derive()
    except _Nothing:
        return None


class _Nothing(Exception):
    """The rule derives nothing, whatever else its body says."""


class _Unit(Struct, frozen=True, kw_only=True):
    """A part of the body that is one frame, with a column for each of its variables."""

    frame: Callable[[Sequence[str]], DataFrame]
    """The frame with the columns of these variables."""
    variables: frozenset[str]
    rows: int | None
    weight: int
    given: bool
    unique: frozenset[str]
    """Variables whose values no two rows share; empty where nothing is known."""


class _Body:
    def __init__(
        self, conjunction: Conjunction, known: Known, limits: RuleLimits, given: Mapping[int, Relation]
    ) -> None:
        self._conjunction = conjunction
        self._known = known
        self._limits = limits
        names = [*_variables(conjunction)]
        self._names = {name: f"v{number}" for number, name in enumerate(names)}
        self._literals: dict[str, str] = {}
        """Variables whose one value is known here."""
        self._frame: DataFrame | None = None
        """None stands for the one row that binds nothing."""
        self._columns: frozenset[str] = frozenset()
        self._rows: int | None = 1
        """How many rows the frame has at most, where that is known."""
        self._unique: frozenset[str] = frozenset()
        self._weight = 1
        self._pending: list[Guard] = list(conjunction.guards)
        self._units = self._make_units(given)

    def derive(self) -> Derived:
        self._apply_ready()
        while self._units:
            unit = self._choose()
            self._units.remove(unit)
            self._join(unit)
            self._apply_ready()
        assert not self._pending, "a safe rule has no guard that waits for ever"
        head = self._conjunction.head
        columns = [self._column(term).alias(name) for term, name in zip(head, column_names(len(head)), strict=False)]
        frame = self._whole().select(*(columns or [f.lit("").alias(UNIT)]))
        shown = {term.name for term in head if isinstance(term, Variable)}
        return Derived(frame=frame, weight=self._weight, distinct=bool(self._unique & shown) or (self._rows or 2) <= 1)

    # ---- units -------------------------------------------------------------------------------------------------------

    def _make_units(self, given: Mapping[int, Relation]) -> list[_Unit]:
        units: list[_Unit] = []
        stars: dict[tuple[int, Term], list[Read]] = {}
        tables: dict[int, WideTable] = {}
        for number, read in enumerate(self._conjunction.reads):
            table = self._known.tables.get(read.source.predicate)
            if number not in given and table is not None:
                subject: Term = read.terms[0]
                key = Variable(f"?{number}") if isinstance(subject, Wildcard) else subject
                stars.setdefault((id(table), key), []).append(read)
                tables[id(table)] = table
                continue
            relation = given.get(number) or self._known.relation(read.source.predicate, len(read.terms))
            if relation.tuples is not None and len(relation.tuples) <= _INLINE_MAX:
                self._inline(read, relation)
            else:
                units.append(self._scan(read, relation, given=number in given))
        return units + [self._star(tables[place], reads) for (place, _), reads in stars.items()]

    def _inline(self, read: Read, relation: Relation) -> None:
        """Take the one row of a relation into the rule."""
        if not relation.tuples:
            raise _Nothing
        (row,) = relation.tuples
        for term, value in zip(read.terms, row, strict=True):
            match term:
                case Constant(wanted) if wanted != value:
                    raise _Nothing
                case Variable(name):
                    if self._literals.setdefault(name, value) != value:
                        raise _Nothing
                case _:
                    pass

    def _scan(self, read: Read, relation: Relation, *, given: bool = False) -> _Unit:
        frame = _selected(relation.frame, read.terms)
        places = {term.name: place for place, term in reversed([*enumerate(read.terms)]) if isinstance(term, Variable)}

        def columns(variables: Sequence[str]) -> DataFrame:
            return frame.select(*(f.col(f"_{places[name]}").alias(self._names[name]) for name in variables))

        whole = frozenset(places) if len(places) == len(read.terms) == 1 else frozenset[str]()
        return _Unit(
            frame=columns,
            variables=frozenset(places),
            rows=relation.rows,
            weight=relation.weight,
            given=given,
            unique=whole,
        )

    def _star(self, table: WideTable, reads: Sequence[Read]) -> _Unit:
        star = Star(table, reads, self._names)
        absent = [guard for guard in self._pending if isinstance(guard, Absent)]
        for guard in absent:
            is_of_table = self._known.tables.get(guard.read.source.predicate) is table
            if is_of_table and star.answers_absence(guard.read):
                star.exclude(guard.read)
                self._pending.remove(guard)
        subject = reads[0].terms[0]
        is_key = isinstance(subject, Variable) and not star.explodes
        return _Unit(
            frame=star.frame,
            variables=star.variables,
            rows=None if star.explodes else table.rows,
            weight=1,
            given=False,
            unique=frozenset({subject.name}) if is_key and isinstance(subject, Variable) else frozenset(),
        )

    # ---- joins -------------------------------------------------------------------------------------------------------

    def _choose(self) -> _Unit:
        """The next part to join: what was given first, then what shares a variable, the large ones first of all."""
        if self._frame is None:
            return min(self._units, key=lambda unit: (not unit.given, -(unit.rows or self._limits.derived_rows_max)))
        return min(
            self._units,
            key=lambda unit: (
                not unit.variables & self._columns and bool(unit.variables),
                unit.rows if unit.rows is not None else self._limits.derived_rows_max,
            ),
        )

    def _join(self, unit: _Unit) -> None:
        fixed = sorted(unit.variables & self._literals.keys())
        wanted = unit.variables - self._literals.keys()
        shared = wanted & self._columns
        new = wanted - self._columns
        kept = new & self._needed()
        frame = unit.frame(sorted(shared | kept | set(fixed)))
        for name in fixed:
            column = self._names[name]
            frame = frame.where(f.col(column) == f.lit(self._literals[name])).drop(column)
        self._weight += unit.weight
        if not shared | kept:
            self._require(frame)
            return
        if self._frame is None:
            self._frame, self._columns, self._rows = frame, frozenset(kept), unit.rows
            self._unique = unit.unique & kept
            return
        if not shared:
            self._multiply(frame, unit)
        else:
            self._join_on(frame, unit, shared, semi=not kept)
        self._columns |= kept

    def _join_on(self, frame: DataFrame, unit: _Unit, shared: frozenset[str], *, semi: bool) -> None:
        assert self._frame is not None, "there is something to join with"
        small = self._limits.broadcast_rows_max
        left, right = self._frame, frame
        if unit.rows is not None and unit.rows <= small:
            right = f.broadcast(right)
        elif self._rows is not None and self._rows <= small and not semi:
            left = f.broadcast(left)
        self._frame = left.join(right, [self._names[name] for name in sorted(shared)], "left_semi" if semi else "inner")
        if semi:
            return
        if not unit.unique & shared:
            self._rows = None
            self._unique = frozenset()

    def _multiply(self, frame: DataFrame, unit: _Unit) -> None:
        """Every row with every row: only where one side is known to be small."""
        assert self._frame is not None, "there is something to multiply with"
        most = self._limits.product_rows_max
        rows = unit.rows
        if (rows is None or rows > most) and (self._rows is None or self._rows > most):
            frame, rows = materialise(frame.distinct())
            if rows > most:
                raise LimitExceeded(
                    "product_rows_max",
                    f"a rule for {self._conjunction.predicate} multiplies two relations that share no variable, and "
                    f"neither is known to have at most {most} rows",
                )
        if rows is not None and rows <= most:
            self._frame = self._frame.crossJoin(f.broadcast(frame))
        else:
            self._frame = f.broadcast(self._frame).crossJoin(frame)
        self._rows = None
        self._unique = frozenset()

    def _require(self, frame: DataFrame) -> None:
        """A part without variables that matter: there must be some row of it."""
        some = f.broadcast(frame.select(f.lit("").alias(_EXISTS)).distinct())
        if self._frame is None:
            self._frame, self._rows = some.withColumnRenamed(_EXISTS, UNIT), 1
            return
        self._frame = self._frame.withColumn(_EXISTS, f.lit("")).join(some, [_EXISTS], "left_semi").drop(_EXISTS)

    # ---- guards ------------------------------------------------------------------------------------------------------

    def _apply_ready(self) -> None:
        """Apply every guard whose variables are bound, functions first since they bind more."""
        while ready := [guard for guard in self._pending if guard.needs() <= self._columns | self._literals.keys()]:
            guard = min(ready, key=lambda guard: not isinstance(guard, Computed))
            self._pending.remove(guard)
            match guard:
                case Absent(read):
                    self._apply_absent(read)
                case Tested(builtin, arguments, negated):
                    first, second, *rest = arguments
                    result = None if not rest or isinstance(rest[0], Wildcard) else self._column(rest[0])
                    truth = expressions.holds(builtin, self._column(first), self._column(second), result)
                    self._frame = self._whole().where(~truth if negated else truth)
                case Computed():
                    self._apply_computed(guard)

    def _apply_computed(self, guard: Computed) -> None:
        first, second = guard.arguments
        found = expressions.value(guard.builtin, self._column(first), self._column(second))
        match guard.result:
            case Wildcard():
                self._frame = self._whole().where(found.isNotNull())
            case Variable(name) if name not in self._columns and name not in self._literals:
                column = self._names[name]
                self._frame = self._whole().withColumn(column, found).where(f.col(column).isNotNull())
                self._columns |= {name}
            case bound:
                self._frame = self._whole().where(f.coalesce(found == self._column(bound), f.lit(False)))  # noqa: FBT003

    def _apply_absent(self, read: Read) -> None:
        table = self._known.tables.get(read.source.predicate)
        if table is not None:
            unit = self._star_alone(table, read)
        else:
            relation = self._known.relation(read.source.predicate, len(read.terms))
            if relation.tuples is not None and not relation.tuples:
                return
            unit = self._scan(read, relation)
        self._weight += unit.weight
        frame = unit.frame(sorted(unit.variables))
        for name in sorted(unit.variables & self._literals.keys()):
            column = self._names[name]
            frame = frame.where(f.col(column) == f.lit(self._literals[name])).drop(column)
        shared = [self._names[name] for name in sorted(unit.variables - self._literals.keys())]
        if shared:
            small = unit.rows is not None and unit.rows <= self._limits.broadcast_rows_max
            self._frame = self._whole().join(f.broadcast(frame) if small else frame, shared, "left_anti")
            return
        some = f.broadcast(frame.select(f.lit("").alias(_EXISTS)).distinct())
        self._frame = self._whole().withColumn(_EXISTS, f.lit("")).join(some, [_EXISTS], "left_anti").drop(_EXISTS)

    def _star_alone(self, table: WideTable, read: Read) -> _Unit:
        star = Star(table, [read], self._names)
        return _Unit(
            frame=star.frame,
            variables=star.variables,
            rows=table.rows,
            weight=1,
            given=False,
            unique=frozenset(),
        )

    # ---- columns -----------------------------------------------------------------------------------------------------

    def _whole(self) -> DataFrame:
        if self._frame is None:
            self._frame = self._known.session.createDataFrame(pa.table({UNIT: pa.array([""])}))
        return self._frame

    def _column(self, term: Term) -> Column:
        match term:
            case Variable(name) if name in self._literals:
                return f.lit(self._literals[name])
            case Variable(name):
                return f.col(self._names[name])
            case Constant(value):
                return f.lit(value)
            case Wildcard():
                raise AssertionError("a wildcard has no value")

    def _needed(self) -> frozenset[str]:
        """The variables that something still asks for."""
        head = {term.name for term in self._conjunction.head if isinstance(term, Variable)}
        units = (unit.variables for unit in self._units)
        results = (
            {guard.result.name}
            for guard in self._pending
            if isinstance(guard, Computed) and isinstance(guard.result, Variable)
        )
        return frozenset(head.union(*units, *(guard.needs() for guard in self._pending), *results))


def _selected(frame: DataFrame, terms: Sequence[Term]) -> DataFrame:
    """The rows that agree with the constants and with variables that stand twice."""
    first: dict[str, str] = {}
    for place, term in enumerate(terms):
        column = f"_{place}"
        match term:
            case Constant(value):
                frame = frame.where(f.col(column) == f.lit(value))
            case Variable(name) if name in first:
                frame = frame.where(f.col(column) == f.col(first[name]))
            case Variable(name):
                first[name] = column
            case Wildcard():
                pass
    return frame


def _variables(conjunction: Conjunction) -> dict[str, None]:
    """Every variable of a rule, in order of appearance."""
    terms: list[Term] = [term for read in conjunction.reads for term in read.terms]
    for guard in conjunction.guards:
        match guard:
            case Absent(read):
                terms += read.terms
            case Tested(_, arguments):
                terms += arguments
            case Computed(_, arguments, result):
                terms += [*arguments, result]
    return dict.fromkeys(term.name for term in terms if isinstance(term, Variable))
