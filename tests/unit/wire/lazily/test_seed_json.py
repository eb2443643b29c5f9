"""The JSON of the seed: its exact texts, what it reads, and what it refuses."""

import base64
import json

import pytest
from hypothesis import given

from bobbin.errors import UsageError
from bobbin.reactive.messages import (
    SAFE_INTEGER_MAX,
    U64_MAX,
    Backend,
    BlobRef,
    CellSet,
    CrdtOperation,
    CrdtSync,
    Delta,
    Edge,
    EdgeAdd,
    EdgeRemove,
    Invalidate,
    Message,
    Node,
    NodeAdd,
    NodeId,
    NodeRemove,
    NodeState,
    OutboxAck,
    PeerId,
    ResyncRequest,
    SlotValue,
    Snapshot,
    Stamp,
)
from bobbin.wire.lazily.conversions import to_seed
from bobbin.wire.lazily.faults import Fault, FrameFault, OversizedFrame
from bobbin.wire.lazily.seed_json import decode, decode_payload, encode, encode_payload
from tests.support.lazily_messages import ANY, broken_objects, other_texts

ONE, TWO, THREE = NodeId(1), NodeId(2), NodeId(3)
BLOB = BlobRef(0, 16, 1, 9, 123456789)

TEXTS: list[tuple[Message, str]] = [
    (Snapshot(0, (), (), ()), '{"type":"snapshot","epoch":0,"nodes":[],"edges":[],"roots":[]}'),
    (
        Snapshot(
            7,
            (
                Node(ONE, "i32", NodeState.RESOLVED, b"\x00\x00\x00\x01"),
                Node(TWO, "string", NodeState.UNSET),
                Node(THREE, "string", NodeState.DIRTY, b""),
                Node(NodeId(4), "blob", NodeState.DIRTY),
                Node(NodeId(5), "blob", NodeState.RESOLVED, BLOB),
            ),
            (Edge(TWO, ONE),),
            (ONE,),
        ),
        (
            '{"type":"snapshot","epoch":7,"nodes":['
            '{"slot_id":1,"type_tag":"i32","state":"resolved","payload":"AAAAAQ=="},'
            '{"slot_id":2,"type_tag":"string","state":"unset","payload":null},'
            '{"slot_id":3,"type_tag":"string","state":"dirty","payload":""},'
            '{"slot_id":4,"type_tag":"blob","state":"dirty","payload":null},'
            '{"slot_id":5,"type_tag":"blob","state":"resolved","payload":'
            '{"offset":0,"len":16,"generation":1,"epoch":9,"checksum":123456789}}],'
            '"edges":[{"dependent":2,"dependency":1}],"roots":[1]}'
        ),
    ),
    (
        Delta(
            0,
            1,
            (
                CellSet(ONE, b"\x00"),
                SlotValue(TWO, b"\xff"),
                Invalidate(THREE),
                NodeRemove(NodeId(4)),
                NodeAdd(NodeId(4), "string"),
                NodeAdd(NodeId(5), "string", b""),
                EdgeAdd(NodeId(5), ONE),
                EdgeRemove(NodeId(5), TWO),
            ),
        ),
        (
            '{"type":"delta","base_epoch":0,"epoch":1,"ops":['
            '{"op":"cell_set","slot_id":1,"payload":"AA=="},'
            '{"op":"slot_value","slot_id":2,"payload":"/w=="},'
            '{"op":"invalidate","slot_id":3},'
            '{"op":"node_remove","slot_id":4},'
            '{"op":"node_add","slot_id":4,"type_tag":"string"},'
            '{"op":"node_add","slot_id":5,"type_tag":"string","payload":""},'
            '{"op":"edge_add","dependent":5,"dependency":1},'
            '{"op":"edge_remove","dependent":5,"dependency":2}]}'
        ),
    ),
    (
        Delta(1, 2, (CellSet(ONE, BlobRef(40, 17, 2, 9, 5, Backend.ARROW)),)),
        (
            '{"type":"delta","base_epoch":1,"epoch":2,"ops":[{"op":"cell_set","slot_id":1,"payload":'
            '{"offset":40,"len":17,"generation":2,"epoch":9,"checksum":5,"backend":"arrow"}}]}'
        ),
    ),
    (
        CrdtSync((CrdtOperation(ONE, None, Stamp(5, 0, PeerId(1)), b"\x01"),), ((PeerId(1), Stamp(5, 0, PeerId(1))),)),
        (
            '{"type":"crdt_sync","frontier":[[1,{"wall_time":5,"logical":0,"peer":1}]],"ops":[{"slot_id":1,"key":null,'
            '"stamp":{"wall_time":5,"logical":0,"peer":1},"payload":"AQ=="}]}'
        ),
    ),
    (CrdtSync(()), '{"type":"crdt_sync","ops":[]}'),
    (CrdtSync((), ()), '{"type":"crdt_sync","frontier":[],"ops":[]}'),
    (ResyncRequest(3), '{"type":"resync_request","from_epoch":3}'),
    (OutboxAck(U64_MAX), '{"type":"outbox_ack","through_epoch":18446744073709551615}'),
]


