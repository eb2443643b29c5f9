"""The witness of one life sees broken rules: each is planted in what a node says, and named."""

from typing import NoReturn

import pytest

from bobbin.cluster.membership.effects import Effect, Flapping, Healed, Send
from bobbin.cluster.membership.events import Event, Heard, Tick
from bobbin.cluster.membership.messages import (
    Alive,
    BidirectionalAck,
    BidirectionalProbe,
    GossipMessage,
    GossipNodeState,
    Health,
    Ping,
    PingAck,
    PingReq,
    Pong,
    Suspect,
    Sync,
)
from bobbin.cluster.names import NodeId
from bobbin.simulator.membership_witness import Witness
from bobbin.simulator.world import Broken
from tests.unit.cluster.membership.driven import A, B, C, D, Driven, word


def _fail(message: str) -> NoReturn:
    raise Broken(message)


class Witnessed(Driven):
    """A machine whose every step is witnessed."""

    def __init__(self, peers: str = "bcd") -> None:
        self.witness: Witness | None = None
        super().__init__(peers)
        self.introduce()

    def look(self, event: Event, effects: list[Effect]) -> None:
        if self.witness is None:
            self.witness = Witness(self.machine, _fail)
        self.witness.look(event, effects, self.now_ns)

    def pretend(self, event: Event, *effects: Effect) -> None:
        """As if a step had done this."""
        self.look(event, list(effects))

    def put(self, state: GossipNodeState) -> None:
        """As if the step had written it."""
        self.machine.table.states[state.node] = state
        self.machine.table.version += 1


def heard(sender: NodeId, message: GossipMessage) -> Heard:
    return Heard(sender, message)


def test_an_honest_life_breaks_no_rule() -> None:
    node = Witnessed()
    for _ in range(200):
        node.take()
        node.advance(100)
        for to, ping in node.sent(Ping):
            if to != B:
                node.hear(to, Pong(responder=to, sequence=ping.sequence))
        for to, request in node.sent(PingReq):
            answer = PingAck(origin=A, target=request.target, sequence=request.sequence, success=False)
            node.hear(to, answer)
    assert node.health(B) is Health.FAILED
    node.hear(B, Alive(node_id=B, incarnation=2))
    for _ in range(60):
        node.take()
        node.advance(100)
        for to, ping in node.sent(Ping):
            node.hear(to, Pong(responder=to, sequence=ping.sequence))
        for to, probe in node.sent(BidirectionalProbe):
            node.hear(to, BidirectionalAck(origin=A, id=probe.id, responder=to))
    assert node.machine.is_counted_on(B)
    assert node.witness is not None
    assert node.witness.is_of(node.machine)


@pytest.mark.parametrize(
    ("sends", "complaint"),
    [
        ([B], "gossips to"),
        ([B, C, C], "gossips to"),
    ],
)
def test_rounds_to_too_few(sends: list[NodeId], complaint: str) -> None:
    node = Witnessed("bcdf")
    sync = Sync(sender=A, states=tuple(node.machine.table.states.values()), sender_time=99)
    with pytest.raises(Broken, match=complaint):
        node.pretend(Tick(), *(Send(to, sync) for to in sends))


def test_states_in_the_wrong_order_or_number() -> None:
    node = Witnessed()
    node.sync(D, word(D, Health.HEALTHY, 2, at=30))
    states = sorted(node.machine.table.states.values(), key=lambda state: state.timestamp)
    for told, complaint in ((states, "in the order"), (states[:2], "tells 2 states of 4")):
        sync = Sync(sender=A, states=tuple(told), sender_time=99)
        with pytest.raises(Broken, match=complaint):
            node.pretend(Tick(), *(Send(to, sync) for to in (B, C, D)))


def test_a_suspect_that_is_contacted_and_not_told() -> None:
    node = Witnessed()
    node.hear(C, Suspect(reporter=C, suspect=B, incarnation=1))
    with pytest.raises(Broken, match="does not say so"):
        node.pretend(Tick(), Send(B, Ping(origin=A, sequence=5)))


