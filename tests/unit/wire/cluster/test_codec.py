"""Payloads: every message survives the journey with every field, and everything else is refused."""

from typing import get_args

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bobbin.cluster.membership.messages import (
    Alive,
    GossipMessage,
    GossipNodeState,
    Health,
    PingAck,
    PingReq,
    Suspect,
    Sync,
)
from bobbin.cluster.names import Index, NodeId, Term
from bobbin.cluster.raft.messages import (
    AppendAnswer,
    AppendEntries,
    PreVote,
    PreVoteAnswer,
    RaftMessage,
    RequestVote,
    TimeoutNow,
    VoteAnswer,
)
from bobbin.errors import UsageError
from bobbin.wire.cluster import codec
from bobbin.wire.cluster.codec import (
    ENTRIES_MAX,
    KINDS,
    LONG_BYTES_MAX,
    SHORT_BYTES_MAX,
    Hello,
    Message,
    decode,
    encode,
)
from bobbin.wire.cluster.faults import MessageRefused, Refusal
from tests.support.cluster_wire import ALICE, BOB, CAROL, append, entry, messages, refusal_of


@pytest.mark.parametrize("message", messages(), ids=lambda message: type(message).__name__)
def test_every_message_is_the_same_after_the_journey(message: Message) -> None:
    """CL-025, CL-098, CL-100: byte for byte the same payload, and every field of it counts."""
    number, payload = encode(message)
    assert decode(number, payload) == message
    assert encode(decode(number, payload)) == (number, payload)
    assert number == codec.number_of(message)


def test_there_is_one_message_of_every_type_above() -> None:
    assert [kind.message for kind in KINDS] == [type(message) for message in messages()]
    assert {kind.message for kind in KINDS} == {Hello, *get_args(RaftMessage), *get_args(GossipMessage)}


def test_the_numbers_of_types_never_change() -> None:
    assert {kind.number: kind.message.__name__ for kind in KINDS} == {
        1: "Hello",
        16: "PreVote",
        17: "PreVoteAnswer",
        18: "RequestVote",
        19: "VoteAnswer",
        20: "TimeoutNow",
        21: "AppendEntries",
        22: "AppendAnswer",
        23: "SnapshotOffer",
        24: "SnapshotRequest",
        25: "SnapshotChunk",
        32: "Sync",
        33: "Suspect",
        34: "Alive",
        35: "Ping",
        36: "Pong",
        37: "PingReq",
        38: "PingAck",
        39: "BidirectionalProbe",
        40: "BidirectionalAck",
    }


@pytest.mark.parametrize(
    ("message", "fields"),
    [
        (PreVote, "term candidate last_index last_term request embedding"),
        (RequestVote, "term candidate last_index last_term request is_transfer embedding"),
        (PreVoteAnswer, "term granted voter request"),
        (VoteAnswer, "term granted voter request"),
        (TimeoutNow, "term leader"),
        (AppendEntries, "term leader previous_index previous_term entries commit round"),
        (AppendAnswer, "term success follower match_index round used_fast_path"),
        (Sync, "sender states sender_time"),
        (Suspect, "reporter suspect incarnation"),
        (Alive, "node_id incarnation"),
        (PingReq, "origin target sequence"),
        (PingAck, "origin target sequence success"),
    ],
)
def test_the_fields_on_the_wire_are_these(message: type[Message], fields: str) -> None:
    """CL-025, CL-098: a field that is left out of the payload is missed."""
    sample = next(one for one in messages() if type(one) is message)
    number, payload = encode(sample)
    said = msgspec.msgpack.decode(payload)
    assert set(said) == set(fields.split())
    optional = {"embedding", "is_transfer", "used_fast_path"}
    for name in said:
        without = {key: value for key, value in said.items() if key != name}
        if name in optional:
            assert decode(number, msgspec.msgpack.encode(without)) != sample
        else:
            assert refusal_of(decode, number, msgspec.msgpack.encode(without)) is Refusal.UNREADABLE


