"""``bobbin pipeline select``: what a policy, an agreed plan or any program says about all records of a lake."""

from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from bobbin.cli.exit_codes import ExitCode
from bobbin.cli.options import AsJson
from bobbin.cli.output import Json, Output
from bobbin.cli.pipeline_checks import check_lake
from bobbin.cli.pipeline_run import LOCAL, Debug, LakeFolder, Master, Memory, require_extra, running
from bobbin.cli.policy_files import load_query, load_selector, naming, read_policy
from bobbin.cli.policy_situation import (
    AnyPeerName,
    Encrypted,
    Link,
    PeerPolicy,
    QueryPolicy,
    Tick,
    Transport,
    peer_origin,
)
from bobbin.cli.sources import read_whole
from bobbin.cli.text import printable
from bobbin.cli.times import parse_time
from bobbin.errors import UsageError

if TYPE_CHECKING:
    from bobbin.datalog.compile import Lacegram
    from bobbin.policy.executables import LocalPolicy
    from bobbin.policy.modules import Query, Selector
    from bobbin.policy.operands import Origin
    from bobbin.policy.runtime_facts import RuntimeFacts
    from bobbin.store.lake.report import Report


class ExecutorChoice(StrEnum):
    """How recursion is executed, as the user says it."""

    AUTO = "auto"
    FRAMES = "frames"
    COLLECTED = "collected"
    PARTITIONED = "partitioned"
    LOOP = "loop"


OwnPolicy = Annotated[str | None, typer.Option("--policy", metavar="FILE", help="Our policy.", show_default=False)]
PlanFile = Annotated[
    str | None,
    typer.Option("--plan", metavar="FILE", help="The agreed plan, of --policy and --peer-policy.", show_default=False),
]
ProgramFile = Annotated[
    str | None, typer.Option("--program", metavar="FILE", help="Any rules, instead of policies.", show_default=False)
]
Predicates = Annotated[
    list[str] | None,
    typer.Option("--predicate", "-p", metavar="P", help="Of a program: keep only this; repeatable."),
]
PeerLake = Annotated[
    str | None,
    typer.Option("--peer-lake", metavar="LAKE", help="Lake whose records the peer offers. Default: nothing."),
]
OfferKey = Annotated[
    str | None, typer.Option("--offer", metavar="KEY", help="Of the peer's lake: only these advertisements.")
]
OurName = Annotated[
    str | None, typer.Option("--here", metavar="V", help="Our verifier, or source:LABEL. Default: source:0.")
]
ByExecutor = Annotated[
    ExecutorChoice, typer.Option("--executor", help="How recursive rules are executed. auto: by what they read.")
]


def pipeline_select(
    lake: LakeFolder,
    policy: OwnPolicy = None,
    peer: AnyPeerName = None,
    peer_policy: PeerPolicy = None,
    query_policy: QueryPolicy = None,
    plan: PlanFile = None,
    program: ProgramFile = None,
    predicate: Predicates = None,
    peer_lake: PeerLake = None,
    offer: OfferKey = None,
    here: OurName = None,
    tick: Tick = None,
    transport: Transport = None,
    encrypted: Encrypted = False,
    executor: ByExecutor = ExecutorChoice.AUTO,
    master: Master = LOCAL,
    memory: Memory = None,
    debug: Debug = False,
    as_json: AsJson = False,
) -> ExitCode:
    """Evaluate rules over all records of a lake, and keep what they select.

    With --policy and --peer it is what an exchange with this peer would select, send and request. With --program it is
    whatever the rules derive of one argument. The result is a table of the lake, selections/KEY, which other jobs take.

    Example: bobbin pipeline select archive.lake --policy ward.policy --peer source:lab
    """
    require_extra()
    from bobbin.pipeline.hadoop_files import files_of
    from bobbin.pipeline.jobs import select
    from bobbin.pipeline.rules.planner import Executor
    from bobbin.store.lake.lake import Lake

    out = Output(as_json=as_json)
    check_lake(lake)
    link = Link(here=here, peer=peer, tick=tick, transport=transport, encrypted=encrypted)
    chosen = _chosen(link, policy, peer_policy, query_policy, plan, program)
    if offer is not None and peer_lake is None:
        raise UsageError("--offer is about the peer's lake, and --peer-lake is missing")
    if predicate and program is None:
        raise UsageError("--predicate chooses what is kept of a --program; a plan has its own")
    runtime = _runtime(link, chosen)
    forced = None if executor is ExecutorChoice.AUTO else Executor(executor.value)
    source = peer_origin(link)
    there = None if peer_lake is None else check_lake(peer_lake)
    claims = None if there is None else select.Advertised(lake=there, offer=offer)
    select.check(chosen, predicates=predicate or None, executor=forced, advertised=claims, source=source)
    with running("select", master=master, memory=memory, debug=debug, as_json=as_json) as job:
        opened = Lake.open(lake, files=files_of(job.session, lake))
        advertised = None
        if peer_lake is not None:
            other = Lake.open(peer_lake, files=files_of(job.session, peer_lake))
            advertised = select.Advertised(lake=other, offer=offer)
        report = select.run(
            job.session,
            opened,
            chosen,
            runtime=runtime,
            advertised=advertised,
            source=source,
            predicates=predicate or None,
            executor=forced,
            step=job.step,
        )
    _show(out, lake, report)
    return ExitCode.OK


