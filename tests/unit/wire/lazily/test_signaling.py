"""The frames of signaling: their texts in both directions, and what is refused."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bobbin.errors import UsageError
from bobbin.reactive.messages import U64_MAX, PeerId
from bobbin.reactive.signaling_frames import (
    CAPABILITIES_MAX,
    CAPABILITY_BYTES_MAX,
    Answer,
    ClientFrame,
    Code,
    ForwardedAnswer,
    ForwardedIce,
    ForwardedOffer,
    ForwardedRelay,
    Ice,
    Join,
    Leave,
    Offer,
    PeerJoined,
    PeerLeft,
    Refusal,
    Relay,
    ServerFrame,
    Welcome,
)
from bobbin.wire.lazily.faults import Fault, FrameFault, OversizedFrame
from bobbin.wire.lazily.signaling import decode_client, decode_server, encode_client, encode_server
from tests.support.lazily_messages import broken_objects

ONE, TWO = PeerId(1), PeerId(2)
SDP = "v=0\r\no=- 1 2 IN IP4 127.0.0.1\r\n"
SDP_TEXT = '"v=0\\r\\no=- 1 2 IN IP4 127.0.0.1\\r\\n"'
ANYTHING = b'{ "b":1.0,"a" : [null,1e2, "\\u00e9"],"a":{}}'
CODES = ["bad_message", "not_joined", "already_joined", "duplicate_peer", "unknown_target", "permission_denied"]

CLIENT: list[tuple[ClientFrame, str]] = [
    (Join(peer=ONE), '{"type":"join","peer":1}'),
    (Join(peer=ONE, capabilities=("crdt", "é")), '{"type":"join","peer":1,"capabilities":["crdt","é"]}'),
    (Join(peer=ONE, capabilities=()), '{"type":"join","peer":1,"capabilities":[]}'),
    (Offer(to=TWO, sdp=SDP), f'{{"type":"offer","to":2,"sdp":{SDP_TEXT}}}'),
    (Answer(to=TWO, sdp=SDP), f'{{"type":"answer","to":2,"sdp":{SDP_TEXT}}}'),
    (Ice(to=TWO, candidate="candidate:1"), '{"type":"ice","to":2,"candidate":"candidate:1"}'),
    (Relay(to=TWO, payload=b'{"any":"json"}'), '{"type":"relay","to":2,"payload":{"any":"json"}}'),
    (Relay(to=TWO, payload=b"null"), '{"type":"relay","to":2,"payload":null}'),
    (Leave(), '{"type":"leave"}'),
]
SERVER: list[tuple[ServerFrame, str]] = [
    (Welcome(peer=TWO, peers=(ONE, PeerId(3))), '{"type":"welcome","peer":2,"peers":[1,3]}'),
    (Welcome(peer=ONE, peers=()), '{"type":"welcome","peer":1,"peers":[]}'),
    (PeerJoined(peer=TWO), '{"type":"peer-joined","peer":2}'),
    (PeerLeft(peer=TWO), '{"type":"peer-left","peer":2}'),
    (ForwardedOffer(sender=ONE, sdp=SDP), f'{{"type":"offer","from":1,"sdp":{SDP_TEXT}}}'),
    (ForwardedAnswer(sender=ONE, sdp=SDP), f'{{"type":"answer","from":1,"sdp":{SDP_TEXT}}}'),
    (ForwardedIce(sender=ONE, candidate="c"), '{"type":"ice","from":1,"candidate":"c"}'),
    (ForwardedRelay(sender=ONE, payload=b"[1]"), '{"type":"relay","from":1,"payload":[1]}'),
    *[
        (Refusal(code=Code(code), message="why"), f'{{"type":"error","code":"{code}","message":"why"}}')
        for code in CODES
    ],
]


@pytest.mark.parametrize(("frame", "text"), CLIENT, ids=[text for _, text in CLIENT])
def test_frames_of_clients(frame: ClientFrame, text: str) -> None:
    """RX-084 to RX-088."""
    assert encode_client(frame) == text.encode()
    assert decode_client(text.encode()) == frame


@pytest.mark.parametrize(("frame", "text"), SERVER, ids=[text for _, text in SERVER])
def test_frames_of_the_room(frame: ServerFrame, text: str) -> None:
    """RX-089 to RX-093, RX-148."""
    assert encode_server(frame) == text.encode()
    assert decode_server(text.encode()) == frame


def test_the_codes_of_errors_are_closed() -> None:
    """RX-148."""
    assert [code.value for code in Code] == CODES
    assert refused_server('{"type":"error","code":"unknown_frame","message":""}') is Fault.MALFORMED


def refused_client(text: str) -> Fault:
    with pytest.raises(FrameFault) as caught:
        decode_client(text.encode())
    return caught.value.fault


def refused_server(text: str) -> Fault:
    with pytest.raises(FrameFault) as caught:
        decode_server(text.encode())
    return caught.value.fault


@pytest.mark.parametrize("text", [text for _, text in CLIENT if "any" not in text])
def test_a_clients_frame_with_a_field_too_many_or_too_few_or_twice_is_refused(text: str) -> None:
    broken = list(broken_objects(text, optional={"capabilities"}))
    assert {refused_client(one) for one in broken} == {Fault.MALFORMED}


@pytest.mark.parametrize("text", [text for _, text in SERVER])
def test_a_frame_of_the_room_with_a_field_too_many_or_too_few_or_twice_is_refused(text: str) -> None:
    broken = list(broken_objects(text, optional=()))
    assert {refused_server(one) for one in broken} == {Fault.MALFORMED}


def test_nobody_says_who_he_is() -> None:
    """RX-094, RX-149: a client's frame has no ``from``, beside ``to`` or instead of it."""
    for text in (
        '{"type":"offer","to":2,"from":9,"sdp":""}',
        '{"type":"offer","from":9,"sdp":""}',
        '{"type":"leave","from":9}',
        '{"type":"relay","to":2,"from":9,"payload":1}',
    ):
        assert refused_client(text) is Fault.MALFORMED
    assert refused_server('{"type":"offer","to":2,"sdp":""}') is Fault.MALFORMED
    assert refused_server('{"type":"offer","to":2,"from":1,"sdp":""}') is Fault.MALFORMED


