"""Three processes on loopback, each with a node of every shard of a set, that can be killed and cut from each other.

As in `evidence.cluster_nodes`, nodes dial each other through `tests.faults.partitions` and clients reach each node
directly. A cut is between processes: it parts the nodes of all shards alike, and shards from each other.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Final

from msgspec import structs

from bobbin.cluster.raft.effects import Role
from bobbin.cluster.transactions.names import ShardId
from bobbin.config.shards import create_set, read_set
from bobbin.errors import BobbinError
from bobbin.runtime.cluster_client import ClusterClient
from bobbin.runtime.cluster_members import Directory, KnownMembers
from bobbin.runtime.tensor_chain import TensorChain
from bobbin.wire.cluster.chain import ChainOpen, ChainPending, ChainVerdict
from bobbin.wire.cluster.client import Report
from evidence.cluster_nodes import (
    NODES,
    NodeProcesses,
    Timeouts,
    audit,
    come_together,
    patience,
    running,
    terms_with_two_leaders,
)
from tests.faults.partitions import HOST
from tests.support.clusters import free_ports

SHARDS: Final = 2
_ASK_SECONDS: Final = 2.0
_PAUSE_SECONDS: Final = 0.02


class ShardNodes(NodeProcesses):
    """A set of shards: each process is one node of each."""

    async def create(self) -> None:
        """Make the folders."""
        folders = [self._folder / name for name in self.names]
        ports = free_ports(NODES * SHARDS)
        listening = [[f"tls:{HOST}:{port}" for port in ports[at * NODES : (at + 1) * NODES]] for at in range(SHARDS)]
        dialled = [
            [
                f"tls:{HOST}:{await self.network.open(name, int(place.rpartition(':')[2]))}"
                for name, place in zip(self.names, places, strict=True)
            ]
            for places in listening
        ]
        made = create_set(folders, dialled)
        for shard, places in enumerate(listening):
            for folder, place, address in zip(folders, places, dialled[shard], strict=True):
                file = folder / f"s{shard}" / "cluster.toml"
                text = file.read_text("utf-8").replace(f'listen = "{address}"', f'listen = "{place}"')
                file.write_text(text + self.timeouts.settings, "utf-8")
        self.ids = [{name: node.node for name, node in zip(self.names, some, strict=True)} for some in made.nodes]
        read = read_set(folders[0])
        self._operator = read[0].operator
        self._known: list[KnownMembers] = []
        for shard, one in enumerate(read):
            reached = dict(zip(self.ids[shard].values(), listening[shard], strict=True))
            directory = one.known.directory
            members = [structs.replace(member, address=reached[member.node]) for member in directory.members.values()]
            self._known.append(KnownMembers(directory=Directory(members, directory.callers.values())))

    def chain(self, seconds: float) -> TensorChain:
        """A new client of all shards that gives up after so long."""
        clients = [ClusterClient(known, own=self._operator, seconds=seconds) for known in self._known]
        return TensorChain(clients, seconds=seconds)

    # ---- what they say ----------------------------------------------------------------------------------------------

    async def reports(self, chain: TensorChain, shard: int) -> dict[str, Report]:
        """How each node of a shard that answers sees it."""

        async def ask(name: str) -> tuple[str, Report | None]:
            with suppress(BobbinError, TimeoutError):
                async with asyncio.timeout(_ASK_SECONDS):
                    return name, await chain.client(ShardId(shard)).status(self.ids[shard][name])
            return name, None

        answers = await asyncio.gather(*(ask(name) for name in self._running))
        return {name: report for name, report in answers if report is not None}

    async def leader(self, chain: TensorChain, shard: int) -> str:
        """Who leads a shard, as soon as somebody does."""
        async with patience(f"nobody leads shard {shard}"):
            while True:
                reports = await self.reports(chain, shard)
                leading = [name for name, report in reports.items() if report.role == Role.LEADER.value]
                if leading:
                    return max(leading, key=lambda name: reports[name].term)
                await asyncio.sleep(_PAUSE_SECONDS)

    async def settled(self, chain: TensorChain, *, is_still: bool) -> None:
        """Wait until the nodes of each shard know one leader and have all it had. ``is_still``: and hold the same."""
        for shard in range(SHARDS):
            async with patience(f"the nodes of shard {shard} do not come together"):
                await come_together(partial(self.reports, chain, shard), is_still=is_still)

    async def concluded(self, chain: TensorChain) -> None:
        """Wait until no transaction is open anywhere: every promise has heard its decision."""
        for shard in range(SHARDS):
            async with patience(f"transactions of shard {shard} do not end"):
                while True:
                    if not (await chain.ask(ShardId(shard), ChainOpen, ChainPending)).total:
                        break
                    await asyncio.sleep(_PAUSE_SECONDS)

    async def verdicts(self, chain: TensorChain) -> list[list[ChainVerdict]]:
        """Shard by shard, what each node finds that checks its own chain from the first block to the last."""
        return [
            [await chain.verify_node(ShardId(shard), node) for node in self.ids[shard].values()]
            for shard in range(SHARDS)
        ]

    async def are_roots_equal(self, chain: TensorChain) -> bool:
        """Whether all nodes of each shard hold the same."""
        reports = [await self.reports(chain, shard) for shard in range(SHARDS)]
        return all(len({report.root for report in some.values()}) == 1 for some in reports)

    def terms_with_two_leaders(self) -> int:
        """How often more than one node of a shard has led in one term, over all their lives."""
        return sum(
            terms_with_two_leaders(
                audit({str(node): self._folder / name / f"s{shard}" for name, node in self.ids[shard].items()})
            )
            for shard in range(SHARDS)
        )


@asynccontextmanager
async def shard_nodes(folder: Path, timeouts: Timeouts) -> AsyncIterator[ShardNodes]:
    """A set of shards that runs, for the length of a block."""
    async with running(ShardNodes(folder, timeouts)) as made:
        yield made
