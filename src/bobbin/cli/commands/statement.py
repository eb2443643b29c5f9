"""``bobbin statement``: completion statements, what one says and whether it holds."""

from contextlib import suppress
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from bobbin.cli.exit_codes import ExitCode
from bobbin.cli.missing import record_not_found
from bobbin.cli.options import AsJson, LaceFolder, LimitsChoice, parse_wanted
from bobbin.cli.output import Json, Output
from bobbin.cli.policy_files import load_query, load_selector
from bobbin.cli.policy_situation import PeerPolicy, QueryPolicy
from bobbin.cli.text import count_text, utc_text
from bobbin.errors import BobbinError
from bobbin.records import tai

if TYPE_CHECKING:
    from bobbin.datalog.local.budget import LimitExceeded
    from bobbin.interlace.statement import Statement
    from bobbin.runtime.statements import Stated, StatementCheck

_Wanted = Annotated[
    str,
    typer.Argument(metavar="RECORD", help="Its hash, or //group//app//name (the newest).", show_default=False),
]


class SideChoice(StrEnum):
    """Whose lace a statement is checked with."""

    AUTO = "auto"
    ISSUER = "issuer"
    PEER = "peer"


def statement_show(folder: LaceFolder, wanted: _Wanted, as_json: AsJson = False) -> ExitCode:
    """Show what a completion statement says.

    The signature was checked when the record was stored; `bobbin statement check` holds the words against the records.

    Example: bobbin statement show notes.lace S.….H3
    """
    from bobbin.lace import Lace
    from bobbin.runtime.statements import read_statement

    out = Output(as_json=as_json)
    what = parse_wanted(wanted)
    with Lace.open(folder, read_only=True) as lace:
        record = lace.get(what)
        if record is None:
            return record_not_found(out, lace, what)
        stated = read_statement(record)
    out.result(_value(stated), *_lines(out, stated))
    return ExitCode.OK


def statement_check(
    folder: LaceFolder,
    wanted: _Wanted,
    policy: Annotated[
        str, typer.Option("--policy", metavar="FILE", help="This lace's policy then.", show_default=False)
    ],
    peer_policy: PeerPolicy = None,
    query_policy: QueryPolicy = None,
    side: Annotated[
        SideChoice,
        typer.Option("--as", help="Whose lace this is. auto: as its keys say."),
    ] = SideChoice.AUTO,
    limits: Annotated[
        LimitsChoice | None,
        typer.Option("--limits", help="What evaluating the rules may cost. Default: what is noted for the other side."),
    ] = None,
    as_json: AsJson = False,
) -> ExitCode:
    """Check a completion statement against the records of a lace.

    Computes from the policies which plan it must have been, and from the records what this side must have offered,
    under the time and the circumstances that the statement names. In a lace of neither side, only the names, the
    signature and the policies can be checked. Ends with 1 if it does not hold, or if that could not be seen here.

    Example: bobbin statement check notes.lace S.….H3 --policy ding.policy
    """
    from bobbin.datalog.local.budget import LimitExceeded
    from bobbin.lace import Lace
    from bobbin.policy.executables import BUDGETS
    from bobbin.runtime.statements import read_statement

    out = Output(as_json=as_json)
    what = parse_wanted(wanted)
    own = load_selector(policy)
    peer = None if peer_policy is None else load_selector(peer_policy)
    query = None if query_policy is None else load_query(query_policy)
    with Lace.open(folder, read_only=True) as lace:
        record = lace.get(what)
        if record is None:
            return record_not_found(out, lace, what)
        profile = _noted_limits(folder, read_statement(record).statement) if limits is None else limits
        try:
            check = lace.check_statement(
                record.hash,
                policy=own,
                peer_policy=peer,
                query_policy=query,
                as_issuer=None if side is SideChoice.AUTO else side is SideChoice.ISSUER,
                budgets=BUDGETS[profile.value],
            )
        except LimitExceeded as error:
            raise LimitExceeded(error.limit, _limit_text(profile, error)) from error
    value: dict[str, Json] = {
        **_value(check.stated),
        "holds": None if check.is_open else check.holds,
        "checked_as": {True: "issuer", False: "peer", None: None}[check.as_issuer],
        "problems": list(check.problems),
        "remarks": list(check.remarks),
    }
    out.result(value, *_check_lines(out, check))
    return ExitCode.OK if check.holds else ExitCode.NOT_ALL


