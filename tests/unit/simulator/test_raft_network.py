"""A network that promises nothing, link by link, broadcasts included (CL-375)."""

from collections.abc import Callable
from random import Random

import pytest

from bobbin.cluster.names import NodeId, Term
from bobbin.cluster.raft.messages import RaftMessage, TimeoutNow
from bobbin.errors import PeerError
from bobbin.simulator.clock import Timeline
from bobbin.simulator.raft_network import SMOOTH, Coding, RaftNetwork, Roughness

A, B, C = NodeId("a"), NodeId("b"), NodeId("c")
COUNT = 300


def message(number: int) -> RaftMessage:
    return TimeoutNow(term=Term(number), leader=A)


class Text:
    """A codec of its own kind."""

    def encode(self, message: RaftMessage) -> tuple[int, bytes]:
        return 7, str(message.term).encode()

    def decode(self, number: int, payload: bytes) -> RaftMessage:
        assert number == 7
        try:
            return message(int(payload))
        except ValueError as error:
            raise PeerError("malformed", "no number") from error


class Net:
    """A network of three, and what arrived."""

    def __init__(self, roughness: Roughness = SMOOTH, *, coding: Coding | None = None) -> None:
        self.timeline = Timeline()
        self.arrived: list[tuple[NodeId, NodeId, int]] = []
        self.network = RaftNetwork(self.timeline, Random(1), self._note, coding=coding)
        self.network.roughness = roughness

    def _note(self, to: NodeId, sender: NodeId, message: RaftMessage) -> None:
        self.arrived.append((to, sender, message.term))

    def run(self) -> list[int]:
        while self.timeline.step():
            pass
        return [term for to, _, term in self.arrived if to == B]


def send(net: Net) -> None:
    for number in range(COUNT):
        net.network.send(A, B, message(number))


def broadcast(net: Net) -> None:
    for number in range(COUNT):
        net.network.broadcast(A, (B, C), message(number))


@pytest.mark.parametrize("say", [send, broadcast])
def test_each_fault_strikes_messages_and_broadcasts_alike(say: Callable[[Net], None]) -> None:
    def arrived(roughness: Roughness) -> list[int]:
        net = Net(roughness)
        say(net)
        return net.run()

    assert sorted(arrived(SMOOTH)) == list(range(COUNT))
    assert 50 < len(arrived(Roughness(loss=0.5))) < 250
    assert len(arrived(Roughness(doubling=0.5))) > COUNT + 50
    late = arrived(Roughness(straggling=0.3, straggle_ns_max=10**9))
    assert late != sorted(late), "they overtake each other"
    assert 50 < len(arrived(Roughness(spoiling=0.5))) < 250


@pytest.mark.parametrize("say", [send, broadcast])
def test_a_cut_holds_for_broadcasts_as_well(say: Callable[[Net], None]) -> None:
    net = Net()
    net.network.cut([A], [B])
    say(net)
    assert net.run() == []
    assert {to for to, _, _ in net.arrived} <= {C}


def test_faults_of_one_link_are_its_own() -> None:
    net = Net()
    net.network.of_link[A, B] = Roughness(loss=1.0)
    broadcast(net)
    assert net.run() == []
    assert len([to for to, _, _ in net.arrived if to == C]) == COUNT


def test_a_cut_may_be_one_way_and_takes_what_is_under_way() -> None:
    net = Net()
    net.network.send(B, A, message(1))
    net.network.send(A, B, message(2))
    net.network.cut([A], [B], one_way=True)
    net.run()
    assert net.arrived == [(A, B, 1)]
    net.network.heal()
    net.network.send(A, B, message(3))
    assert net.run() == [3]


def test_a_message_may_come_back_to_its_sender() -> None:
    net = Net(Roughness(echo=1.0))
    net.network.send(A, B, message(5))
    net.run()
    assert sorted(net.arrived) == [(A, A, 5), (B, A, 5)]


def test_bytes_that_are_spoilt_never_arrive_whatever_they_decode_to() -> None:
    net = Net(Roughness(spoiling=0.5), coding=Text())
    send(net)
    arrived = net.run()
    assert 50 < len(arrived) < 250
    assert len(set(arrived)) == len(arrived)
    assert set(arrived) <= set(range(COUNT))
    assert net.network.tally["messages spoilt, and no message any more"] > 0
    assert net.network.tally["messages spoilt"] > 0


def test_calm_ends_every_fault() -> None:
    net = Net(Roughness(loss=1.0))
    net.network.cut([A], [B, C])
    net.network.of_link[A, B] = Roughness(loss=1.0)
    net.network.calm()
    broadcast(net)
    assert sorted(net.run()) == list(range(COUNT))
