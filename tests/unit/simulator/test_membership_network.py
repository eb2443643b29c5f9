"""A network of datagrams: every fault on every link, for one receiver and for all of them."""

from random import Random

import pytest

from bobbin.cluster.membership.messages import GossipMessage, Ping
from bobbin.cluster.names import MILLISECOND_NS, NodeId
from bobbin.simulator.clock import Timeline
from bobbin.simulator.membership_network import GossipNetwork, LinkWeather

NODES = [NodeId(name) for name in "abcd"]
A, B, C, D = NODES


class Sink:
    """Keeps what arrives."""

    def __init__(self, weather: LinkWeather | None = None) -> None:
        self.timeline = Timeline()
        self.arrived: list[tuple[NodeId, NodeId, int, bool]] = []
        self.network = GossipNetwork(self.timeline, Random(1), self._arrive)
        if weather is not None:
            self.network.weather = weather

    def _arrive(self, to: NodeId, origin: NodeId, message: GossipMessage, is_spoilt: bool) -> None:  # noqa: FBT001
        assert isinstance(message, Ping)
        self.arrived.append((to, origin, message.sequence, is_spoilt))

    def send(self, count: int, origin: NodeId = A, to: NodeId = B) -> None:
        for number in range(count):
            self.network.send(origin, to, Ping(origin=origin, sequence=number))

    def broadcast(self, count: int, origin: NodeId = A) -> None:
        """As a machine does: one message for each of the others."""
        for number in range(count):
            for to in NODES:
                if to != origin:
                    self.network.send(origin, to, Ping(origin=origin, sequence=number))

    def drain(self) -> list[int]:
        while self.timeline.step():
            pass
        return [number for _, _, number, _ in self.arrived]


def arrivals(*, loss: float = 0.0, doubling: float = 0.0, late_ns: int = 0) -> list[int]:
    sink = Sink(LinkWeather(loss=loss, doubling=doubling, late_ns=late_ns))
    sink.send(100)
    return sink.drain()


def test_in_fair_weather_everything_arrives_once_and_soon() -> None:
    sink = Sink()
    sink.send(50)
    assert sorted(sink.drain()) == list(range(50))
    assert sink.timeline.now_ns <= 10 * MILLISECOND_NS
    assert sink.network.sent == 50
    assert sink.network.lost == sink.network.doubled == sink.network.spoilt == sink.network.late == 0


def test_messages_are_lost_doubled_spoilt_and_out_of_order() -> None:
    assert 5 < len(arrivals(loss=0.5)) < 95
    doubled = arrivals(doubling=0.5, late_ns=MILLISECOND_NS)
    assert 120 < len(doubled) < 180
    assert set(doubled) == set(range(100))
    spoilt = Sink(LinkWeather(spoiling=0.5))
    spoilt.send(100)
    spoilt.drain()
    assert 20 < sum(is_spoilt for _, _, _, is_spoilt in spoilt.arrived) == spoilt.network.spoilt < 80
    late = Sink(LinkWeather(lateness=0.5, late_ns=500 * MILLISECOND_NS))
    late.send(100)
    order = late.drain()
    assert order != sorted(order)
    assert 100 * MILLISECOND_NS < late.timeline.now_ns <= 510 * MILLISECOND_NS


def test_a_link_is_cut_in_one_direction() -> None:
    sink = Sink()
    sink.network.links[A, B] = LinkWeather(is_cut=True)
    sink.send(3, A, B)
    sink.send(3, B, A)
    sink.send(3, A, C)
    sink.drain()
    assert {(origin, to) for to, origin, _, _ in sink.arrived} == {(B, A), (A, C)}
    sink.network.calm_down()
    sink.send(1, A, B)
    assert len(sink.drain()) == 7


@pytest.mark.parametrize(
    "weather",
    [
        LinkWeather(is_cut=True),
        LinkWeather(loss=0.5),
        LinkWeather(doubling=0.5),
        LinkWeather(spoiling=0.5),
        LinkWeather(lateness=0.5, late_ns=900 * MILLISECOND_NS),
    ],
)
def test_what_goes_to_everybody_meets_the_faults_of_each_link(weather: LinkWeather) -> None:
    sink = Sink()
    sink.network.links[A, C] = weather
    sink.broadcast(100)
    sink.drain()
    there = {to: [one for one in sink.arrived if one[0] == to] for to in NODES}
    assert len(there[B]) == len(there[D]) == 100
    assert not any(is_spoilt for *_, is_spoilt in there[B] + there[D])
    network = sink.network
    faults = network.lost + network.doubled + network.spoilt + network.late
    assert 20 < faults <= 100
    assert len(there[C]) == 100 - network.lost + network.doubled
