"""One node of each shard of a set, in one process: their folders, their signals, their pages for operators."""

import asyncio
import os
import signal
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Final

from bobbin.cli.cluster_process import Watched, open_storage, settle_memory
from bobbin.cli.output import Json
from bobbin.cluster.transactions.names import ShardId
from bobbin.runtime.admin import Admin
from bobbin.runtime.cluster_audit import Audit
from bobbin.runtime.cluster_contact import Contact
from bobbin.runtime.cluster_meter import ClusterMeter
from bobbin.runtime.shard_node import ShardNode, introduce

if TYPE_CHECKING:
    from structlog.typing import FilteringBoundLogger

    from bobbin.config.cluster import NodeFolder
    from bobbin.runtime.cluster_members import KnownMembers


class ShardsProcess:
    """Runs them until somebody stops them, or one of them has to stop."""

    def __init__(
        self,
        folders: "Sequence[NodeFolder]",
        *,
        log: "FilteringBoundLogger",
        tell: Callable[[str, dict[str, Json]], None],
    ) -> None:
        """``folders``: of nodes of different shards of one set; of all its shards, as a rule."""
        self._folders: Final = tuple(folders)
        self._log: Final = log
        self._tell: Final = tell
        self._nodes: Final[dict[ShardId, ShardNode]] = {}

    async def run(self) -> None:
        """Raises ``Halted`` where a node had to stop."""
        loop = asyncio.get_running_loop()
        stop = asyncio.Event()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, stop.set)
        async with AsyncExitStack() as stack:
            for folder in self._folders:
                node = await self._make(folder)
                stack.push_async_callback(node.stop)
            introduce(self._nodes)
            pages = [await self._start(stack, folder) for folder in self._folders]
            settle_memory()
            self._tell("started", {"process": os.getpid(), "shards": pages})
            for node in self._nodes.values():
                node.node.over.add_done_callback(lambda _: stop.set())
            await stop.wait()
            for node in self._nodes.values():
                if node.node.is_halted:
                    node.node.over.result()
            self._tell("stopping", {})

    async def _make(self, folder: "NodeFolder") -> ShardNode:
        shard = folder.shard
        assert shard is not None, "the folder of a node of a shard"
        storage = await asyncio.to_thread(open_storage, folder)
        made = self._nodes[shard.shard] = ShardNode(
            folder.settings,
            shard,
            folder.own,
            folder.node,
            folder.known,
            storage,
            operator=folder.operator,
            others={
                other.shard.shard: self._known_of(other.shard.shard)
                for other in self._folders
                if other.shard is not None and other is not folder
            },
            audit=Audit(folder.layout.audit),
            log=self._log.bind(shard=shard.shard),
            remember=folder.remember,
        )
        return made

    def _known_of(self, shard: ShardId) -> "Callable[[], KnownMembers]":
        """Who is of a shard, by what the node of it here knows when it is asked."""

        def known() -> "KnownMembers":
            return self._nodes[shard].node.operations.known()

        return known

    async def _start(self, stack: AsyncExitStack, folder: "NodeFolder") -> Json:
        assert folder.shard is not None, "the folder of a node of a shard"
        node = self._nodes[folder.shard.shard].node
        await node.start(folder.layout.socket)
        contact = Contact(node, folder.own, self._log)
        stack.push_async_callback(contact.close)
        admin = Admin(Watched(node), ClusterMeter(node), folder.settings.metrics, None)
        stack.push_async_callback(admin.stop)
        await admin.start()
        return {
            "shard": folder.shard.shard,
            "node": node.node,
            "listening": str(node.address),
            "cluster": folder.settings.cluster.hex(),
            "metrics": None if admin.address is None else f"tcp:{admin.address[0]}:{admin.address[1]}",
        }
