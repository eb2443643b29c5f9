"""The derived relations of one program over one database, and how a rule runs on them."""

from collections.abc import Collection, Mapping, Sequence
from typing import Final, TypeAlias

from bobbin.datalog.local.budget import (
    COLUMN_INDEX_STEPS,
    HEAD_STEPS,
    INDEX_STEPS,
    ORDER_STEPS,
    RUN_STEPS,
    Budget,
)
from bobbin.datalog.local.codegen import Need
from bobbin.datalog.local.columnar import derive
from bobbin.datalog.local.columns import Block, ColumnIndex, ColumnTable, block_of
from bobbin.datalog.local.conjunction import Read, Source
from bobbin.datalog.local.database import Database
from bobbin.datalog.local.order import bound_positions
from bobbin.datalog.local.prepared import IN_DOUBT, PreparedRule
from bobbin.datalog.local.relation import Relation, settled
from bobbin.datalog.local.table import Index, Key, Positions, Row, Table
from bobbin.facts.relations import Tuple

Rows: TypeAlias = Mapping[Source, list[Row]]

_SLACK_MIN: Final = 65_536


class State:
    """What a program derives. ``evaluate`` fills it, ``advance`` keeps it up to date."""

    def __init__(self, arities: Mapping[str, int], database: Database) -> None:
        """``arities``: the predicates that the program defines."""
        self.database = database
        self._base = database.tables
        self.derived: dict[Source, Relation] = {Source(name): Table(arity) for name, arity in arities.items()}
        self._blocks: dict[Source, tuple[Table, int, Block]] = {}
        """Small derived relations as columns, until they change."""

    def tuples(self, predicate: str) -> frozenset[Tuple]:
        """Everything derived for a predicate; nothing for one that no rule defines."""
        table = self.derived.get(Source(predicate))
        return frozenset() if table is None else frozenset(map(self.database.values.decode_row, table.rows))

    def count(self, predicate: str) -> int:
        """How many tuples are derived for a predicate."""
        table = self.derived.get(Source(predicate))
        return 0 if table is None else len(table)

    def table(self, source: Source) -> Relation:
        """A relation, derived or base."""
        table = self.derived.get(source)
        if table is None:
            table = self._base.get(source)
        return self.database.table(source) if table is None else table

    def block(self, source: Source) -> Block:
        """A relation as columns."""
        derived = self.derived.get(source)
        if derived is None:
            return self.database.block(source)
        if isinstance(derived, ColumnTable):
            return derived.merged()
        known = self._blocks.get(source)
        if known is None or known[0] is not derived or known[1] != derived.version:
            known = self._blocks[source] = derived, derived.version, block_of(derived.arity, derived.rows)
        return known[2]

    def settle(self) -> None:
        """Nothing more is asked for the moment: hold everything in little room."""
        self.database.settle()
        for source, table in self.derived.items():
            self.derived[source] = settled(table)
        self._blocks.clear()

    def size(self, source: Source) -> int:
        """How many rows a relation has."""
        table = self.derived.get(source)
        if table is None:
            table = self._base.get(source)
        return len(self.database.table(source) if table is None else table)

    def estimate(self, read: Read, bound: frozenset[str]) -> float:
        """How many rows a scan is likely to yield each time that it is reached."""
        if read.source == IN_DOUBT:
            return 0.0
        table = self.table(read.source)
        positions = bound_positions(read, bound)
        if not positions or not len(table):
            return float(len(table))
        return len(table) / max(table.distinct(positions), 1)

    def run(
        self,
        rule: PreparedRule,
        given: Collection[Row] = (),
        *,
        budget: Budget,
        past: Rows | None = None,
        only_new: bool = True,
    ) -> set[Row]:
        """What a rule derives. With ``past``, relations still hold the rows that they have lost.

        Rows that the target holds already may be among them, or be left out; with ``only_new=False``, these are the
        rows that matter, and others may be left out.
        """
        budget.spend_overhead(RUN_STEPS)
        compiled = rule.compiled(self.size, self.estimate, budget.spend_overhead)
        values = self.database.values
        found: set[Row] = set()

        def spend(steps: int) -> None:
            budget.spend_steps(steps)
            if made := len(values) - first:
                budget.check_values(made)
            if len(found) > _SLACK_MIN and len(found) > budget.tuples_left + max(budget.tuples_left // 4, _SLACK_MIN):
                # Rows that the target has do not count. Sorting them out is dear, so it waits until it must be.
                held = self.derived[rule.target].rows
                found.difference_update([row for row in found if (row in held) == only_new])
                budget.check_tuples(len(found) if only_new else 0)

        needs = [given if need.delta else self._supply(need, past, budget) for need in compiled.needs]
        constants = [values.encode(text) for text in compiled.constants]
        first = len(values)
        compiled.function(*needs, *constants, values.texts, values.encode, spend, found.add)
        if made := len(values) - first:
            budget.spend_values(made)
        if found:
            budget.spend_steps(len(found) * HEAD_STEPS)
        return found

    def run_on_columns(self, rule: PreparedRule, given: Block | None, *, budget: Budget) -> Block:
        """The same on columns."""
        delta = None if given is None or rule.given is None else (rule.given, given)
        scans = len(rule.conjunction.reads)
        budget.spend_overhead(ORDER_STEPS * scans**2 + RUN_STEPS * 2 * scans)
        order = rule.order(self.estimate)
        values = self.database.values
        return derive(rule.conjunction, order, blocks=self.block, delta=delta, values=values, budget=budget)

    def _supply(self, need: Need, past: Rows | None, budget: Budget) -> object:
        table = self.table(need.source)
        lost = past.get(need.source) if past else None
        if positions := need.positions:
            if not table.has_index(positions):
                budget.spend_steps(len(table) * (INDEX_STEPS if isinstance(table, Table) else COLUMN_INDEX_STEPS))
            index = table.index(positions)
            return _PastIndex(index, Table(table.arity, lost), positions) if lost else index
        return [*table.rows, *lost] if lost else table.rows


class _PastIndex:
    """An index that still knows the rows that were taken out."""

    def __init__(self, present: Index | ColumnIndex, lost: Table, positions: Positions) -> None:
        self._present = present
        self._lost = lost.index(positions)

    def get(self, key: Key, default: Sequence[Row] = ()) -> list[Row]:
        return [*self._present.get(key, default), *self._lost.get(key, default)]

    def __contains__(self, key: Key) -> bool:
        return key in self._present or key in self._lost
