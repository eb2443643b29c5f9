"""A stratum from nothing: every rule once, then only what is new, until nothing is.

Small strata run as compiled loops, large ones on columns; the answer is the same.
"""

from collections.abc import Sequence

import numpy as np

from bobbin.datalog.local.budget import COLUMN_INDEX_STEPS, Budget
from bobbin.datalog.local.columns import Block, ColumnTable, block_of, difference, join_blocks
from bobbin.datalog.local.conjunction import Source
from bobbin.datalog.local.prepared import PreparedRule, PreparedStratum
from bobbin.datalog.local.state import State
from bobbin.datalog.local.table import Row, Table


def complete(state: State, stratum: PreparedStratum, *, columns_min: int, budget: Budget) -> None:
    """Derive everything that the rules of a stratum yield. What it held before is dropped."""
    for target in stratum.targets:
        budget.return_tuples(len(state.derived[target]))
        state.derived[target] = Table(state.derived[target].arity)
    if sum(map(state.size, stratum.reads)) >= columns_min or _is_on_columns(state, stratum):
        _complete_on_columns(state, stratum, budget)
    else:
        found: dict[Source, list[Row]] = {}
        for rule in stratum.rules:
            keep(state, rule.target, state.run(rule, budget=budget), found, budget)
        if stratum.recursive:
            saturate(state, stratum.rules, found, budget)
        for target in stratum.targets:
            _hold_as_columns_when_large(state, target, columns_min)


def _is_on_columns(state: State, stratum: PreparedStratum) -> bool:
    """Whether loops would ask columns for one row after the other. Recursion takes many rounds, each with few rows."""
    return not stratum.recursive and any(isinstance(state.table(source), ColumnTable) for source in stratum.reads)


def _hold_as_columns_when_large(state: State, target: Source, columns_min: int) -> None:
    """A few rows can make many: what reads them next would turn them into columns again and again."""
    table = state.derived[target]
    if isinstance(table, Table) and table.arity and len(table) >= columns_min:
        state.derived[target] = ColumnTable(table.arity, block_of(table.arity, table.rows))


def keep(state: State, target: Source, rows: set[Row], found: dict[Source, list[Row]], budget: Budget) -> None:
    """Take derived rows into their relation; those that are new also into ``found``."""
    if rows and (new := state.derived[target].add(rows)):
        budget.spend_tuples(len(new))
        found.setdefault(target, []).extend(new)


def saturate(state: State, rules: Sequence[PreparedRule], found: dict[Source, list[Row]], budget: Budget) -> None:
    """Carry found rows through the rules until nothing new appears; adds what appears to them."""
    delta = {source: list(rows) for source, rows in found.items()}
    while delta:
        budget.spend_round()
        following: dict[Source, list[Row]] = {}
        for rule in rules:
            for number, read in enumerate(rule.conjunction.reads):
                if rows := delta.get(read.source):
                    keep(state, rule.target, state.run(rule.on_new(number), rows, budget=budget), following, budget)
        for source, rows in following.items():
            found.setdefault(source, []).extend(rows)
        delta = following


def _complete_on_columns(state: State, stratum: PreparedStratum, budget: Budget) -> None:
    for target in stratum.targets:
        columns = [np.empty(0, dtype=np.int32)] * state.derived[target].arity
        state.derived[target] = ColumnTable(len(columns), Block(columns))
    jobs: list[tuple[PreparedRule, Block | None]] = [(rule, None) for rule in stratum.rules]
    while delta := _derive(state, jobs, budget):
        if not stratum.recursive:
            break
        budget.spend_round()
        jobs = [
            (rule.on_new(number), delta[read.source])
            for rule in stratum.rules
            for number, read in enumerate(rule.conjunction.reads)
            if read.source in delta
        ]


def _derive(state: State, jobs: Sequence[tuple[PreparedRule, Block | None]], budget: Budget) -> dict[Source, Block]:
    """Run rules on columns and take what is new into the derived relations."""
    found: dict[Source, Block] = {}
    for rule, given in jobs:
        table = state.derived[rule.target]
        assert isinstance(table, ColumnTable)
        new = state.run_on_columns(rule, given, budget=budget)
        if new.size:
            # Beyond one position, telling known rows from new ones sorts those that are known.
            budget.spend_steps(table.block.size * COLUMN_INDEX_STEPS)
            new = difference(new, table.block)
        if new.size:
            budget.spend_tuples(new.size)
            table.extend(new)
            found[rule.target] = join_blocks(found[rule.target], new) if rule.target in found else new
    return found
