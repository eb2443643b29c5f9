"""The account of an exchange, for people and for programs, and the exit code that it deserves."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from msgspec import Struct

from bobbin.cli.exit_codes import ExitCode
from bobbin.cli.output import Json, Output
from bobbin.cli.text import count_text, size_text
from bobbin.config.layout import Layout
from bobbin.errors import BobbinError, PeerError, ProgramError, ResourceError

if TYPE_CHECKING:
    from bobbin.interlace.result import Result
    from bobbin.interlace.schema import Schema
    from bobbin.policy.executables import Part
    from bobbin.runtime.accounts import Agreed, Explained, SyncReport

_DIRECT: Final = "direct"
"""The way of two laces in one process, which needs no words."""
SHOWN_MAX: Final = 20
"""Records of one kind that are listed for people; programs get all."""


def ending(report: "SyncReport") -> "Result":
    """The result that says why the exchange ended: the peer's, where all that ours knows is that the link is gone."""
    from bobbin.interlace.reasons import Reason

    there = report.peer_rounds[-1] if report.peer_rounds else None
    if there is None or there.reason is None or report.result.reason is not Reason.LINK_LOST:
        return report.result
    return there


def code_of(report: "SyncReport") -> ExitCode:
    """How a command ends that has run this exchange."""
    from bobbin.interlace.reasons import Reason

    last = ending(report)
    if last.fixed_point:
        is_all = not (report.rejected or report.rejected_there or report.not_available or report.not_available_there)
        return ExitCode.OK if is_all else ExitCode.NOT_ALL
    if last.limit is not None or last.reason is Reason.CANCELLED:
        return ExitCode.NOT_ALL
    codes = {
        Reason.EVALUATION: ExitCode.PROGRAM,
        Reason.STORE: ExitCode.RESOURCE,
        Reason.PEER_STORE: ExitCode.TRY_AGAIN,
        Reason.LINK_LOST: ExitCode.TRY_AGAIN,
        Reason.PHASE_TIMEOUT: ExitCode.TRY_AGAIN,
    }
    return ExitCode.PEER if last.reason is None else codes.get(last.reason, ExitCode.PEER)


def hints(report: "SyncReport", here: Path, there: Path | None, *, unexplained: bool = False) -> Iterator[str]:
    """What the user should look at: a store at fault, and an explanation that was asked for and is not there.

    What a side offered and then could not serve has gone meanwhile, or is damaged. ``there`` is None where the other
    lace is elsewhere.
    """
    from bobbin.interlace.reasons import Reason

    if unexplained:
        yield "nothing is explained: the exchange ended before any rules had decided"
    has_failed = report.result.reason is Reason.STORE
    has_failed_there = any(result.reason is Reason.STORE for result in report.peer_rounds[-1:])
    for lace, whose, failed, missed in (
        (here, "this lace", has_failed, {*report.not_available_there, *report.rejected_there}),
        (there, "the other lace", has_failed_there, {*report.not_available, *report.rejected}),
    ):
        ask = "its owner can say" if lace is None else f"`bobbin fsck {lace}` says"
        if failed and lace is not None and _is_replicated(lace):
            status = f"`bobbin cluster status {Layout(lace).cluster}`"
            yield f"the replicated lace in {lace} has not stored all that came; {status} says how its nodes are"
        elif failed:
            yield f"the store of {whose} has failed; {ask} whether it is damaged"
        elif missed:
            count = count_text(len(missed), "record")
            yield (
                f"{whose} offered {count} that it could not serve as it should: removed meanwhile, or damaged; "
                f"{ask} which"
            )


def may_pass(report: "SyncReport", here: Path, there: Path | None) -> bool:
    """Whether all that has failed is the store of a replicated lace, of which no majority has taken what came."""
    from bobbin.interlace.reasons import Reason

    ends = [(here, report.result), *((there, result) for result in report.peer_rounds[-1:])]
    failed = [lace for lace, result in ends if result.reason is Reason.STORE]
    return bool(failed) and all(lace is not None and _is_replicated(lace) for lace in failed)


def _is_replicated(lace: Path) -> bool:
    return Layout(lace).cluster.is_dir()


# ---- for people -----------------------------------------------------------------------------------------------------


