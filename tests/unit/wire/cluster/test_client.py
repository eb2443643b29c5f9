"""Requests and answers: many in a frame, each the same after the journey, and bounds on every field."""

from typing import get_args

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bobbin.cluster import operations
from bobbin.cluster.names import NodeId
from bobbin.cluster.operations import Transaction
from bobbin.cluster.raft.entries import Configuration
from bobbin.errors import UsageError
from bobbin.wire.cluster import client
from bobbin.wire.cluster.chain import ChainAnswer, ChainCommit, ChainRequest
from bobbin.wire.cluster.client import (
    GREETING,
    KEY_BYTES_MAX,
    REPLACED_MAX,
    REQUESTS_MAX,
    ROWS_MAX,
    VALUE_BYTES_MAX,
    Add,
    AddListener,
    Answer,
    CompareAndSwap,
    Delete,
    Done,
    Get,
    Invite,
    Joined,
    Members,
    PeerReport,
    Promote,
    Put,
    Rejected,
    Remove,
    Renew,
    Replace,
    Report,
    Request,
    Row,
    Rows,
    Scan,
    Snapshot,
    Status,
    Transfer,
    Unknown,
    Value,
    decode_answers,
    decode_requests,
    encode_answers,
    encode_requests,
)
from bobbin.wire.cluster.faults import MessageRefused, Refusal
from bobbin.wire.cluster.lace import LaceRequest
from tests.support.cluster_wire import ALICE, BOB, CONFIGURATION, refusal_of

REQUESTS: tuple[Request, ...] = (
    Put(1, b"key", b"value", b"client", 7),
    Delete(2, b"key", b"", 0),
    CompareAndSwap(3, b"key", None, b"value", b"client", 8),
    CompareAndSwap(4, b"key", b"value", None, b"client", 9),
    Get(5, b"key", linearizable=False),
    Scan(6, b"prefix", b"prefix-after", 10, linearizable=False),
    Status(7),
    Transfer(8, BOB.node),
    Add(9, b"certificate", "tls:example:1", b"operator"),
    Promote(10, BOB.node),
    Remove(11, BOB.node),
    Snapshot(12),
    Invite(2**64 - 1, b"certificate", 1_700_000_000_000),
    Members(13),
    Renew(14, b"certificate", b"another"),
    Replace(15, (ALICE.node,), (BOB.node, NodeId("x"))),
    Replace(16, (), ()),
    AddListener(17, b"certificate", "tls:example:1", b"operator"),
)
ANSWERS: tuple[Answer, ...] = (
    Done(1, 40, b"result"),
    Value(2, b"value", 39, 40),
    Value(3, None, 0, 40),
    Rows(4, (Row(b"a", b"1", 3), Row(b"b", b"", 4)), is_whole=False, index=40),
    Rejected(5, "not-leader", "ask the leader", ALICE.node, "tls:example:1"),
    Rejected(6, "no-quorum", ""),
    Unknown(7, "leadership was lost", ALICE.node, None),
    Joined(8, b"members"),
    Report(
        9,
        node=ALICE.node,
        role="leader",
        term=3,
        leader=ALICE.node,
        leader_address="tls:example:1",
        commit_index=40,
        applied_index=39,
        first_index=1,
        last_index=41,
        snapshot_index=0,
        configuration=CONFIGURATION,
        root=bytes(32),
        peers=(
            PeerReport(
                BOB.node,
                "tls:example:2",
                "healthy",
                is_linked=True,
                match_index=40,
                next_index=41,
                contact_ms=12,
                failures=0,
            ),
        ),
        problems=("one voter is not linked",),
        counters={"commits": 3, "fast_path_rate": 0.5},
    ),
)


def test_every_request_is_the_same_after_the_journey_alone_and_together() -> None:
    for request in REQUESTS:
        assert decode_requests(encode_requests([request])) == [request]
    assert decode_requests(encode_requests(REQUESTS)) == list(REQUESTS)
    others = {*get_args(ChainRequest), *get_args(LaceRequest)}
    assert {type(request) for request in REQUESTS} == set(Request.__args__) - others


def test_every_answer_is_the_same_after_the_journey_alone_and_together() -> None:
    for answer in ANSWERS:
        assert decode_answers(encode_answers([answer])) == [answer]
    assert decode_answers(encode_answers(ANSWERS)) == list(ANSWERS)
    assert {type(answer) for answer in ANSWERS} == set(Answer.__args__) - {*get_args(ChainAnswer)}


