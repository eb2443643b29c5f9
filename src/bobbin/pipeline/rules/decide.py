"""What may be sent and what may be requested, for every record of a lake at once.

The six steps are those of ``policy.decide``, which says what they mean and why; here each is an evaluation over frames.
The peer's rules run over the rows of the records in its view and over nothing else: the table itself is narrowed, so
no rule can look past it, whatever it negates.
"""

from collections.abc import Collection, Mapping
from types import MappingProxyType
from typing import Final

from msgspec import Struct
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from bobbin.datalog.algebra import Plan
from bobbin.errors import UsageError
from bobbin.pipeline.rules import evaluate as evaluation
from bobbin.pipeline.rules.body import Known
from bobbin.pipeline.rules.evaluate import Answer, StratumRun, evaluate
from bobbin.pipeline.rules.limits import DEFAULT, RuleLimits
from bobbin.pipeline.rules.planner import Executor
from bobbin.pipeline.rules.relations import Relation, check_rows, listed, materialise
from bobbin.pipeline.rules.wide import WideTable
from bobbin.policy import vocabulary
from bobbin.policy.executables import LocalPolicy, Part
from bobbin.policy.runtime_facts import RuntimeFacts

MAY_SEND = "MaySend"
"""The records that may go to the peer, under the name that the protocol has for them."""

_SELECTED: Final = (vocabulary.SELECT_HAVE, vocabulary.SELECT_ADVERTISED)
_EXPORTS: Final[Mapping[Part, tuple[str, ...]]] = MappingProxyType(
    {Part.OWN_SELECTOR: _SELECTED, Part.QUERY: (vocabulary.QUERYABLE,), Part.PEER_SELECTOR: _SELECTED}
)
"""What is wanted of each of the programs."""


class Situation(Struct, frozen=True, kw_only=True):
    """What rules look at: the records of a lake, a peer's claims, and what is known of the exchange."""

    session: SparkSession
    records: WideTable
    claims: WideTable | None = None
    runtime: RuntimeFacts = RuntimeFacts()

    def known(self, *tables: WideTable | None) -> Known:
        """These tables, and the runtime facts."""
        return Known(
            session=self.session,
            tables={name: table for table in tables if table is not None for name in table.predicates},
            relations={
                name: listed(self.session, vocabulary.RUNTIME_ARITY[name], tuples)
                for name, tuples in self.runtime.tuples().items()
            },
        )


class Decided(Struct, frozen=True, kw_only=True):
    """The records by what they were found to be, each a frame with the column ``record``, and how that was computed."""

    records: Mapping[str, DataFrame]
    runs: tuple[tuple[Part, StratumRun], ...]
    visible: int
    """How many records the peer's rules could look at."""


def decide(
    policy: LocalPolicy, situation: Situation, *, executor: Executor | None = None, limits: RuleLimits = DEFAULT
) -> Decided:
    """What this side selects, may send and may request under a plan."""
    _check(policy, situation)
    return _Decision(policy, situation, executor, limits).decide()


def check_executor(policy: LocalPolicy, executor: Executor | None) -> None:
    """Refuse an executor that cannot do the rules of a plan, as far as these alone say so."""
    for part in Part:
        evaluation.check_executor(_plan_of(policy, part), _EXPORTS[part], executor)


