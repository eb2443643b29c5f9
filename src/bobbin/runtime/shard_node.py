"""A node of a shard, put together: the node of a cluster, the state of the shard beside its table, and the driver."""

import secrets
from collections.abc import Callable, Mapping
from pathlib import Path
from random import Random
from typing import Final

from structlog.typing import FilteringBoundLogger

from bobbin.cluster.identity import node_id_of
from bobbin.cluster.names import NodeId
from bobbin.cluster.shard.machine import Shard
from bobbin.cluster.transactions.names import ShardId
from bobbin.native.hashing import hashing, why_plain
from bobbin.runtime.cluster_attachment import Host
from bobbin.runtime.cluster_audit import Audit
from bobbin.runtime.cluster_certificate import Credentials, public_key
from bobbin.runtime.cluster_client import ClusterClient
from bobbin.runtime.cluster_members import KnownMembers
from bobbin.runtime.cluster_node import ClusterNode
from bobbin.runtime.cluster_settings import ClusterSettings
from bobbin.runtime.shard_courier import SECONDS, Courier
from bobbin.runtime.shard_driver import ShardDriver
from bobbin.runtime.shard_judge import ShardJudge
from bobbin.runtime.shard_part import ShardSource
from bobbin.runtime.shard_settings import ShardSettings
from bobbin.store.raft_storage import RaftStorage
from bobbin.wire.cluster.shard_commands import shard_machine


class ShardNode:
    """One shard at one machine. Made in an event loop."""

    def __init__(
        self,
        settings: ClusterSettings,
        shard: ShardSettings,
        own: Credentials,
        node: NodeId,
        known: KnownMembers,
        storage: RaftStorage,
        *,
        operator: Credentials,
        others: Mapping[ShardId, Callable[[], KnownMembers]],
        audit: Audit,
        log: FilteringBoundLogger,
        remember: Callable[[KnownMembers], None] = lambda _: None,
        random: Random | None = None,
        checking: bool = False,
    ) -> None:
        """``operator`` is known to all shards; ``others`` tell who is known to be of each other shard."""

        def client_of(known: Callable[[], KnownMembers]) -> Callable[[], ClusterClient]:
            return lambda: ClusterClient(known(), own=operator, seconds=SECONDS)

        self.settings: Final = shard
        self._log: Final = log
        self.courier: Final = Courier(shard.shard, {one: client_of(who) for one, who in others.items()})
        self.driver: Final = ShardDriver(
            shard,
            own.identity,
            self.courier,
            validation=settings.validation,
            answer_seconds_max=settings.clients.answer_seconds_max,
            command_bytes_max=settings.raft.command_bytes_max,
        )
        self.driver.judge = ShardJudge(
            lambda: self.driver.shard,
            settings.raft,
            secret=secrets.token_bytes(32),
            names_of=Signers(lambda: self.driver.host).names_of,
            read=self.driver.expect,
        )

        def make() -> Shard:
            return shard_machine(shard=shard.shard, config=shard.chain, hashing=hashing())

        self.node: Final = ClusterNode(
            settings,
            own,
            node,
            known,
            storage,
            audit=audit,
            log=log,
            remember=remember,
            random=random,
            checking=checking,
            sources=[ShardSource(make)],
            attachments=[self.driver],
            judge=self.driver.judge,
        )

    async def start(self, socket: Path | None = None) -> None:
        """Take part."""
        reason = why_plain()
        way = "C" if reason is None else "Python"
        self._log.info("hashing-chosen", node=self.node.node, shard=self.settings.shard, way=way, reason=reason)
        await self.node.start(socket)

    async def stop(self) -> None:
        """Let go of everything."""
        await self.node.stop()


def introduce(nodes: Mapping[ShardId, ShardNode]) -> None:
    """Let the shards of one process know each other, so that nothing travels between two leaders that are here."""
    neighbours = {shard: one.driver for shard, one in nodes.items()}
    for one in nodes.values():
        one.courier.know(neighbours)


class Signers:
    """Under which ids a node signs: those of the keys that the others know it by."""

    def __init__(self, host: Callable[[], Host]) -> None:
        self._host: Final = host
        self._known: Final[dict[tuple[bytes, ...], frozenset[NodeId]]] = {}

    def names_of(self, node: NodeId) -> frozenset[NodeId]:
        """Nobody's, for a node that is not known."""
        member = self._host().directory.members.get(node)
        if member is None:
            return frozenset()
        certificates = tuple(member.certificates)
        names = self._known.get(certificates)
        if names is None:
            names = frozenset(node_id_of(public_key(one)) for one in certificates)
            self._known[certificates] = names
        return names
