"""Running one exchange for ``bobbin sync``: with a lace in another folder, or with a peer elsewhere."""

from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct

from bobbin.cli import exchange_text
from bobbin.cli.elsewhere import Chosen, Demands, Elsewhere, find_elsewhere
from bobbin.cli.message_records import take_in
from bobbin.cli.policy_files import load_query, load_selector, texts_of
from bobbin.cli.policy_situation import refusals_among
from bobbin.cli.sources import STDIN, check_outside
from bobbin.cli.watching import watching
from bobbin.errors import UsageError
from bobbin.records.coordinate import Address, Coordinate

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bobbin.lace import Lace
    from bobbin.policy.executables import Part
    from bobbin.runtime.accounts import SyncReport
    from bobbin.runtime.recording import Recorder


class Asked(Struct, frozen=True, kw_only=True):
    """What the user wants of the exchange."""

    folder: Path
    chosen: Chosen
    peer_policy: str | None
    peer_query_policy: str | None
    dry_run: bool
    explain: list[Address | Coordinate]
    record: Path | None
    rounds: int
    through_codec: bool
    statement: bool
    receipts: bool
    full: bool


class Ran(Struct, frozen=True, kw_only=True):
    """An exchange that is over."""

    report: "SyncReport"
    wanted: list[str]
    """The records that were to be explained, each once."""
    told: list[exchange_text.Told]
    """For each record that is explained."""
    unknown: list[str]
    """Coordinates that were asked about and at which nothing was found."""
    arrived: dict[str, str]
    """Coordinates that were asked about, with the record that came there from elsewhere."""
    several: dict[str, list[str]]
    """Coordinates that were asked about and at which the sides had different records, with these, the newest first."""
    recorder: "Recorder | None"
    untold: list[str] = []
    """Coordinates at which this side has a record, and of which a peer elsewhere has told nothing."""
    other: Path | None = None
    """The folder of the other lace; None where that is elsewhere."""
    elsewhere: Elsewhere | None = None


def sync_folder(asked: Asked, other: Path) -> Ran:
    """Exchange with the lace in another folder."""
    from bobbin.interlace.limits import PROFILES
    from bobbin.lace import Lace
    from bobbin.policy.executables import BUDGETS

    chosen = asked.chosen
    if chosen.policy is None:
        raise UsageError("an exchange with another folder needs a policy: --policy FILE")
    _check_recording(asked, other)
    peer_policy, peer_query_policy = asked.peer_policy, asked.peer_query_policy
    selectors = load_selector(chosen.policy), None if peer_policy is None else load_selector(peer_policy)
    queries = [None if file is None else load_query(file) for file in (chosen.query_policy, peer_query_policy)]
    profile = chosen.limits or "default"
    if not asked.dry_run:
        need_nodes(asked.folder, other)
    with ExitStack() as stack:
        here, there = (stack.enter_context(Lace.open(path, read_only=asked.dry_run)) for path in (asked.folder, other))
        wanted = [(what, _resolve(what, here, there)) for what in asked.explain]
        recorder = None if asked.record is None else _recorder(stack, asked.record)
        observers = stack.enter_context(watching(f"sync {asked.folder}"))
        report = here.sync(
            there,
            selectors[0],
            peer_policy=selectors[1],
            query_policy=queries[0],
            peer_query_policy=queries[1],
            limits=PROFILES[profile],
            budgets=BUDGETS[profile],
            strategy=chosen.strategy or "auto",
            rounds=asked.rounds,
            through_codec=asked.through_codec,
            dry_run=asked.dry_run,
            explain=_records(wanted),
            statement=asked.statement,
            receipts=asked.receipts,
            observers=observers,
            recorder=recorder,
        )
        texts = (
            texts_of(chosen.policy, query=chosen.query_policy),
            texts_of(peer_policy or chosen.policy, query=peer_query_policy),
        )
        refusals = [(_refusal(here, one.record), _refusal(there, one.record)) for one in report.explained]
        for lace in () if asked.dry_run else (here, there):
            take_in(lace)
    return Ran(
        report=report,
        wanted=_records(wanted),
        told=[exchange_text.Told(refusals=refused, texts=texts, full=asked.full) for refused in refusals],
        unknown=[str(what) for what, found in wanted if not found],
        arrived={},
        several={str(what): found for what, found in wanted if len(found) > 1},
        recorder=recorder,
        other=other,
    )


