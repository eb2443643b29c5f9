"""Links between shards lose, double and delay, and can be cut."""

from random import Random

import pytest

from bobbin.cluster.transactions.messages import ShardMessage, TxAckMsg
from bobbin.cluster.transactions.names import ShardId, TxId
from bobbin.simulator.clock import SECOND_NS, Timeline
from bobbin.simulator.raft_network import Roughness
from bobbin.simulator.transaction_network import ShardNetwork

HERE, THERE = ShardId(0), ShardId(1)
MESSAGE = TxAckMsg(TxId(bytes(16)), HERE, success=True)


class Coding:
    """Bytes that are the message's own words."""

    def encode(self, message: ShardMessage) -> bytes:
        return repr(message).encode()

    def decode(self, payload: bytes) -> ShardMessage:
        assert payload == repr(MESSAGE).encode()
        return MESSAGE


def network(*, coding: Coding | None = None) -> tuple[ShardNetwork, Timeline, list[tuple[ShardId, ShardId]]]:
    timeline, arrived = Timeline(), list[tuple[ShardId, ShardId]]()

    def deliver(to: ShardId, sender: ShardId, message: ShardMessage) -> None:
        assert message == MESSAGE
        arrived.append((sender, to))

    return ShardNetwork(timeline, Random(1), deliver, coding=coding), timeline, arrived


@pytest.mark.parametrize("coding", [None, Coding()])
def test_on_a_smooth_link_everything_arrives_once(coding: Coding | None) -> None:
    links, timeline, arrived = network(coding=coding)
    for _ in range(50):
        links.send(HERE, THERE, MESSAGE)
    while timeline.step():
        pass
    assert arrived == [(HERE, THERE)] * 50
    assert links.tally == {"messages": 50}


def test_on_a_rough_one_some_is_lost_doubled_and_late() -> None:
    links, timeline, arrived = network()
    links.roughness = Roughness(loss=0.3, doubling=0.3, straggling=0.3, straggle_ns_max=9 * SECOND_NS)
    for _ in range(300):
        links.send(HERE, THERE, MESSAGE)
    while timeline.step():
        pass
    assert 40 < links.tally["messages lost"] < 150
    assert 30 < links.tally["messages doubled"] < 120
    assert len(arrived) == 300 - links.tally["messages lost"] + links.tally["messages doubled"]
    assert timeline.now_ns > 5 * SECOND_NS
    links.calm()
    links.send(HERE, THERE, MESSAGE)
    assert timeline.step()


def test_what_is_cut_lets_nothing_pass_that_is_under_way_either() -> None:
    links, timeline, arrived = network()
    links.send(HERE, THERE, MESSAGE)
    links.send(THERE, HERE, MESSAGE)
    links.cut([HERE], [THERE], one_way=True)
    links.send(HERE, THERE, MESSAGE)
    while timeline.step():
        pass
    assert arrived == [(THERE, HERE)]
    links.cut([HERE], [THERE])
    links.send(THERE, HERE, MESSAGE)
    assert not timeline.step()
    links.heal()
    links.send(THERE, HERE, MESSAGE)
    assert timeline.step()
    assert arrived == [(THERE, HERE)] * 2


def test_clients_are_under_the_same_weather() -> None:
    links, timeline, _ = network()
    links.roughness = Roughness(loss=1.0)
    links.carry(lambda: pytest.fail("it was lost"))
    assert not timeline.step()
