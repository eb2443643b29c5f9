"""The account of an exchange, for people and for programs, and the exit code that it deserves."""

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from bobbin.cli.exit_codes import ExitCode
from bobbin.cli.output import Json, Output
from bobbin.cli.text import count_text, size_text

if TYPE_CHECKING:
    from bobbin.interlace.result import Result
    from bobbin.interlace.schema import Schema
    from bobbin.runtime.operations import Agreed, Explained, SyncReport

SHOWN_MAX: Final = 20
"""Records of one kind that are listed for people; programs get all."""


def ending(report: "SyncReport") -> "Result":
    """The result that says why the exchange ended: the peer's, where all that ours knows is that the link is gone."""
    from bobbin.interlace.reasons import Reason

    there = report.peer_rounds[-1]
    return there if report.result.reason is Reason.LINK_LOST and there.reason is not None else report.result


def code_of(report: "SyncReport") -> ExitCode:
    """How a command ends that has run this exchange."""
    from bobbin.interlace.reasons import Reason

    last = ending(report)
    if last.fixed_point:
        is_all = not (report.rejected or report.rejected_there or report.not_available)
        return ExitCode.OK if is_all else ExitCode.NOT_ALL
    if last.limit is not None or last.reason is Reason.CANCELLED:
        return ExitCode.NOT_ALL
    codes = {
        Reason.EVALUATION: ExitCode.PROGRAM,
        Reason.STORE: ExitCode.RESOURCE,
        Reason.LINK_LOST: ExitCode.TRY_AGAIN,
        Reason.PHASE_TIMEOUT: ExitCode.TRY_AGAIN,
    }
    return ExitCode.PEER if last.reason is None else codes.get(last.reason, ExitCode.PEER)


# ---- for people -----------------------------------------------------------------------------------------------------


def account(out: Output, report: "SyncReport") -> Iterator[str]:
    """What moved, what did not, and why it stopped."""
    for word, records, size in (
        ("received", report.received, report.bytes_received),
        ("sent", report.sent, report.bytes_sent),
    ):
        amount = f"{count_text(len(records), 'record')}, {size_text(size)}" if records else "nothing"
        yield f"{word:<14} {amount}"
    yield from _listed(out, "rejected", report.rejected)
    yield from _listed(out, "rejected there", report.rejected_there)
    yield from _listed(out, "not available", dict.fromkeys(report.not_available, ""))
    yield from _listed(out, "deferred", dict.fromkeys(report.result.deferred, ""))
    yield f"{'phases':<14} {_phases(report)}"
    for number, result in enumerate(report.rounds[:-1], start=1):
        moved = f"{len(result.received):,} received, {len(result.sent):,} sent"
        limit = result.limit or report.peer_rounds[number - 1].limit
        yield f"{f'round {number}':<14} stopped at the limit {limit} ({moved}); the next one went on"
    yield _ended(out, report)


def _listed(out: Output, word: str, records: Mapping[str, str]) -> Iterator[str]:
    if records:
        yield f"{word:<14} {out.style(count_text(len(records), 'record'), fg='red')}"
    for record in sorted(records)[:SHOWN_MAX]:
        yield out.style(f"  {record}  {records[record]}".rstrip())
    if len(records) > SHOWN_MAX:
        yield f"  … {len(records) - SHOWN_MAX} more; --json lists all"


def _phases(report: "SyncReport") -> str:
    figures = report.figures
    if any(figure.bytes is not None for figure in figures.values()):
        parts = [f"{phase} {size_text(figure.bytes or 0)}" for phase, figure in figures.items()]
        return " · ".join(parts)
    return " · ".join(f"{phase} {figure.messages}" for phase, figure in figures.items()) + " messages"


def _ended(out: Output, report: "SyncReport") -> str:
    last = ending(report)
    effort = count_text(report.iterations, "iteration")
    if len(report.rounds) > 1:
        effort = f"{count_text(len(report.rounds), 'round')}, {effort}"
    if last.fixed_point:
        words = out.style("converged", fg="green", bold=True)
        return f"{words}: neither side can have anything more from the other ({effort})"
    whose = "" if last is report.result else "the other side: "
    why = f"{last.reason}: {whose}{last.detail}"
    if last.limit is None:
        return f"{out.style('ended early', fg='red', bold=True)}, {out.style(why)} ({effort})"
    more = f"--rounds {len(report.rounds) + 1} goes on; --limits large allows more at a time"
    return f"{out.style('not finished', fg='yellow', bold=True)}, {out.style(why)} ({effort}). {more}"