@pytest.mark.parametrize(("message", "text"), TEXTS, ids=[text[:40] for _, text in TEXTS])
def test_each_message_has_one_text(message: Message, text: str) -> None:
    """RX-001, RX-015, RX-017, RX-019 to RX-021, RX-023, RX-025 to RX-029, RX-031, RX-032, RX-064."""
    assert encode(message) == text.encode()
    assert decode(text.encode()) == message


@given(ANY)
def test_messages_come_back_as_they_went(message: Message) -> None:
    """RX-005, RX-024: bytes and order are kept."""
    (said,) = to_seed(message)
    raw = encode(said)
    assert decode(raw) == said
    for text in other_texts(raw):
        assert decode(text) == said


def test_bytes_of_a_tag_that_nobody_knows_pass_as_they_are() -> None:
    """RX-005."""
    raw = bytes(range(256))
    sent = Delta(0, 1, (NodeAdd(ONE, "of.no.registry", raw),))
    assert decode(encode(sent)) == sent
    assert json.loads(encode(sent))["ops"][0]["payload"] == base64.b64encode(raw).decode()


# ---- payloads -------------------------------------------------------------------------------------------------------


def test_a_payload_by_itself_has_its_tag_beside_its_bytes() -> None:
    """RX-004."""
    text = b'{"type_tag":"string","bytes":"aGVsbG8="}'
    assert encode_payload("string", b"hello") == text
    assert decode_payload(text) == ("string", b"hello")


@pytest.mark.parametrize(
    "text",
    [
        '{"type_tag":"string"}',
        '{"bytes":""}',
        '{"type_tag":"s","bytes":[1]}',
        '{"type_tag":"s","bytes":"","x":1}',
        '{"type_tag":"s","bytes":"","bytes":""}',
        '{"type_tag":1,"bytes":""}',
        '"aGVsbG8="',
        "",
    ],
)
def test_other_shapes_are_no_payload(text: str) -> None:
    """RX-004."""
    with pytest.raises(FrameFault):
        decode_payload(text.encode())


def test_a_payload_by_itself_is_bounded() -> None:
    with pytest.raises(FrameFault) as caught:
        decode_payload(encode_payload("a", bytes(99)), frame_bytes_max=99)
    assert caught.value.fault is Fault.OVERSIZED


@pytest.mark.parametrize(
    "payload",
    [
        '{"type_tag":"i32","bytes":"AAAA"}',
        "[0,0]",
        "1",
        "true",
        '"A"',
        '"AAAAA"',
        '"AA=="AA',
        '"A A="',
        '"__=="',
        '"===="',
    ],
)
def test_inside_a_frame_a_payload_is_a_base64_text(payload: str) -> None:
    """RX-004: not the object of its own, not an array of numbers."""
    assert refused(delta(f'{{"op":"cell_set","slot_id":1,"payload":{payload}}}')) is Fault.MALFORMED


def test_bits_that_base64_has_too_many_are_ignored() -> None:
    assert decode(delta('{"op":"cell_set","slot_id":1,"payload":"AB=="}')) == decode(
        delta('{"op":"cell_set","slot_id":1,"payload":"AA=="}')
    )


