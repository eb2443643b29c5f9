"""A whole program on Spark: stratum by stratum, each by the executor that fits it.

Strata that no wanted predicate depends on are left out. A relation that is read once, or is cheap to compute again,
stays a plan; one that would be computed again and again is computed once and kept on the executors.
"""

from collections import Counter
from collections.abc import Collection, Mapping
from typing import Final

from msgspec import Struct

from bobbin.datalog.algebra import Fixpoint, Plan
from bobbin.datalog.local.budget import LimitExceeded
from bobbin.datalog.local.conjunction import Absent
from bobbin.pipeline.rules import collected, frames, inputs, loop, partitioned
from bobbin.pipeline.rules.body import Known
from bobbin.pipeline.rules.core import Core, conjunctions, split
from bobbin.pipeline.rules.inputs import Inputs
from bobbin.pipeline.rules.limits import DEFAULT, RuleLimits
from bobbin.pipeline.rules.planner import Choice, Executor, choose
from bobbin.pipeline.rules.relations import Relation, check_rows, materialise

_WEIGHT_MAX: Final = 12
"""Scans that a plan may repeat before it is better computed once."""


class StratumRun(Struct, frozen=True, kw_only=True):
    """How one stratum was executed, for the report."""

    predicates: tuple[str, ...]
    executor: Executor
    reason: str
    rows_read: int | None = None
    """Rows of the core's inputs, where there is a core."""
    rounds: int | None = None
    """Rounds of the loop, where there was one."""

    def __str__(self) -> str:
        rounds = f", {self.rounds} rounds" if self.rounds is not None else ""
        return f"{' and '.join(self.predicates)}: {self.executor} ({self.reason}{rounds})"


class Answer(Struct, frozen=True, kw_only=True):
    """The wanted relations, and how they came about."""

    relations: Mapping[str, Relation]
    runs: tuple[StratumRun, ...]


def evaluate(
    plan: Plan,
    known: Known,
    *,
    wanted: Collection[str],
    executor: Executor | None = None,
    limits: RuleLimits = DEFAULT,
) -> Answer:
    """Evaluate a program.

    ``executor`` forces how strata are executed: ``frames`` refuses recursion, each of the others is for the recursive
    strata, those without recursion being frames all the same. A program without recursion runs under any of them.
    """
    strata = _relevant(plan, wanted)
    uses = _uses(strata)
    uses.update(wanted)
    run = _Evaluation(known, executor, limits, uses)
    for stratum in strata:
        run.add(stratum)
    arities = {union.predicate: len(union.inputs[0].terms) for stratum in plan.strata for union in stratum.unions}
    answers = {name: run.known.relation(name, arities.get(name, 1)) for name in wanted}
    return Answer(relations=answers, runs=tuple(run.runs))


def check_executor(plan: Plan, wanted: Collection[str], executor: Executor | None) -> None:
    """Refuse an executor that cannot do a program, as far as the program alone says so."""
    if executor is Executor.FRAMES:
        for stratum in _relevant(plan, wanted):
            frames.check(stratum)


class _Evaluation:
    def __init__(self, known: Known, executor: Executor | None, limits: RuleLimits, uses: Mapping[str, int]) -> None:
        self.known = known
        self.runs: list[StratumRun] = []
        self._executor = executor
        self._limits = limits
        self._uses = uses
        self._rows = 0

    def add(self, stratum: Fixpoint) -> None:
        """Execute the next stratum."""
        names = tuple(sorted(stratum.predicates))
        if not stratum.recursive or self._executor is Executor.FRAMES:
            found = frames.execute(stratum, self.known, self._limits)
            self._keep({name: self._settled(name, relation) for name, relation in found.items()})
            self.runs.append(StratumRun(predicates=names, executor=Executor.FRAMES, reason="no recursion"))
            return
        core = split(stratum, self.known.tables)
        if self._executor is Executor.PARTITIONED:
            partitioned.check(core)
        given = inputs.compute(core, self.known, self._limits)
        if self._executor is not None:
            self._execute(Choice(self._executor, "asked for"), core, given)
            return
        choices = choose(core, given, self._limits)
        for choice, is_last in zip(choices, [False] * (len(choices) - 1) + [True], strict=True):
            try:
                self._execute(choice, core, given)
            except LimitExceeded:
                # What is too much for one process may still be fine for many. The loop bounds itself.
                if is_last:
                    raise
            else:
                return

    def _execute(self, choice: Choice, core: Core, given: Inputs) -> None:
        found, rounds = self._found(choice.executor, core, given)
        self._keep(found)
        self.runs.append(
            StratumRun(
                predicates=tuple(sorted(core.arities)),
                executor=choice.executor,
                reason=choice.reason,
                rows_read=given.total,
                rounds=rounds,
            )
        )

    def _found(self, executor: Executor, core: Core, given: Inputs) -> tuple[dict[str, Relation], int | None]:
        """The relations of a core, and the rounds of a loop."""
        session = self.known.session
        match executor:
            case Executor.COLLECTED:
                return collected.execute(session, core, given, self._limits), None
            case Executor.PARTITIONED:
                return partitioned.execute(session, core, given, self._limits), None
            case Executor.LOOP | Executor.FRAMES:
                looped = loop.execute(session, core, given, self._limits)
                return looped.relations, looped.rounds

    def _settled(self, name: str, relation: Relation) -> Relation:
        """A relation as it is kept: computed now where leaving it for later would multiply the work."""
        if relation.rows is not None or relation.weight * self._uses[name] <= _WEIGHT_MAX:
            return relation
        frame, rows = materialise(relation.frame)
        return Relation(frame=frame, arity=relation.arity, rows=rows)

    def _keep(self, found: Mapping[str, Relation]) -> None:
        self._rows += sum(relation.rows or 0 for relation in found.values())
        check_rows(self._rows, self._limits)
        self.known = self.known.with_relations(found)


def _relevant(plan: Plan, wanted: Collection[str]) -> list[Fixpoint]:
    """The strata that the wanted predicates depend on, lowest first."""
    reached = set(wanted)
    kept: list[Fixpoint] = []
    for stratum in reversed(plan.strata):
        if stratum.predicates & reached:
            kept.append(stratum)
            reached |= set(_uses([stratum]))
    return kept[::-1]


def _uses(strata: Collection[Fixpoint]) -> Counter[str]:
    """How often each predicate is read."""
    uses: Counter[str] = Counter()
    for stratum in strata:
        for rule in conjunctions(stratum):
            uses.update(read.source.predicate for read in rule.reads)
            uses.update(guard.read.source.predicate for guard in rule.guards if isinstance(guard, Absent))
    return uses
