"""``bobbin graph dump``: all of a graph, as it is now."""

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING

from bobbin.cli import graph_text
from bobbin.cli.elsewhere import AllowInsecure, Authorities, ExpectedKey, Pin
from bobbin.cli.exit_codes import ExitCode
from bobbin.cli.graph_options import (
    CALLED,
    ROOM,
    Call,
    KeyOf,
    RoomName,
    SharedMemory,
    Shown,
    Signal,
    SignalToken,
    TokenFile,
    WhereOrRoom,
    connect,
    reach,
)
from bobbin.cli.options import AsJson
from bobbin.cli.output import Output

if TYPE_CHECKING:
    from bobbin.reactive.messages import Snapshot
    from bobbin.runtime.graph_calls import Room
    from bobbin.wire.address import Address


def graph_dump(
    where: WhereOrRoom = None,
    token_file: TokenFile = None,
    key_of: KeyOf = None,
    verifier: ExpectedKey = None,
    pin: Pin = None,
    authorities: Authorities = None,
    allow_insecure: AllowInsecure = False,
    shared_memory: SharedMemory = False,
    signal: Signal = None,
    room: RoomName = ROOM,
    signal_token: SignalToken = None,
    call: Call = CALLED,
    as_json: AsJson = False,
) -> ExitCode:
    """Show all values of a graph, as far as we may see them; with --json also what is computed from what.

    The graph of a lace is read from the lace itself, whether or not it is served. One that is served elsewhere is asked
    for over a link.

    Example: bobbin graph dump notes.lace --json
    """
    from bobbin.reactive.type_tags import TypeTags

    out = Output(as_json=as_json)
    shown = Shown(
        token_file=token_file,
        key_of=key_of,
        verifier=verifier,
        pin=pin,
        authorities=authorities,
        allow_insecure=allow_insecure,
        shared_memory=shared_memory,
        signal=signal,
        room=room,
        signal_token=signal_token,
        call=call,
    )
    if where is not None and signal is None and Path(where).is_dir():
        snapshot = _read(Path(where))
    else:
        snapshot = asyncio.run(_ask(reach(where, shown), shown))
    tags = TypeTags.standard()
    lines = [] if as_json else graph_text.plain_lines(snapshot.nodes, tags)
    out.result(graph_text.snapshot_value(snapshot, tags), *map(out.style, lines))
    return ExitCode.OK


def _read(folder: Path) -> "Snapshot":
    from bobbin.lace import Lace
    from bobbin.reactive.permissions import OpKind
    from bobbin.runtime.graph_allowances import EVERYTHING, Allowance
    from bobbin.runtime.graph_host import GraphHost
    from bobbin.runtime.graph_peers import OWNER
    from bobbin.runtime.lace_graph import LaceGraph
    from bobbin.runtime.reactive_context import ReactiveContext

    with Lace.open(folder, read_only=True) as lace:
        host = GraphHost(ReactiveContext(), allowed=[Allowance(OWNER, OpKind.READ, EVERYTHING)])
        LaceGraph(host, lace.store)
        return host.snapshot()


async def _ask(place: "Address | Room", shown: Shown) -> "Snapshot":
    async with connect(place, shown, lost=lambda _: None) as mirror:
        return mirror.machine.replica.snapshot(mirror.epoch or 0)
