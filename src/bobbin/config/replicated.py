"""The folder of a node of a replicated lace: the folder of a lace, and in it that of a node of a cluster.

Every node has the keys of the lace. A lace is known by its key, and peers do not care which of its machines they talk
to; so what one node signs, or proves to be, any other may. The key of a node of the cluster is another one, of this
machine alone.

The node of the cluster is made first and ``lace.toml`` written last, as always: a folder that has one is complete.
"""

import asyncio
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from bobbin.cluster.names import NodeId
from bobbin.config import keys
from bobbin.config.cluster import ClusterLayout, NewNode, NodeFolder, create_cluster, prepare, read_folder
from bobbin.config.layout import Layout
from bobbin.errors import UsageError
from bobbin.runtime.cluster_client import ClusterClient
from bobbin.runtime.replicated_proposing import DistantNode, NoNodeHere
from bobbin.runtime.replicated_store import ReplicatedStore
from bobbin.store.sqlite import open_store
from bobbin.transport.base import TransportError

SETTINGS: Final = """
# A command of a lace holds many records: this many are kept in the log, and in memory, before the next snapshot.
[raft]
snapshot_threshold = 1000
"""


def is_replicated(layout: Layout) -> bool:
    """Whether a folder is that of a node of a replicated lace."""
    return ClusterLayout(layout.cluster).is_complete()


def lace_of(node: Path) -> Path | None:
    """The lace that a node of a cluster keeps, by the folder of the node; None for a node that keeps none."""
    layout = Layout(node.resolve().parent)
    return layout.folder if layout.is_lace() and layout.cluster == node.resolve() else None


def prepare_node(folder: Path, *, listen: str, address: str | None = None) -> NewNode:
    """Make the keys of a new node inside the folder of a lace that is about to be."""
    layout = Layout(folder)
    if layout.is_lace():
        raise UsageError(f"there is already a lace in {folder}")
    if folder.is_dir() and (strangers := layout.strangers()):
        raise UsageError(f"{folder} is in use for something else: there is {strangers[0]} in it")
    return prepare(layout.cluster, listen=listen, address=address)


def create_nodes(nodes: Sequence[NewNode], *, preset: str) -> bytes:
    """Make the first nodes of the cluster of a new lace complete; returns the id of the cluster."""
    return create_cluster(list(nodes), preset=preset, more=SETTINGS)


def share_key(first: Layout, others: Sequence[Layout], name: str = "main") -> str:
    """Make the key of a lace in one folder, and the same in the others; returns its verifier."""
    key = keys.create_key(first.keys, name)
    secret = keys.read_secret(first.keys, name)
    for layout in others:
        keys.create_key(layout.keys, name, secret=secret)
    return key.verifier


def read_node(layout: Layout) -> NodeFolder:
    """The node of the cluster in the folder of a replicated lace."""
    return read_folder(layout.cluster)


def need_node(layout: Layout) -> None:
    """Raise ``NoNodeHere`` for a replicated lace whose node does not run: nothing can be stored in it."""
    if not is_replicated(layout):
        return
    folder = read_node(layout)

    async def ask() -> None:
        known, own = folder.known, folder.operator
        async with ClusterClient(known, own=own, socket=folder.layout.socket, here=folder.node) as client:
            await client.status(folder.node)

    try:
        asyncio.run(ask())
    except TransportError as error:
        raise NoNodeHere(layout.folder) from error


def open_replicated(layout: Layout, *, now: Callable[[], int]) -> ReplicatedStore:
    """The store of a replicated lace, for a process that is not its node: written through the node that runs here.

    Nothing is dialled before something is written. Then it raises ``NoNodeHere`` where no node runs.
    """
    folder = read_node(layout)

    def connect() -> tuple[ClusterClient, NodeId]:
        client = ClusterClient(folder.known, own=folder.operator, socket=folder.layout.socket, here=folder.node)
        return client, folder.node

    distant = DistantNode(layout.folder, connect, lambda: open_store(layout.records, now=now, read_only=True))
    local = open_store(layout.records, now=now)
    return ReplicatedStore(local, distant, now=now, closed=distant.close)