def test_the_kinds_never_change_their_numbers() -> None:
    def tags(items: tuple[Request, ...] | tuple[Answer, ...]) -> dict[object, str]:
        return {msgspec.msgpack.decode(msgspec.msgpack.encode(item))[0]: type(item).__name__ for item in items}

    assert tags(REQUESTS) == {
        1: "Put",
        2: "Delete",
        3: "CompareAndSwap",
        4: "Get",
        5: "Scan",
        16: "Status",
        17: "Transfer",
        18: "Add",
        19: "Promote",
        20: "Remove",
        21: "Snapshot",
        22: "Invite",
        23: "Members",
        24: "Renew",
        25: "Replace",
        26: "AddListener",
    }
    assert tags(ANSWERS) == {
        1: "Done",
        2: "Value",
        3: "Rows",
        4: "Rejected",
        5: "Unknown",
        6: "Joined",
        16: "Report",
    }


def test_a_put_is_these_bytes() -> None:
    assert (
        encode_requests([Put(5, b"k", b"v", b"c", 6)]).hex()
        == "91" + "96" + "01" + "05" + "c4016b" + "c40176" + "c40163" + "06"
    )


@pytest.mark.parametrize(
    "request_",
    [
        Put(1, b"", b"", b"", 0),
        Put(1, bytes(KEY_BYTES_MAX + 1), b"", b"", 0),
        Put(1, b"k", bytes(VALUE_BYTES_MAX + 1), b"", 0),
        Put(1, b"k", b"", bytes(65), 0),
        Delete(1, b"", b"", 0),
        Delete(1, b"k", bytes(65), 0),
        CompareAndSwap(1, b"k", None, bytes(VALUE_BYTES_MAX + 1), b"", 0),
        CompareAndSwap(1, b"k", bytes(VALUE_BYTES_MAX + 1), None, b"", 0),
        Get(1, bytes(KEY_BYTES_MAX + 1)),
        Scan(1, bytes(KEY_BYTES_MAX + 1), b""),
        Scan(1, b"", bytes(KEY_BYTES_MAX + 1)),
        Scan(1, b"", b"", 0),
        Scan(1, b"", b"", ROWS_MAX + 1),
        Replace(1, (NodeId("x"),) * (REPLACED_MAX + 1), ()),
        Replace(1, (), (NodeId("x"),) * (REPLACED_MAX + 1)),
    ],
)
def test_what_no_node_would_take_is_refused_on_both_sides(request_: Request) -> None:
    """CL-348 at the door of clients."""
    with pytest.raises(UsageError):
        encode_requests([Status(1), request_])
    raw = msgspec.msgpack.encode([Status(1), request_])
    assert refusal_of(lambda: decode_requests(raw)) is Refusal.UNREADABLE


@pytest.mark.parametrize(
    "raw",
    [
        Transfer(1, NodeId("")),
        Transfer(1, NodeId("x" * 257)),
        Remove(1, NodeId("")),
        Promote(1, NodeId("")),
        Add(1, bytes(client.CERTIFICATE_BYTES_MAX + 1), "", b""),
        Add(1, b"", "x" * (client.TEXT_CHARACTERS_MAX + 1), b""),
        Invite(1, b"", -1),
        AddListener(1, bytes(client.CERTIFICATE_BYTES_MAX + 1), "", b""),
        Renew(1, bytes(client.CERTIFICATE_BYTES_MAX + 1), b""),
        Renew(1, b"", bytes(client.CERTIFICATE_BYTES_MAX + 1)),
        Replace(1, (NodeId(""),), ()),
        Replace(1, (), (NodeId("x" * 257),)),
        [25, 1, "x", []],
        [25, 1, []],
        [24, 1, b""],
        Status(-1),
        [1, 2],
        [99, 1],
        [16],
        [16, 1, 2],
        [16, "1"],
        {"number": 1},
        None,
    ],
)
def test_requests_out_of_shape_are_refused(raw: object) -> None:
    assert refusal_of(lambda: decode_requests(msgspec.msgpack.encode([raw]))) is Refusal.UNREADABLE


def test_the_longest_keys_and_values_pass() -> None:
    put = Put(1, bytes(KEY_BYTES_MAX), bytes(VALUE_BYTES_MAX), bytes(64), 2**64 - 1)
    assert decode_requests(encode_requests([put])) == [put]
    assert (KEY_BYTES_MAX, VALUE_BYTES_MAX, ROWS_MAX) == (4_096, 1_048_576, 1_000)


