"""``select``: what the rules of a policy, of an agreed plan or of any program say about all records of a lake.

What is found goes to the table ``selections/<key>``, one row for each record and predicate. The key follows from
everything that the answer depends on but the records: the plan, the side and the query module, or the program; whose
claims; and the runtime facts that the rules read. So a later run over more records writes the same table anew, and
another question never does. The report says which executor ran each stratum, and why.
"""

from collections.abc import Mapping, Sequence
from typing import Final

from msgspec import Struct, structs
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from bobbin.datalog.compile import Lacegram
from bobbin.errors import UsageError
from bobbin.pipeline import frames, interrupts
from bobbin.pipeline.batches.describe import FIXED_FIELDS
from bobbin.pipeline.jobs import facts
from bobbin.pipeline.offer import VISIBLE, is_from_current, parse_fields
from bobbin.pipeline.progress import Step, silent
from bobbin.pipeline.rules import decide as decisions
from bobbin.pipeline.rules.decide import Situation, decide
from bobbin.pipeline.rules.evaluate import check_executor, evaluate
from bobbin.pipeline.rules.limits import DEFAULT, RuleLimits
from bobbin.pipeline.rules.planner import Executor
from bobbin.pipeline.rules.relations import check_rows
from bobbin.pipeline.rules.wide import WideTable
from bobbin.pipeline.spark import parallelism
from bobbin.policy import vocabulary
from bobbin.policy.executables import LocalPolicy, Part
from bobbin.policy.operands import Origin
from bobbin.policy.runtime_facts import RuntimeFacts
from bobbin.store.lake.keys import KEY, derived_key
from bobbin.store.lake.lake import Lake
from bobbin.store.lake.manifest import Manifest
from bobbin.store.lake.report import Report
from bobbin.store.lake.tables import ADVERTISEMENTS, FACTS, RECORDS, SELECTIONS

PROGRAM: Final = structs.replace(vocabulary.SELECTOR, export_required=False, foreign_heads=frozenset())
"""What a program may read and define that is no policy: whatever a selector may, and no export is asked for."""

_HOLDS: Final = "yes"


class Advertised(Struct, frozen=True, kw_only=True):
    """What a peer claims: the records of another lake, all of them or those of one of its offers."""

    lake: Lake
    offer: str | None = None
    """The key of a table of advertisements in that lake."""


def run(
    session: SparkSession,
    lake: Lake,
    chosen: LocalPolicy | Lacegram,
    *,
    runtime: RuntimeFacts | None = None,
    advertised: Advertised | None = None,
    source: Origin | None = None,
    predicates: Sequence[str] | None = None,
    executor: Executor | None = None,
    limits: RuleLimits = DEFAULT,
    step: Step = silent,
) -> Report:
    """Evaluate a plan, or a program, over the facts of a lake, after bringing them up to date.

    ``predicates`` are those of a program that are kept: by default all that it defines with one argument. ``source``
    is who advertises, for a program; a plan knows its peer.
    """
    told = RuntimeFacts() if runtime is None else runtime
    check(chosen, predicates=predicates, executor=executor, advertised=advertised, source=source)
    facts.run(session, lake, step=step)
    key = key_of(chosen, predicates, runtime=told, advertised=advertised, source=source)
    name = f"{SELECTIONS.name}/{key}"
    plan = chosen.plan.identifier if isinstance(chosen, LocalPolicy) else chosen.identifier
    with lake.begin("select", plan=plan) as run:
        described = run.base(FACTS.name)
        run.base(name)
        records = WideTable(frame=frames.read(session, lake, described), rows=described.rows)
        peer = chosen.peer_origin if isinstance(chosen, LocalPolicy) else source
        claims = None if advertised is None else claims_of(session, advertised, peer)
        situation = Situation(session=session, records=records, claims=claims, runtime=told)
        step("evaluating")
        found = (
            _decide(chosen, situation, executor, limits)
            if isinstance(chosen, LocalPolicy)
            else _evaluate(chosen, situation, predicates, executor, limits)
        )
        step("selecting")
        rows = frames.by_hash(_united(found.records), parallelism(session))
        frames.write(rows, run.folder(name), SELECTIONS)
        counts = _counted(frames.read_staged(session, run, name), found.records)
        check_rows(sum(counts.values()), limits)
        step("committing")
        properties = (
            properties_of(chosen, told)
            | _claims_said(advertised)
            | {
                RECORDS.name: described.properties.get(RECORDS.name, "0"),
                FACTS.name: str(described.number),
            }
        )
        run.replace(name, properties=properties)
        interrupts.check()
        return run.commit(
            inputs={FACTS.name: described.rows},
            outputs={name: sum(counts.values())},
            counts={**found.counts, **counts},
            notes=found.notes,
            rows={name: sum(counts.values())},
        )


