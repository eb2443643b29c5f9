"""``bobbin remote``: single records of a peer elsewhere, each by an exchange about nothing else."""

from typing import TYPE_CHECKING, Annotated

import typer

from bobbin.cli import exchange_text, output
from bobbin.cli.commands.peers import PeersFile
from bobbin.cli.elsewhere import (
    AllowInsecure,
    Authorities,
    Chosen,
    Demands,
    ExpectedKey,
    Pin,
    Policy,
    Remote,
    TrustNew,
    find_elsewhere,
)
from bobbin.cli.exit_codes import ExitCode
from bobbin.cli.message_records import warn_unaccepted
from bobbin.cli.missing import record_not_found
from bobbin.cli.options import AsJson, LaceFolder, Limit, parse_place, parse_wanted
from bobbin.cli.output import Output
from bobbin.cli.record_rows import placed_row
from bobbin.cli.watching import watching

if TYPE_CHECKING:
    from bobbin.runtime.accounts import SyncReport
    from bobbin.runtime.operations import Placed


def remote_get(
    folder: LaceFolder,
    peer: Remote,
    wanted: Annotated[
        str,
        typer.Argument(
            metavar="COORDINATE|HASH", help="//group//app//name (its newest record) or a hash.", show_default=False
        ),
    ],
    policy: Policy = None,
    whole: Annotated[bool, typer.Option("--record", metavar="", help="The whole record, headers included.")] = False,
    verifier: ExpectedKey = None,
    pin: Pin = None,
    authorities: Authorities = None,
    trust_new: TrustNew = None,
    allow_insecure: AllowInsecure = False,
    peers: PeersFile = None,
    as_json: AsJson = False,
) -> ExitCode:
    """Fetch one record from a peer, store it here, and write its data to stdout.

    Of a coordinate the newest record that is here afterwards, wherever it came from. Nothing of this lace is sent. Ends
    with 1 if the peer does not give it, and it was not here before.

    Example: bobbin remote get notes.lace lab //u//ding//links/1
    """
    from bobbin.lace import Lace
    from bobbin.records.jsonl import encode
    from bobbin.runtime.connection import run

    out = Output(as_json=as_json)
    what = parse_wanted(wanted)
    demands = Demands(
        verifier=verifier,
        pin=pin,
        authorities=authorities,
        trust_new=trust_new,
        allow_insecure=allow_insecure,
        peers=peers,
    )
    with Lace.open(folder) as lace:
        there = find_elsewhere(folder, peer, demands, Chosen(policy=policy))
        with watching(f"get {peer}", there) as observers:
            got = run(there.connect(lace, needs_policy=False).get(what, observers=observers))
        there.say_passed_over(out)
        if got.record is None:
            code = _end(out, got.report)
            return record_not_found(out, lace, what, asked=peer) if got.report.fixed_point else code
        warn_unaccepted(out, lace, what, got.record)
    if as_json:
        out.json_text(encode(got.record))
    else:
        out.raw(got.record.raw if whole else got.record.data)
    return _end(out, got.report)


def remote_list(
    folder: LaceFolder,
    peer: Remote,
    place: Annotated[
        str,
        typer.Argument(
            metavar="COORDINATE|PREFIX", help="//group//app//name, or a prefix ending in /.", show_default=False
        ),
    ],
    policy: Policy = None,
    limit: Limit = None,
    verifier: ExpectedKey = None,
    pin: Pin = None,
    authorities: Authorities = None,
    trust_new: TrustNew = None,
    allow_insecure: AllowInsecure = False,
    peers: PeersFile = None,
    as_json: AsJson = False,
) -> ExitCode:
    """Fetch the records of a peer at a place, store them here, and list what is here then.

    Lines are those of `bobbin list`. Nothing of this lace is sent. Where the link is lost, what is here by then is
    listed, and the command ends with 5.

    Example: bobbin remote list notes.lace lab //u//ding//
    """
    from bobbin.lace import Lace
    from bobbin.runtime.connection import run

    out = Output(as_json=as_json)
    parsed = parse_place(place)
    demands = Demands(
        verifier=verifier,
        pin=pin,
        authorities=authorities,
        trust_new=trust_new,
        allow_insecure=allow_insecure,
        peers=peers,
    )
    with Lace.open(folder) as lace:
        there = find_elsewhere(folder, peer, demands, Chosen(policy=policy))
        with watching(f"list {peer}", there) as observers:
            listing = run(there.connect(lace, needs_policy=False).list(parsed, observers=observers))
        there.say_passed_over(out)
    for listed in listing.records[:limit]:
        placed_row(out, listed)
    if not listing.records and listing.report.fixed_point:
        out.note(f"nothing at {parsed}, here or of the peer")
    return _end(out, listing.report)


