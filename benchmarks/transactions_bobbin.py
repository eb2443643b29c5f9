"""Three nodes of one shard in the benchmark of transactions, with their defaults, and a client in its own process.

``python -m benchmarks.transactions_bobbin FOLDER`` is that client, with the credentials in the folder of a machine. It
says ``{"leads": …}`` when a transaction has been done, then answers questions on standard input:
``{"question": "fill" | "raft" | "chain", "count": …, "clients": …, "keys": …}``.
"""

import asyncio
import json
import sys
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Final

from benchmarks.cluster_bobbin import NODES, ROOT, VALUE
from benchmarks.network_processes import (
    HOST,
    START_SECONDS_MAX,
    WORK_SECONDS_MAX,
    Answer,
    PeerFailedError,
    free_port,
    next_answer,
    running,
    standard_input,
)
from bobbin.cluster.operations import OPERATIONS_MAX, Put
from bobbin.config.shards import create_set, read_set
from bobbin.runtime.cluster_client import ClusterClient
from bobbin.runtime.tensor_chain import TensorChain

if TYPE_CHECKING:
    import subprocess


class AskedShard:
    """A process that answers questions about a shard with so many keys."""

    def __init__(self, process: "subprocess.Popen[str]", keys: int) -> None:
        self._process: Final = process
        self._keys: Final = keys

    def fill(self) -> None:
        """Put something at every key, so that the store is as large as it is going to be."""
        self._ask("fill", self._keys, 1)

    def raft(self, count: int, clients: int) -> float:
        """Bare writes a second: puts into the replicated table, one entry of the log each."""
        return float(self._ask("raft", count, clients)["rate"])

    def chain(self, count: int, clients: int) -> float:
        """Transactions a second, of one put each."""
        return float(self._ask("chain", count, clients)["rate"])

    def _ask(self, question: str, count: int, clients: int) -> Answer:
        assert self._process.stdin is not None
        asked = {"question": question, "count": count, "clients": clients, "keys": self._keys}
        try:
            self._process.stdin.write(json.dumps(asked) + "\n")
            self._process.stdin.flush()
        except BrokenPipeError as error:
            raise PeerFailedError(f"ended before it was asked: {question}") from error
        return next_answer(self._process, seconds_max=WORK_SECONDS_MAX)


@contextmanager
def shard(folder: Path, keys: int) -> Iterator[AskedShard]:
    """Three nodes, and the client that asks them, for as long as the block lasts."""
    folders = [folder / f"n{number}" for number in range(NODES)]
    create_set(folders, [[f"tls:{HOST}:{free_port()}" for _ in folders]])
    for one in folders:
        with (one / "s0" / "cluster.toml").open("a", encoding="utf-8") as settings:
            settings.write('[log]\nlevel = "error"\n')
    with ExitStack() as stack:
        serving = [sys.executable, "-m", "bobbin", "cluster", "serve"]
        nodes = [stack.enter_context(running([*serving, str(one), "--json"])) for one in folders]
        for node in nodes:
            if next_answer(node, seconds_max=START_SECONDS_MAX).get("event") != "started":
                raise PeerFailedError("a node does not start")
        asking = [sys.executable, "-m", "benchmarks.transactions_bobbin", str(folders[0])]
        process = stack.enter_context(running(asking, cwd=ROOT))
        next_answer(process)
        asked = AskedShard(process, keys)
        asked.fill()
        yield asked


# ---- the client -----------------------------------------------------------------------------------------------------


async def fill(chain: TensorChain, keys: int) -> Answer:
    """All keys, in blocks that are as large as they may be."""
    for first in range(0, keys, OPERATIONS_MAX):
        numbers = range(first, min(keys, first + OPERATIONS_MAX))
        result = await chain.write(*(Put(b"key%d" % number, VALUE) for number in numbers))
        if not result.is_committed or result.refusals:
            raise PeerFailedError(f"the store is not filled: {result.reason}")
    return {"keys": float(keys)}


async def raft(client: ClusterClient, keys: int, count: int, clients: int) -> Answer:
    """Each has to have got a place of its own in the log."""
    places: set[int] = set()

    async def put(key: bytes) -> None:
        places.add(await client.put(key, VALUE))

    answer = await _rate(put, keys, count, clients)
    if len(places) != count:
        raise PeerFailedError(f"{count} writes have {len(places)} places")
    return answer


async def chain_rate(chain: TensorChain, keys: int, count: int, clients: int) -> Answer:
    """Each has to be committed, and every put of it done."""
    ids: set[bytes] = set()

    async def put(key: bytes) -> None:
        result = await chain.write(Put(key, VALUE))
        if not result.is_committed or result.refusals:
            raise PeerFailedError(f"a transaction was not committed: {result.reason}")
        ids.add(result.tx)

    answer = await _rate(put, keys, count, clients)
    if len(ids) != count:
        raise PeerFailedError(f"{count} transactions have {len(ids)} ids")
    return answer


async def _rate(put: Callable[[bytes], Awaitable[None]], keys: int, count: int, clients: int) -> Answer:
    """So many clients share the work. A key is written by one of them alone, so nobody is in anybody's way."""
    chance = Random(count)
    numbers = iter(range(count))

    async def work(client: int) -> None:
        for _ in numbers:
            await put(b"key%d" % (chance.randrange(client, keys, clients)))

    start = time.perf_counter()
    await asyncio.gather(*(work(client) for client in range(clients)))
    return {"rate": count / (time.perf_counter() - start)}


async def serve(folder: Path) -> None:
    """Answer until the input ends."""
    (read,) = read_set(folder)
    client = ClusterClient(read.known, own=read.operator, seconds=WORK_SECONDS_MAX)
    async with TensorChain([client], seconds=WORK_SECONDS_MAX) as chain:
        await chain.write(Put(b"begun", VALUE))
        print(json.dumps({"leads": 0.0}), flush=True)
        questions = await standard_input()
        while line := await questions.readline():
            asked = json.loads(line)
            keys, count, clients = int(asked["keys"]), int(asked["count"]), int(asked["clients"])
            match asked["question"]:
                case "fill":
                    answer = await fill(chain, keys)
                case "raft":
                    answer = await raft(client, keys, count, clients)
                case _:
                    answer = await chain_rate(chain, keys, count, clients)
            print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    asyncio.run(serve(Path(sys.argv[1])))
