"""Gossip: what is told, to whom, and how often."""

from collections import Counter

import pytest

from bobbin.cluster.geometry import Embedding
from bobbin.cluster.membership.dissemination import Dissemination
from bobbin.cluster.membership.messages import Health, Sync
from bobbin.cluster.membership.table import MemberTable
from bobbin.cluster.names import NodeId
from bobbin.cluster.settings import GossipConfig
from tests.unit.cluster.membership.driven import A, Driven, word

NODES = [NodeId(f"{number:02}") for number in range(30)]


def told(states_max: int = 20) -> tuple[MemberTable, Dissemination]:
    table = MemberTable()
    table.merge([word(node, Health.HEALTHY, at=number) for number, node in enumerate(NODES)])
    return table, Dissemination(table, states_max)


def stamps(dissemination: Dissemination) -> list[int]:
    return [state.timestamp for state in dissemination.next()]


def test_the_twenty_latest_go_first_and_the_rest_in_the_next_message() -> None:
    _, dissemination = told()
    assert stamps(dissemination) == list(range(29, 9, -1))
    assert stamps(dissemination) == [*range(29, 19, -1), *range(9, -1, -1)]


def test_everything_is_told_again_and_again() -> None:
    _, dissemination = told(7)
    counts = Counter(stamp for _ in range(60) for stamp in stamps(dissemination))
    assert set(counts) == set(range(30))
    assert max(counts.values()) - min(counts.values()) <= 1


def test_what_has_changed_is_told_first() -> None:
    table, dissemination = told(5)
    for _ in range(3):
        dissemination.next()
    table.merge([word(NODES[29], Health.DEGRADED, at=99)])
    assert stamps(dissemination) == [99, 14, 13, 12, 11]
    assert stamps(dissemination) == [10, 9, 8, 7, 6], "what was told waits for its next turn"


def test_a_small_table_is_told_whole() -> None:
    table = MemberTable()
    table.merge([word(node, Health.HEALTHY, at=number) for number, node in enumerate(NODES[:4])])
    dissemination = Dissemination(table, 20)
    assert [stamps(dissemination) for _ in range(3)] == [[3, 2, 1, 0]] * 3


# ---- rounds --------------------------------------------------------------------------------------------------------

PEERS = "bcdefghijk"
PLACES = {name: Embedding.dense((1.0, float(number))) for number, name in enumerate("a" + PEERS)}


def rounds(node: Driven, count: int) -> list[list[NodeId]]:
    """To whom each of the next rounds went."""
    targets = []
    for _ in range(count):
        node.take()
        node.advance(node.machine.config.gossip_interval_ms)
        targets.append([to for to, _ in node.sent(Sync)])
    return targets


def test_every_200_ms_three_peers_hear_the_same() -> None:
    node = Driven(PEERS)
    node.take()
    node.advance(200)
    syncs = node.sent(Sync)
    assert len({to for to, _ in syncs}) == len(syncs) == 3
    assert len({message for _, message in syncs}) == 1
    assert syncs[0][1].sender_time == node.machine.table.time
    node.take()
    node.advance(199 + 800)
    assert len(node.sent(Sync)) in {12, 15}


@pytest.mark.parametrize("fanout", [1, 2, 5, 30])
def test_the_fanout_is_a_setting(fanout: int) -> None:
    node = Driven(PEERS, config=GossipConfig(fanout=fanout))
    assert {len(targets) for targets in rounds(node, 20)} == {min(fanout, len(PEERS))}


def test_the_interval_is_a_setting() -> None:
    node = Driven(PEERS, config=GossipConfig(gossip_interval_ms=50))
    node.take()
    node.advance(1_000)
    assert len(node.sent(Sync)) == 3 * 20


def test_a_message_has_at_most_twenty_states() -> None:
    peers = "".join(chr(ord("b") + number) for number in range(25))
    node = Driven(peers)
    node.take()
    node.advance(400)
    told_of: set[NodeId] = set()
    for _, message in node.sent(Sync):
        assert len(message.states) == 20
        told_of |= {state.node for state in message.states}
    assert len(told_of) == 26, "what was left out comes with the next message"


def test_one_target_is_near_and_the_others_take_turns() -> None:
    node = Driven(PEERS, embeddings=PLACES)
    node.introduce()
    targets = rounds(node, 30)
    assert all(NodeId("b") in one for one in targets), "the most similar of the healthy"
    others = Counter(to for one in targets for to in one if to != "b")
    assert set(others) == set(PEERS) - {"b"}
    assert max(others.values()) - min(others.values()) <= 4
    for place in range(30 - 10):
        assert {to for one in targets[place : place + 10] for to in one} == {NodeId(name) for name in PEERS}


def test_without_geometric_routing_nobody_is_preferred() -> None:
    node = Driven(PEERS, embeddings=PLACES, config=GossipConfig(geometric_routing=False))
    node.introduce()
    counts = Counter(to for one in rounds(node, 30) for to in one)
    assert max(counts.values()) - min(counts.values()) <= 2


def test_a_single_target_is_not_taken_by_similarity() -> None:
    node = Driven(PEERS, embeddings=PLACES, config=GossipConfig(fanout=1))
    node.introduce()
    assert {to for one in rounds(node, 10) for to in one} == {NodeId(name) for name in PEERS}


def test_a_failed_node_is_nobodys_nearest() -> None:
    node = Driven(PEERS, embeddings=PLACES)
    node.introduce()
    node.machine._write(NodeId("b"), Health.FAILED, 1)
    assert all(NodeId("c") in one for one in rounds(node, 10))
    assert node.machine.table.states[A].health is Health.HEALTHY