def _noted_limits(folder: Path, statement: "Statement") -> LimitsChoice:
    """The limits that are noted for one of the two sides: the exchange was held under them, if they stand since."""
    from bobbin.config.layout import Layout
    from bobbin.config.peers import read_peers
    from bobbin.interlace.limits import LARGE

    origins = {str(operand.origin) for operand in statement.operands}
    with suppress(BobbinError):  # whatever is wrong with that file, the statement can be checked without it
        entries = read_peers(Layout(folder).peers).entries
        if any(entry.verifier in origins and entry.limits == LARGE for entry in entries):
            return LimitsChoice.LARGE
    return LimitsChoice.DEFAULT


def _limit_text(profile: LimitsChoice, error: "LimitExceeded") -> str:
    advice = (
        "; the exchange may have been held under larger ones, say --limits large"
        if profile is LimitsChoice.DEFAULT
        else "; there are none beyond --limits large"
    )
    return f"the statement was not checked under the limits `{profile.value}`: {error} ({error.limit}){advice}"


def _check_lines(out: Output, check: "StatementCheck") -> list[str]:
    whose = {True: "checked with the issuer's records", False: "checked with the peer's records"}
    where = "this lace is neither the issuer's nor the peer's" if check.as_issuer is None else whose[check.as_issuer]
    if check.is_open:
        issuer, peer = _origins(check.stated.statement)
        return [
            f"{out.style('cannot be judged here', fg='yellow', bold=True)} · {where}",
            "  in order: the signature, that the issuer sealed it, and that the policies make its plan",
            "  not seen: what was offered; that takes the records of one of the two sides:",
            out.style(f"    issuer {issuer}"),
            out.style(f"    peer   {peer}"),
            "  --as issuer or --as peer checks it all the same, for a copy of a side's lace that has no key",
        ]
    word = out.style("holds", fg="green", bold=True) if check.holds else out.style("does not hold", fg="red", bold=True)
    lines = [f"{word} · {where}"]
    if check.holds and check.found is not None:
        lines.append(f"  the signature, the plan, and the {count_text(check.found.count, 'record')} that were offered")
    lines += [out.style(f"  {problem}") for problem in check.problems]
    lines += [out.style(f"  {remark}") for remark in check.remarks]
    return lines


def _origins(statement: "Statement") -> tuple[str, str]:
    origins = [operand.origin for operand in statement.operands]
    return origins[statement.index], origins[1 - statement.index]


def _value(stated: "Stated") -> dict[str, Json]:
    statement = stated.statement
    return {
        "record": stated.record,
        "signed_by": stated.signer,
        "tai": stated.tai,
        "utc": utc_text(tai.parse(stated.tai)),
        "plan": statement.plan,
        "link": statement.link,
        "issuer": statement.index,
        "operands": [{"module": operand.module, "origin": operand.origin} for operand in statement.operands],
        "start_tai": statement.start_tai,
        "tick_tai": statement.tick_tai,
        "fields": "all" if statement.schema.all else sorted(statement.schema.names),
        "offered": {"count": statement.offered.count, "digest": statement.offered.digest},
        "claimed": {"count": statement.claimed.count, "digest": statement.claimed.digest},
        "received": statement.received,
        "sent": statement.sent,
        "not_available": list(statement.not_available),
        "rejected": dict(statement.rejected),
    }


def _lines(out: Output, stated: "Stated") -> list[str]:
    statement = stated.statement
    return [
        f"statement      {stated.record}",
        f"signed by      {stated.signer}, {utc_text(tai.parse(stated.tai))}",
        f"plan           {statement.plan}",
        f"link           {statement.link or 'none: not both sides had proven who they are'}",
        *(out.style(line) for line in _operands(statement)),
        f"time           {statement.start_tai} to {statement.tick_tai}",
        f"offered        {count_text(statement.offered.count, 'record')}, digest {statement.offered.digest}",
        f"peer offered   {count_text(statement.claimed.count, 'record')}, digest {statement.claimed.digest}",
        f"moved          {statement.received:,} received, {statement.sent:,} sent",
        *(f"not available  {record}" for record in statement.not_available),
        *(f"rejected       {record}  {reason}" for record, reason in statement.rejected),
    ]


def _operands(statement: "Statement") -> list[str]:
    return [
        f"{'issuer' if index == statement.index else 'peer':<14} {operand.origin} under {operand.module}"
        for index, operand in enumerate(statement.operands)
    ]