def test_probes_that_come_too_soon_or_ask_too_soon() -> None:
    node = Witnessed()
    sequence = node.begin_probe(B)
    with pytest.raises(Broken, match="asks others before"):
        node.pretend(Tick(), Send(C, PingReq(origin=A, target=B, sequence=sequence)))
    with pytest.raises(Broken, match="which it does not probe"):
        node.pretend(Tick(), Send(C, PingReq(origin=A, target=D, sequence=sequence)))
    with pytest.raises(Broken, match="probes again"):
        node.pretend(Tick(), Send(C, Ping(origin=A, sequence=sequence + 1)))


def test_a_suspicion_without_a_failed_probe() -> None:
    node = Witnessed()
    node.put(word(B, Health.DEGRADED, 1, at=node.machine.table.tick(), by=A))
    with pytest.raises(Broken, match="no probe of it has failed"):
        node.pretend(Tick())


def test_words_that_the_node_may_not_write() -> None:
    for state, complaint in (
        (word(B, Health.HEALTHY, 2, at=9, by=A), "which b has not said"),
        (word(B, Health.DEGRADED, 1, at=9, by=C), "in another's name"),
        (word(B, Health.FAILED, 1, at=9, by=A), "the timer that runs is None"),
    ):
        node = Witnessed()
        node.put(state)
        with pytest.raises(Broken, match=complaint):
            node.pretend(Tick())


def test_a_failure_before_its_time() -> None:
    node = Witnessed()
    node.hear(C, Suspect(reporter=C, suspect=B, incarnation=1))
    node.put(word(B, Health.FAILED, 1, at=node.machine.table.tick(), by=A))
    del node.machine.suspicions[B]
    with pytest.raises(Broken, match="fails b after 0 ns"):
        node.pretend(Tick())


def test_timers_that_are_missing_too_short_or_too_long() -> None:
    node = Witnessed()
    node.hear(C, Suspect(reporter=C, suspect=B, incarnation=1))
    suspicion = node.machine.suspicions[B]
    suspicion.due_ns += 1
    with pytest.raises(Broken, match="too long"):
        node.pretend(Tick())
    suspicion.due_ns -= 2
    with pytest.raises(Broken, match="too short"):
        node.pretend(Tick())
    del node.machine.suspicions[B]
    with pytest.raises(Broken, match="no timer runs"):
        node.pretend(Tick())


def test_reports_of_probes_that_were_not_made() -> None:
    node = Witnessed()
    done = PingAck(origin=C, target=B, sequence=3, success=True)
    with pytest.raises(Broken, match="which nobody asked for"):
        node.pretend(Tick(), Send(C, done))
    with pytest.raises(Broken, match="was asked to probe b"):
        node.pretend(heard(C, PingReq(origin=C, target=B, sequence=3)))
    node.hear(C, PingReq(origin=C, target=B, sequence=3))
    with pytest.raises(Broken, match="without having heard b"):
        node.pretend(Tick(), Send(C, done))


def test_answers_to_what_is_said_in_anothers_name() -> None:
    node = Witnessed()
    with pytest.raises(Broken, match="in another's name"):
        node.pretend(heard(C, Ping(origin=B, sequence=3)), Send(C, Pong(responder=A, sequence=3)))


def test_a_node_that_is_counted_on_too_soon() -> None:
    node = Witnessed()
    with pytest.raises(Broken, match="which was not away"):
        node.pretend(Tick(), Healed(B, 5))
    with pytest.raises(Broken, match="which has not come back"):
        node.pretend(Tick(), Send(B, BidirectionalProbe(origin=A, id=1, time_ms=1)))
    node.sync(C, word(B, Health.FAILED, 1, by=C))
    node.hear(B, Alive(node_id=B, incarnation=2))
    with pytest.raises(Broken, match="after 0 answers"):
        node.pretend(Tick(), Healed(B, 0))
    node = Witnessed()
    node.sync(C, word(B, Health.FAILED, 1, by=C))
    with pytest.raises(Broken, match="at transition 1"):
        node.pretend(Tick(), Flapping(B, 5, 1_000))
    node.hear(B, Alive(node_id=B, incarnation=2))
    node.machine.standing.healing.clear()
    with pytest.raises(Broken, match="has not proven that it is back"):
        node.pretend(Tick())


def test_a_probe_that_ends_for_no_reason() -> None:
    node = Witnessed()
    node.begin_probe(B)
    node.machine.probe = None
    with pytest.raises(Broken, match="does not mind"):
        node.pretend(Tick())
