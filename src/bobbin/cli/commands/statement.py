"""``bobbin statement``: completion statements, what one says and whether it holds."""

from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from bobbin.cli.exit_codes import ExitCode
from bobbin.cli.missing import record_not_found
from bobbin.cli.options import AsJson, LaceFolder, parse_wanted
from bobbin.cli.output import Json, Output
from bobbin.cli.policy_files import load_query, load_selector
from bobbin.cli.policy_situation import PeerPolicy, QueryPolicy
from bobbin.cli.text import count_text, utc_text
from bobbin.records import tai

if TYPE_CHECKING:
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
    as_json: AsJson = False,
) -> ExitCode:
    """Check a completion statement against the records of a lace.

    Computes from the policies which plan it must have been, and from the records what this side must have offered,
    under the time and the circumstances that the statement names. In a lace of neither side, only the names, the
    signature and the policies can be checked. Ends with 1 if it does not hold, or if that could not be seen here.

    Example: bobbin statement check notes.lace S.….H3 --policy ding.policy
    """
    from bobbin.lace import Lace

    out = Output(as_json=as_json)
    what = parse_wanted(wanted)
    own = load_selector(policy)
    peer = None if peer_policy is None else load_selector(peer_policy)
    query = None if query_policy is None else load_query(query_policy)
    with Lace.open(folder, read_only=True) as lace:
        record = lace.get(what)
        if record is None:
            return record_not_found(out, lace, what)
        check = lace.check_statement(
            record.hash,
            policy=own,
            peer_policy=peer,
            query_policy=query,
            as_issuer=None if side is SideChoice.AUTO else side is SideChoice.ISSUER,
        )
    value: dict[str, Json] = {
        **_value(check.stated),
        "holds": None if check.is_open else check.holds,
        "checked_as": {True: "issuer", False: "peer", None: None}[check.as_issuer],
        "problems": list(check.problems),
        "remarks": list(check.remarks),
    }
    out.result(value, *_check_lines(out, check))
    return ExitCode.OK if check.holds else ExitCode.NOT_ALL


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