# ---- what is refused ------------------------------------------------------------------------------------------------


def delta(*operations: str) -> bytes:
    return f'{{"type":"delta","base_epoch":0,"epoch":1,"ops":[{",".join(operations)}]}}'.encode()


def snapshot(*nodes: str) -> bytes:
    return f'{{"type":"snapshot","epoch":0,"nodes":[{",".join(nodes)}],"edges":[],"roots":[]}}'.encode()


def refused(raw: bytes) -> Fault:
    with pytest.raises(FrameFault) as caught:
        decode(raw)
    assert caught.value.code == caught.value.fault.value
    return caught.value.fault


@pytest.mark.parametrize(("message", "text"), TEXTS, ids=[text[:40] for _, text in TEXTS])
def test_a_field_too_many_or_too_few_or_twice_is_refused(message: Message, text: str) -> None:
    """RX-022: in each object of each message."""
    broken = list(broken_objects(text, optional={"payload", "backend", "frontier", "key"}))
    assert broken
    for one in broken:
        assert refused(one.encode()) is Fault.MALFORMED, one
    assert decode(text.encode()) == message


@pytest.mark.parametrize("name", ["Cell_set", "CellSet", "", "queue_push", "noop", "cell_set "])
def test_an_operation_of_another_name_is_refused_with_its_delta(name: str) -> None:
    """RX-033."""
    good = '{"op":"invalidate","slot_id":1}'
    assert refused(delta(good, f'{{"op":"{name}","slot_id":1,"payload":"AA=="}}', good)) is Fault.MALFORMED


@pytest.mark.parametrize("state", ['"stale"', '"Resolved"', '""', "null", "0"])
def test_there_are_three_states(state: str) -> None:
    """RX-020."""
    assert refused(snapshot(f'{{"slot_id":1,"type_tag":"a","state":{state},"payload":"AA=="}}')) is Fault.MALFORMED


@pytest.mark.parametrize("payload", ["", ',"payload":null'])
def test_an_unset_node_has_no_payload_or_null(payload: str) -> None:
    """RX-021."""
    found = decode(snapshot(f'{{"slot_id":1,"type_tag":"a","state":"unset"{payload}}}'))
    assert found == Snapshot(0, (Node(ONE, "a", NodeState.UNSET),), (), ())
    assert b'"payload":null' in encode(found)


@pytest.mark.parametrize(("state", "payload"), [("unset", '""'), ("unset", '"AA=="'), ("resolved", "null")])
def test_a_payload_that_contradicts_the_state_is_refused(state: str, payload: str) -> None:
    """RX-021: null is not an empty value, and an empty value is not null."""
    assert refused(snapshot(f'{{"slot_id":1,"type_tag":"a","state":"{state}","payload":{payload}}}')) is Fault.MALFORMED


def test_a_resolved_node_has_a_payload() -> None:
    """RX-021."""
    assert refused(snapshot('{"slot_id":1,"type_tag":"a","state":"resolved"}')) is Fault.MALFORMED


@pytest.mark.parametrize("payload", ["", ',"payload":null'])
def test_a_node_without_a_payload_is_added_unset(payload: str) -> None:
    """RX-028."""
    found = decode(delta(f'{{"op":"node_add","slot_id":1,"type_tag":"a"{payload}}}'))
    assert found == Delta(0, 1, (NodeAdd(ONE, "a"),))


def test_an_invalidation_carries_nothing() -> None:
    """RX-027."""
    assert refused(delta('{"op":"invalidate","slot_id":1,"payload":"AA=="}')) is Fault.MALFORMED


@pytest.mark.parametrize("number", ["-1", "18446744073709551616", str(10**40), "-18446744073709551616"])
def test_ids_are_exact_or_refused(number: str) -> None:
    """RX-001, RX-117."""
    assert refused(delta(f'{{"op":"invalidate","slot_id":{number}}}')) is Fault.OUT_OF_RANGE
    assert refused(snapshot().replace(b'"epoch":0', f'"epoch":{number}'.encode())) is Fault.OUT_OF_RANGE