def remote_put(
    folder: LaceFolder,
    peer: Remote,
    records: Annotated[
        list[str],
        typer.Argument(metavar="COORDINATE|HASH…", help="Records that are stored here.", show_default=False),
    ],
    policy: Policy = None,
    verifier: ExpectedKey = None,
    pin: Pin = None,
    authorities: Authorities = None,
    trust_new: TrustNew = None,
    allow_insecure: AllowInsecure = False,
    peers: PeersFile = None,
    as_json: AsJson = False,
) -> ExitCode:
    """Hand records of this lace over to a peer: exactly these.

    The peer takes what its policy selects. It does not say what it has stored; what it offers back, it has. Ends with 1
    unless that is so for all of them, and with 5 where the link is lost.

    Example: bobbin remote put notes.lace lab //u//ding//links/1
    """
    from bobbin.lace import Lace
    from bobbin.runtime.connection import run

    out = Output(as_json=as_json)
    asked = [parse_wanted(text) for text in records]
    demands = Demands(
        verifier=verifier,
        pin=pin,
        authorities=authorities,
        trust_new=trust_new,
        allow_insecure=allow_insecure,
        peers=peers,
    )
    with Lace.open(folder) as lace:
        names = []
        for what in asked:
            found = lace.get(what)
            if found is None:
                return record_not_found(out, lace, what)
            names.append(found.hash)
        there = find_elsewhere(folder, peer, demands, Chosen(policy=policy))
        with watching(f"put {peer}", there) as observers:
            placed = run(there.connect(lace, needs_policy=False).store(names, observers=observers))
        there.say_passed_over(out)
    fates = {name: _fate(name, placed) for name in names}
    for name, (fate, words) in fates.items():
        reason = exchange_text.why_ended(placed.report) if fate == "unknown" else placed.rejected.get(name)
        out.row({"hash": name, "fate": fate, "reason": reason}, f"{name}  {out.style(words)}")
    code = _end(out, placed.report)
    is_all = all(fate in ("stored", "there-already") for fate, _ in fates.values())
    return ExitCode.NOT_ALL if code is ExitCode.OK and not is_all else code


def _fate(record: str, placed: "Placed") -> tuple[str, str]:
    if record in placed.stored:
        return "stored", "stored there"
    if record in placed.there_already:
        return "there-already", "was there already"
    if record in placed.rejected:
        return "rejected", f"sent, and not accepted ({placed.rejected[record]})"
    if record in placed.unconfirmed:
        return "unconfirmed", "sent; the peer does not offer it back, so it is not certain that it has stored it"
    if record in placed.unknown:
        return (
            "unknown",
            f"unknown: the exchange ended before it was settled ({exchange_text.why_ended(placed.report)})",
        )
    return "not-taken", "not taken: one of the policies does not select it"


def _end(out: Output, report: "SyncReport") -> ExitCode:
    """How a command ends whose exchange is over: an error where that broke off, after what is known has been said."""
    if (error := exchange_text.error_of(report)) is not None:
        output.flush()
        raise error
    if not report.fixed_point:
        out.warn(exchange_text.ended(report))
    return exchange_text.code_of(report)