class _Decision:
    def __init__(
        self, policy: LocalPolicy, situation: Situation, executor: Executor | None, limits: RuleLimits
    ) -> None:
        self._policy = policy
        self._situation = situation
        self._executor = executor
        self._limits = limits
        self._runs: list[tuple[Part, StratumRun]] = []

    def decide(self) -> Decided:
        situation = self._situation
        records, claims = situation.records, situation.claims
        own = self._run(Part.OWN_SELECTOR, situation.known(records, claims), _EXPORTS[Part.OWN_SELECTOR])
        chosen = self._settled(own.relations[vocabulary.SELECT_HAVE])
        offered = chosen
        if claims is not None and self._policy.offer_reads_claims:
            offer = self._run(Part.OWN_SELECTOR, situation.known(records), (vocabulary.SELECT_HAVE,))
            offered = self._settled(offer.relations[vocabulary.SELECT_HAVE])
        visible = self._visible(offered)
        seen = WideTable(frame=_among(records.frame, visible, self._limits), rows=visible.rows)
        peer = self._run(Part.PEER_SELECTOR, situation.known(seen, claims), _EXPORTS[Part.PEER_SELECTOR])
        both = _named(peer.relations[vocabulary.SELECT_HAVE]).join(_named(chosen), "record", "left_semi")
        return Decided(
            records={
                vocabulary.SELECT_HAVE: _named(chosen),
                # A module may name a record that it does not see: what is sent is stored, and in the view.
                MAY_SEND: both.join(seen.frame.select("record"), "record", "left_semi"),
                vocabulary.MAY_REQUEST: self._may_request(own, peer),
            },
            runs=tuple(self._runs),
            visible=visible.rows or 0,
        )

    def _visible(self, offered: Relation) -> Relation:
        """The records in the peer's view."""
        origin = self._policy.peer_origin
        known = self._situation.known(self._situation.records).with_relations(
            {
                vocabulary.VIEWER: listed(self._situation.session, 1, [(origin,)]),
                vocabulary.OWN_SELECTED: offered,
            }
        )
        query = self._run(Part.QUERY, known, _EXPORTS[Part.QUERY])
        found = query.relations[vocabulary.QUERYABLE]
        frame = found.frame.where(f.col("_1") == origin).select("_0")
        return self._settled(Relation(frame=frame, arity=1, weight=found.weight))

    def _may_request(self, own: Answer, peer: Answer) -> DataFrame:
        claims = self._situation.claims
        mine, theirs = (one.relations[vocabulary.SELECT_ADVERTISED].frame for one in (own, peer))
        if claims is None:
            return mine.where(f.lit(False)).select(f.col("_0").alias("record"))  # noqa: FBT003
        both = mine.join(theirs, ["_0", "_1"], "left_semi").where(f.col("_1") == f.lit(claims.source))
        return both.select(f.col("_0").alias("record")).join(claims.frame.select("record"), "record", "left_semi")

    def _run(self, part: Part, known: Known, wanted: Collection[str]) -> Answer:
        plan = _plan_of(self._policy, part)
        answer = evaluate(plan, known, wanted=wanted, executor=self._executor, limits=self._limits)
        self._runs += [(part, run) for run in answer.runs]
        arity = {**vocabulary.SELECTOR.exports, **vocabulary.QUERY.exports}
        missing = {name: listed(known.session, arity[name], ()) for name in wanted if not _defines(plan, name)}
        return Answer(relations={**answer.relations, **missing}, runs=answer.runs)

    def _settled(self, relation: Relation) -> Relation:
        """The relation, computed: what several steps read is not computed for each."""
        frame, rows = materialise(relation.frame)
        check_rows(rows, self._limits)
        return Relation(frame=frame, arity=relation.arity, rows=rows)


def _check(policy: LocalPolicy, situation: Situation) -> None:
    """Refuse claims of another peer, and a peer whose proof is missing."""
    claims = situation.claims
    if claims is not None and claims.source != policy.peer_origin:
        raise UsageError(f"the claims come from {claims.source}, the plan is with {policy.peer_origin}")
    policy.check_proven(situation.runtime.peer)


def _among(records: DataFrame, chosen: Relation, limits: RuleLimits) -> DataFrame:
    """The rows of some records."""
    names = _named(chosen)
    small = chosen.rows is not None and chosen.rows <= limits.broadcast_rows_max
    return records.join(f.broadcast(names) if small else names, "record", "left_semi")


def _named(relation: Relation) -> DataFrame:
    return relation.frame.select(f.col("_0").alias("record"))


def _plan_of(policy: LocalPolicy, part: Part) -> Plan:
    match part:
        case Part.OWN_SELECTOR:
            return policy.own.lacegram.plan
        case Part.QUERY:
            return policy.query.lacegram.plan
        case Part.PEER_SELECTOR:
            return policy.peer.lacegram.plan


def _defines(plan: Plan, predicate: str) -> bool:
    return any(predicate in stratum.predicates for stratum in plan.strata)
