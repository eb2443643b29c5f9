"""Executor *loop*: semi-naive rounds of data frames, for a core that neither fits on the driver nor falls apart.

Each round runs every rule once for each of its own literals, with only the newest rows there. All predicates of the
core are one frame, told apart by a number, so that a round is one job. The lineage is cut in every round
(``localCheckpoint``), new rows are counted by the same job (``observe``), and what has gathered is made one piece
again every few rounds. Adaptive planning, which would plan each of these small jobs several times, is off meanwhile.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Final

from msgspec import Struct
from pyspark.sql import DataFrame, SparkSession

from bobbin.datalog.local.budget import LimitExceeded
from bobbin.pipeline.rules.body import Known, derive
from bobbin.pipeline.rules.core import Core
from bobbin.pipeline.rules.inputs import Inputs
from bobbin.pipeline.rules.limits import RuleLimits
from bobbin.pipeline.rules.relations import (
    TAG,
    Relation,
    check_rows,
    column_names,
    materialise_tagged,
    tagged,
    untagged,
)
from bobbin.pipeline.spark import parallelism

_COMPACT_EVERY: Final = 6
_QUIET: Final = {"spark.sql.adaptive.enabled": "false", "spark.sql.constraintPropagation.enabled": "false"}
"""Constraint propagation is wrong across unions of frames whose lineage was cut, and slow."""


class Looped(Struct, frozen=True):
    """What a loop found, and in how many rounds."""

    relations: dict[str, Relation]
    rounds: int


def execute(session: SparkSession, core: Core, inputs: Inputs, limits: RuleLimits) -> Looped:
    """The relations of a core, computed."""
    with _quiet(session):
        return _Loop(session, core, inputs, limits).run()


class _Loop:
    def __init__(self, session: SparkSession, core: Core, inputs: Inputs, limits: RuleLimits) -> None:
        self._core = core
        self._limits = limits
        self._numbers = {name: number for number, name in enumerate(core.arities)}
        self._width = max(core.arities.values(), default=0)
        self._known = Known(session=session, relations={name: inputs.relation(name) for name in inputs.arities})
        self._partitions = parallelism(session)
        self._counts = dict.fromkeys(core.arities, 0)

    def run(self) -> Looped:
        first = self._round(None, None, {})
        if first is None:
            return Looped(self._relations(None), 0)
        whole, new = first, first
        rounds = 0
        fresh = dict(self._counts)
        while any(fresh.values()):
            rounds += 1
            if rounds > self._limits.rounds_max:
                raise LimitExceeded("rounds_max", f"no fixed point within {self._limits.rounds_max} rounds")
            before = dict(self._counts)
            found = self._round(whole, new, fresh)
            if found is None:
                break
            fresh = {name: self._counts[name] - before[name] for name in self._counts}
            whole, new = whole.unionAll(found), found
            if rounds % _COMPACT_EVERY == 0:
                whole = whole.coalesce(self._partitions).localCheckpoint()
        return Looped(self._relations(whole), rounds)

    def _round(self, whole: DataFrame | None, new: DataFrame | None, fresh: Mapping[str, int]) -> DataFrame | None:
        """What the rules derive from the newest rows and was not there; at first, from the inputs alone."""
        known = self._known if whole is None else self._known.with_relations(self._relations(whole))
        parts = []
        for rule in self._core.rules:
            own = [n for n, read in enumerate(rule.reads) if read.source.predicate in self._numbers]
            if new is None:
                derived = [derive(rule, known, self._limits)] if not own else []
            else:
                derived = [
                    derive(rule, known, self._limits, {n: self._relation(new, name, fresh[name])})
                    for n in own
                    if fresh[name := rule.reads[n].source.predicate]
                ]
            number, arity = self._numbers[rule.predicate], self._core.arities[rule.predicate]
            parts += [(number, found.frame, arity) for found in derived if found is not None]
        if not parts:
            return None
        frame = tagged(parts, self._width).distinct()
        if whole is not None:
            frame = frame.join(whole, [TAG, *column_names(self._width)], "left_anti")
        kept, counts = materialise_tagged(frame, range(len(self._numbers)))
        for name, number in self._numbers.items():
            self._counts[name] += counts[number]
        check_rows(sum(self._counts.values()), self._limits)
        return kept

    def _relations(self, whole: DataFrame | None) -> dict[str, Relation]:
        if whole is None:
            return {name: self._known.relation("", arity) for name, arity in self._core.arities.items()}
        return {name: self._relation(whole, name, self._counts[name]) for name in self._numbers}

    def _relation(self, frame: DataFrame, name: str, rows: int) -> Relation:
        arity = self._core.arities[name]
        return Relation(frame=untagged(frame, self._numbers[name], arity), arity=arity, rows=rows)


@contextmanager
def _quiet(session: SparkSession) -> Iterator[None]:
    """Without what makes small jobs dear."""
    before = {name: session.conf.get(name) for name in _QUIET}
    for name, value in _QUIET.items():
        session.conf.set(name, value)
    try:
        yield
    finally:
        for name, kept in before.items():
            if kept is not None:
                session.conf.set(name, kept)