def test_each_direction_has_its_own_frames() -> None:
    for _, text in CLIENT:
        assert refused_server(text) is Fault.MALFORMED
    for _, text in SERVER:
        assert refused_client(text) is Fault.MALFORMED


@pytest.mark.parametrize("peers", ["[2]", "[1,2]", "[3,1]", "[1,1]", "null", '["1"]', "[1.0]"])
def test_a_roster_is_ascending_and_without_the_newcomer(peers: str) -> None:
    """RX-089, RX-149."""
    assert refused_server(f'{{"type":"welcome","peer":2,"peers":{peers}}}') is Fault.MALFORMED


@pytest.mark.parametrize(
    "text",
    [
        '{"type":"carrier-pigeon","peer":1}',
        '{"type":"Join","peer":1}',
        '{"peer":1}',
        '{"type":"join","peer":"1"}',
        '{"type":"join","peer":1.0}',
        '{"type":"join","peer":1,"capabilities":{}}',
        '{"type":"join","peer":1,"capabilities":[1]}',
        '{"type":"ice","to":1,"candidate":{"candidate":""}}',
        '{"type":"leave"}{"type":"leave"}',
        '{"type":"relay","to":1,"payload":}',
        '{"type":"relay","to":1,"payload":"\\ud800"}',
        '{"type":"relay","to":1,"payload":' + "[" * 50_000 + "]" * 50_000 + "}",
        "[]",
        "",
    ],
)
def test_other_texts_are_refused(text: str) -> None:
    assert refused_client(text) is Fault.MALFORMED