def account(out: Output, report: "SyncReport") -> Iterator[str]:
    """What moved, what did not, and why it stopped."""
    for word, records, size in (
        ("received", report.received, report.bytes_received),
        ("sent", report.sent, report.bytes_sent),
    ):
        amount = f"{count_text(len(records), 'record')}, {size_text(size)}" if records else "nothing"
        yield f"{word:<14} {amount}"
    for word, named in (
        ("rejected", report.rejected),
        ("rejected there", report.rejected_there),
        ("not available", dict.fromkeys(report.not_available, "")),
        ("not served", dict.fromkeys(report.not_available_there, "")),
        ("deferred", dict.fromkeys(report.result.deferred, "")),
    ):
        yield from _listed(out, word, named, report.places, fg="red")
    # By the choice of whoever removed them: nothing is wrong, but nobody should wonder.
    yield from _listed(out, "refused", _removed(report.refused), report.places, fg="yellow")
    yield from _listed(out, "refused there", _removed(report.refused_there), report.places, fg="yellow")
    yield f"{'phases':<14} {_phases(report)}"
    ways = [way for result in report.rounds for way in result.strategies]
    if set(ways) - {_DIRECT}:
        yield f"{'found out by':<14} {', '.join(ways)}"
    for result in report.rounds:
        for why in result.fallbacks:
            yield f"{'fell back':<14} {out.style(f'to telling it plainly: {why}')}"
    if report.agreed is not None and report.agreed.built is not None:
        yield f"{'digests from':<14} {out.style(report.agreed.built)}"
    for number, result in enumerate(report.rounds[:-1], start=1):
        moved = f"{len(result.received):,} received, {len(result.sent):,} sent"
        limit = result.limit or next((there.limit for there in report.peer_rounds[number - 1 : number]), None)
        why = _broken_off(result) if limit is None else f"stopped at the limit {limit}"
        yield f"{f'round {number}':<14} {why} ({moved}); the next one went on"
    yield _ended(out, report)


def _broken_off(result: "Result") -> str:
    from bobbin.interlace.reasons import Reason

    return "found that the peer could not store" if result.reason is Reason.PEER_STORE else "lost its link"


def _listed(out: Output, word: str, records: Mapping[str, str], places: Mapping[str, str], *, fg: str) -> Iterator[str]:
    if records:
        yield f"{word:<14} {out.style(count_text(len(records), 'record'), fg=fg)}"
    for record in sorted(records)[:SHOWN_MAX]:
        yield out.style("  " + "  ".join(filter(None, (record, places.get(record), records[record]))))
    if len(records) > SHOWN_MAX:
        yield f"  … {len(records) - SHOWN_MAX} more; --json lists all"


def _removed(refused: Mapping[str, str]) -> dict[str, str]:
    return {record: f"removed: {reason}" for record, reason in refused.items()}


def _phases(report: "SyncReport") -> str:
    figures = report.figures
    if any(figure.bytes is not None for figure in figures.values()):
        parts = [f"{phase} {size_text(figure.bytes or 0)}" for phase, figure in figures.items()]
        return " · ".join(parts)
    return " · ".join(f"{phase} {figure.messages}" for phase, figure in figures.items()) + " messages"


def _ended(out: Output, report: "SyncReport") -> str:
    from bobbin.interlace.reasons import Reason

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
        hint = ". --limits large gives rules more room" if last.reason is Reason.EVALUATION else ""
        if last.reason is Reason.LINK_LOST and not report.peer_rounds and (report.received or report.sent):
            # A peer elsewhere that comes to a limit first closes the link, and does not say why.
            hint = f". The peer may have come to a limit; --rounds {len(report.rounds) + 1} goes on"
        elif last.reason is Reason.PEER_STORE:
            hint = ". What it has stored stays; try again later, its owner can say when"
        return f"{out.style('ended early', fg='red', bold=True)}, {out.style(why)} ({effort}){hint}"
    more = f"--rounds {len(report.rounds) + 1} goes on; --limits large allows more at a time"
    return f"{out.style('not finished', fg='yellow', bold=True)}, {out.style(why)} ({effort}). {more}"


def ended(report: "SyncReport") -> str:
    """Why an exchange ended before the fixed point, for a command that gives no account."""
    last = ending(report)
    return f"the exchange ended early, {last.reason}: {last.detail}"


def why_ended(report: "SyncReport") -> str:
    """The reason of an end before the fixed point, in one word: that of the exchange, or the limit."""
    last = ending(report)
    return last.limit or str(last.reason)


class BrokenExchange(ResourceError):
    """An exchange ended before its fixed point because the machine or the network failed. What came before stays."""

    def __init__(self, reason: str, message: str, *, retry: bool) -> None:
        super().__init__(message, retry=retry)
        self.reason = reason


def error_of(report: "SyncReport") -> BobbinError | None:
    """The error of an exchange whose end is somebody's fault; None where it converged, or came to a limit of ours."""
    code, words = code_of(report), ended(report)
    match code:
        case ExitCode.TRY_AGAIN | ExitCode.RESOURCE:
            return BrokenExchange(why_ended(report), words, retry=code is ExitCode.TRY_AGAIN)
        case ExitCode.PEER:
            return PeerError(why_ended(report), words)
        case ExitCode.PROGRAM:
            return ProgramError(words)
        case _:
            return None


