"""Messages from the leader of one shard to the leaders of others.

A message may get lost: whoever sent it says it again until something comes back. So there is a bound on how many are
under way to one shard, and what comes on top of that is dropped and counted. Where the leader of the other shard runs
in the same process, nothing travels.
"""

import asyncio
from collections.abc import Callable, Mapping
from typing import Final, Protocol

from bobbin.cluster.transactions.messages import ShardMessage
from bobbin.cluster.transactions.names import ShardId
from bobbin.errors import BobbinError
from bobbin.runtime.cluster_client import ClusterClient
from bobbin.wire.cluster.chain import ChainSay
from bobbin.wire.cluster.client import Done
from bobbin.wire.cluster.shard_messages import encode

UNDER_WAY_MAX: Final = 1_000
"""Messages to one shard."""
BYTES_MAX: Final = 32 * 1_048_576
"""Of them."""
SECONDS: Final = 2.0
"""For one message, with all attempts to find who leads; then it is lost."""


class Neighbour(Protocol):
    """Another shard, as far as it is served by this process."""

    @property
    def is_leading(self) -> bool: ...

    def hear(self, sender: ShardId, message: ShardMessage) -> None:
        """A message for the leader."""
        ...


class Courier:
    """Carries what one shard says."""

    def __init__(self, own: ShardId, clients: Mapping[ShardId, Callable[[], ClusterClient]]) -> None:
        """``clients`` make a client of each other shard, when one is needed first."""
        self._own: Final = own
        self._makers: Final = dict(clients)
        self._clients: Final[dict[ShardId, ClusterClient]] = {}
        self._neighbours: Final[dict[ShardId, Neighbour]] = {}
        self._tasks: Final[dict[ShardId, set[asyncio.Task[None]]]] = {}
        self._bytes: Final[dict[ShardId, int]] = {}
        self._loop: Final = asyncio.get_running_loop()
        self._is_closed = False
        self.counts: Final = {"shard_messages_sent": 0, "shard_messages_dropped": 0, "shard_messages_lost": 0}

    def know(self, neighbours: Mapping[ShardId, Neighbour]) -> None:
        """Other shards of this process."""
        self._neighbours.update({shard: one for shard, one in neighbours.items() if shard != self._own})

    def send(self, shard: ShardId, message: ShardMessage) -> None:
        """To the leader of another shard, or nowhere."""
        if self._is_closed or (shard not in self._makers and shard not in self._neighbours):
            self.counts["shard_messages_dropped"] += 1
            return
        self.counts["shard_messages_sent"] += 1
        neighbour = self._neighbours.get(shard)
        if neighbour is not None and neighbour.is_leading:
            # Not at once: whoever sends is in the middle of a step.
            self._loop.call_soon(neighbour.hear, self._own, message)
            return
        if shard not in self._makers:
            self.counts["shard_messages_lost"] += 1
            return
        raw = encode(message)
        tasks = self._tasks.setdefault(shard, set())
        waiting = self._bytes.get(shard, 0)
        if len(tasks) >= UNDER_WAY_MAX or (tasks and waiting + len(raw) > BYTES_MAX):
            self.counts["shard_messages_dropped"] += 1
            return
        self._bytes[shard] = waiting + len(raw)
        task = self._loop.create_task(self._carry(shard, raw))
        tasks.add(task)
        task.add_done_callback(tasks.discard)

    async def _carry(self, shard: ShardId, raw: bytes) -> None:
        client = self._clients.get(shard)
        if client is None:
            client = self._clients[shard] = self._makers[shard]()
        try:
            await client.ask(Done, lambda number: ChainSay(number, self._own, raw))
        except BobbinError:
            self.counts["shard_messages_lost"] += 1
        finally:
            self._bytes[shard] -= len(raw)

    async def close(self) -> None:
        """Carry nothing any more."""
        self._is_closed = True
        tasks = [task for some in self._tasks.values() for task in some]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await asyncio.gather(*(client.close() for client in self._clients.values()))
        self._clients.clear()
