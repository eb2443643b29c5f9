"""``bobbin sync``: converge the records that two laces' policies select."""

import re
from contextlib import ExitStack
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer
from msgspec import Struct

from bobbin.cli import exchange_text
from bobbin.cli.exit_codes import ExitCode
from bobbin.cli.missing import record_not_found
from bobbin.cli.options import AsJson, LaceFolder, parse_wanted
from bobbin.cli.output import Json, Output
from bobbin.cli.policy_files import load_query, load_selector
from bobbin.cli.policy_situation import PeerPolicy, QueryPolicy, refusals_among
from bobbin.cli.progress import progress
from bobbin.cli.sources import check_outside
from bobbin.cli.text import count_text, size_text
from bobbin.errors import UsageError
from bobbin.records.coordinate import Address, Coordinate

if TYPE_CHECKING:
    from bobbin.lace import Lace
    from bobbin.runtime.operations import Explained, SyncReport
    from bobbin.runtime.recording import Recorder

_ADDRESS: Final = re.compile(r"[a-z][a-z0-9+.-]*:(?://)?[^/\\]")


class LimitsChoice(StrEnum):
    """How much one round may cost."""

    DEFAULT = "default"
    LARGE = "large"


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
_Limits = Annotated[LimitsChoice, typer.Option("--limits", help="How much one round may cost.")]
_Rounds = Annotated[int, typer.Option("--rounds", min=1, metavar="N", help="After a limit, go on in up to N rounds.")]


def sync(
    folder: LaceFolder,
    peer: Annotated[str, typer.Argument(metavar="PEER", help="Folder of the other lace.", show_default=False)],
    policy: Annotated[str, typer.Option("--policy", metavar="FILE", help="Our policy.", show_default=False)],
    peer_policy: PeerPolicy = None,
    query_policy: QueryPolicy = None,
    peer_query_policy: _PeerQueryPolicy = None,
    dry_run: Annotated[bool, _flag("--dry-run", "Exchange between copies: the same answer, nothing changes.")] = False,
    explain: _Explain = None,
    record: _Record = None,
    limits: _Limits = LimitsChoice.DEFAULT,
    rounds: _Rounds = 1,
    through_codec: Annotated[bool, _flag("--through-codec", "Pass real bytes, and count them by phase.")] = False,
    ledger: Annotated[bool, _flag("--ledger", "Show what the peer could learn, and how honest it was.")] = False,
    state: Annotated[bool, _flag("--state", "Show what both sides agreed on.")] = False,
    statement: Annotated[bool, _flag("--statement", "Seal and store a statement about what was exchanged.")] = False,
    receipts: Annotated[bool, _flag("--receipts", "Seal and store a receipt for each record that came.")] = False,
    full: Annotated[bool, _flag("--full", "Do not shorten hashes in explanations.")] = False,
    as_json: AsJson = False,
) -> ExitCode:
    """Exchange records with another lace until neither side can have anything more from the other.

    A record moves only where both policies select it. Every record is checked before it is stored. Where both laces
    have their default key, each side knows the other by it; else neither is proven. Ends with 1 if something did not
    come or a limit ended it before.

    Example: bobbin sync notes.lace backup.lace --policy ding.policy
    """
    out = Output(as_json=as_json)
    other = _peer_folder(folder, peer)
    if record is not None:
        check_outside(folder, record)
        check_outside(other, record)
        _check_recording(record, rounds)
    asked = [parse_wanted(text) for text in explain or ()]
    selectors = load_selector(policy), None if peer_policy is None else load_selector(peer_policy)
    queries = [None if file is None else load_query(file) for file in (query_policy, peer_query_policy)]

    from bobbin.interlace.limits import PROFILES
    from bobbin.lace import Lace
    from bobbin.runtime.operations import Progressing

    with ExitStack() as stack:
        here, there = (stack.enter_context(Lace.open(path, read_only=dry_run)) for path in (folder, other))
        wanted = [(what, _resolve(what, here, there)) for what in asked]
        if missing := [what for what, found in wanted if found is None]:
            return record_not_found(out, here, missing[0])
        recorder = None if record is None else _recorder(stack, record)
        meter = stack.enter_context(progress(f"sync {folder}", "records"))
        report = here.sync(
            there,
            selectors[0],
            peer_policy=selectors[1],
            query_policy=queries[0],
            peer_query_policy=queries[1],
            limits=PROFILES[limits.value],
            rounds=rounds,
            through_codec=through_codec,
            dry_run=dry_run,
            explain=[found for _, found in wanted if found is not None],
            statement=statement,
            receipts=receipts,
            observers=[Progressing(meter).observe],
            recorder=recorder,
        )
        refusals = [_refusals(here, there, one.record) for one in report.explained]
    recording = None if recorder is None else _Recording(recorder, str(record))
    value: dict[str, Json] = {"lace": str(folder), "peer": str(other), "dry_run": dry_run}
    shown = _Shown(ledger=ledger, state=state, full=full, refusals=refusals)
    out.result(value | shown.value(report, recording), *shown.lines(out, report))
    _say_rest(out, report, recording, dry_run=dry_run, wants_statement=statement)
    return exchange_text.code_of(report)


