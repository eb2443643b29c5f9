"""``bobbin tangle sync``: bring tangles up to date with another lace, or with a PZP peer."""

from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from bobbin.cli.exit_codes import ExitCode
from bobbin.cli.options import AsJson, LaceFolder
from bobbin.cli.output import Output
from bobbin.cli.tangle_options import KEY_DEFAULT, is_folder, load_key, resolve
from bobbin.cli.tangle_sync_text import Account
from bobbin.cli.tangle_unwanted import note_unwanted, threads_without_goal, without_goal
from bobbin.cli.text import count_text, size_text
from bobbin.errors import UsageError

if TYPE_CHECKING:
    from bobbin.lace import Lace
    from bobbin.runtime.tangle_node import Report
    from bobbin.wire.pzp.address import PeerAddress


def tangle_sync(
    folder: LaceFolder,
    peer: Annotated[
        str,
        typer.Argument(metavar="PEER", help="Folder of another lace, or net:host:port~shse:KEY.", show_default=False),
    ],
    tangles: Annotated[
        list[str] | None,
        typer.Argument(metavar="TANGLE", help="Only these. Default: every tangle with a goal here."),
    ] = None,
    nine_phases: Annotated[
        bool,
        typer.Option(
            "--nine-phases", metavar="", help="Speak as PZP peers do, also with a Bobbin.", show_default=False
        ),
    ] = False,
    key: Annotated[
        str, typer.Option("--key", metavar="NAME", help="The account key to be known by. With an address only.")
    ] = KEY_DEFAULT,
    as_json: AsJson = False,
) -> ExitCode:
    """Bring tangles up to date with another lace, or with a PZP peer.

    Each side takes what its own goal asks for, and every message is checked before it is stored. With a Bobbin it is
    the modern mode, which finds exactly what is missing; with any other PZP peer, the nine phases. Shown is what came
    and went for each tangle, what was refused and why, and how many bytes each phase took. Ends with 1 if something
    that was wanted did not come, from whatever cause.

    Examples: bobbin tangle sync notes.lace other.lace · bobbin tangle sync notes.lace net:lab:8008~shse:9eR…
    """
    from bobbin.lace import Lace

    out = Output(as_json=as_json)
    with ExitStack() as stack:
        lace = stack.enter_context(Lace.open(folder))
        wanted = _wanted(lace, tangles)
        if is_folder(peer):
            if Path(peer).resolve() == folder.resolve():
                raise UsageError(f"{peer} is this lace itself")
            other = stack.enter_context(Lace.open(peer))
            return _with_folder(out, lace, other, wanted, modern=not nine_phases)
        if not peer.startswith("net:"):
            raise UsageError(f"there is no lace at {peer}, and an address has the form net:host:port~shse:KEY")
        return _with_peer(out, lace, peer, wanted, key=key, modern=not nine_phases)


def _wanted(lace: "Lace", tangles: list[str] | None) -> tuple[str, ...]:
    lace.tangles.refresh()
    if tangles:
        return tuple(dict.fromkeys(resolve(lace, text) for text in tangles))
    goals = lace.tangles.goals()
    if not goals:
        raise UsageError(
            f"no tangle in {lace.path} has a goal, so nothing would be taken; bobbin tangle goal {lace.path} TANGLE all"
            " sets one, and tangles that are named are offered to the peer"
        )
    return tuple(goals)


def _with_folder(out: Output, lace: "Lace", other: "Lace", wanted: tuple[str, ...], *, modern: bool) -> ExitCode:
    from bobbin.runtime.tangle_pair import sync_pair

    report = sync_pair(lace.tangles, other.tangles, wanted, modern=modern)
    account, theirs = Account(report.notices), Account(report.peer_notices)
    lacking = _lacking(lace, wanted)
    unwanted = threads_without_goal(lace)
    out.result(
        {
            "lace": str(lace.path),
            "peer": str(other.path),
            "mode": _mode(modern=modern),
            **account.value(report.traffic),
            "peer_runs": theirs.value({})["runs"],
            "lacking": {**lacking},
            "without_goal": unwanted,
        },
        f"{out.style('mode', dim=True)}  {_mode(modern=modern)}",
        *account.lines(out, report.traffic),
    )
    _hint(out, lace, wanted, lacking)
    note_unwanted(out, lace, [root for root in unwanted if root not in wanted])
    for root in threads_without_goal(other, wanted):
        out.note(f"nothing of {root} was taken there: {without_goal(other, root)}")
    return ExitCode.NOT_ALL if lacking else account.code