@pytest.mark.parametrize("number", ["1.0", "1e3", '"1"', "true", "null", "[1]", "01", "+1", "0x1", "1" * 5000])
def test_ids_are_bare_whole_numbers(number: str) -> None:
    """RX-001."""
    assert refused(delta(f'{{"op":"invalidate","slot_id":{number}}}')) is Fault.MALFORMED


@pytest.mark.parametrize("number", [2**53 - 1, 2**53, 2**53 + 1, 2**63 - 1, 2**63, U64_MAX])
def test_large_ids_are_exact(number: int) -> None:
    """RX-117."""
    assert decode(delta(f'{{"op":"invalidate","slot_id":{number}}}')) == Delta(0, 1, (Invalidate(NodeId(number)),))


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"{}",
        b"[]",
        b"null",
        b"snapshot",
        b'{"type":"snapshots","epoch":0,"nodes":[],"edges":[],"roots":[]}',
        b'{"type":1}',
        b'{"type":"resync_request","from_epoch":3} {}',
        b'{"type":"resync_request","from_epoch":3',
        b'{"type":"resync_request","from_epoch":NaN}',
        b'\xef\xbb\xbf{"type":"resync_request","from_epoch":3}',
        snapshot('{"slot_id":1,"type_tag":"\\ud800","state":"unset"}'),
        snapshot('{"slot_id":1,"type_tag":"?","state":"unset"}').replace(b"?", b"\xff"),
        snapshot('{"slot_id":1,"type_tag":"?","state":"unset"}').replace(b"?", b"\xed\xa0\x80"),
        b'{"Snapshot":{"epoch":0,"nodes":[],"edges":[],"roots":[]}}',
        b"[" * 100_000,
        b'{"type":"delta","base_epoch":0,"epoch":1,"ops":' + b"[" * 100_000,
    ],
)
def test_what_is_no_message_is_refused(raw: bytes) -> None:
    assert refused(raw) is Fault.MALFORMED


def test_a_frame_that_is_too_long_is_neither_read_nor_written() -> None:
    """RX-074."""
    message = ResyncRequest(3)
    raw = encode(message)
    assert encode(message, frame_bytes_max=len(raw)) == raw
    assert decode(raw, frame_bytes_max=len(raw)) == message
    with pytest.raises(OversizedFrame) as ours:
        encode(message, frame_bytes_max=len(raw) - 1)
    assert ours.value.size == len(raw)
    with pytest.raises(FrameFault) as theirs:
        decode(raw, frame_bytes_max=len(raw) - 1)
    assert theirs.value.fault is Fault.OVERSIZED


# ---- what is not sent -----------------------------------------------------------------------------------------------


def test_what_this_form_has_no_word_for_is_not_written() -> None:
    keyed = Node(ONE, "a", NodeState.UNSET, None, "key")
    for message in (Snapshot(0, (keyed,), (), ()), Delta(0, 1, (NodeAdd(ONE, "a", None, "key"),))):
        with pytest.raises(UsageError, match="keys"):
            encode(message)


def test_a_tag_that_is_no_text_is_not_written() -> None:
    with pytest.raises(UsageError):
        encode(Delta(0, 1, (NodeAdd(ONE, "\ud800"),)))


def test_ids_beyond_what_javascript_holds_are_not_sent_to_it() -> None:
    """RX-003."""
    assert encode(Delta(0, 1, (Invalidate(NodeId(SAFE_INTEGER_MAX)),)), id_max=SAFE_INTEGER_MAX)
    with pytest.raises(UsageError, match="9007199254740992"):
        encode(Delta(0, 1, (Invalidate(NodeId(SAFE_INTEGER_MAX + 1)),)), id_max=SAFE_INTEGER_MAX)


def test_small_deltas_are_short() -> None:
    """RX-168."""
    one = encode(Delta(0, 1, (CellSet(ONE, bytes(4)),)))
    many = encode(Delta(0, 1, tuple(CellSet(NodeId(number), bytes(4)) for number in range(100))))
    assert len(one) <= 100
    assert (len(many) - len(one)) / 99 <= 55
