"""Three nodes of ours in the cluster benchmark, with their defaults, and a client in a process of its own.

``python -m benchmarks.cluster_bobbin FOLDER`` is that client, with the credentials of the node in a folder. It says
``{"leads": …}`` when a write has been done, then answers questions on standard input: ``{"question": "rate" |
"latency", "count": …, "in_flight": …}``.
"""

import asyncio
import json
import statistics
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

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
from bobbin.config.cluster import create_cluster, prepare, read_folder
from bobbin.runtime.cluster_client import ClusterClient

if TYPE_CHECKING:
    import subprocess

NODES: Final = 3
KEYS: Final = 1_000
VALUE: Final = b"x" * 100
ROOT: Final = Path(__file__).resolve().parent.parent


class Asked:
    """A process that answers questions about a cluster."""

    def __init__(self, process: "subprocess.Popen[str]") -> None:
        self._process: Final = process

    def rate(self, count: int, in_flight: int) -> float:
        """Committed writes a second, with so many on their way."""
        return float(self._ask("rate", count, in_flight)["rate"])

    def latency(self, count: int) -> float:
        """The median seconds of one write after the other."""
        return float(self._ask("latency", count, 1)["seconds"])

    def _ask(self, question: str, count: int, in_flight: int) -> Answer:
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(json.dumps({"question": question, "count": count, "in_flight": in_flight}) + "\n")
            self._process.stdin.flush()
        except BrokenPipeError as error:
            raise PeerFailedError(f"ended before it was asked: {question}") from error
        return next_answer(self._process, seconds_max=WORK_SECONDS_MAX)


@contextmanager
def bobbin(folder: Path) -> Iterator[Asked]:
    """Three nodes, and the client that asks them, for as long as the block lasts."""
    folders = [folder / f"n{number}" for number in range(NODES)]
    create_cluster([prepare(one, listen=f"tls:{HOST}:{free_port()}") for one in folders])
    for one in folders:
        with (one / "cluster.toml").open("a", encoding="utf-8") as settings:
            settings.write('[log]\nlevel = "error"\n')
    with ExitStack() as stack:
        serving = [sys.executable, "-m", "bobbin", "cluster", "serve"]
        nodes = [stack.enter_context(running([*serving, str(one), "--json"])) for one in folders]
        for node in nodes:
            if next_answer(node, seconds_max=START_SECONDS_MAX).get("event") != "started":
                raise PeerFailedError("a node does not start")
        asking = [sys.executable, "-m", "benchmarks.cluster_bobbin", str(folders[0])]
        process = stack.enter_context(running(asking, cwd=ROOT))
        next_answer(process)
        yield Asked(process)


# ---- the client -----------------------------------------------------------------------------------------------------


async def rate(client: ClusterClient, count: int, in_flight: int) -> Answer:
    """Writes a second; each has to have got a place of its own in the log."""
    numbers = iter(range(count))
    places: set[int] = set()

    async def work() -> None:
        for number in numbers:
            places.add(await client.put(b"key%d" % (number % KEYS), VALUE))

    start = time.perf_counter()
    await asyncio.gather(*(work() for _ in range(in_flight)))
    seconds = time.perf_counter() - start
    if len(places) != count:
        raise PeerFailedError(f"{count} writes have {len(places)} places")
    return {"rate": count / seconds}


async def latency(client: ClusterClient, count: int) -> Answer:
    """How long one write takes, one after the other."""
    took = []
    for number in range(count):
        start = time.perf_counter()
        await client.put(b"key%d" % (number % KEYS), VALUE)
        took.append(time.perf_counter() - start)
    return {"seconds": statistics.median(took), "mean": statistics.fmean(took)}


async def serve(folder: Path) -> None:
    """Answer until the input ends."""
    read = read_folder(folder)
    async with ClusterClient(read.known, own=read.operator, seconds=WORK_SECONDS_MAX) as client:
        await client.put(b"key", VALUE)
        print(json.dumps({"leads": 0.0}), flush=True)
        questions = await standard_input()
        while line := await questions.readline():
            asked = json.loads(line)
            count = int(asked["count"])
            is_rate = asked["question"] == "rate"
            answer = await (rate(client, count, int(asked["in_flight"])) if is_rate else latency(client, count))
            print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    asyncio.run(serve(Path(sys.argv[1])))
