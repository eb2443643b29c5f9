"""Keeping derived relations up to date at the cost of what changed.

Additions that a stratum only reads positively flow through it like the rounds of an evaluation. In a stratum without
recursion, losses and negations work too: what might no longer hold is collected from the changed rows, each such fact
is put to the rules again, and what no rule derives any more goes. Only a recursive stratum that may lose facts is
computed anew. Strata that read nothing that changed are not touched.
"""

from collections.abc import Iterator, Mapping, Sequence

from bobbin.datalog.algebra import Fixpoint
from bobbin.datalog.local.budget import Budget
from bobbin.datalog.local.changes import Changes
from bobbin.datalog.local.clock import shape_of, stretch
from bobbin.datalog.local.complete import complete, keep, saturate
from bobbin.datalog.local.conjunction import Absent, Source
from bobbin.datalog.local.prepared import PreparedRule
from bobbin.datalog.local.state import State
from bobbin.datalog.local.table import Row


def advance_stratum(
    state: State,
    stratum: Fixpoint,
    rules: Sequence[PreparedRule],
    changes: Changes,
    *,
    columns_min: int,
    budget: Budget,
) -> Changes:
    """Bring one stratum up to date with what changed below it; returns how the stratum itself changed."""
    reads = frozenset().union(*(rule.reads for rule in rules))
    absent = frozenset().union(*(rule.absent for rule in rules))
    touched = changes.added.keys() | changes.removed.keys()
    if not touched & (reads | absent):
        return Changes()
    may_lose = touched & absent or changes.removed.keys() & reads
    if may_lose and stratum.recursive:
        return _start_again(state, stratum, rules, columns_min, budget)
    removed = _remove(state, rules, changes, budget) if may_lose else {}
    added = _add(state, rules, changes, budget)
    if stratum.recursive:
        saturate(state, rules, added, budget)
    return Changes(added, removed)


def _add(state: State, rules: Sequence[PreparedRule], changes: Changes, budget: Budget) -> dict[Source, list[Row]]:
    """Derive what the changes make true."""
    found: dict[Source, list[Row]] = {}
    for rule in rules:
        for number, rows in _given(state, rule, changes, changes.added):
            keep(state, rule.target, state.run(rule.on_new(number), rows, budget=budget), found, budget)
        for number, guard in enumerate(rule.conjunction.guards):
            if isinstance(guard, Absent) and (gone := changes.removed.get(guard.read.source)):
                keep(state, rule.target, state.run(rule.on_vanished(number), gone, budget=budget), found, budget)
    return found


def _given(
    state: State, rule: PreparedRule, changes: Changes, rows: Mapping[Source, list[Row]]
) -> Iterator[tuple[int, list[Row]]]:
    """Which scans of a rule bring changed rows. For a clock that moved, the rows that its bound went over stand in."""
    for number, read in enumerate(rule.conjunction.reads):
        if read.source not in rows:
            continue
        shape = shape_of(rule.conjunction, number) if len(rows[read.source]) == 1 == len(read.terms) else None
        crossed = None if shape is None else stretch(shape, rule.conjunction, changes, state)
        if shape is None or crossed is None:
            yield number, rows[read.source]
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


def _start_again(
    state: State, stratum: Fixpoint, rules: Sequence[PreparedRule], columns_min: int, budget: Budget
) -> Changes:
    targets = [Source(union.predicate) for union in stratum.unions]
    before = {target: set(state.derived[target].rows) for target in targets}
    complete(state, stratum, rules, columns_min=columns_min, budget=budget)
    after = {target: set(state.derived[target].rows) for target in targets}
    added = {target: list(after[target] - before[target]) for target in targets if after[target] - before[target]}
    removed = {target: list(before[target] - after[target]) for target in targets if before[target] - after[target]}
    return Changes(added, removed)
