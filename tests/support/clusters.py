"""Clusters of real nodes in one process: real sockets with TLS, real disks, one event loop."""

import asyncio
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import Future
from contextlib import asynccontextmanager, contextmanager, suppress
from functools import partial
from io import StringIO
from pathlib import Path
from random import SystemRandom
from typing import Final

from msgspec import structs

from bobbin.cluster.identity import Identity
from bobbin.cluster.names import NodeId
from bobbin.cluster.raft.effects import Role
from bobbin.cluster.raft.entries import Configuration
from bobbin.cluster.settings import GossipConfig, MessageValidationConfig, RaftConfig
from bobbin.config.cluster import read_folder
from bobbin.runtime.cluster_audit import Audit
from bobbin.runtime.cluster_certificate import Credentials, make
from bobbin.runtime.cluster_client import ClusterClient
from bobbin.runtime.cluster_members import Caller, Directory, KnownMembers, Member, Rights
from bobbin.runtime.cluster_node import ClusterNode
from bobbin.runtime.cluster_settings import ClusterSettings
from bobbin.runtime.log import make_log
from bobbin.store.raft_storage import RaftStorage
from bobbin.store.wal.files import RealFiles
from bobbin.transport import tcp
from bobbin.wire import address as addresses

PATIENCE_SECONDS: Final = 60.0
"""Nothing depends on it; it ends a test that would wait for ever."""
CLUSTER: Final = bytes(range(16))
RAFT: Final = RaftConfig(election_timeout=(300, 600), heartbeat_interval=60, rpc_timeout=200)
GOSSIP: Final = GossipConfig(
    probe_interval_ms=100,
    probe_timeout_ms=50,
    indirect_ping_timeout_ms=50,
    gossip_interval_ms=50,
    suspicion_timeout_ms=200,
    require_signatures=True,
)
OPERATOR: Final = make(Identity(bytes([255]) * 32))


_PORTS: Final = range(10_000, 32_000)
"""Below those that the kernel gives to connections: a node that is down for a while finds its port free again."""


def free_ports(count: int) -> list[int]:
    """Ports that nobody uses now. Drawn by chance, and not as tests are: those that run at once must differ."""
    ports: list[int] = []
    for port in SystemRandom().sample(_PORTS, len(_PORTS)):
        with suppress(OSError):
            tcp.bind("127.0.0.1", port, backlog=1)[0].close()
            ports.append(port)
        if len(ports) == count:
            return ports
    raise AssertionError(f"there are no {count} free ports")


class Place:
    """Where a node lives: its identity, its folder and its port. The node itself may be running or not."""

    def __init__(self, folder: Path, number: int, port: int) -> None:
        self.folder: Final = folder
        self.number: Final = number
        self.own: Final[Credentials] = make(Identity(bytes([number]) * 32))
        self.id: Final = self.own.identity.node
        self.address: Final = f"tls:127.0.0.1:{port}"
        self.log: Final = StringIO()
        self.node: ClusterNode | None = None

    @property
    def running(self) -> ClusterNode:
        assert self.node is not None
        return self.node

    @property
    def audit(self) -> Path:
        return self.folder / "audit.jsonl"