@pytest.mark.parametrize("health", Health)
def test_every_health_is_told_apart(health: Health) -> None:
    """CL-100: four values, and nothing beside them."""
    state = GossipNodeState(ALICE.node, health, 5, 6, BOB.node)
    told = Sync(sender=ALICE.node, states=(state,), sender_time=7)
    found = decode(*encode(told))
    assert isinstance(found, Sync)
    assert found.states[0].health is health
    assert (found.states[0].node, found.states[0].timestamp, found.states[0].incarnation) == (ALICE.node, 5, 6)
    assert [one.name for one in Health] == ["UNKNOWN", "HEALTHY", "DEGRADED", "FAILED"]
    number, payload = encode(told)
    for other in (-1, 4, 255, "FAILED", None):
        said = msgspec.msgpack.decode(payload)
        assert said["states"][0][1] == health
        said["states"][0][1] = other
        assert refusal_of(decode, number, msgspec.msgpack.encode(said)) is Refusal.UNREADABLE


def test_a_type_that_is_not_known_is_refused() -> None:
    """CL-266."""
    known = {kind.number for kind in KINDS}
    for number in (0, 2, 15, 26, 31, 41, 48, 65_535):
        assert number not in known
        assert refusal_of(decode, number, b"\x80") is Refusal.UNKNOWN_TYPE


@given(st.sampled_from([kind.number for kind in KINDS]), st.binary(max_size=200))
def test_other_bytes_are_refused_and_raise_nothing_else(number: int, payload: bytes) -> None:
    """CL-272."""
    try:
        message = decode(number, payload)
    except MessageRefused as refused:
        assert refused.refusal is Refusal.UNREADABLE  # noqa: PT017 -- both ways are right here
    else:
        assert decode(*encode(message)) == message


@pytest.mark.parametrize("message", messages(), ids=lambda message: type(message).__name__)
def test_an_id_that_is_no_text_is_refused(message: Message) -> None:
    """CL-272: the library raises another error for it than for everything else."""
    number, payload = encode(message)
    for node in (ALICE.node, BOB.node, CAROL.node):
        bad = payload.replace(node.encode(), b"\xff" + node[1:].encode())
        assert refusal_of(decode, number, bad) is (Refusal.UNREADABLE if bad != payload else None)


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.message.__name__)
def test_a_payload_that_is_too_long_is_refused_unread(kind: codec.Kind) -> None:
    """CL-265: by its length alone."""
    raw = b"\xc1" * (kind.payload_bytes_max + 1)
    assert refusal_of(lambda: decode(kind.number, raw)) is Refusal.OVERSIZED
    assert refusal_of(lambda: decode(kind.number, raw[:-1])) is Refusal.UNREADABLE
    assert kind.payload_bytes_max <= LONG_BYTES_MAX


def test_more_entries_than_anybody_sends_are_not_built() -> None:
    """CL-349, CL-265: they are counted before the first of them is looked at."""
    number, payload = encode(append(entry(11)))
    one = b"\x91\x93\x03\x0b\xc4\x01x"
    assert one in payload
    many = b"\xdd" + (ENTRIES_MAX + 1).to_bytes(4, "big") + b"\xc1" * (ENTRIES_MAX + 1)
    with pytest.raises(MessageRefused, match=f"<= {ENTRIES_MAX}"):
        decode(number, payload.replace(one, many))


def test_a_thousand_entries_pass() -> None:
    message = append(*(entry(index) for index in range(11, 1_011)))
    assert decode(*encode(message)) == message


def test_what_nobody_would_take_is_not_sent() -> None:
    for message in (
        TimeoutNow(term=Term(2**64), leader=ALICE.node),
        TimeoutNow(term=Term(3), leader=NodeId("\ud800")),
        TimeoutNow(term=Term(3), leader=NodeId("x" * SHORT_BYTES_MAX)),
        AppendAnswer(term=Term(3), success=True, follower=ALICE.node, match_index=Index(2**70), round=1),
    ):
        with pytest.raises(UsageError):
            encode(message)
