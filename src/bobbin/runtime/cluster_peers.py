"""The other nodes, as one node speaks with them: who is dialled, what is sealed, and what is let in.

Everything that comes from another node goes through one gateway before any machine sees it (CL-376): the channel has
shown a certificate that is known, the envelope is signed by the key of that certificate, for this cluster, this node
and this life of it, and every field is within its bounds. What is refused is counted by its code and changes nothing.
"""

import asyncio
from collections.abc import Callable, Collection
from functools import partial
from typing import Final, TypeAlias

from structlog.typing import FilteringBoundLogger

from bobbin.cluster.identity import node_id_of
from bobbin.cluster.key_value import KEY_BYTES_MAX
from bobbin.cluster.membership.messages import GossipMessage
from bobbin.cluster.names import NodeId
from bobbin.cluster.raft.messages import RaftMessage
from bobbin.cluster.settings import MessageValidationConfig
from bobbin.errors import UsageError
from bobbin.runtime import cluster_certificate
from bobbin.runtime.cluster_certificate import Credentials
from bobbin.runtime.cluster_clock import SteadyClock
from bobbin.runtime.cluster_links import PEER_PATIENCE, PeerLink
from bobbin.runtime.cluster_members import Directory
from bobbin.runtime.cluster_settings import ClusterSettings
from bobbin.runtime.log import Repeats
from bobbin.transport import tcp
from bobbin.transport.base import ByteStream, TransportError
from bobbin.transport.flow import FlowStream
from bobbin.wire.cluster.codec import Hello
from bobbin.wire.cluster.envelope import Sealer
from bobbin.wire.cluster.faults import MessageRefused, Refusal
from bobbin.wire.cluster.frame import Deframer, frame
from bobbin.wire.cluster.gateway import Gateway
from bobbin.wire.cluster.registry import Registry
from bobbin.wire.cluster.replay import SequenceTracker
from bobbin.wire.cluster.validation import OwnTerm, command_check

_WRONG_TIME: Final = frozenset({Refusal.FUTURE, Refusal.STALE})
Hear: TypeAlias = Callable[[NodeId, RaftMessage | GossipMessage], None]


