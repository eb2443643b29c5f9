"""Evaluation in this process: a program, made ready once, run on any database, kept up to date.

A program is computed stratum by stratum (``complete``), so that nothing is negated before it is finished. The answer is
a set of tuples; no order of rules or facts can change it. ``advance`` carries changes of the facts forward and ends in
exactly the state that a new evaluation would reach.
"""

from bobbin.datalog.algebra import Plan
from bobbin.datalog.limits import DEFAULT, Limits
from bobbin.datalog.local.advance import advance_stratum
from bobbin.datalog.local.budget import Budget
from bobbin.datalog.local.changes import NO_CHANGES, Changes
from bobbin.datalog.local.complete import complete
from bobbin.datalog.local.conjunction import Source, flatten
from bobbin.datalog.local.database import Database
from bobbin.datalog.local.prepared import PreparedRule, PreparedStratum
from bobbin.datalog.local.relation import COLUMNS_MIN
from bobbin.datalog.local.state import State

__all__ = ["Changes", "Executable", "State"]


class Executable:
    """A program ready to run, any number of times, on any database."""

    def __init__(self, plan: Plan, limits: Limits = DEFAULT, *, columns_min: int = COLUMNS_MIN) -> None:
        """``columns_min``: a stratum that reads at least this many rows is first computed on columns."""
        self.limits = limits
        self._columns_min = columns_min
        self._arities = {
            union.predicate: len(union.inputs[0].terms) for stratum in plan.strata for union in stratum.unions
        }
        self._strata = [
            PreparedStratum(
                stratum,
                [
                    PreparedRule(flatten(union.predicate, rule, self._arities))
                    for union in stratum.unions
                    for rule in union.inputs
                ],
            )
            for stratum in plan.strata
        ]
        reads = frozenset().union(*(stratum.reads | stratum.absent for stratum in self._strata))
        self.sources: frozenset[Source] = frozenset(source for source in reads if source.predicate not in self._arities)
        """The base relations that the program reads."""

    def evaluate(self, database: Database) -> State:
        """The least model of the program over these facts."""
        state = State(self._arities, database)
        budget = Budget(self.limits)
        database.prepare(self.sources)
        for stratum in self._strata:
            complete(state, stratum, columns_min=self._columns_min, budget=budget)
        return state

    def advance(self, state: State, changes: Changes) -> Changes:
        """Carry changes of the base facts forward; returns how the derived relations changed.

        The database has taken the changes in already. After an error the state is worthless: evaluate anew.
        """
        budget = Budget(self.limits)
        budget.spend_tuples(sum(map(len, state.derived.values())))
        added, removed = dict(changes.added), dict(changes.removed)
        derived = Changes({}, {})
        below = Changes(added, removed, changes.fresh)
        for stratum in self._strata:
            step = advance_stratum(state, stratum, below, columns_min=self._columns_min, budget=budget)
            if step is not NO_CHANGES:
                added.update(step.added)
                removed.update(step.removed)
                derived = Changes({**derived.added, **step.added}, {**derived.removed, **step.removed})
        return derived
