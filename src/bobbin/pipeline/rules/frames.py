"""Executor *frames*: a stratum without recursion, as data frames and nothing else."""

from collections.abc import Sequence

from pyspark.sql import DataFrame

from bobbin.datalog.algebra import Fixpoint
from bobbin.datalog.local.conjunction import Conjunction
from bobbin.datalog.syntax import Constant
from bobbin.pipeline.rules.body import Derived, Known, derive
from bobbin.pipeline.rules.core import conjunctions
from bobbin.pipeline.rules.limits import CannotExecute, RuleLimits
from bobbin.pipeline.rules.relations import Relation, listed


def execute(stratum: Fixpoint, known: Known, limits: RuleLimits) -> dict[str, Relation]:
    """The relations of a stratum, not computed yet."""
    check(stratum)
    rules = conjunctions(stratum)
    found = {}
    for union in stratum.unions:
        own = [rule for rule in rules if rule.predicate == union.predicate]
        found[union.predicate] = unite(own, known, limits, len(union.inputs[0].terms))
    return found


def check(stratum: Fixpoint) -> None:
    """Refuse a stratum that data frames cannot do."""
    if stratum.recursive:
        raise CannotExecute(
            f"the rules for {' and '.join(sorted(stratum.predicates))} are recursive: data frames alone cannot do that"
        )


def unite(rules: Sequence[Conjunction], known: Known, limits: RuleLimits, arity: int) -> Relation:
    """What some rules for one predicate derive together, every row once."""
    facts = [rule for rule in rules if not rule.reads and not rule.guards]
    constants = {tuple(term.value for term in rule.head if isinstance(term, Constant)) for rule in facts}
    parts = [derive(rule, known, limits) for rule in rules if rule.reads or rule.guards]
    there = [part for part in parts if part is not None]
    spelled = listed(known.session, arity, constants)
    if not there:
        return spelled
    if constants:
        there.append(Derived(frame=spelled.frame, weight=1, distinct=True))
    frame = union_all([part.frame for part in there])
    if len(there) > 1 or not there[0].distinct:
        frame = frame.distinct()
    return Relation(frame=frame, arity=arity, weight=sum(part.weight for part in there))


def union_all(frames: Sequence[DataFrame]) -> DataFrame:
    """Frames one below the other."""
    whole = frames[0]
    for frame in frames[1:]:
        whole = whole.unionAll(frame)
    return whole
