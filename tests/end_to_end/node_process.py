"""A node in a process of its own, for tests that kill it, fill its disk or look at its memory.

::

    python -m tests.end_to_end.node_process FOLDER OWN-KEY PEER-KEY FILE-BYTES-MAX

It listens on loopback, prints the port, and then answers each line of its input with its status as JSON. An empty input
stops it.
"""

import asyncio
import resource
import sys
from pathlib import Path

from bobbin.runtime.roster import Roster
from bobbin.runtime.status import encode_status
from tests.support.nodes import Running, key, peer


async def main(folder: Path, own: int, other: int, file_bytes_max: int) -> None:
    """Serve until the input ends."""
    running = Running(folder, own=key(own), roster=Roster([peer("peer", key(other).verifier)]), in_memory=False)
    await running.node.start()
    if file_bytes_max:
        # No file may grow beyond this from now on: to the store it is a disk that is full.
        resource.setrlimit(resource.RLIMIT_FSIZE, (file_bytes_max, file_bytes_max))
    sys.stdout.write(f"{running.node.addresses[0].port}\n")
    sys.stdout.flush()
    while await asyncio.to_thread(sys.stdin.readline):
        sys.stdout.write(encode_status(await running.node.status()).decode() + "\n")
        sys.stdout.flush()
    await running.node.stop(1.0)
    running.store.close()


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), *map(int, sys.argv[2:5])))
