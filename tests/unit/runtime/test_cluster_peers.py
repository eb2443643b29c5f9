"""The other nodes, as one node speaks with them."""

import asyncio
import socket
import time
from io import StringIO
from typing import Final

from msgspec import structs

from bobbin.cluster.identity import Identity
from bobbin.cluster.key_value import KEY_BYTES_MAX, Put
from bobbin.cluster.membership.messages import GossipMessage, Ping
from bobbin.cluster.names import MILLISECOND_NS, Index, NodeId, Term
from bobbin.cluster.raft.entries import Entry
from bobbin.cluster.raft.messages import AppendEntries, RaftMessage, TimeoutNow
from bobbin.runtime.cluster_certificate import make
from bobbin.runtime.cluster_clock import since_boot_ns
from bobbin.runtime.cluster_links import PEER_PATIENCE, UNACKNOWLEDGED_MS, Door, shown_by
from bobbin.runtime.cluster_members import Directory, Member
from bobbin.runtime.cluster_peers import Peers
from bobbin.runtime.cluster_settings import ClusterSettings
from bobbin.runtime.log import make_log
from bobbin.transport.base import ByteStream
from bobbin.transport.flow import FlowStream
from bobbin.wire import address
from bobbin.wire.cluster.commands import encode_command
from bobbin.wire.cluster.faults import Refusal
from bobbin.wire.cluster.frame import frame
from tests.support.clusters import CLUSTER, free_ports, until


class _Side:
    def __init__(self, number: int, port: int) -> None:
        self.own: Final = make(Identity(bytes([number]) * 32))
        self.node: Final = self.own.identity.node
        self.place: Final = f"tls:127.0.0.1:{port}"
        self.member: Final = Member(certificate=self.own.certificate, address=self.place)
        self.heard: Final[list[tuple[NodeId, RaftMessage | GossipMessage]]] = []
        settings = ClusterSettings(cluster=CLUSTER, listen=address.parse(self.place), address=self.place)
        self.peers: Final = Peers(
            settings,
            self.own,
            self.node,
            boot_id=1,
            hear=self.hear,
            log=make_log(output=StringIO()),
            own_term=lambda: 5,
        )
        self.door: Final = Door(self.own, Directory())

    def hear(self, sender: NodeId, message: RaftMessage | GossipMessage) -> None:
        self.heard.append((sender, message))

    def wrong_by(self, by_ms: int) -> None:
        """Have its clock show another time, as after the machine has slept."""
        self.peers._clock._ahead_ns = time.time_ns() - since_boot_ns() + by_ms * MILLISECOND_NS  # type: ignore[misc]

    async def accept(self, stream: ByteStream) -> None:
        shown = shown_by(stream)
        assert shown is not None
        await self.peers.serve(stream, shown[0])

    async def open(self, directory: Directory) -> None:
        self.door.know(directory)
        await self.door.open(address.parse(self.place), self.accept, refused=lambda *_: None)
        self.peers.know(directory)

    async def close(self) -> None:
        await self.door.close()
        await self.peers.close()


def test_messages_arrive_once_signed_and_only_from_those_who_are_known() -> None:
    async def run() -> None:
        one, two = (_Side(number, port) for number, port in zip((1, 2), free_ports(2), strict=True))
        both = Directory([one.member, two.member])
        for side in (one, two):
            await side.open(both)
        message = TimeoutNow(term=Term(1), leader=one.node)
        ping = Ping(origin=one.node, sequence=1)
        one.peers.send(NodeId("nobody"), message)
        # Nothing is said before the other has shown in which life it is; what is said earlier is dropped.
        await until(lambda: one.peers._sealer.knows(two.node) and one.peers.links[two.node].is_up)
        one.peers.send(two.node, message)
        one.peers.send(two.node, ping)
        await until(lambda: len(two.heard) == 2)
        assert two.heard == [(one.node, message), (one.node, ping)]
        # The same bytes again, over the same channel.
        link = one.peers.links[two.node]
        sealed = one.peers._seal(two.node, ping)
        link.send(sealed)
        link.send(sealed)
        link.send(frame(b"noise"))
        await until(lambda: two.peers.gateway.refused.total() == 2)
        assert two.peers.gateway.refused[Refusal.REPLAYED] == 1
        assert len(two.heard) == 3
        # A term that no election can have led to.
        one.peers.send(two.node, TimeoutNow(term=Term(2**64 - 2), leader=one.node))
        await until(lambda: two.peers.gateway.refused[Refusal.TERM] == 1)
        assert len(two.heard) == 3
        # One that is not known any more is let go of at once, in both directions.
        dials = link.counts.dials
        two.peers.know(Directory([two.member]))
        assert two.peers.links == {}
        # The channel ends, and is dialled anew; perhaps at once.
        await until(lambda: not link.is_up or link.counts.dials > dials)
        assert two.peers._registry.find(one.node) is None
        for side in (one, two):
            await side.close()

    asyncio.run(run())


