"""A node of PySyncObj in the cluster benchmark; run by the interpreter of its own environment.

Its clients live in the node's own process, so nothing travels between a client and the leader. It does not write its
log to a disk. ``python -m benchmarks.cluster_pysyncobj OWN PEER…`` (ports) says ``{"leads": …}`` when it knows a
leader, then answers questions on standard input: ``{"question": "rate" | "latency", "count": …, "in_flight": …}``.
"""

import json
import statistics
import sys
import threading
import time
from importlib import import_module
from typing import Any, Final

pysyncobj: Any = import_module("pysyncobj")
batteries: Any = import_module("pysyncobj.batteries")

HOST: Final = "127.0.0.1"
VALUE: Final = "x" * 100
READY_SECONDS_MAX: Final = 30
FAILED: Final = "a write of the peer has failed"


def main() -> None:
    """Serve until the input ends."""
    own, *peers = (f"{HOST}:{port}" for port in sys.argv[1:])
    # One message may hold as much as the peer allows; batching is its default.
    settings = pysyncobj.SyncObjConf(commandsQueueSize=1_000_000)
    data = batteries.ReplDict()
    node = pysyncobj.SyncObj(own, peers, settings, consumers=[data])
    deadline = time.monotonic() + READY_SECONDS_MAX
    while not node.isReady() or node.getStatus()["leader"] is None:
        if time.monotonic() > deadline:
            raise SystemExit("no leader")
        time.sleep(0.05)
    print(json.dumps({"leads": float(node.getStatus()["leader"] == node.selfNode)}), flush=True)
    for line in sys.stdin:
        asked = json.loads(line)
        count, in_flight = int(asked["count"]), int(asked["in_flight"])
        answer = rate(data, count, in_flight) if asked["question"] == "rate" else latency(data, count)
        print(json.dumps(answer), flush=True)


def rate(data: Any, count: int, in_flight: int) -> dict[str, float]:  # noqa: ANN401 -- not installed where this is checked
    """Committed writes a second, with so many on their way."""
    room = threading.Semaphore(in_flight)
    failed = []

    def done(_: object, error: int) -> None:
        if error:
            failed.append(error)
        room.release()

    start = time.perf_counter()
    for number in range(count):
        room.acquire()
        data.set(f"key{number % 1000}", VALUE, callback=done)
    for _ in range(in_flight):
        room.acquire()
    seconds = time.perf_counter() - start
    if failed:
        raise SystemExit(f"{FAILED}: {failed[0]}")
    return {"rate": count / seconds}


def latency(data: Any, count: int) -> dict[str, float]:  # noqa: ANN401 -- not installed where this is checked
    """The median seconds of one write after the other."""
    took = []
    for number in range(count):
        done = threading.Event()
        start = time.perf_counter()
        data.set(f"key{number % 1000}", VALUE, callback=lambda _, error, done=done: error or done.set())
        if not done.wait(READY_SECONDS_MAX):
            raise SystemExit(FAILED)
        took.append(time.perf_counter() - start)
    return {"seconds": statistics.median(took)}


if __name__ == "__main__":
    main()