def test_a_node_may_have_a_lower_bound_on_keys() -> None:
    """CL-348."""
    raw = encode_requests([Status(1), Put(1, b"four", b"", b"", 0), Get(2, b"fives")])
    assert len(decode_requests(raw, key_bytes_max=5)) == 3
    with pytest.raises(MessageRefused) as caught:
        decode_requests(raw, key_bytes_max=4)
    assert (caught.value.refusal, caught.value.field) == (Refusal.KEY, "key")


def test_the_number_of_requests_in_a_frame_is_bounded() -> None:
    many = [Status(number) for number in range(REQUESTS_MAX)]
    assert decode_requests(encode_requests(many)) == many
    for wrong in ([], [*many, Status(0)]):
        with pytest.raises(UsageError):
            encode_requests(wrong)
        assert refusal_of(decode_requests, msgspec.msgpack.encode(wrong)) is Refusal.UNREADABLE


def test_a_node_that_answers_nothing_greets() -> None:
    assert encode_answers([]) == GREETING
    assert decode_answers(GREETING) == []


def test_a_frame_that_is_too_long_is_refused_on_both_sides() -> None:
    put = Put(1, b"k", bytes(VALUE_BYTES_MAX), b"", 0)
    with pytest.raises(UsageError, match="would have"):
        encode_requests([put] * 17)
    raw = msgspec.msgpack.encode([put] * 17)
    assert refusal_of(lambda: decode_requests(raw)) is Refusal.OVERSIZED
    assert refusal_of(lambda: decode_answers(raw)) is Refusal.OVERSIZED


@pytest.mark.parametrize("wrong", [Status(2**64), Transfer(1, NodeId("\ud800"))])
def test_what_cannot_be_written_is_refused(wrong: Request) -> None:
    with pytest.raises(UsageError):
        encode_requests([wrong])


@pytest.mark.parametrize("data", [b"", bytes(200), bytes(70_000)])
def test_the_weight_of_a_transaction_is_not_below_its_bytes(data: bytes) -> None:
    most = 2**63 - 1
    for since, priority in ((0, 0), (most, most), (most, -most)):
        put = Transaction(bytes(16), (operations.Put(bytes(4_096), data),), (), since, since, priority)
        both = Transaction(bytes(16), (*put.operations, operations.Delete(b"k")), (), since, since, priority)
        for transaction in (put, both):
            request = ChainCommit(2**64 - 1, transaction)
            assert len(encode_requests([request])) <= client.weight(request) <= len(data) + 4_096 + 16 + 100


@pytest.mark.parametrize(
    "wrong",
    [
        Transaction(bytes(16), (operations.Put(b"k", b"v"),), (), 2**64),
        Transaction(bytes(16), (operations.Put(b"k", b"v"),), (), 0, 2**64),
        Transaction(bytes(16), (operations.Put(b"k", b"v"),), (), 0, 0, -(2**64)),
        Transaction(bytes(16), (operations.Put(b"k", bytes(client.CHAIN_BYTES_MAX)),)),
    ],
)
def test_a_transaction_that_no_frame_takes_is_refused_before_it_stands_among_others(wrong: Transaction) -> None:
    with pytest.raises(UsageError):
        client.weight(ChainCommit(1, wrong))


@given(st.binary(max_size=120))
def test_other_bytes_are_refused_and_raise_nothing_else(raw: bytes) -> None:
    """CL-272."""
    if refusal_of(decode_requests, raw) is None:
        requests = decode_requests(raw)
        assert decode_requests(encode_requests(requests)) == requests
    if refusal_of(decode_answers, raw) is None:
        answers = decode_answers(raw)
        assert decode_answers(encode_answers(answers)) == answers


def test_texts_that_are_none_are_refused() -> None:
    """CL-272."""
    for decode, raw in (
        (decode_requests, encode_requests([Transfer(1, NodeId("abcd"))])),
        (decode_answers, encode_answers([Rejected(1, "abcd", "")])),
    ):
        assert refusal_of(decode, raw) is None
        assert refusal_of(decode, raw.replace(b"abcd", b"ab\xff\xfe")) is Refusal.UNREADABLE


def test_a_configuration_travels_in_a_report() -> None:
    report = ANSWERS[-1]
    assert isinstance(report, Report)
    (found,) = decode_answers(encode_answers([report]))
    assert isinstance(found, Report)
    assert found.configuration == Configuration(CONFIGURATION.voters, CONFIGURATION.learners)