def sync_elsewhere(asked: Asked, peer: str, demands: Demands) -> Ran:
    """Exchange with a peer at an address. It has policies of its own, and its books are not open to us."""
    from bobbin.lace import Lace
    from bobbin.runtime.connection import run
    from bobbin.runtime.operations import Wishes

    _check_elsewhere(asked, peer)
    _check_recording(asked, None)
    need_nodes(asked.folder)
    with ExitStack() as stack:
        here = stack.enter_context(Lace.open(asked.folder))
        there = find_elsewhere(asked.folder, peer, demands, asked.chosen)
        connection = there.connect(here, needs_policy=True)
        wanted = [(what, _resolve(what, here)) for what in asked.explain]
        places = tuple(what for what in asked.explain if isinstance(what, Coordinate))
        recorder = None if asked.record is None else _recorder(stack, asked.record)
        observers = stack.enter_context(watching(f"sync {there.name or there.address}", there))
        report = run(
            connection.synchronise(
                Wishes(
                    rounds=asked.rounds,
                    explain=tuple(_records(wanted)),
                    explain_at=places,
                    statement=asked.statement,
                    receipts=asked.receipts,
                ),
                observers=observers,
                recorder=recorder,
            )
        )
        after = {str(what): _resolve(what, here) for what in asked.explain}
        refusals = [_refusal(here, one.record) for one in report.explained]
        take_in(here)
    texts: tuple[dict[Part, str], dict[Part, str]] = (there.terms.texts, {})
    return Ran(
        report=report,
        wanted=_records(wanted),
        told=[exchange_text.Told(refusals=(one, None), texts=texts, full=asked.full) for one in refusals],
        unknown=[
            str(what)
            for what, found in wanted
            if not found and not after[str(what)] and (not isinstance(what, Coordinate) or str(what) in report.untold)
        ],
        arrived={str(what): now[0] for what, found in wanted if (now := after[str(what)]) and now != found},
        several={},
        untold=[place for place in report.untold if after[place]],
        recorder=recorder,
        elsewhere=there,
    )


def _check_elsewhere(asked: Asked, peer: str) -> None:
    given = {
        "--dry-run": asked.dry_run,
        "--through-codec": asked.through_codec,
        "--peer-policy": asked.peer_policy is not None,
        "--peer-query-policy": asked.peer_query_policy is not None,
    }
    if wrong := [option for option, is_given in given.items() if is_given]:
        raise UsageError(f"{', '.join(wrong)}: {peer} is elsewhere, has its own policies, and knows no dry run")


def need_nodes(*folders: Path) -> None:
    """Of a replicated lace the node must run, or nothing that comes could be stored."""
    from bobbin.config.layout import Layout

    for layout in map(Layout, folders):
        if layout.is_lace() and layout.cluster.is_dir():
            from bobbin.config.replicated import need_node

            need_node(layout)


def _resolve(what: Address | Coordinate, *laces: "Lace") -> list[str]:
    """The records that are meant: one by hash; of a coordinate what each side has there, the newest first.

    Where the sides differ, either may be the one that somebody wonders about: theirs that does not come, or ours.
    """
    if isinstance(what, Address):
        return [what.hash]
    tips = {(tip.tai, tip.hash) for lace in laces for tip in lace.list(what, tips=True)}
    return [record for _, record in sorted(tips, reverse=True)]


def _records(wanted: "Sequence[tuple[Address | Coordinate, list[str]]]") -> list[str]:
    """All that is to be explained, each once."""
    return list(dict.fromkeys(record for _, found in wanted for record in found))


def _refusal(lace: "Lace", record: str) -> str | None:
    found = refusals_among(lace, (record,)).get(record)
    return None if found is None else found.reason


def _check_recording(asked: Asked, other: Path | None) -> None:
    file = asked.record
    if file is None:
        return
    if str(file) == STDIN:
        raise UsageError("a recording is no text and stdout has the account; --record wants the name of a new file")
    if file.exists():
        raise UsageError(f"{file} exists already; a recording goes into a new file")
    if asked.rounds > 1:
        raise UsageError("a recording is of one round; leave --rounds or --record out")
    check_outside(asked.folder, file)
    if other is not None:
        check_outside(other, file)


def _recorder(stack: ExitStack, file: Path) -> "Recorder":
    from bobbin.runtime.recording import Recorder

    def leave_nothing_empty() -> None:
        if file.stat().st_size == 0:
            file.unlink()

    stack.callback(leave_nothing_empty)
    return Recorder(stack.enter_context(file.open("xb")))
