"""Keeps a node known to the others, and the others known to it, where the log alone would not.

A node that was away may have missed that another one joined, and that one may lead now: then each refuses the other's
channel, and no entry comes that would tell. So a node that hears of no leader asks those whom it knows, one after the
other, who is known. What they say helps to be found, and is forgotten when this node has caught up with a leader.
And a node that comes back with another address or another key says so to the leader, under the certificate that counts.
"""

import asyncio
from typing import Final

from structlog.typing import FilteringBoundLogger

from bobbin.errors import BobbinError
from bobbin.runtime.cluster_certificate import Credentials
from bobbin.runtime.cluster_client import ClusterClient
from bobbin.runtime.cluster_members import KnownMembers
from bobbin.runtime.cluster_node import ClusterNode

LOOK_SECONDS: Final = 1.0
_ASK_SECONDS: Final = 5.0


class Contact:
    """A task beside a running node."""

    def __init__(
        self, node: ClusterNode, own: Credentials, log: FilteringBoundLogger, *, look_seconds: float = LOOK_SECONDS
    ) -> None:
        self._node: Final = node
        self._own: Final = own
        self._log: Final = log
        self._look_seconds: Final = look_seconds
        self._turn = -1
        self._task: Final = asyncio.get_running_loop().create_task(self._run())

    async def close(self) -> None:
        """End."""
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)

    async def _run(self) -> None:
        while True:
            await asyncio.sleep(self._look_seconds)
            try:
                if self._node.leader is None:
                    await self._learn()
                elif self._node.state.is_waiting:
                    await self._settle()
                elif self._has_news():
                    await self._announce()
            except BobbinError as error:
                self._log.debug("nobody-asked", detail=str(error))

    def _has_news(self) -> bool:
        """Whether what the others know of this node is not what it is.

        That another key is to come is none: as long as this one is in use, it is the one that counts first.
        """
        member = self._node.directory.members.get(self._node.node)
        return member is not None and (
            member.address != self._node.settings.address or member.certificate != self._own.certificate
        )

    async def _learn(self) -> None:
        # By what this node knows itself: what one has said must not decide who is asked next.
        own = self._node.state.own_directory
        others = sorted(own.members.keys() - {self._node.node})
        if not others:
            return
        # Each in its turn: one that lies must not be the only one that is heard.
        self._turn += 1
        teller = others[self._turn % len(others)]
        async with self._client(KnownMembers(directory=own)) as client:
            known = await client.members(teller)
        self._node.learn(teller, known)

    async def _settle(self) -> None:
        """Hear from the leader how far it is."""
        leader = self._node.leader
        if leader is None or leader == self._node.node:
            self._node.operations.settle()
            return
        async with self._client() as client:
            known = await client.members(leader)
        if self._node.leader == leader:
            self._node.settle_members(known.index)

    async def _announce(self) -> None:
        async with self._client() as client:
            await client.add(self._own.certificate, self._node.settings.address)
        self._log.info("node-announced", node=self._node.node, address=self._node.settings.address)

    def _client(self, known: KnownMembers | None = None) -> ClusterClient:
        others = self._node.operations.known() if known is None else known
        return ClusterClient(others, own=self._own, here=self._node.node, seconds=_ASK_SECONDS)
