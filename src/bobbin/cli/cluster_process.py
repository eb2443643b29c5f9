"""A node of a cluster as a process: its folder, its signals, its pages for operators."""

import asyncio
import gc
import os
import signal
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from bobbin.cli.output import Json
from bobbin.errors import IntegrityError, UsageError
from bobbin.runtime.admin import Admin
from bobbin.runtime.cluster_audit import Audit
from bobbin.runtime.cluster_contact import Contact
from bobbin.runtime.cluster_meter import ClusterMeter, judge
from bobbin.runtime.cluster_node import ClusterNode
from bobbin.store.raft_storage import LogMissing, RaftStorage
from bobbin.store.wal.files import RealFiles

if TYPE_CHECKING:
    from structlog.typing import FilteringBoundLogger

    from bobbin.config.cluster import NodeFolder
    from bobbin.runtime.health import Health
    from bobbin.runtime.status import NodeStatus

_COLLECT_AFTER: Final = 50_000
"""New objects between two looks for garbage. There is little that goes in circles, and a look at everything is long."""


class Watched:
    """A node as its pages show it."""

    reload_failure: str | None = None

    def __init__(self, node: ClusterNode) -> None:
        self._node: Final = node

    @property
    def health(self) -> "Health":
        node = self._node
        return judge(node.problems(), node.readings(), is_halted=node.is_halted, is_stopping=node.is_stopping)

    async def refresh(self) -> None:
        """Figures are read when they are shown."""

    async def status(self) -> "NodeStatus":
        raise UsageError("`bobbin cluster status` shows the channels of a node")


class ClusterProcess:
    """Runs one node until somebody stops it, or it has to stop."""

    def __init__(
        self, folder: "NodeFolder", *, log: "FilteringBoundLogger", tell: Callable[[str, dict[str, Json]], None]
    ) -> None:
        self._folder: Final = folder
        self._log: Final = log
        self._tell: Final = tell

    async def run(self) -> None:
        """Raises ``Halted`` where the node had to stop."""
        folder, loop = self._folder, asyncio.get_running_loop()
        stop = asyncio.Event()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, stop.set)
        storage = await asyncio.to_thread(open_storage, folder)
        node = ClusterNode(
            folder.settings,
            folder.own,
            folder.node,
            folder.known,
            storage,
            audit=Audit(folder.layout.audit),
            log=self._log,
            remember=folder.remember,
        )
        await node.start(folder.layout.socket)
        contact = Contact(node, folder.own, self._log)
        admin = Admin(Watched(node), ClusterMeter(node), folder.settings.metrics, None)
        try:
            await admin.start()
            settle_memory()
            self._tell(
                "started",
                {
                    "node": node.node,
                    "listening": str(node.address),
                    "cluster": folder.settings.cluster.hex(),
                    "process": os.getpid(),
                    "metrics": None if admin.address is None else f"tcp:{admin.address[0]}:{admin.address[1]}",
                },
            )
            node.over.add_done_callback(lambda _: stop.set())
            await stop.wait()
            if node.is_halted:
                node.over.result()
            self._tell("stopping", {})
        finally:
            await contact.close()
            await admin.stop()
            await node.stop()


def settle_memory() -> None:
    """What is there now stays: look for garbage among what comes, and seldom."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(_COLLECT_AFTER, 20, 100)


def open_storage(folder: "NodeFolder") -> RaftStorage:
    """The log of a node. Raises ``IntegrityError`` where it is missing, or is not the one that it had."""
    files = RealFiles(folder.layout.log)
    try:
        storage = RaftStorage.open(
            files,
            node=folder.node,
            cluster=folder.settings.cluster,
            snapshot_memory_max=folder.settings.raft.snapshot_max_memory,
            has_begun=folder.has_begun,
        )
    except LogMissing as error:
        files.close()
        raise IntegrityError(
            f"{error}; it was in {folder.layout.log}. This node must not start without it, for it would have forgotten "
            f"how it voted: restore it, or have `bobbin cluster remove` take node {folder.node} out of its cluster and "
            "let it come back as a new one, a learner at first: `bobbin cluster invite` there, and `bobbin cluster "
            "join` in an empty folder here"
        ) from error
    except BaseException:
        files.close()
        raise
    try:
        _check_log(folder, storage)
        folder.begin()
    except BaseException:
        storage.close()
        raise
    return storage


def _check_log(folder: "NodeFolder", storage: RaftStorage) -> None:
    """A voter from the beginning without its log would vote again where it has voted, for a log without its entries."""
    found = storage.recovered
    is_empty = not found.entries and found.snapshot is None and found.lost is None
    if is_empty and folder.settings.bootstrap is not None and folder.known.index > 0:
        raise IntegrityError(
            f"the log in {folder.layout.log} is empty, and this node had applied {folder.known.index:,} entries: "
            "restore it, or remove the node from its cluster and let a new one join in another folder"
        )