def check(
    chosen: LocalPolicy | Lacegram,
    *,
    predicates: Sequence[str] | None = None,
    executor: Executor | None = None,
    advertised: Advertised | None = None,
    source: Origin | None = None,
) -> None:
    """Refuse what cannot be selected, as far as that can be told without Spark."""
    if isinstance(chosen, LocalPolicy):
        decisions.check_executor(chosen, executor)
    else:
        check_executor(chosen.plan, _wanted(chosen, predicates), executor)
    if advertised is not None:
        check_claims(advertised, chosen.peer_origin if isinstance(chosen, LocalPolicy) else source)


class _Found(Struct, frozen=True, kw_only=True):
    """Records by predicate, and what the report says of them."""

    records: Mapping[str, DataFrame]
    counts: dict[str, int]
    notes: tuple[str, ...]


def _decide(policy: LocalPolicy, situation: Situation, executor: Executor | None, limits: RuleLimits) -> _Found:
    decided = decide(policy, situation, executor=executor, limits=limits)
    notes = tuple(f"{part}: {run}" for part, run in decided.runs)
    return _Found(records=decided.records, counts={VISIBLE: decided.visible}, notes=notes)


def _evaluate(
    program: Lacegram,
    situation: Situation,
    predicates: Sequence[str] | None,
    executor: Executor | None,
    limits: RuleLimits,
) -> _Found:
    wanted = _wanted(program, predicates)
    known = situation.known(situation.records, situation.claims)
    answer = evaluate(program.plan, known, wanted=wanted, executor=executor, limits=limits)
    records = {name: relation.frame.select(f.col("_0").alias("record")) for name, relation in answer.relations.items()}
    return _Found(records=records, counts={}, notes=tuple(map(str, answer.runs)))


def selectable(program: Lacegram) -> list[str]:
    """The predicates that a program defines with one argument, mostly the name of a record."""
    return sorted({rule.head.predicate for rule in program.program.rules if rule.head.arity == 1})


def _wanted(program: Lacegram, predicates: Sequence[str] | None) -> list[str]:
    known = selectable(program)
    if not known:
        raise UsageError("the program defines no predicate with one argument, so there is nothing to select")
    for name in predicates or ():
        if name not in known:
            raise UsageError(
                f"the program does not define {name} with one argument; such are: {', '.join(known) or 'none'}"
            )
    return known if predicates is None else list(predicates)


def key_of(
    chosen: LocalPolicy | Lacegram,
    predicates: Sequence[str] | None = None,
    *,
    runtime: RuntimeFacts | None = None,
    advertised: Advertised | None = None,
    source: Origin | None = None,
) -> str:
    """The key of the table that a selection goes to.

    Runtime facts that no rule reads change no answer and no key: a policy that does not look at the time keeps its
    table from one run to the next.
    """
    is_plan = isinstance(chosen, LocalPolicy)
    read = _read_predicates(chosen)
    said = _said(RuntimeFacts() if runtime is None else runtime)
    told = sorted(f"{name}={value}" for name, value in said.items() if name in read)
    claimed = None
    if advertised is not None:
        peer = "" if is_plan or source is None else source
        claimed = [advertised.lake.files.uri(""), advertised.offer or "", peer]
    if isinstance(chosen, LocalPolicy):
        parts = {"plan": chosen.plan.identifier, "query": chosen.query.identifier}
        return derived_key(**parts, index=chosen.index, runtime=told, claims=claimed)
    kept = None if predicates is None else sorted(predicates)
    return derived_key(program=chosen.identifier, predicates=kept, runtime=told, claims=claimed)