def ledger(out: Output, report: "SyncReport") -> Iterator[str]:
    """What the peer could learn, and how its word compares with what came."""
    told, honest = report.disclosure, report.honesty
    fields = f", with the fields {', '.join(sorted(told.fields))}" if told.fields else ""
    yield "what the peer could learn"
    yield f"  policy texts    {', '.join(told.modules) or 'none'}"
    yield out.style(f"  advertised      {count_text(len(told.advertised), 'record')}{fields}")
    yield f"  summaries       {count_text(told.summaries, 'partition')}: how many records, and a root over them"
    if told.sketches:
        yield f"  as a whole      {count_text(told.sketches, 'block')}: counts, roots, symbols or ids over all of it"
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


class Told(Struct, frozen=True, kw_only=True):
    """What the reader of an explanation has in hand, of this side and of the other."""

    refusals: tuple[str | None, str | None] = (None, None)
    """Why the record was removed there, if it was."""
    texts: "tuple[Mapping[Part, str], Mapping[Part, str]]" = ({}, {})
    """The files of the policies."""
    full: bool = False


def explained(out: Output, one: "Explained", told: Told) -> Iterator[str]:
    """What became of one record, and how both sides judge it now."""
    from bobbin.policy.narrate import narrate

    yield out.style(f"{one.record}: {one.fate}; {_holders(one)}", bold=True)
    if not one.is_known and told.refusals == (None, None):
        yield "  no rule was asked about it: it was neither offered nor requested"
        return
    sides = zip(("this side", "the other side"), (one.own, one.peer), told.refusals, told.texts, strict=True)
    for whose, verdict, refusal, texts in sides:
        if verdict is None:
            yield out.style(f"{whose}: {one.remark}")
            continue
        yield f"{whose}, now that the exchange is over:"
        lines = narrate(verdict, full=told.full, refusal=refusal, texts=texts, is_over=True).splitlines()[1:]
        yield from (out.style(line) for line in lines)


def _holders(one: "Explained") -> str:
    match one.held, one.held_there:
        case True, True:
            return "both sides have it"
        case True, False:
            return "only this side has it"
        case False, True:
            return "only the other side has it"
        case True, None:
            return "this side has it"
        case False, None:
            return "this side does not have it"
        case _:
            return "neither side has it"


def several(out: Output, place: str, records: Sequence[str]) -> Iterator[str]:
    """That a coordinate meant more than one record, so that nobody takes what is said of one for all of it."""
    yield out.style(
        f"{place}: the two sides had different records there; each is explained, the newest first", bold=True
    )
    yield from (out.style(f"  {record}") for record in records)


def untold(out: Output, place: str) -> str:
    """That only our own record at a coordinate was explained, since a peer elsewhere has told of none there."""
    return out.style(f"{place}: the peer tells of no record there, so only what this side has is explained")


def unknown(out: Output, place: str, *, is_elsewhere: bool) -> Iterator[str]:
    """What can be said about a coordinate at which there is nothing."""
    who = "this side has no record there" if is_elsewhere else "neither side has a record there"
    yield out.style(f"{place}: not moved; {who}, before the exchange or after it", bold=True)
    if is_elsewhere:
        yield "  if the peer has one, one of the policies does not let this side have it"


# ---- for programs ---------------------------------------------------------------------------------------------------


def value_of(report: "SyncReport") -> dict[str, Json]:
    """The account as JSON."""
    from bobbin.interlace.reasons import Reason

    last = ending(report)
    return {
        "fixed_point": last.fixed_point,
        "reason": last.reason,
        "detail": last.detail,
        "limit": last.limit,
        "ended_by": "here" if last is report.result and last.reason is not Reason.PEER_STORE else "peer",
        "rounds": len(report.rounds),
        "iterations": report.iterations,
        "strategies": [way for result in report.rounds for way in result.strategies],
        "fallbacks": [why for result in report.rounds for why in result.fallbacks],
        "digests": None if report.agreed is None else report.agreed.built,
        "plan": report.result.plan,
        "link": report.result.link,
        "peer_verifier": report.result.peer,
        "received": sorted(report.received),
        "sent": sorted(report.sent),
        "rejected": report.rejected,
        "rejected_there": report.rejected_there,
        "not_available": sorted(report.not_available),
        "not_served": sorted(report.not_available_there),
        "deferred": sorted(report.result.deferred),
        "bytes_received": report.bytes_received,
        "bytes_sent": report.bytes_sent,
        "phases": {
            phase: {"messages": figure.messages, "bytes": figure.bytes} for phase, figure in report.figures.items()
        },
        "refused": report.refused,
        "refused_there": report.refused_there,
        "places": report.places,
        "statement": report.statement,
        "standing_statement": report.standing_statement,
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
            "sketches": told.sketches,
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