def test_bytes_that_are_no_frames_end_the_channel() -> None:
    async def run() -> None:
        one, two = (_Side(number, port) for number, port in zip((3, 4), free_ports(2), strict=True))
        both = Directory([one.member, two.member])
        for side in (one, two):
            await side.open(both)
        link = one.peers.links[two.node]
        await until(lambda: link.is_up)
        link.send(b"\xff" * 10)
        await until(lambda: link.counts.dials >= 2)
        assert two.heard == []
        for side in (one, two):
            await side.close()

    asyncio.run(run())


def test_a_clock_that_stood_still_or_was_wrong_from_the_start_cuts_nobody_off() -> None:
    async def run() -> None:
        one, two = (_Side(number, port) for number, port in zip((5, 6), free_ports(2), strict=True))
        # It began before its clock was set right.
        one.wrong_by(-3_600_000)
        both = Directory([one.member, two.member])
        for side in (one, two):
            await side.open(both)
        sides = ((one, two), (two, one))
        for wrong_ms in (-3_600_000, -3_600_000 - 120_000, -3_600_000 - 86_400_000):
            one.wrong_by(wrong_ms)
            for sender, receiver in sides:
                message = TimeoutNow(term=Term(1), leader=sender.node)
                receiver.heard.clear()

                def is_heard(sender: _Side = sender, receiver: _Side = receiver, message: TimeoutNow = message) -> bool:
                    if sender.peers._sealer.knows(receiver.node):
                        sender.peers.send(receiver.node, message)
                    return (sender.node, message) in receiver.heard

                await until(is_heard)
        for side in (one, two):
            await side.close()

    asyncio.run(run())


def test_a_key_that_is_another_node_s_from_now_on_speaks_for_that_one() -> None:
    async def run() -> None:
        side, other = (_Side(number, port) for number, port in zip((1, 2), free_ports(2), strict=True))
        side.peers.know(Directory([side.member, other.member]))
        seat = NodeId("c" * 32)
        side.peers.know(Directory([side.member, structs.replace(other.member, seat=seat)]))
        found = side.peers._registry.find(other.node)
        assert found is not None
        assert found.seat == seat
        await side.peers.close()
        await other.peers.close()

    asyncio.run(run())


def test_a_channel_of_a_peer_is_given_up_soon_after_its_machine_is_silent() -> None:
    async def run() -> None:
        one, two = (_Side(number, port) for number, port in zip((7, 8), free_ports(2), strict=True))
        both = Directory([one.member, two.member])
        for side in (one, two):
            await side.open(both)
        await until(lambda: bool(two.peers._incoming))
        for stream in two.peers._incoming:
            assert isinstance(stream, FlowStream)
            connection = stream.outgoing.transport.get_extra_info("socket")
            assert connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT) == UNACKNOWLEDGED_MS
            assert connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE) == PEER_PATIENCE.idle_seconds
        for side in (one, two):
            await side.close()

    asyncio.run(run())


def _append(leader: NodeId, command: bytes) -> AppendEntries:
    return AppendEntries(
        term=Term(1),
        leader=leader,
        previous_index=Index(0),
        previous_term=Term(0),
        entries=(Entry(Term(1), Index(1), command),),
        commit=Index(0),
        round=1,
    )


def test_the_commands_inside_entries_are_looked_at() -> None:
    """CL-266, CL-348: here, where the gateway is put together, and not in the gateway's own tests alone."""

    async def run() -> None:
        one, two = (_Side(number, port) for number, port in zip((5, 6), free_ports(2), strict=True))
        both = Directory([one.member, two.member])
        for side in (one, two):
            await side.open(both)
        await until(lambda: one.peers._sealer.knows(two.node) and one.peers.links[two.node].is_up)
        good = _append(one.node, encode_command(Put(b"", 0, bytes(KEY_BYTES_MAX), b"v")))
        long = _append(one.node, encode_command(Put(b"", 0, bytes(KEY_BYTES_MAX + 1), b"v")))
        for message in (_append(one.node, b"noise"), long, good):
            one.peers.send(two.node, message)
        await until(lambda: bool(two.heard))
        assert two.heard == [(one.node, good)]
        assert two.peers.gateway.refused == {Refusal.COMMAND: 1, Refusal.KEY: 1}
        for side in (one, two):
            await side.close()

    asyncio.run(run())
