"""What nodes tell each other: exactly these fields, none lost on the way."""

import msgspec
import pytest

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
    speaker,
)
from bobbin.cluster.names import NodeId

A, B, C = (NodeId(name) for name in "abc")
STATES = tuple(GossipNodeState(B, health, 7, 3, A) for health in Health)
MESSAGES: dict[GossipMessage, dict[str, object]] = {
    Sync(sender=A, states=STATES, sender_time=9): {"sender": A, "states": STATES, "sender_time": 9},
    Suspect(reporter=A, suspect=B, incarnation=5): {"reporter": A, "suspect": B, "incarnation": 5},
    Alive(node_id=A, incarnation=6): {"node_id": A, "incarnation": 6},
    Ping(origin=A, sequence=1): {"origin": A, "sequence": 1},
    Pong(responder=A, sequence=1): {"responder": A, "sequence": 1},
    PingReq(origin=A, target=B, sequence=4): {"origin": A, "target": B, "sequence": 4},
    PingAck(origin=A, target=B, sequence=4, success=False): {"origin": A, "target": B, "sequence": 4, "success": False},
    BidirectionalProbe(origin=A, id=8, time_ms=2): {"origin": A, "id": 8, "time_ms": 2},
    BidirectionalAck(origin=A, id=8, responder=B): {"origin": A, "id": 8, "responder": B},
}


@pytest.mark.parametrize("message", MESSAGES, ids=lambda message: type(message).__name__)
def test_a_message_has_its_fields_and_no_others_and_comes_back_whole(message: GossipMessage) -> None:
    assert {name: getattr(message, name) for name in message.__struct_fields__} == MESSAGES[message]
    assert msgspec.msgpack.decode(msgspec.msgpack.encode(message), type=type(message)) == message


def test_all_four_kinds_of_health_come_back_as_they_were() -> None:
    raw = msgspec.msgpack.encode(STATES)
    back = msgspec.msgpack.decode(raw, type=tuple[GossipNodeState, ...])
    assert [state.health for state in back] == [Health.UNKNOWN, Health.HEALTHY, Health.DEGRADED, Health.FAILED]
    assert back == STATES
    assert GossipNodeState.__struct_fields__ == ("node", "health", "timestamp", "incarnation", "writer")


def test_severity_rises_from_unknown_to_failed() -> None:
    assert sorted(Health) == [Health.UNKNOWN, Health.HEALTHY, Health.DEGRADED, Health.FAILED]


def test_a_message_says_in_whose_name_it_speaks() -> None:
    said = {type(message).__name__: speaker(message) for message in MESSAGES}
    assert said.pop("PingAck") is None, "it names who asked, and who was asked about"
    assert said.pop("BidirectionalAck") == B
    assert set(said.values()) == {A}
