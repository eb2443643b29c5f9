"""Keeping derived relations up to date at the cost of what changed.

Additions that a stratum only reads positively flow through it like the rounds of an evaluation. In a stratum without
recursion, losses and negations work too: what might no longer hold is collected from the changed rows, each such fact
is put to the rules again, and what no rule derives any more goes. Only a recursive stratum that may lose facts is
computed anew. Strata that read nothing that changed are not touched.

A record that nothing has spoken of before is new in every relation at once. Its facts join with nothing but one
another, so one of them is carried through a rule and stands for the others (``PreparedRule.echoes``).
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from bobbin.datalog.local.budget import Budget
from bobbin.datalog.local.changes import NO_CHANGES, Changes
from bobbin.datalog.local.clock import shape_of, stretch
from bobbin.datalog.local.columns import ColumnTable, block_of
from bobbin.datalog.local.complete import complete, keep, saturate
from bobbin.datalog.local.conjunction import Absent, Source
from bobbin.datalog.local.prepared import PreparedRule, PreparedStratum
from bobbin.datalog.local.state import State
from bobbin.datalog.local.table import Row

_TOGETHER_MIN: Final = 256
"""From so many new rows on, a rule that reads columns runs on columns."""


def advance_stratum(
    state: State, stratum: PreparedStratum, changes: Changes, *, columns_min: int, budget: Budget
) -> Changes:
    """Bring one stratum up to date with what changed below it; returns how the stratum itself changed."""
    added, removed = changes.added.keys(), changes.removed.keys()
    loses = not stratum.reads.isdisjoint(removed) or not stratum.absent.isdisjoint(added)
    gains = not stratum.reads.isdisjoint(added) or not stratum.absent.isdisjoint(removed)
    if not loses and not gains:
        return NO_CHANGES
    if stratum.recursive and (loses or not stratum.absent.isdisjoint(removed)):
        return _start_again(state, stratum, columns_min, budget)
    gone = _remove(state, stratum.rules, changes, budget) if loses else {}
    found = _add(state, stratum, changes, budget) if gains else {}
    if stratum.recursive:
        saturate(state, stratum.rules, found, budget)
    return Changes(found, gone)


def _add(state: State, stratum: PreparedStratum, changes: Changes, budget: Budget) -> dict[Source, list[Row]]:
    """Derive what the changes make true."""
    found: dict[Source, list[Row]] = {}
    fresh = changes.fresh
    for rule in stratum.rules:
        for number, rows in _given(state, rule, changes, changes.added):
            if places := stratum.echoes[rule, number]:
                rows = [row for row in rows if not any(row[place] >= fresh for place in places)]  # noqa: PLW2901
            if rows:
                keep(state, rule.target, _derive(state, rule.on_new(number), rows, budget), found, budget)
        if not changes.removed:
            continue
        for number, guard in enumerate(rule.conjunction.guards):
            if isinstance(guard, Absent) and (gone := changes.removed.get(guard.read.source)):
                keep(state, rule.target, state.run(rule.on_vanished(number), gone, budget=budget), found, budget)
    return found


def _derive(state: State, rule: PreparedRule, rows: list[Row], budget: Budget) -> set[Row]:
    """What a rule makes of new rows. Columns are slow to ask for one row after the other, so many are asked at once."""
    if len(rows) < _TOGETHER_MIN or not any(isinstance(state.table(source), ColumnTable) for source in rule.reads):
        return state.run(rule, rows, budget=budget)
    return set(state.run_on_columns(rule, block_of(len(rows[0]), rows), budget=budget).rows())


def _given(
    state: State, rule: PreparedRule, changes: Changes, rows: Mapping[Source, list[Row]]
) -> Iterator[tuple[int, list[Row]]]:
    """Which scans of a rule bring changed rows. For a clock that moved, the rows that its bound went over stand in."""
    for number, read in enumerate(rule.conjunction.reads):
        some = rows.get(read.source)
        if some is None:
            continue
        shape = shape_of(rule.conjunction, number) if changes.removed and len(some) == 1 == len(read.terms) else None
        crossed = None if shape is None else stretch(shape, rule.conjunction, changes, state)
        if shape is None or crossed is None:
            yield number, some
        elif crossed:
            yield shape.timed, crossed


def _remove(state: State, rules: Sequence[PreparedRule], changes: Changes, budget: Budget) -> dict[Source, list[Row]]:
    """Take out what the changes leave without any derivation."""
    doubtful: dict[Source, set[Row]] = {}
    for rule in rules:
        suspects = doubtful.setdefault(rule.target, set())
        for number, rows in _given(state, rule, changes, changes.removed):
            suspects |= state.run(rule.on_lost(number), rows, budget=budget, past=changes.removed, only_new=False)
        for number, guard in enumerate(rule.conjunction.guards):
            if isinstance(guard, Absent) and (new := changes.added.get(guard.read.source)):
                suspects |= state.run(
                    rule.on_appeared(number), new, budget=budget, past=changes.removed, only_new=False
                )
    removed: dict[Source, list[Row]] = {}
    for rule in rules:
        if suspects := doubtful[rule.target]:
            suspects -= state.run(rule.on_doubt(), list(suspects), budget=budget, only_new=False)
    for target, suspects in doubtful.items():
        if gone := state.derived[target].discard(suspects):
            removed[target] = gone
            budget.return_tuples(len(gone))
    return removed


def _start_again(state: State, stratum: PreparedStratum, columns_min: int, budget: Budget) -> Changes:
    before = {target: set(state.derived[target].rows) for target in stratum.targets}
    complete(state, stratum, columns_min=columns_min, budget=budget)
    after = {target: set(state.derived[target].rows) for target in stratum.targets}
    added = {target: list(rows - before[target]) for target, rows in after.items() if rows - before[target]}
    removed = {target: list(rows - after[target]) for target, rows in before.items() if rows - after[target]}
    return Changes(added, removed)