def _read_predicates(chosen: LocalPolicy | Lacegram) -> set[str]:
    """Every predicate that a rule of the selection reads."""
    programs = [chosen.program(part) for part in Part] if isinstance(chosen, LocalPolicy) else [chosen.program]
    return {literal.atom.predicate for program in programs for rule in program.rules for literal in rule.body}


def _said(runtime: RuntimeFacts) -> dict[str, str]:
    """The runtime facts by name; one without an argument only holds."""
    return {name: next(iter(next(iter(tuples))), _HOLDS) for name, tuples in runtime.tuples().items()}


def _claims_said(advertised: Advertised | None) -> dict[str, str]:
    """What the table of a selection says of the claims that it was made from."""
    if advertised is None:
        return {}
    said = {"claims": advertised.lake.files.uri(""), "claims_facts": str(advertised.lake.manifest(FACTS.name).number)}
    return said if advertised.offer is None else said | {"claims_offer": advertised.offer}


def properties_of(chosen: LocalPolicy | Lacegram, runtime: RuntimeFacts) -> dict[str, str]:
    """What the table of a selection says of itself."""
    said = _said(runtime)
    if isinstance(chosen, LocalPolicy):
        return {
            "plan": chosen.plan.identifier,
            "index": str(chosen.index),
            "query": chosen.query.identifier,
            "source": chosen.own_origin,
            **said,
        }
    return {"program": chosen.identifier, **said}


def check_claims(advertised: Advertised, peer: Origin | None) -> tuple[Origin, Manifest, Manifest | None]:
    """Who claims, the facts of the claimed records, and the offer that they are of; all of which must be there."""
    if peer is None:
        raise UsageError("claims have a source: say who the peer is")
    lake = advertised.lake
    described = lake.manifest(FACTS.name)
    if not is_from_current(lake, described, RECORDS.name):
        raise UsageError(
            f"the facts of the lake {lake.location} are behind its records; `bobbin pipeline facts` makes them"
        )
    if advertised.offer is None:
        return peer, described, None
    if not KEY.fullmatch(advertised.offer):
        raise UsageError(f"the key of advertisements has 16 hex digits: {advertised.offer!r}")
    offer = lake.manifest(f"{ADVERTISEMENTS.name}/{advertised.offer}")
    if not offer.number:
        raise UsageError(f"the lake {lake.location} has no advertisements {advertised.offer}")
    if offer.properties.get("source") != peer:
        raise UsageError(f"these are advertisements of {offer.properties.get('source')}, and the peer is {peer}")
    return peer, described, offer


def claims_of(session: SparkSession, advertised: Advertised, peer: Origin | None) -> WideTable:
    """What a peer advertises when it holds the records of a lake, as rules read it."""
    source, described, offer = check_claims(advertised, peer)
    lake = advertised.lake
    frame = frames.read(session, lake, described)
    rows = described.rows
    if offer is not None:
        frame = _told(frame, offer.properties.get("fields", "[]"))
        frame = frame.join(frames.read(session, lake, offer).select("record"), "record", "left_semi")
        rows = offer.rows
    return WideTable(frame=frame, rows=rows, source=source)


def _told(frame: DataFrame, fields: str) -> DataFrame:
    """Rows of ``facts`` without the fields that are not told."""
    schema = parse_fields(fields)
    if schema.all:
        return frame
    hidden = {column: f.lit(None) for name, column in FIXED_FIELDS.items() if name not in schema}
    kept = {name: f.col(name) for name in frame.columns}
    for column, nothing in hidden.items():
        kept[column] = nothing.cast(frame.schema[column].dataType)
    kept["extras"] = f.filter("extras", lambda one: one["name"].isin(sorted(schema.names)))
    return frame.select(*(column.alias(name) for name, column in kept.items()))


def _united(records: Mapping[str, DataFrame]) -> DataFrame:
    parts = [frame.select("record", f.lit(name).alias("predicate")) for name, frame in records.items()]
    whole = parts[0]
    for part in parts[1:]:
        whole = whole.unionAll(part)
    return whole


def _counted(rows: DataFrame, records: Mapping[str, DataFrame]) -> dict[str, int]:
    found = {row["predicate"]: row["count"] for row in rows.groupBy("predicate").count().collect()}
    return {name: found.get(name, 0) for name in records}
