"""Sets of shards in processes of their own, for tests that kill them."""

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final, TypeVar

from bobbin.config.shards import create_set, read_set
from bobbin.runtime.cluster_client import ClusterClient
from tests.end_to_end.cluster_processes import Processes, running, settle
from tests.support.clusters import free_ports
from tests.support.shards import Asker

T = TypeVar("T")


class ShardProcesses(Processes):
    """Each process serves one node of every shard."""

    def __init__(self, folder: Path, count: int, shards: int) -> None:
        self.shards: Final = shards
        super().__init__(folder, count)

    def create(self) -> None:
        count = len(self.folders)
        places = [f"tls:127.0.0.1:{port}" for port in free_ports(count * self.shards)]
        create_set(self.folders, [places[at * count : (at + 1) * count] for at in range(self.shards)])
        for one in self.folders:
            for shard in range(self.shards):
                settle(one / f"s{shard}")

    def put(self, question: Callable[[Asker], Awaitable[T]], *, seconds: float = 60.0) -> T:
        """Put a question to all shards."""

        async def run() -> T:
            clients = [
                ClusterClient(read.known, own=read.operator, seconds=seconds) for read in read_set(self.folders[0])
            ]
            try:
                return await question(Asker(clients))
            finally:
                for client in clients:
                    await client.close()

        return asyncio.run(run())

    def leader_of(self, shard: int) -> Path:
        """The folder of the process that leads a shard."""

        async def leader(ask: Asker) -> str:
            await ask.look(shard)  # whoever leads has answered, so somebody does
            found = (await ask.clients[shard].status()).leader
            assert found is not None
            return found

        found = self.put(leader)
        return next(folder for folder in self.folders if read_set(folder)[shard].node == found)


@contextmanager
def shard_processes(folder: Path, *, count: int = 3, shards: int = 2) -> Iterator[ShardProcesses]:
    """A set that runs for the length of a block; it is killed if the block has not ended it."""
    with running(ShardProcesses(folder, count, shards)) as nodes:
        yield nodes