def _with_peer(out: Output, lace: "Lace", peer: str, wanted: tuple[str, ...], *, key: str, modern: bool) -> ExitCode:
    import asyncio

    from bobbin.transport.base import TransportError
    from bobbin.wire.pzp import address as addresses

    address = addresses.parse(peer)
    _check_key(lace, address)
    try:
        report = asyncio.run(_dial(lace, address, wanted, key=key, modern=modern))
    except TransportError as error:
        # As it was typed, not as the transport below names the place.
        words = str(error).removeprefix(f"{address.place}: ")
        raise TransportError(f"{address}: {words}", retry=error.retry) from error
    account = Account(report.notices)
    lacking = _lacking(lace, wanted)
    unwanted = threads_without_goal(lace)
    out.result(
        {
            "lace": str(lace.path),
            "peer": str(address),
            "mode": _mode(modern=report.modern),
            **account.value(report.traffic),
            "link_bytes_out": report.bytes_out,
            "link_bytes_in": report.bytes_in,
            "lacking": {**lacking},
            "without_goal": unwanted,
        },
        f"{out.style('mode', dim=True)}  {_mode(modern=report.modern)}",
        *account.lines(out, report.traffic),
        f"{out.style('link', dim=True)}  {size_text(report.bytes_out)} out, {size_text(report.bytes_in)} in",
    )
    _hint(out, lace, wanted, lacking)
    note_unwanted(out, lace, [root for root in unwanted if root not in wanted])
    return ExitCode.NOT_ALL if lacking else account.code


def _check_key(lace: "Lace", address: "PeerAddress") -> None:
    """Say at once that an id stands where a key should: both are 32 bytes in base58, and most ids are no keys."""
    from bobbin.tangles import base58

    text = base58.encode(address.key)
    if lace.tangles.message(text) is not None:
        raise UsageError(
            f"{text} is the id of a message here, and an address names the key of the peer; bobbin tangle key list"
            " prints it there"
        )


async def _dial(lace: "Lace", address: "PeerAddress", wanted: tuple[str, ...], *, key: str, modern: bool) -> "Report":
    from bobbin.runtime.tangle_library import StoreKeeper
    from bobbin.runtime.tangle_node import TangleNode

    node = TangleNode(load_key(lace, key), StoreKeeper(lace.tangles), modern=modern)
    try:
        return await node.sync(address, wanted)
    finally:
        await node.close()


def _mode(*, modern: bool) -> str:
    return "modern" if modern else "nine phases"


def _lacking(lace: "Lace", wanted: tuple[str, ...]) -> dict[str, str]:
    """The tangles of which a goal here still asks for something that neither side had, with what it is."""
    from bobbin.tangles.goals import GoalKind

    lacking: dict[str, str] = {}
    goals = lace.tangles.goals()
    for root in wanted:
        goal = goals.get(root)
        if goal is None or goal.kind is GoalKind.NONE:
            continue
        tangle = lace.tangles.tangle(root)
        if tangle.root is None:
            lacking[root] = "neither side has its root"
        elif goal.kind is GoalKind.ALL:
            # A root without data may be a moot, which never has any.
            erased = sum(not tangle.has_data(id) for id in tangle if id != root)
            absent = len(tangle.missing_predecessors())
            if erased or absent:
                lacking[root] = f"{count_text(absent, 'message')} did not come, and {erased:,} came without data"
    return lacking


def _hint(out: Output, lace: "Lace", wanted: tuple[str, ...], lacking: dict[str, str]) -> None:
    goals = lace.tangles.goals()
    for root in wanted:
        if root not in goals:
            out.note(f"nothing of {root} was taken: {without_goal(lace, root)}")
    for root, what in lacking.items():
        out.note(f"{root} is not whole: {what}")
