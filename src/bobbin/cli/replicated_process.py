"""A node of a replicated lace as a process: what serves the lace, over the node of the cluster that keeps it."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from bobbin.cli.cluster_process import open_storage
from bobbin.config.replicated import read_node
from bobbin.runtime.clock import tai_now
from bobbin.runtime.replicated_node import NodeParts, ReplicatedNode

if TYPE_CHECKING:
    from structlog.typing import FilteringBoundLogger

    from bobbin.config.layout import Layout


@asynccontextmanager
async def replicated_node(layout: "Layout", log: "FilteringBoundLogger") -> AsyncIterator[ReplicatedNode]:
    """The node of the cluster, for as long as the lace is served."""
    folder = read_node(layout)
    storage = await asyncio.to_thread(open_storage, folder)
    parts = NodeParts(
        settings=folder.settings,
        own=folder.own,
        operator=folder.operator,
        node=folder.node,
        known=folder.known,
        storage=storage,
        audit=folder.layout.audit,
        socket=folder.layout.socket,
        records=layout.records,
        remember=folder.remember,
    )
    try:
        node = ReplicatedNode(parts, now=tai_now, log=log)
    except BaseException:
        storage.close()
        raise
    async with node:
        yield node
