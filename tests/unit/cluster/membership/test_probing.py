"""Probes: directly, then by way of others, ended by an answer with their own number and by nothing else."""

import pytest

from bobbin.cluster.membership.events import Tick
from bobbin.cluster.membership.messages import Health, Ping, PingAck, PingReq, Pong, Suspect
from bobbin.cluster.membership.probing import RELAYS_MAX, Probe, Relay, Relays
from bobbin.cluster.names import NodeId
from bobbin.cluster.settings import GossipConfig
from tests.unit.cluster.membership.driven import A, B, C, D, Driven, F


def driven(peers: str = "bcdf", *, config: GossipConfig | None = None) -> Driven:
    made = Driven(peers, config=config or GossipConfig())
    made.introduce()
    return made


def asked(node: Driven) -> list[NodeId]:
    return [to for to, _ in node.sent(PingReq)]


def ack(target: NodeId, sequence: int, *, success: bool) -> PingAck:
    return PingAck(origin=A, target=target, sequence=sequence, success=success)


def test_an_answer_in_time_asks_nobody() -> None:
    node = driven()
    sequence = node.begin_probe(B)
    node.hear(B, Pong(responder=B, sequence=sequence))
    node.take()
    node.advance(499)
    assert asked(node) == []
    assert node.machine.probe is None


def test_without_an_answer_three_others_are_asked_and_nobody_is_suspected() -> None:
    node = driven()
    sequence = node.begin_probe(B)
    node.take()
    node.advance(499)
    assert asked(node) == []
    node.advance(1)
    assert sorted(asked(node)) == [C, D, F]
    assert {message for _, message in node.sent(PingReq)} == {PingReq(origin=A, target=B, sequence=sequence)}
    assert node.health(B) is Health.HEALTHY
    assert node.sent(Suspect) == []


@pytest.mark.parametrize("count", [1, 2])
def test_as_many_are_asked_as_the_settings_say(count: int) -> None:
    node = driven(config=GossipConfig(indirect_ping_count=count))
    node.begin_probe(B)
    node.take()
    node.advance(500)
    assert len(asked(node)) == count


def test_who_has_failed_is_not_asked() -> None:
    node = driven("bcd")
    node.machine._write(C, Health.FAILED, 1)
    node.begin_probe(B)
    node.take()
    node.advance(500)
    assert asked(node) == [D]


def test_one_success_keeps_the_target_healthy_whatever_the_others_say() -> None:
    node = driven()
    sequence = node.begin_probe(B)
    node.advance(500)
    node.hear(C, ack(B, sequence, success=False))
    node.hear(D, ack(B, sequence, success=True))
    node.hear(F, ack(B, sequence, success=False))
    node.advance(500)
    assert node.health(B) is Health.HEALTHY
    assert node.machine.local_health.score == 0


def test_one_failed_answer_is_no_suspicion_and_all_of_them_are() -> None:
    node = driven()
    sequence = node.begin_probe(B)
    node.advance(500)
    for helper in (C, D):
        node.hear(helper, ack(B, sequence, success=False))
        node.hear(helper, ack(B, sequence, success=False))
        assert node.health(B) is Health.HEALTHY
    node.take()
    node.hear(F, ack(B, sequence, success=False))
    assert node.health(B) is Health.DEGRADED
    assert node.sent(Suspect) == [(to, Suspect(reporter=A, suspect=B, incarnation=1)) for to in (B, C, D, F)]
    assert node.machine.local_health.score == 0, "the others answered: it is not this node that is slow"


def test_after_500_ms_without_answers_the_target_is_suspected() -> None:
    node = driven()
    node.begin_probe(B)
    node.advance(500 + 499)
    assert node.health(B) is Health.HEALTHY
    node.advance(1)
    assert node.health(B) is Health.DEGRADED
    assert node.state(B).writer == A
    assert B in node.machine.suspicions
    assert node.machine.local_health.score == 3, "nobody who was asked has answered"


def test_the_time_for_answers_of_others_is_a_setting() -> None:
    node = driven(config=GossipConfig(indirect_ping_timeout_ms=200))
    node.begin_probe(B)
    node.advance(500 + 199)
    assert node.health(B) is Health.HEALTHY
    node.advance(1)
    assert node.health(B) is Health.DEGRADED


def test_answers_to_an_earlier_probe_have_no_effect() -> None:
    node = driven("bc")
    earlier = node.begin_probe(B)
    node.advance(500)
    node.hear(C, ack(B, earlier, success=True))
    sequence = node.begin_probe(B)
    node.advance(500)
    assert sequence != earlier
    node.hear(C, ack(B, earlier, success=True))
    node.hear(B, Pong(responder=B, sequence=earlier))
    assert node.machine.probe is not None
    assert node.machine.stats["ignored: ack"] == 1
    node.hear(C, ack(B, sequence, success=True))
    assert node.machine.probe is None