class Nodes:
    """A cluster."""

    def __init__(
        self,
        folder: Path,
        count: int,
        *,
        raft: RaftConfig = RAFT,
        gossip: GossipConfig = GOSSIP,
        validation: MessageValidationConfig = MessageValidationConfig(),  # noqa: B008 -- it is frozen
    ) -> None:
        self.raft: Final = raft
        self.gossip: Final = gossip
        self.validation: Final = validation
        ports = free_ports(count)
        self.places: Final = [Place(folder / f"n{number}", number, port) for number, port in enumerate(ports, start=1)]
        self.known = KnownMembers(
            directory=Directory(
                [Member(certificate=place.own.certificate, address=place.address) for place in self.places],
                [Caller(certificate=OPERATOR.certificate, rights=Rights.OPERATOR)],
            )
        )
        self.first: Final = Configuration(tuple(sorted(place.id for place in self.places)))

    async def start(
        self,
        place: Place,
        *,
        known: KnownMembers | None = None,
        joins: bool = False,
        own: Credentials | None = None,
        gossip: GossipConfig | None = None,
    ) -> ClusterNode:
        """Run a node, new or again; with another key, if one is given."""
        place.folder.mkdir(exist_ok=True)
        kept = place.folder / "members.json"
        if known is None:
            known = KnownMembers.decode(kept.read_bytes()) if kept.exists() else self.known
        settings = ClusterSettings(
            cluster=CLUSTER,
            listen=addresses.parse(place.address),
            address=place.address,
            bootstrap=None if joins else self.first,
            raft=self.raft,
            gossip=gossip or self.gossip,
            validation=self.validation,
            checkpoint_entries=50,
        )
        storage = RaftStorage.open(RealFiles(place.folder / "log"), node=place.id, cluster=CLUSTER, free_bytes_min=0)
        place.node = ClusterNode(
            settings,
            own or place.own,
            place.id,
            known,
            storage,
            audit=Audit(place.audit),
            log=make_log(output=place.log),
            remember=partial(_keep, kept),
            checking=True,
        )
        await place.node.start(place.folder / "node.sock")
        return place.node

    async def stop(self, place: Place) -> None:
        node, place.node = place.node, None
        if node is not None:
            await node.stop()

    @property
    def running(self) -> list[ClusterNode]:
        return [place.node for place in self.places if place.node is not None]

    @property
    def leader(self) -> ClusterNode | None:
        """Of the highest term, if it has one."""
        leading = [node for node in self.running if node.machine.role is Role.LEADER]
        return max(leading, key=lambda node: node.machine.term, default=None)

    async def elected(self) -> ClusterNode:
        """Wait until somebody leads and everybody who runs knows it."""
        await until(self._is_led)
        leader = self.leader
        assert leader is not None
        return leader

    def _is_led(self) -> bool:
        leader = self.leader
        return leader is not None and all(node.machine.leader == leader.node for node in self.running)

    async def settled(self) -> None:
        """Wait until everybody who runs has applied the same, and nothing more is on its way.

        A new leader writes down who is known some time after its election, and that comes like any other entry.
        """
        await until(self._is_settled)

    def _is_settled(self) -> bool:
        ends = {index for node in self.running for index in (node.state.index, node.machine.last_index)}
        return len(ends) == 1 and all(node.state.says_who_is_known for node in self.running)

    def place_of(self, node: ClusterNode) -> Place:
        return next(place for place in self.places if place.node is node)

    def client(self, *, own: Credentials = OPERATOR, seconds: float = 30.0) -> ClusterClient:
        return ClusterClient(self.known, own=own, seconds=seconds)

    def cut(self, *sides: set[NodeId]) -> None:
        """From now on nothing goes from one side to another."""
        for node in self.running:
            side = next(one for one in sides if node.node in one)
            for peer, link in node.peers.links.items():
                if peer not in side:
                    link.send = _drop  # type: ignore[method-assign]

    def heal(self) -> None:
        """Everything goes everywhere again."""
        for node in self.running:
            for link in node.peers.links.values():
                link.__dict__.pop("send", None)


def _drop(frame: bytes) -> None:
    """Lose it."""


def _keep(file: Path, known: KnownMembers) -> None:
    file.write_bytes(known.encode())


async def until(condition: Callable[[], bool]) -> None:
    """Wait for something that comes about by itself."""
    end = time.monotonic() + PATIENCE_SECONDS
    while not condition():
        assert time.monotonic() < end, "it never came about"
        await asyncio.sleep(0.005)


@asynccontextmanager
async def cluster(
    folder: Path,
    count: int = 3,
    *,
    raft: RaftConfig = RAFT,
    gossip: GossipConfig = GOSSIP,
    validation: MessageValidationConfig = MessageValidationConfig(),  # noqa: B008 -- it is frozen
) -> AsyncIterator[Nodes]:
    """A cluster that runs for the length of a block."""
    nodes = Nodes(folder, count, raft=raft, gossip=gossip, validation=validation)
    try:
        for place in nodes.places:
            await nodes.start(place)
        yield nodes
    finally:
        for place in nodes.places:
            await nodes.stop(place)


@contextmanager
def served_folder(folder: Path) -> Iterator[ClusterNode]:
    """The node of a folder, running in a thread of its own, for tests of what asks it."""
    read = read_folder(folder)
    started: Future[ClusterNode] = Future()

    async def run() -> None:
        storage = RaftStorage.open(
            RealFiles(read.layout.log), node=read.node, cluster=read.settings.cluster, free_bytes_min=0
        )
        node = ClusterNode(
            read.settings,
            read.own,
            read.node,
            read.known,
            storage,
            audit=Audit(read.layout.audit),
            log=make_log(output=StringIO()),
            remember=read.remember,
        )
        await node.start(read.layout.socket)
        started.set_result(node)
        try:
            await stop.wait()
        finally:
            await node.stop()

    loop = asyncio.new_event_loop()
    stop = asyncio.Event()
    thread = threading.Thread(target=loop.run_until_complete, args=(run(),))
    thread.start()
    try:
        yield started.result(PATIENCE_SECONDS)
    finally:
        loop.call_soon_threadsafe(stop.set)
        thread.join()
        loop.close()


def with_timeouts(raft: RaftConfig, **values: object) -> RaftConfig:
    """The same settings, but for these."""
    return structs.replace(raft, **values)