def test_text_that_is_no_utf8_is_refused_also_where_it_is_only_passed_on() -> None:
    for raw in (b'{"type":"relay","to":1,"payload":"\xff"}', b'{"type":"offer","to":1,"sdp":"\xed\xa0\x80"}'):
        with pytest.raises(FrameFault) as caught:
            decode_client(raw)
        assert caught.value.fault is Fault.MALFORMED


@pytest.mark.parametrize("number", [-1, U64_MAX + 1])
def test_ids_are_u64(number: int) -> None:
    """RX-001."""
    assert refused_client(f'{{"type":"join","peer":{number}}}') is Fault.OUT_OF_RANGE
    assert refused_client(f'{{"type":"offer","to":{number},"sdp":""}}') is Fault.OUT_OF_RANGE
    assert refused_server(f'{{"type":"welcome","peer":1,"peers":[{number}]}}') is Fault.OUT_OF_RANGE
    assert refused_server(f'{{"type":"ice","from":{number},"candidate":""}}') is Fault.OUT_OF_RANGE


def test_what_is_relayed_passes_to_the_byte() -> None:
    """RX-087: the order and the doubles of its fields, its spaces, its way to write numbers."""
    frame = decode_client(b'{"type":"relay","payload":' + ANYTHING + b',"to":2}')
    assert frame == Relay(to=TWO, payload=ANYTHING)
    forwarded = encode_server(ForwardedRelay(sender=ONE, payload=ANYTHING))
    assert forwarded == b'{"type":"relay","from":1,"payload":' + ANYTHING + b"}"
    assert decode_server(forwarded) == ForwardedRelay(sender=ONE, payload=ANYTHING)


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
        max_leaves=8,
    )
)
def test_anything_can_be_relayed(value: object) -> None:
    """RX-087."""
    payload = json.dumps(value).encode()
    assert decode_client(encode_client(Relay(to=TWO, payload=payload))) == Relay(to=TWO, payload=payload)


@pytest.mark.parametrize("payload", [b"", b"{", b'1,"from":9', b'1}{"type":"leave"', b"\xff", b'"\xff"', b"nan"])
def test_what_is_not_one_value_is_not_relayed(payload: bytes) -> None:
    with pytest.raises(UsageError):
        encode_client(Relay(to=TWO, payload=payload))
    with pytest.raises(UsageError):
        encode_server(ForwardedRelay(sender=ONE, payload=payload))


@given(st.text())
def test_descriptions_pass_to_the_character(sdp: str) -> None:
    """RX-085."""
    assert decode_client(encode_client(Offer(to=TWO, sdp=sdp))) == Offer(to=TWO, sdp=sdp)
    assert decode_server(encode_server(ForwardedAnswer(sender=ONE, sdp=sdp))) == ForwardedAnswer(sender=ONE, sdp=sdp)


def test_everything_is_bounded() -> None:
    many = json.dumps(["a"] * (CAPABILITIES_MAX + 1))
    long = json.dumps(["é" * (CAPABILITY_BYTES_MAX // 2 + 1)])
    for capabilities in (many, long):
        assert refused_client(f'{{"type":"join","peer":1,"capabilities":{capabilities}}}') is Fault.OVERSIZED
    raw = encode_client(Leave())
    assert decode_client(raw, frame_bytes_max=len(raw)) == Leave()
    for refuse in (decode_client, decode_server):
        with pytest.raises(FrameFault) as caught:
            refuse(raw, frame_bytes_max=len(raw) - 1)
        assert caught.value.fault is Fault.OVERSIZED
    with pytest.raises(OversizedFrame):
        encode_client(Leave(), frame_bytes_max=len(raw) - 1)
    with pytest.raises(OversizedFrame):
        encode_server(PeerLeft(peer=ONE), frame_bytes_max=5)


def test_a_text_that_is_none_is_not_sent() -> None:
    with pytest.raises(UsageError):
        encode_client(Offer(to=TWO, sdp="\ud800"))


def test_null_capabilities_are_none() -> None:
    """RX-084."""
    assert decode_client(b'{"type":"join","peer":1,"capabilities":null}') == Join(peer=ONE)
