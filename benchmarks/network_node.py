"""A node in a process of its own, which a benchmark talks to over its standard input and output.

    python -m benchmarks.network_node STORE PEERS

It serves the store to so many known peers on a free port of loopback; the first line that it prints says which one.
Then it answers each line that it reads with one line, and stops when there are no more:

``memory``
    what is resident of this process, in bytes, after garbage was thrown away, so that chance does not decide;
``processor``
    the processor seconds that this process has used so far;
``put NUMBER``
    stores the record of that number, which must be new; says when that was done, by the clock of the machine.
"""

import asyncio
import gc
import io
import json
import os
import sys
import time
from pathlib import Path
from typing import Final

from blake3 import blake3

from benchmarks.exchange_once import SELECTOR
from benchmarks.material import Shape, make_shard
from benchmarks.network_processes import HOST, Answer, PeerFailedError, standard_input
from bobbin.policy.modules import compile_selector
from bobbin.records.signing import SigningKey
from bobbin.runtime.clock import tai_now
from bobbin.runtime.ingest import ingest
from bobbin.runtime.log import make_log
from bobbin.runtime.node import Node
from bobbin.runtime.node_settings import LinkBounds, Logging, LogLevel, NodeSettings
from bobbin.runtime.roster import KnownPeer, Roster
from bobbin.runtime.serving import Serving
from bobbin.store.sqlite import open_store
from bobbin.wire.address import Address, Scheme

_PAGE_BYTES: Final = os.sysconf("SC_PAGE_SIZE")


def node_key() -> SigningKey:
    """The key of the node."""
    return SigningKey.from_secret(b"\x01" * 32)


def peer_key(number: int) -> SigningKey:
    """The key of one of its peers."""
    return SigningKey.from_secret(blake3(f"bobbin benchmark peer {number}".encode()).digest())


def resident_bytes() -> int:
    """The memory of this process."""
    gc.collect()
    return int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1]) * _PAGE_BYTES


async def serve(path: Path, peers: int) -> None:
    """Serve until the input ends."""
    selector = compile_selector(SELECTOR.encode())
    known = [
        KnownPeer(name=f"peer-{number}", selector=selector, verifier=peer_key(number).verifier)
        for number in range(peers)
    ]
    # As many as there are peers, all from one address and all at once: the bounds of a node that expects them.
    room = max(peers, 1) * 2
    bounds = LinkBounds(
        total_max=room, per_address_max=room, introducing_max=room, new_per_minute_max=room, new_burst_max=room
    )
    settings = NodeSettings(
        listen=(Address(scheme=Scheme.TCP, host=HOST, port=0),),
        links=bounds,
        log=Logging(level=LogLevel.WARNING),
    )
    with open_store(path, create=False, now=tai_now) as store:
        serving = Serving(store, node_key(), log=make_log(settings.log))
        turn = serving.steps.turn()
        async with Node(serving, Roster(known), settings) as node:
            _say({"port": node.addresses[0].port_number})
            commands = await standard_input()
            while line := (await commands.readline()).decode():
                match line.split():
                    case ["memory"]:
                        _say({"bytes": await turn(resident_bytes)})
                    case ["processor"]:
                        _say({"seconds": time.process_time()})
                    case ["put", number]:
                        raw = make_shard(int(number), int(number) + 1, Shape.SEAL)
                        at = await turn(lambda: _put(serving, raw))  # noqa: B023 (awaited right here)
                        _say({"at": at})
                    case _:
                        raise PeerFailedError(f"not a command: {line!r}")


def _put(serving: Serving, raw: bytes) -> float:
    total = ingest(serving.store, io.BytesIO(raw), source="benchmark", form="bundle", workers=0)
    if total.stored != 1:
        raise PeerFailedError(f"the record was not new: {total}")
    return time.monotonic()


def _say(answer: Answer) -> None:
    print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    asyncio.run(serve(Path(sys.argv[1]), int(sys.argv[2])))