def test_only_those_asked_may_answer_and_only_to_who_asked() -> None:
    node = driven(config=GossipConfig(indirect_ping_count=1))
    sequence = node.begin_probe(B)
    node.take()
    node.advance(500)
    (helper,) = asked(node)
    stranger = next(one for one in (C, D, F) if one != helper)
    node.hear(stranger, ack(B, sequence, success=True))
    node.hear(helper, PingAck(origin=D, target=B, sequence=sequence, success=True))
    assert node.machine.probe is not None
    node.hear(helper, ack(B, sequence, success=True))
    assert node.machine.probe is None


def test_a_late_answer_of_the_target_still_ends_the_probe() -> None:
    node = driven()
    sequence = node.begin_probe(B)
    node.advance(700)
    node.hear(B, Pong(responder=B, sequence=sequence))
    node.advance(400)
    assert node.health(B) is Health.HEALTHY


def test_everybody_is_probed_once_in_as_many_periods_as_there_are_peers() -> None:
    node = driven()
    for _ in range(5):
        node.take()
        for _ in range(4):
            node.advance(1_000)
            for to, ping in node.sent(Ping)[-1:]:
                node.hear(to, Pong(responder=to, sequence=ping.sequence))
        assert sorted(to for to, _ in node.sent(Ping)) == [B, C, D, F]


def test_a_ping_is_answered_with_its_number() -> None:
    node = driven()
    node.take()
    node.hear(B, Ping(origin=B, sequence=77))
    assert node.sent(Pong) == [(B, Pong(responder=A, sequence=77))]


# ---- for others ----------------------------------------------------------------------------------------------------


def relayed(node: Driven) -> int:
    """C asks for B; the number of the ping that goes out."""
    node.take()
    node.hear(C, PingReq(origin=C, target=B, sequence=9))
    assert node.sent(PingAck) == [], "that a message was sent is no answer"
    ((to, ping),) = node.sent(Ping)
    assert to == B
    return ping.sequence


def test_a_probe_for_another_succeeds_when_the_target_answers() -> None:
    node = driven()
    number = relayed(node)
    assert number != 9
    node.hear(D, Pong(responder=D, sequence=number))
    node.hear(B, Pong(responder=B, sequence=number + 1))
    assert node.sent(PingAck) == []
    node.hear(B, Pong(responder=B, sequence=number))
    answer = PingAck(origin=C, target=B, sequence=9, success=True)
    assert node.sent(PingAck) == [(C, answer)]
    node.hear(B, Pong(responder=B, sequence=number))
    assert len(node.sent(PingAck)) == 1


def test_a_probe_for_another_fails_before_the_askers_time_is_over() -> None:
    node = driven()
    number = relayed(node)
    node.advance(374)
    assert node.sent(PingAck) == []
    node.advance(1)
    assert node.sent(PingAck) == [(C, PingAck(origin=C, target=B, sequence=9, success=False))]
    node.hear(B, Pong(responder=B, sequence=number))
    assert len(node.sent(PingAck)) == 1


def test_nobody_is_probed_for_a_stranger_or_in_another_name() -> None:
    node = driven("bc")
    node.take()
    node.hear(C, PingReq(origin=C, target=D, sequence=9))
    node.hear(D, PingReq(origin=D, target=B, sequence=9))
    node.hear(C, PingReq(origin=B, target=C, sequence=9))
    assert node.sent(Ping) == []
    assert sum(node.machine.stats.values()) - node.machine.stats["UNKNOWN to HEALTHY"] == 3


def test_probes_for_others_have_a_bound() -> None:
    relays = Relays()
    for number in range(RELAYS_MAX):
        assert relays.add(number, Relay(C, B, number, due_ns=5))
    assert not relays.add(RELAYS_MAX, Relay(C, B, 0, due_ns=5))
    assert relays.due_ns == 5
    assert len(relays.expire(5)) == RELAYS_MAX
    assert len(relays) == 0
    assert relays.due_ns is None


def test_a_probe_has_failed_when_everybody_says_so() -> None:
    probe = Probe(target=B, sequence=1, began_ns=0, due_ns=1, failed=set())
    assert not probe.has_failed
    probe.asked = ()
    assert not probe.has_failed, "nobody could be asked: the time decides"
    probe.asked = (C, D)
    probe.failed = {C}
    assert not probe.has_failed
    probe.failed = {C, D}
    assert probe.has_failed


def test_a_node_that_slept_blames_nobody_for_it() -> None:
    node = driven()
    sequence = node.begin_probe(B)
    node.now_ns += 3_000_000_000
    node.step(Tick())
    node.step(Tick())
    assert node.health(B) is Health.HEALTHY
    assert node.machine.local_health.score == 1
    node.hear(B, Pong(responder=B, sequence=sequence))
    assert node.machine.probe is None