def _show(out: Output, lake: str, report: "Report") -> None:
    (table,) = report.outputs
    value: dict[str, Json] = {
        "event": "summary",
        "lake": lake,
        "run": report.run,
        "plan": report.plan,
        "table": table,
        "facts": report.inputs["facts"],
        "counts": dict(report.counts),
        "executors": list(report.notes),
        "seconds": report.seconds,
    }
    out.result(value, *_lines(out, report, table))


def _chosen(
    link: Link,
    policy: str | None,
    peer_policy: str | None,
    query_policy: str | None,
    plan: str | None,
    program: str | None,
) -> "LocalPolicy | Lacegram":
    if program is not None:
        if policy is not None or plan is not None or peer_policy is not None or query_policy is not None:
            raise UsageError("--program stands alone: --policy, --peer-policy, --query-policy and --plan are for plans")
        return _load_program(program)
    if policy is None:
        raise UsageError("what shall be selected? --policy FILE with --peer V, or --program FILE")
    own = load_selector(policy)
    other = own if peer_policy is None else load_selector(peer_policy)
    query = None if query_policy is None else load_query(query_policy)
    return _by_plan(plan, link, own, other, query) if plan is not None else _by_peer(link, own, other, query)


def _load_program(file: str) -> "Lacegram":
    from bobbin.datalog.compile import compile as compile_program
    from bobbin.pipeline.jobs.select import PROGRAM

    text = read_policy(file)
    with naming(file):
        return compile_program(text, PROGRAM)


def _own_origin(link: Link) -> "Origin":
    from bobbin.policy.operands import anonymous_origin, parse_origin

    return anonymous_origin(0) if link.here is None else parse_origin(link.here)


def _by_peer(link: Link, own: "Selector", other: "Selector", query: "Query | None") -> "LocalPolicy":
    from bobbin.policy.executables import make_policy

    origin = peer_origin(link)
    if origin is None:
        raise UsageError("a policy is about what a peer gets: --peer V, its verifier or source:LABEL")
    return make_policy(own, other, own_origin=_own_origin(link), peer_origin=origin, query=query)


def _by_plan(file: str, link: Link, own: "Selector", peer: "Selector", query: "Query | None") -> "LocalPolicy":
    from bobbin.policy.executables import Budgets, LocalPolicy
    from bobbin.policy.operands import Index, parse_origin
    from bobbin.policy.operands import other as other_side
    from bobbin.policy.plan import PLAN_BYTES_MAX, parse_plan

    plan = parse_plan(read_whole(file, bytes_max=PLAN_BYTES_MAX, what="a plan"))
    sides: list[Index] = [0, 1]
    fitting = [
        index
        for index in sides
        if plan.operand(index).module == own.identifier and plan.operand(other_side(index)).module == peer.identifier
    ]
    if not fitting:
        raise UsageError(f"the plan {plan.identifier} is not about these two policies")
    if link.here is not None:
        fitting = [index for index in fitting if plan.operand(index).origin == parse_origin(link.here)]
    if len(fitting) != 1:
        raise UsageError("both sides of the plan have this policy: --here says which one is ours")
    index = fitting[0]
    if link.peer is not None and plan.operand(other_side(index)).origin != link.peer:
        raise UsageError(f"the plan is with {plan.operand(other_side(index)).origin}, not with {link.peer}")
    return LocalPolicy(plan, index, own=own, peer=peer, query=query, budgets=Budgets())


def _runtime(link: Link, chosen: "LocalPolicy | Lacegram") -> "RuntimeFacts":
    from bobbin.policy.executables import LocalPolicy
    from bobbin.policy.operands import is_verifier
    from bobbin.policy.runtime_facts import RuntimeFacts
    from bobbin.records import tai
    from bobbin.records.ids import Verifier
    from bobbin.runtime.clock import tai_now

    here = chosen.own_origin if isinstance(chosen, LocalPolicy) else _own_origin(link)
    peer = chosen.peer_origin if isinstance(chosen, LocalPolicy) else peer_origin(link)
    tick = tai.render(tai_now()) if link.tick is None else parse_time(link.tick)
    return RuntimeFacts(
        here=Verifier(here) if is_verifier(here) else None,
        peer=Verifier(peer) if peer is not None and is_verifier(peer) else None,
        transport=link.transport,
        transport_encrypted=link.encrypted,
        start_tai=tick,
        tick_tai=tick,
    )


def _lines(out: Output, report: "Report", table: str) -> list[str]:
    width = max((len(name) for name in report.counts), default=0)
    lines = [f"{out.style(name.ljust(width), bold=True)}  {count:>12,}" for name, count in report.counts.items()]
    lines += [out.style(printable(note), dim=True) for note in report.notes]
    pace = f"({report.inputs['facts']:,} records in {report.seconds:.1f} s)"
    lines.append(f"{table}  {out.style(pace, dim=True)}")
    lines.append(out.style(f"run {report.run}", dim=True))
    return lines