class _Recording(Struct, frozen=True):
    """A recording that was made."""

    recorder: "Recorder"
    file: str


class _Shown(Struct, frozen=True, kw_only=True):
    """What the user wants to see besides the account."""

    ledger: bool
    state: bool
    full: bool
    refusals: list[list[str | None]]

    def value(self, report: "SyncReport", recording: _Recording | None) -> dict[str, Json]:
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
        if report.explained:
            value["explained"] = [_explained_value(one) for one in report.explained]
        return value

    def lines(self, out: Output, report: "SyncReport") -> list[str]:
        lines = [*exchange_text.account(out, report)]
        if self.state:
            lines += ["", *exchange_text.state(out, report.agreed)]
        if self.ledger:
            lines += ["", *exchange_text.ledger(out, report)]
        for one, refused in zip(report.explained, self.refusals, strict=True):
            lines += ["", *exchange_text.explained(out, one, refusals=refused, full=self.full)]
        return lines


def _peer_folder(folder: Path, peer: str) -> Path:
    path = Path(peer)
    if not path.exists() and _ADDRESS.match(peer):
        raise UsageError(f"{peer} is an address; that comes with the network node. PEER is the folder of another lace")
    if path.exists() and folder.exists() and path.samefile(folder):
        raise UsageError(f"{peer} is the same lace; a lace has nothing to exchange with itself")
    return path


def _resolve(what: Address | Coordinate, here: "Lace", there: "Lace") -> str | None:
    """The record that is meant: by hash, or the newest of a coordinate, here or else there."""
    if isinstance(what, Address):
        return what.hash
    return next((tip.hash for lace in (here, there) if (tip := lace.tip(what)) is not None), None)


def _check_recording(file: Path, rounds: int) -> None:
    if file.exists():
        raise UsageError(f"{file} exists already; a recording goes into a new file")
    if rounds > 1:
        raise UsageError("a recording is of one round; leave --rounds or --record out")


def _recorder(stack: ExitStack, file: Path) -> "Recorder":
    from bobbin.runtime.recording import Recorder

    def leave_nothing_empty() -> None:
        if file.stat().st_size == 0:
            file.unlink()

    stack.callback(leave_nothing_empty)
    return Recorder(stack.enter_context(file.open("xb")))


def _refusals(here: "Lace", there: "Lace", record: str) -> list[str | None]:
    found = [refusals_among(lace, (record,)).get(record) for lace in (here, there)]
    return [None if refusal is None else refusal.reason for refusal in found]


def _explained_value(one: "Explained") -> Json:
    import msgspec

    value: Json = msgspec.to_builtins(one)
    return value


def _say_rest(
    out: Output, report: "SyncReport", recording: _Recording | None, *, dry_run: bool, wants_statement: bool
) -> None:
    if dry_run:
        out.note("a dry run: neither lace was changed")
    if report.statement is not None:
        out.note(f"statement {report.statement}")
    elif wants_statement and report.fixed_point:
        out.note("no statement: nothing moved but statements and receipts, and none is made about those")
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
