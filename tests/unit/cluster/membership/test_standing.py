"""A node that had failed: when it is counted on again."""

import pytest

from bobbin.cluster.membership.effects import Flapping, Healed
from bobbin.cluster.membership.messages import (
    Alive,
    BidirectionalAck,
    BidirectionalProbe,
    Health,
    Ping,
    Pong,
    Suspect,
)
from bobbin.cluster.membership.standing import Standing
from bobbin.cluster.names import MILLISECOND_NS
from bobbin.cluster.settings import GossipConfig
from tests.unit.cluster.membership.driven import A, B, C, Driven, word

CONFIG = GossipConfig()


def back_again(config: GossipConfig = CONFIG) -> Driven:
    """B failed, and says that it is back."""
    node = Driven("bc", config=config)
    node.introduce()
    node.sync(C, word(B, Health.FAILED, 1, by=C))
    node.advance(2_000)
    node.take()
    node.hear(B, Alive(node_id=B, incarnation=2))
    assert node.health(B) is Health.HEALTHY, "what others are told does not wait"
    assert not node.machine.is_counted_on(B)
    return node


def ask(node: Driven) -> BidirectionalProbe:
    """Wait for the next probe of B."""
    for _ in range(300):
        node.take()
        node.advance(10)
        for to, ping in node.sent(Ping):
            node.hear(to, Pong(responder=to, sequence=ping.sequence))
        for to, probe in node.sent(BidirectionalProbe):
            assert to == B
            return probe
    raise AssertionError("nobody asks")


def answer(node: Driven, probe: BidirectionalProbe) -> None:
    node.hear(B, BidirectionalAck(origin=A, id=probe.id, responder=B))


def test_three_answers_in_a_row_bring_it_back() -> None:
    node = back_again()
    began = node.now_ns
    for left in (2, 1):
        answer(node, ask(node))
        assert node.told(Healed) == [], f"{left} more"
    answer(node, ask(node))
    away = (node.now_ns - began) // MILLISECOND_NS + 2_000
    assert node.told(Healed) == [Healed(B, away)]
    assert node.machine.is_counted_on(B)
    assert 4_000 < away < 6_000


def test_a_failure_sets_the_count_to_nothing() -> None:
    node = back_again()
    answer(node, ask(node))
    answer(node, ask(node))
    ask(node)
    answers = 0
    while not node.told(Healed):
        answer(node, ask(node))
        answers += 1
    assert answers == 3


def test_answers_of_another_id_of_another_node_or_too_late_count_for_nothing() -> None:
    node = back_again(GossipConfig(heal_confirmations=1))
    probe = ask(node)
    node.hear(B, BidirectionalAck(origin=A, id=probe.id + 1, responder=B))
    node.hear(C, BidirectionalAck(origin=A, id=probe.id, responder=C))
    node.hear(B, BidirectionalAck(origin=C, id=probe.id, responder=B))
    node.hear(C, BidirectionalAck(origin=A, id=probe.id, responder=B))
    assert not node.machine.is_counted_on(B)
    node.now_ns += 1_001 * MILLISECOND_NS
    answer(node, probe)
    assert not node.machine.is_counted_on(B)
    assert node.machine.stats["ignored: both ways"] == 4


def test_an_answer_at_the_last_moment_counts() -> None:
    node = back_again(GossipConfig(heal_confirmations=1))
    probe = ask(node)
    standing = node.machine.standing
    node.now_ns = standing.healing[B].due_ns
    answer(node, probe)
    assert node.machine.is_counted_on(B)


def test_hearing_it_is_one_way_and_not_enough() -> None:
    node = back_again()
    for _ in range(20):
        node.sync(B)
        node.take()
        node.advance(1_000)
        for to, ping in node.sent(Ping):
            node.hear(to, Pong(responder=to, sequence=ping.sequence))
    assert not node.machine.is_counted_on(B)


def test_where_both_directions_need_no_proof_pongs_are_enough() -> None:
    node = back_again(GossipConfig(require_bidirectional=False))
    for _ in range(12):
        node.advance(1_000)
        for to, ping in node.sent(Ping):
            node.hear(to, Pong(responder=to, sequence=ping.sequence))
        assert node.sent(BidirectionalProbe) == []
    assert node.machine.is_counted_on(B)


def test_a_probe_of_both_directions_is_answered_with_its_id() -> None:
    node = Driven("bc")
    node.take()
    node.hear(B, BidirectionalProbe(origin=B, id=5, time_ms=123))
    assert node.sent(BidirectionalAck) == [(B, BidirectionalAck(origin=B, id=5, responder=A))]


def test_a_node_that_fails_again_begins_anew_and_was_away_all_the_time() -> None:
    node = back_again()
    answer(node, ask(node))
    node.sync(C, word(B, Health.FAILED, 2, by=C))
    assert node.machine.standing.healing == {}
    node.hear(B, Alive(node_id=B, incarnation=3))
    for _ in range(3):
        assert not node.told(Healed)
        answer(node, ask(node))
    assert node.told(Healed)[0].away_ms > 4_000


def test_a_failed_node_that_is_reached_is_told_and_a_new_one_is_on_no_probation() -> None:
    node = Driven("bc")
    node.sync(C, word(B, Health.FAILED, 1, by=C))
    node.take()
    node.begin_probe(B)
    assert (B, Suspect(reporter=A, suspect=B, incarnation=1)) in node.sent(Suspect)
    node.introduce(C)
    assert node.machine.is_counted_on(C)


def test_who_comes_and_goes_is_held_back() -> None:
    node = Driven("bc", config=GossipConfig(heal_confirmations=1, flap_backoff_ms=9_000))
    node.introduce()
    for life in range(1, 4):
        node.sync(C, word(B, Health.FAILED, life, by=C))
        if life < 3:
            node.hear(B, Alive(node_id=B, incarnation=life + 1))
    assert node.told(Flapping) == [Flapping(B, 5, 9_000)]
    node.hear(B, Alive(node_id=B, incarnation=4))
    assert node.told(Flapping)[1:] == [Flapping(B, 6, 18_000)]
    began = node.now_ns
    while not node.machine.is_counted_on(B):
        if B in node.machine.standing.healing:
            answer(node, ask(node))
        assert node.now_ns - began < 25_000 * MILLISECOND_NS
    assert node.now_ns - began >= 18_000 * MILLISECOND_NS


@pytest.mark.parametrize("health", [Health.HEALTHY, Health.DEGRADED])
def test_only_failures_are_remembered(health: Health) -> None:
    standing = Standing(CONFIG)
    assert standing.change(B, Health.UNKNOWN, health, 0) is None
    assert standing.is_good(B, 0)
    standing.change(B, health, Health.FAILED, 0)
    standing.change(B, Health.FAILED, Health.HEALTHY, 1)
    assert not standing.is_good(B, 1)
    standing.forget(B)
    assert standing.is_good(B, 1)
    assert not standing.answer(B, 1, 1)
