"""``bobbin sync``: converge the records that two laces' policies select."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from msgspec import Struct

from bobbin.cli import exchange_text
from bobbin.cli.commands.peers import PeersFile
from bobbin.cli.elsewhere import (
    AllowInsecure,
    Authorities,
    Chosen,
    Demands,
    ExpectedKey,
    Pin,
    Policy,
    TrustNew,
    find_folder,
)
from bobbin.cli.exit_codes import ExitCode
from bobbin.cli.options import AsJson, LaceFolder, LimitsChoice, StrategyOption, parse_wanted
from bobbin.cli.output import Json, Output
from bobbin.cli.policy_situation import PeerPolicy, QueryPolicy
from bobbin.cli.sync_run import Asked, Ran, sync_elsewhere, sync_folder
from bobbin.cli.text import count_text, size_text
from bobbin.errors import UsageError

if TYPE_CHECKING:
    from bobbin.runtime.accounts import Explained, SyncReport
    from bobbin.runtime.recording import Recorder


def _flag(name: str, words: str) -> object:
    return typer.Option(name, metavar="", help=words, show_default=False)


_PeerQueryPolicy = Annotated[
    str | None,
    typer.Option(
        "--peer-query-policy",
        metavar="FILE",
        help="What our rules may see there. Default: what the peer's policy selects.",
    ),
]
_Explain = Annotated[
    list[str] | None,
    typer.Option("--explain", metavar="RECORD", help="Say why this record moved or did not.", show_default=False),
]
_Record = Annotated[
    Path | None,
    typer.Option(
        "--record", metavar="FILE", help="Record every step of our side, for `bobbin replay`.", show_default=False
    ),
]
_Limits = Annotated[
    LimitsChoice | None,
    typer.Option("--limits", help="How much one round may cost. Default: what is noted for the peer."),
]
_Rounds = Annotated[int, typer.Option("--rounds", min=1, metavar="N", help="After a limit, go on in up to N rounds.")]


def sync(
    folder: LaceFolder,
    peer: Annotated[
        str,
        typer.Argument(
            metavar="PEER", help="Folder of another lace, an address, or the name of a known peer.", show_default=False
        ),
    ],
    policy: Policy = None,
    peer_policy: PeerPolicy = None,
    query_policy: QueryPolicy = None,
    peer_query_policy: _PeerQueryPolicy = None,
    dry_run: Annotated[bool, _flag("--dry-run", "Exchange between copies: the same answer, nothing changes.")] = False,
    explain: _Explain = None,
    record: _Record = None,
    limits: _Limits = None,
    rounds: _Rounds = 1,
    strategy: StrategyOption = None,
    through_codec: Annotated[bool, _flag("--through-codec", "Pass real bytes, and count them by phase.")] = False,
    ledger: Annotated[bool, _flag("--ledger", "Show what the peer could learn, and how honest it was.")] = False,
    state: Annotated[bool, _flag("--state", "Show what both sides agreed on.")] = False,
    statement: Annotated[bool, _flag("--statement", "Seal and store a statement about what was exchanged.")] = False,
    receipts: Annotated[bool, _flag("--receipts", "Seal and store a receipt for each record that came.")] = False,
    full: Annotated[bool, _flag("--full", "Do not shorten hashes in explanations.")] = False,
    verifier: ExpectedKey = None,
    pin: Pin = None,
    authorities: Authorities = None,
    trust_new: TrustNew = None,
    allow_insecure: AllowInsecure = False,
    peers: PeersFile = None,
    as_json: AsJson = False,
) -> ExitCode:
    """Exchange records with another lace until neither side can have anything more from the other.

    A record moves only where both policies select it. Every record is checked before it is stored. A lace in another
    folder follows --peer-policy, one elsewhere its own. Each side knows the other by its default key, if it has one.
    Ends with 1 if something did not come or a limit ended it before.

    Examples: bobbin sync notes.lace backup.lace --policy ding.policy · bobbin sync notes.lace lab
    """
    out = Output(as_json=as_json)
    asked = Asked(
        folder=folder,
        chosen=Chosen(
            policy=policy,
            query_policy=query_policy,
            limits=None if limits is None else limits.value,
            strategy=None if strategy is None else strategy.value,
        ),
        peer_policy=peer_policy,
        peer_query_policy=peer_query_policy,
        dry_run=dry_run,
        explain=[parse_wanted(text) for text in explain or ()],
        record=record,
        rounds=rounds,
        through_codec=through_codec,
        statement=statement,
        receipts=receipts,
        full=full,
    )
    demands = Demands(
        verifier=verifier,
        pin=pin,
        authorities=authorities,
        trust_new=trust_new,
        allow_insecure=allow_insecure,
        peers=peers,
    )
    other = find_folder(folder, peer, peers)
    if other is None and Path(peer).is_dir():
        out.note(f"{peer} is a known peer and is dialled; ./{peer} means the folder")
    if other is not None and demands.given:
        raise UsageError(f"{', '.join(demands.given)}: {peer} is a folder; nobody has to prove anything there")
    ran = sync_elsewhere(asked, peer, demands) if other is None else sync_folder(asked, other)
    return _show(out, asked, ran, _Shown(ledger=ledger, state=state))


def _show(out: Output, asked: Asked, ran: Ran, shown: "_Shown") -> ExitCode:
    recording = None if ran.recorder is None else _Recording(ran.recorder, str(asked.record))
    there = str(ran.other) if ran.elsewhere is None else str(ran.elsewhere.address)
    value: dict[str, Json] = {"lace": str(asked.folder), "peer": there, "dry_run": asked.dry_run}
    if ran.elsewhere is not None:
        value["peer_name"] = ran.elsewhere.name
        ran.elsewhere.say_passed_over(out)
    out.result(value | shown.value(ran, recording), *shown.lines(out, ran))
    _say_rest(out, ran.report, recording, dry_run=asked.dry_run, wants_statement=asked.statement)
    unexplained = not {*ran.wanted} <= {one.record for one in ran.report.explained}
    for sentence in exchange_text.hints(ran.report, asked.folder, ran.other, unexplained=unexplained):
        out.warn(sentence)
    code = exchange_text.code_of(ran.report)
    if code is ExitCode.RESOURCE and exchange_text.may_pass(ran.report, asked.folder, ran.other):
        code = ExitCode.TRY_AGAIN
    return ExitCode.NOT_ALL if code is ExitCode.OK and ran.unknown else code


class _Recording(Struct, frozen=True):
    """A recording that was made."""

    recorder: "Recorder"
    file: str


class _Shown(Struct, frozen=True, kw_only=True):
    """What the user wants to see besides the account."""

    ledger: bool
    state: bool

    def value(self, ran: Ran, recording: _Recording | None) -> dict[str, Json]:
        report = ran.report
        value = exchange_text.value_of(report)
        value["recording"] = None
        if recording is not None:
            made = recording.recorder
            value["recording"] = {
                "file": recording.file,
                "steps": made.steps,
                "bytes": made.size,
                "failure": made.failure,
            }
        if self.ledger:
            value["ledger"] = exchange_text.ledger_value(report)
        if self.state:
            value["state"] = exchange_text.state_value(report.agreed)
        if report.explained or ran.unknown or ran.arrived:
            value["explained"] = [
                _explained_value(one, told) for one, told in zip(report.explained, ran.told, strict=True)
            ]
            value["unknown"] = ran.unknown
        if ran.arrived:
            value["arrived"] = ran.arrived
        if ran.untold:
            value["untold"] = [*ran.untold]
        if ran.several:
            value["several"] = {place: [*found] for place, found in ran.several.items()}
        return value

    def lines(self, out: Output, ran: Ran) -> list[str]:
        report = ran.report
        lines = [] if ran.elsewhere is None else [out.style(f"{'peer':<14} {ran.elsewhere}")]
        lines += exchange_text.account(out, report)
        if self.state:
            lines += ["", *exchange_text.state(out, report.agreed)]
        if self.ledger:
            lines += ["", *exchange_text.ledger(out, report)]
        for place, found in ran.several.items():
            lines += ["", *exchange_text.several(out, place, found)]
        for one, told in zip(report.explained, ran.told, strict=True):
            lines += ["", *exchange_text.explained(out, one, told)]
        for place, record in ran.arrived.items():
            lines += ["", out.style(f"{place}: received, as {record}", bold=True)]
        lines += [line for place in ran.untold for line in ("", exchange_text.untold(out, place))]
        for place in ran.unknown:
            lines += ["", *exchange_text.unknown(out, place, is_elsewhere=ran.elsewhere is not None)]
        return lines


def _explained_value(one: "Explained", told: exchange_text.Told) -> Json:
    import msgspec

    value: dict[str, Json] = msgspec.to_builtins(one)
    for side, texts in zip(("own", "peer"), told.texts, strict=True):
        value[f"{side}_texts"] = {part.value: file for part, file in texts.items()}
    return value


def _say_rest(
    out: Output, report: "SyncReport", recording: _Recording | None, *, dry_run: bool, wants_statement: bool
) -> None:
    if dry_run:
        out.note("a dry run: neither lace was changed")
    if report.statement is not None:
        out.note(f"statement {report.statement}")
    elif report.standing_statement is not None:
        out.note(f"statement {report.standing_statement} stands: it says all that a new one would say")
    elif wants_statement:
        out.warn("no statement: only an exchange that has converged can be stated")
    if report.receipts:
        out.note(f"{count_text(len(report.receipts), 'receipt')} sealed and stored")
    if recording is not None:
        made = recording.recorder
        if made.failure is not None:
            out.warn(made.failure)
        steps = f"{count_text(made.steps, 'step')}, {size_text(made.size)}"
        out.note(f"recorded: {steps} → {recording.file}. It holds the bytes of records: keep it as private as they are")