class Peers:
    """Links to every other node that is known, and the gateway for what comes from them."""

    def __init__(
        self,
        settings: ClusterSettings,
        own: Credentials,
        node: NodeId,
        *,
        boot_id: int,
        hear: Hear,
        log: FilteringBoundLogger,
        own_term: OwnTerm | None = None,
        kinds: Collection[int] = (),
    ) -> None:
        """``kinds``: of the commands that other machines than the table have on this log."""
        self.links: Final[dict[NodeId, PeerLink]] = {}
        self._own: Final = own
        self._node: Final = node
        self._hear: Final = hear
        self._log: Final = log
        self._repeats: Final = Repeats(log)
        self._clock: Final = SteadyClock()
        self._registry: Final = Registry()
        self._tracker: Final = SequenceTracker(
            max_age_ms=max(settings.validation.max_message_age_ms, settings.gossip.max_message_age_ms)
        )
        self._sealer: Final = Sealer(own.identity, cluster=settings.cluster, boot_id=boot_id)
        self.gateway: Final = Gateway(
            settings.cluster,
            node,
            self._registry,
            self._tracker,
            settings.validation,
            boot_id=boot_id,
            gossip=settings.gossip,
            # The bound that no setting goes beyond: a leader with a longer one than ours must not be refused for ever.
            # What this node itself takes of clients is bounded at the door.
            check_command=command_check(MessageValidationConfig(max_key_len=KEY_BYTES_MAX), kinds),
            own_term=own_term,
        )
        self._known: dict[bytes, NodeId] = {}
        self._incoming: Final[dict[ByteStream, bytes]] = {}
        """Open channels, and the certificate that each has shown."""
        self._closing: Final[set[asyncio.Task[None]]] = set()

    # ---- who is known -----------------------------------------------------------------------------------------------

    def know(self, directory: Directory) -> None:
        """Others are known from now on: dial them, and let go of everybody else at once."""
        keys = directory.keys
        for public in self._known.keys() - keys.keys():
            seat = self._known[public]
            self._registry.remove(node_id_of(public))
            if seat not in keys.values():
                self._sealer.forget(seat)
                self._tracker.forget(seat)
        for public, seat in keys.items():
            if self._known.get(public) != seat:
                self._registry.remove(node_id_of(public))
                self._registry.register(public, seat=seat)
        self._known = keys
        for stream, certificate in list(self._incoming.items()):
            if directory.member_of(certificate) is None:
                stream.abort()
        for node in [*self.links]:
            member = directory.members.get(node)
            link = self.links[node]
            if member is None or (member.address, member.certificates) != (link.address, link.certificates):
                del self.links[node]
                self._close_soon(link)
        for node, member in directory.members.items():
            if node != self._node and node not in self.links:
                self.links[node] = PeerLink(
                    node,
                    member.address,
                    member.certificates,
                    self._own,
                    greet=partial(self._seal, node, Hello(node=self._node)),
                    tell=partial(self._tell, node),
                )

    def _close_soon(self, link: PeerLink) -> None:
        task = asyncio.get_running_loop().create_task(link.close())
        self._closing.add(task)
        task.add_done_callback(self._closing.discard)

    def _tell(self, node: NodeId, why: str | None) -> None:
        if why is None:
            self._repeats.info("peer-linked", node, peer=node)
        else:
            self._repeats.info("peer-unlinked", node, peer=node, detail=why)

    # ---- speaking ---------------------------------------------------------------------------------------------------

    def send(self, to: NodeId, message: RaftMessage | GossipMessage) -> None:
        """Send, or drop."""
        link = self.links.get(to)
        if link is None:
            return
        if not link.is_up or not self._sealer.knows(to):
            link.counts.dropped += 1
            return
        try:
            link.send(self._seal(to, message))
        except UsageError as error:
            # What cannot be signed or is too long is not said; it must not take the node down.
            link.counts.dropped += 1
            self._repeats.warning("not-sent", type(message).__name__, peer=to, detail=str(error))

    def _seal(self, to: NodeId, message: Hello | RaftMessage | GossipMessage) -> bytes:
        return frame(self._sealer.seal(to, message, now_ms=self._clock.now_ms()))

    # ---- hearing ----------------------------------------------------------------------------------------------------

    async def serve(self, stream: ByteStream, certificate: bytes) -> None:
        """Hear what a node says on a channel that it has dialled, until that ends."""
        key = node_id_of(cluster_certificate.public_key(certificate))
        assert isinstance(stream, FlowStream), "streams of a network are these"
        tcp.prepare(stream.outgoing.transport.get_extra_info("socket"), PEER_PATIENCE)
        deframer = Deframer()

        def take(data: bytes) -> None:
            deframer.feed(data)
            for payload in deframer.drain():
                self._admit(payload, key)
            if deframer.buffered:
                deframer.drain()  # says if what follows is no frame

        self._incoming[stream] = certificate
        try:
            await stream.pour(take)
        except MessageRefused as refused:
            # No frame can be found after one that is none; or the time of one cannot be.
            self._repeats.warning("frame-refused", refused.code, peer=key, detail=str(refused))
        except TransportError:
            pass
        finally:
            self._incoming.pop(stream, None)
            stream.abort()

    def _admit(self, payload: bytes, key: NodeId) -> None:
        try:
            admitted = self.gateway.admit(payload, now_ms=self._clock.now_ms(), link=key)
        except MessageRefused as refused:
            if refused.refusal in _WRONG_TIME:
                # Held back for long, or one of the two clocks has stood still: the next channel shows the peer's anew.
                raise
            self._repeats.warning("message-refused", refused.code, peer=key, detail=str(refused))
            return
        self._sealer.learn(admitted.sender, admitted.boot_id)
        if isinstance(admitted.message, Hello):
            if (link := self.links.get(admitted.sender)) is not None:
                link.hurry()
        else:
            self._hear(admitted.sender, admitted.message)

    async def close(self) -> None:
        """Let go of everybody."""
        for stream in list(self._incoming):
            stream.abort()
        links = list(self.links.values())
        self.links.clear()
        await asyncio.gather(*(link.close() for link in links), *self._closing)
