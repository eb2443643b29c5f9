"""One of two sides of ours that synchronise a tangle, in a process of its own.

python -m benchmarks.tangles_side serve STORE TANGLE MODE
    takes peers on a free port of loopback; the first line that it prints says where. Ends when its input does.

python -m benchmarks.tangles_side fetch STORE TANGLE MODE ADDRESS
    dials, runs one session to its end, and says what that was. The clock runs from the moment before the dialling
    until the session is over at both ends and everything that it brought is durable.

``MODE`` is ``phases`` or ``modern``. Both sides have read the tangle, and in the modern mode indexed it, before the
clock starts; with ``cold`` after it, neither has.
"""

import asyncio
import json
import sys
import time
from pathlib import Path
from typing import Final

from benchmarks.network_processes import Answer, PeerFailedError, standard_input
from benchmarks.tangles_material import READER, WRITER, held
from bobbin.runtime.tangle_library import StoreKeeper
from bobbin.runtime.tangle_node import Report, TangleNode
from bobbin.runtime.tangle_store import TangleStore
from bobbin.store.sqlite import open_store
from bobbin.tangles.message import MessageId
from bobbin.tangles.session_effects import Finished
from bobbin.wire import address
from bobbin.wire.pzp.address import parse

MODERN: Final = "modern"
PHASES: Final = "phases"
COLD: Final = "cold"


def warm(keeper: StoreKeeper, tangle: MessageId, *, modern: bool) -> None:
    """Read a tangle before anybody asks for it, and index it."""
    library = keeper.modern_library if modern else keeper.library
    library.tangle(tangle)
    library.wish(tangle)
    if modern:
        _ = library.depths(tangle).root


async def serve(keeper: StoreKeeper, *, modern: bool) -> None:
    """Take peers until the input ends."""
    node = TangleNode(WRITER, keeper, modern=modern)
    listener = await node.listen(address.parse("tcp:127.0.0.1:0", to_listen=True))
    _say({"address": str(listener.address)})
    commands = await standard_input()
    await commands.read()
    await node.close()


async def fetch(store: TangleStore, keeper: StoreKeeper, tangle: MessageId, where: str, *, modern: bool) -> None:
    """One session."""
    before = held(store)
    node = TangleNode(READER, keeper, modern=modern)
    peer = parse(where)
    began = time.perf_counter()
    report = await node.sync(peer, (tangle,))
    seconds = time.perf_counter() - began
    if report.modern is not modern:
        raise PeerFailedError(f"the session was in the other mode than {MODERN if modern else PHASES}")
    said = sum(one.bytes_in + one.bytes_out for one in report.traffic.values())
    _say(
        {
            "seconds": seconds,
            "messages": held(store) - before,
            "metadata": said - _message_bytes(store, report),
            "turns": _turns(report, tangle),
            "answers": _answers(report),
            "frames_bytes": said,
        }
    )


def _message_bytes(store: TangleStore, report: Report) -> int:
    """What the messages that were lacking have in bytes. Whatever else was said is metadata."""
    added = [id for notice in report.notices if isinstance(notice, Finished) for id in notice.added]
    return sum(len(message.raw) for message in store.shelf.messages(added) if message is not None)


def _turns(report: Report, tangle: MessageId) -> int:
    """How often one of the two sides spoke until both were done."""
    if not report.modern:
        return sum(one.frames_in + one.frames_out for one in report.traffic.values())
    return sum(one.turns for one in report.notices if isinstance(one, Finished) and one.tangle == tangle)


def _answers(report: Report) -> int:
    """How often this side waited for what the other one said next; messages that come along are no more to wait for."""
    return sum(one.frames_in for name, one in report.traffic.items() if name != "parcel")


def _say(answer: Answer) -> None:
    print(json.dumps(answer), flush=True)


def main(what: str, path: str, tangle: str, mode: str, *more: str) -> None:
    """As the command line says."""
    modern = mode == MODERN
    with open_store(Path(path), create=False, now=lambda: 0) as opened:
        store = TangleStore(opened.tangles)
        keeper = StoreKeeper(store)
        store.refresh()
        if COLD not in more:
            warm(keeper, tangle, modern=modern)
        if what == "serve":
            asyncio.run(serve(keeper, modern=modern))
        else:
            asyncio.run(fetch(store, keeper, tangle, more[0], modern=modern))


if __name__ == "__main__":
    main(*sys.argv[1:])
