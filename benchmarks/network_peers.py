"""The peers of a node under measurement, in a process of their own, each with a store and a key of its own.

python -m benchmarks.network_peers fetch FOLDER PORT RECORDS
    one bounded exchange into a new store. The clock runs from the moment before the node is dialled until the
    exchange has ended at a fixed point with every record validated and durable.

python -m benchmarks.network_peers follow FOLDER PORT RECORDS LINKS
    so many open links. Prints a line when every one of them has all records and is at rest; then, for each record
    that is new, a line when all have it and are at rest again, with the moment when the last one had it, by the
    clock of the machine. Ends when its input does.
"""

import asyncio
import json
import sys
import time
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Final

from benchmarks.exchange_once import SELECTOR
from benchmarks.network_node import node_key, peer_key
from benchmarks.network_processes import HOST, Answer, PeerFailedError, standard_input
from bobbin.interlace.config import Open
from bobbin.interlace.effects import Arrived, Effect, FixedPoint, Notify
from bobbin.interlace.events import Event
from bobbin.interlace.result import Result
from bobbin.policy.modules import Selector, compile_selector
from bobbin.runtime.accounts import SyncReport
from bobbin.runtime.clock import tai_now
from bobbin.runtime.decisions import Decisions
from bobbin.runtime.local_peer import Manner
from bobbin.runtime.operations import Participant
from bobbin.runtime.remote import RemotePeer, connect, expecting, synchronise_remote
from bobbin.store.base import Store
from bobbin.store.sqlite import open_store
from bobbin.transport.dial import dial
from bobbin.wire.address import Address, Scheme

_STARTING_MAX: Final = 4
"""Links that come up at a time: more would only wait for each other."""


class Peer:
    """One peer of the node."""

    def __init__(self, number: int, store: Store, selector: Selector, port: int) -> None:
        key = peer_key(number)
        self.arrived = 0
        """Records that have come and are durable."""
        self.last_at = 0.0
        """When the last record came."""
        self.is_at_rest = False
        self.news: asyncio.Event | None = None
        """Set whenever it comes to rest, if anybody waits for that."""
        self._own: Final = Participant(decisions=Decisions(store), selector=selector, key=key, name=f"peer-{number}")
        address = Address(scheme=Scheme.TCP, host=HOST, port=port)
        self._node: Final = RemotePeer(
            dial=lambda: dial(address), admit=expecting(node_key().verifier), name="benchmark"
        )

    async def synchronise(self) -> SyncReport:
        """One bounded exchange."""
        return await synchronise_remote(self._own, self._node, manner=Manner(workers=1))

    async def follow(self) -> Result:
        """An open exchange, until somebody ends it."""
        manner = Manner(lifecycle=Open())
        link = await connect(self._own, self._node, manner, observers=[self._observe])
        return (await link.run()).result

    def _observe(self, event: Event, effects: tuple[Effect, ...]) -> None:
        del event
        for effect in effects:
            if not isinstance(effect, Notify):
                continue
            if isinstance(effect.notice, Arrived):
                self.arrived += len(effect.notice.records)
                self.is_at_rest = False
                self.last_at = time.monotonic()
            elif isinstance(effect.notice, FixedPoint):
                self.is_at_rest = True
                if self.news is not None:
                    self.news.set()


async def fetch(folder: Path, port: int, records: int) -> Answer:
    """One bounded exchange."""
    with open_store(folder / "store", create=True, now=tai_now) as store:
        peer = Peer(0, store, compile_selector(SELECTOR.encode()), port)
        start = time.perf_counter()
        report = await peer.synchronise()
        seconds = time.perf_counter() - start
        stored = store.stat().records
    if not report.fixed_point or len(report.received) != records or sum(stored.values()) != records:
        raise PeerFailedError(f"not everything was exchanged: {len(report.received)}, {report.result.reason}")
    return {"records": records, "seconds": seconds}


async def follow(folder: Path, port: int, records: int, links: int) -> None:
    """Many open links, until the input ends."""
    selector = compile_selector(SELECTOR.encode())
    with ExitStack() as stack:
        stores = [
            stack.enter_context(open_store(folder / str(number), create=True, now=tai_now)) for number in range(links)
        ]
        peers = [Peer(number, store, selector, port) for number, store in enumerate(stores)]
        working = asyncio.create_task(_follow_all(peers, records))
        end = asyncio.create_task((await standard_input()).read())
        await asyncio.wait({working, end}, return_when=asyncio.FIRST_COMPLETED)
        if not working.done():
            working.cancel()
        with suppress(asyncio.CancelledError):
            await working


async def _follow_all(peers: list[Peer], records: int) -> None:
    """Open the links, a few at a time, and tell when all are at rest. A link that ends is a failure."""
    news = asyncio.Event()
    async with asyncio.TaskGroup() as group:
        for number, peer in enumerate(peers):
            peer.news = news
            group.create_task(_hold(peer))
            while sum(not started.is_at_rest for started in peers[: number + 1]) >= _STARTING_MAX:
                news.clear()
                await news.wait()
        await _tell(peers, news, records)


async def _hold(peer: Peer) -> None:
    result = await peer.follow()
    raise PeerFailedError(f"a link ended: {result.reason} {result.detail}")


async def _tell(peers: list[Peer], news: asyncio.Event, records: int) -> None:
    """A line each time when all have one record more and are at rest."""
    while True:
        while not all(peer.arrived == records and peer.is_at_rest for peer in peers):
            if any(peer.arrived > records for peer in peers):
                raise PeerFailedError("a record came twice")
            news.clear()
            await news.wait()
        print(json.dumps({"records": records, "at": max(peer.last_at for peer in peers)}), flush=True)
        records += 1


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["fetch", folder, port, records]:
            print(json.dumps(asyncio.run(fetch(Path(folder), int(port), int(records)))))
        case ["follow", folder, port, records, links]:
            asyncio.run(follow(Path(folder), int(port), int(records), int(links)))
        case _:
            sys.exit(__doc__)