def ledger(out: Output, report: "SyncReport") -> Iterator[str]:
    """What the peer could learn, and how its word compares with what came."""
    told, honest = report.disclosure, report.honesty
    fields = f", with the fields {', '.join(sorted(told.fields))}" if told.fields else ""
    yield "what the peer could learn"
    yield f"  policy texts    {', '.join(told.modules) or 'none'}"
    yield out.style(f"  advertised      {count_text(len(told.advertised), 'record')}{fields}")
    yield f"  summaries       {count_text(told.summaries, 'partition')}: how many records, and a root over them"
    yield f"  requested       {count_text(len(told.requested), 'record')}: that we lacked them, and want them"
    yield f"  sent            {count_text(len(told.sent), 'record')}"
    yield "what the peer claimed"
    yield f"  came            {count_text(honest.received, 'record')}"
    yield f"  never served    {count_text(len(honest.never_served), 'record')}"
    yield f"  wrong bytes     {count_text(len(honest.rejected), 'record')}"
    yield f"  other fields    {count_text(len(honest.differing), 'record')}"
    for record, differences in sorted(honest.differing.items())[:SHOWN_MAX]:
        for one in differences:
            said, true = (("nothing" if value is None else repr(value)) for value in (one.claimed, one.actual))
            yield out.style(f"    {record}  {one.name}: claimed {said}, is {true}")


def state(out: Output, agreed: "Agreed | None") -> Iterator[str]:
    """What both sides agreed on."""
    if agreed is None:
        yield "no plan was agreed"
        return
    yield f"plan           {agreed.plan}"
    yield f"link           {agreed.link or 'none: not both sides have proven who they are'}"
    yield f"peer           {agreed.peer or 'has proven nothing'}"
    yield f"start, tick    {agreed.start_tai}, {agreed.tick_tai} (clocks differ by {agreed.clock_skew_seconds} s)"
    yield f"formats        {', '.join(sorted(agreed.formats))}"
    yield out.style(f"fields         {_fields(agreed.schema)}")
    yield f"offered        {count_text(agreed.offered, 'record')} by this side, {agreed.claimed:,} by the peer"
    for name, value in agreed.limits.advertised().items():
        yield f"limit          {name} {value:,}"


def _fields(schema: "Schema") -> str:
    return "all" if schema.all else ", ".join(sorted(schema.names)) or "none"


def explained(out: Output, one: "Explained", *, refusals: Sequence[str | None], full: bool = False) -> Iterator[str]:
    """What became of one record, and how both sides judge it now."""
    from bobbin.policy.narrate import narrate

    yield out.style(f"{one.record}: {one.fate}", bold=True)
    for whose, verdict, refusal in zip(("this side", "the other side"), (one.own, one.peer), refusals, strict=True):
        yield f"{whose}, now that the exchange is over:"
        lines = narrate(verdict, full=full, refusal=refusal).splitlines()[1:]
        yield from (out.style(line) for line in lines)


# ---- for programs ---------------------------------------------------------------------------------------------------


def value_of(report: "SyncReport") -> dict[str, Json]:
    """The account as JSON."""
    last = ending(report)
    return {
        "fixed_point": last.fixed_point,
        "reason": last.reason,
        "detail": last.detail,
        "limit": last.limit,
        "ended_by": "here" if last is report.result else "peer",
        "rounds": len(report.rounds),
        "iterations": report.iterations,
        "plan": report.result.plan,
        "link": report.result.link,
        "peer_verifier": report.result.peer,
        "received": sorted(report.received),
        "sent": sorted(report.sent),
        "rejected": report.rejected,
        "rejected_there": report.rejected_there,
        "not_available": sorted(report.not_available),
        "deferred": sorted(report.result.deferred),
        "bytes_received": report.bytes_received,
        "bytes_sent": report.bytes_sent,
        "phases": {
            phase: {"messages": figure.messages, "bytes": figure.bytes} for phase, figure in report.figures.items()
        },
        "statement": report.statement,
        "receipts": list(report.receipts),
    }


def ledger_value(report: "SyncReport") -> dict[str, Json]:
    """The ledger as JSON."""
    told, honest = report.disclosure, report.honesty
    return {
        "disclosure": {
            "modules": list(told.modules),
            "advertised": sorted(told.advertised),
            "fields": sorted(told.fields),
            "summaries": told.summaries,
            "requested": sorted(told.requested),
            "sent": sorted(told.sent),
        },
        "honesty": {
            "received": honest.received,
            "never_served": sorted(honest.never_served),
            "rejected": sorted(honest.rejected),
            "differing": {
                record: [
                    {"name": one.name, "index": one.index, "claimed": one.claimed, "actual": one.actual}
                    for one in differences
                ]
                for record, differences in honest.differing.items()
            },
        },
    }


def state_value(agreed: "Agreed | None") -> Json:
    """What was agreed, as JSON."""
    if agreed is None:
        return None
    return {
        "plan": agreed.plan,
        "link": agreed.link,
        "peer": agreed.peer,
        "start_tai": agreed.start_tai,
        "tick_tai": agreed.tick_tai,
        "clock_skew_seconds": agreed.clock_skew_seconds,
        "formats": sorted(agreed.formats),
        "fields": "all" if agreed.schema.all else sorted(agreed.schema.names),
        "limits": agreed.limits.advertised(),
        "offered": agreed.offered,
        "claimed": agreed.claimed,
    }
