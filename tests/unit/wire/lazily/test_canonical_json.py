"""The JSON that published peers speak: its exact texts, what it reads, and what it refuses."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

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
    QueueClose,
    QueuePop,
    QueuePush,
    ResyncRequest,
    SlotValue,
    Snapshot,
    Stamp,
)
from bobbin.wire.lazily.canonical_json import decode, encode
from bobbin.wire.lazily.faults import Fault, FrameFault, OversizedFrame
from tests.support.lazily_messages import CANONICAL, broken_objects, other_texts

ONE, TWO, THREE = NodeId(1), NodeId(2), NodeId(3)
BLOB = BlobRef(0, 16, 1, 9, 123456789)
BLOB_TEXT = '{"offset":0,"len":16,"generation":1,"epoch":9,"checksum":123456789}'
STAMP = Stamp(5, 0, PeerId(1))
STAMP_TEXT = '{"wall_time":5,"logical":0,"peer":1}'

TEXTS: list[tuple[Message, str]] = [
    (Snapshot(0, (), (), ()), '{"Snapshot":{"epoch":0,"nodes":[],"edges":[],"roots":[]}}'),
    (
        Snapshot(
            7,
            (
                Node(ONE, "i32", NodeState.RESOLVED, b"\x00\x00\x00\xff"),
                Node(TWO, "string", NodeState.UNSET),
                Node(THREE, "string", NodeState.RESOLVED, b"", "scores/alice"),
                Node(NodeId(5), "blob", NodeState.RESOLVED, BLOB),
            ),
            (Edge(TWO, ONE),),
            (ONE,),
        ),
        (
            '{"Snapshot":{"epoch":7,"nodes":['
            '{"node":1,"type_tag":"i32","state":{"Payload":[0,0,0,255]}},'
            '{"node":2,"type_tag":"string","state":"Opaque"},'
            '{"node":3,"type_tag":"string","state":{"Payload":[]},"key":"scores/alice"},'
            f'{{"node":5,"type_tag":"blob","state":{{"SharedBlob":{BLOB_TEXT}}}}}],'
            '"edges":[{"dependent":2,"dependency":1}],"roots":[1]}}'
        ),
    ),
    (
        Delta(
            0,
            1,
            (
                CellSet(ONE, b"\x00"),
                SlotValue(TWO, BLOB),
                Invalidate(THREE),
                NodeRemove(NodeId(4)),
                NodeAdd(NodeId(4), "string"),
                NodeAdd(NodeId(5), "string", b"\x01", "a/b"),
                EdgeAdd(NodeId(5), ONE),
                EdgeRemove(NodeId(5), TWO),
                QueuePush(NodeId(6), b"\x02"),
                QueuePop(NodeId(6)),
                QueueClose(NodeId(6)),
            ),
        ),
        (
            '{"Delta":{"base_epoch":0,"epoch":1,"ops":['
            '{"CellSet":{"node":1,"payload":{"Inline":[0]}}},'
            f'{{"SlotValue":{{"node":2,"payload":{{"SharedBlob":{BLOB_TEXT}}}}}}},'
            '{"Invalidate":{"node":3}},'
            '{"NodeRemove":{"node":4}},'
            '{"NodeAdd":{"node":4,"type_tag":"string","state":"Opaque"}},'
            '{"NodeAdd":{"node":5,"type_tag":"string","state":{"Payload":[1]},"key":"a/b"}},'
            '{"EdgeAdd":{"dependent":5,"dependency":1}},'
            '{"EdgeRemove":{"dependent":5,"dependency":2}},'
            '{"QueuePush":{"node":6,"payload":{"Inline":[2]}}},'
            '{"QueuePop":{"node":6}},'
            '{"QueueClose":{"node":6}}]}}'
        ),
    ),
    (
        Delta(1, 2, (CellSet(ONE, BlobRef(40, 17, 2, 9, 5, Backend.IN_PROCESS)),)),
        (
            '{"Delta":{"base_epoch":1,"epoch":2,"ops":[{"CellSet":{"node":1,"payload":{"SharedBlob":'
            '{"offset":40,"len":17,"generation":2,"epoch":9,"checksum":5,"backend":"in_process"}}}}]}}'
        ),
    ),
    (
        CrdtSync(
            (CrdtOperation(ONE, None, STAMP, b"\x01"), CrdtOperation(TWO, "a", STAMP, BLOB)), ((PeerId(1), STAMP),)
        ),
        (
            f'{{"CrdtSync":{{"frontier":[[1,{STAMP_TEXT}]],"ops":['
            f'{{"node":1,"key":null,"stamp":{STAMP_TEXT},"state":{{"Inline":[1]}}}},'
            f'{{"node":2,"key":"a","stamp":{STAMP_TEXT},"state":{{"SharedBlob":{BLOB_TEXT}}}}}]}}}}'
        ),
    ),
    (CrdtSync(()), '{"CrdtSync":{"ops":[]}}'),
    (CrdtSync((), ()), '{"CrdtSync":{"frontier":[],"ops":[]}}'),
    (ResyncRequest(3), '{"ResyncRequest":{"from_epoch":3}}'),
    (OutboxAck(U64_MAX), '{"OutboxAck":{"through_epoch":18446744073709551615}}'),
]
"""RX-110 to RX-114, RX-118, RX-120, RX-124, RX-126, RX-127, RX-146."""

OPTIONAL = {"key", "backend", "frontier"}


@pytest.mark.parametrize(("message", "text"), TEXTS, ids=[text[:40] for _, text in TEXTS])
def test_each_message_has_one_text(message: Message, text: str) -> None:
    """RX-001, RX-110 to RX-114, RX-118, RX-120, RX-124, RX-126, RX-127, RX-146."""
    assert encode(message) == text.encode()
    assert decode(text.encode()) == message


@given(CANONICAL)
def test_messages_come_back_as_they_went(message: Message) -> None:
    """RX-005, RX-114: bytes and order are kept."""
    raw = encode(message)
    assert decode(raw) == message
    for text in other_texts(raw):
        assert decode(text) == message


# ---- what is refused ------------------------------------------------------------------------------------------------


def refused(raw: bytes, *, base64: bool = False) -> Fault:
    with pytest.raises(FrameFault) as caught:
        decode(raw, base64=base64)
    assert caught.value.code == caught.value.fault.value
    return caught.value.fault


def delta(*operations: str) -> bytes:
    return f'{{"Delta":{{"base_epoch":0,"epoch":1,"ops":[{",".join(operations)}]}}}}'.encode()


def snapshot(*nodes: str) -> bytes:
    return f'{{"Snapshot":{{"epoch":0,"nodes":[{",".join(nodes)}],"edges":[],"roots":[]}}}}'.encode()


def cell_set(value: str) -> bytes:
    return delta(f'{{"CellSet":{{"node":1,"payload":{value}}}}}')


@pytest.mark.parametrize(("message", "text"), TEXTS, ids=[text[:40] for _, text in TEXTS])
def test_a_field_too_many_or_too_few_or_twice_is_refused(message: Message, text: str) -> None:
    """RX-110, RX-116: in each object of each message."""
    broken = list(broken_objects(text, optional=OPTIONAL))
    assert broken
    for one in broken:
        assert refused(one.encode()) is Fault.MALFORMED, one
    assert decode(text.encode()) == message


@pytest.mark.parametrize(
    "raw",
    [
        b'{"Snapshot":{"epoch":0,"nodes":[],"edges":[],"roots":[]},"ResyncRequest":{"from_epoch":3}}',
        b'{"Snapshot":null}',
        b'{"snapshot":{"epoch":0,"nodes":[],"edges":[],"roots":[]}}',
        b'{"type":"snapshot","Snapshot":{"epoch":0,"nodes":[],"edges":[],"roots":[]}}',
        b'{"type":"resync_request","from_epoch":3}',
        b'{"Command":{}}',
        b'{"DeltaSinceRequest":{"node":1,"their_vv":[]}}',
        b"{}",
        b"[]",
        b"",
        b"garbage",
        b'"Snapshot"',
        b'{"ResyncRequest":{"from_epoch":3}}{}',
        b'{"ResyncRequest":{"from_epoch":3}',
        b"[" * 100_000,
        b'{"Delta":' * 50_000,
    ],
)
def test_what_is_no_message_is_refused(raw: bytes) -> None:
    """RX-110."""
    assert refused(raw) is Fault.MALFORMED


@pytest.mark.parametrize(
    "state", ['{"Opaque":null}', '"opaque"', "null", '{"Inline":[1]}', "{}", "[1]", '"AQ=="', '{"payload":[1]}']
)
def test_a_node_has_one_of_three_states(state: str) -> None:
    """RX-112."""
    assert refused(snapshot(f'{{"node":1,"type_tag":"a","state":{state}}}')) is Fault.MALFORMED
    assert refused(delta(f'{{"NodeAdd":{{"node":1,"type_tag":"a","state":{state}}}}}')) is Fault.MALFORMED


def test_a_state_with_two_variants_is_refused() -> None:
    """RX-112, RX-113."""
    both = f'{{"Payload":[1],"SharedBlob":{BLOB_TEXT}}}'
    assert refused(snapshot(f'{{"node":1,"type_tag":"a","state":{both}}}')) is Fault.MALFORMED
    assert refused(snapshot(f'{{"node":1,"type_tag":"a","state":{both},"key":"a"}}')) is Fault.MALFORMED
    assert refused(cell_set(f'{{"Inline":[1],"SharedBlob":{BLOB_TEXT}}}')) is Fault.MALFORMED


@pytest.mark.parametrize("value", ['{"Payload":[1]}', '"Opaque"', "[1]", "null", '"AQ=="', "{}"])
def test_an_operation_has_one_of_two_values(value: str) -> None:
    """RX-113."""
    assert refused(cell_set(value)) is Fault.MALFORMED


@pytest.mark.parametrize(
    "operation",
    [
        '{"cell_set":{"node":1,"payload":{"Inline":[1]}}}',
        '{"op":"CellSet","node":1,"payload":{"Inline":[1]}}',
        '{"CellSet":{"node":1,"payload":{"Inline":[1]}},"Invalidate":{"node":1}}',
        '{"Invalidate":{"slot_id":1}}',
        '"Invalidate"',
        '{"Noop":{"node":1}}',
        "{}",
    ],
)
def test_an_operation_is_an_object_with_one_known_key(operation: str) -> None:
    """RX-114, RX-116."""
    assert refused(delta('{"Invalidate":{"node":1}}', operation)) is Fault.MALFORMED


@pytest.mark.parametrize(
    "value", ["[256]", "[-1]", "[1.5]", "[1.0]", '["1"]', "[null]", "[true]", f"[{10**30}]", "[[1]]"]
)
def test_bytes_are_numbers_from_0_to_255(value: str) -> None:
    """RX-115."""
    for raw in (
        cell_set(f'{{"Inline":{value}}}'),
        snapshot(f'{{"node":1,"type_tag":"a","state":{{"Payload":{value}}}}}'),
    ):
        assert refused(raw) is Fault.MALFORMED
        assert refused(raw, base64=True) is Fault.MALFORMED


@pytest.mark.parametrize("number", ["-1", "18446744073709551616", str(10**40)])
def test_ids_are_exact_or_refused(number: str) -> None:
    """RX-116, RX-117."""
    assert refused(delta(f'{{"Invalidate":{{"node":{number}}}}}')) is Fault.OUT_OF_RANGE
    assert refused(f'{{"ResyncRequest":{{"from_epoch":{number}}}}}'.encode()) is Fault.OUT_OF_RANGE


@pytest.mark.parametrize("number", ["1.0", "1e3", '"1"', "true", "null", "01"])
def test_ids_are_bare_whole_numbers(number: str) -> None:
    """RX-116."""
    assert refused(delta(f'{{"Invalidate":{{"node":{number}}}}}')) is Fault.MALFORMED


@pytest.mark.parametrize("number", [2**53 - 1, 2**53, 2**53 + 1, 2**63, U64_MAX])
def test_large_ids_are_exact(number: int) -> None:
    """RX-117."""
    assert decode(delta(f'{{"Invalidate":{{"node":{number}}}}}')) == Delta(0, 1, (Invalidate(NodeId(number)),))


@pytest.mark.parametrize("key", ["", "/", "a//b", "a/", "/".join("a" * 33), "x" * 1025])
def test_a_key_that_is_no_path_is_refused(key: str) -> None:
    """RX-118."""
    text = json.dumps(key)
    assert refused(snapshot(f'{{"node":1,"type_tag":"a","state":"Opaque","key":{text}}}')) is Fault.MALFORMED
    assert refused(delta(f'{{"NodeAdd":{{"node":1,"type_tag":"a","state":"Opaque","key":{text}}}}}')) is Fault.MALFORMED
    operation = f'{{"node":1,"key":{text},"stamp":{STAMP_TEXT},"state":{{"Inline":[1]}}}}'
    assert refused(f'{{"CrdtSync":{{"ops":[{operation}]}}}}'.encode()) is Fault.MALFORMED


@pytest.mark.parametrize("key", ["", ',"key":null'])
def test_a_key_that_is_left_out_and_null_are_the_same(key: str) -> None:
    """RX-118."""
    assert decode(snapshot(f'{{"node":1,"type_tag":"a","state":"Opaque"{key}}}')) == Snapshot(
        0, (Node(ONE, "a", NodeState.UNSET),), (), ()
    )
    assert decode(delta(f'{{"NodeAdd":{{"node":1,"type_tag":"a","state":"Opaque"{key}}}}}')) == Delta(
        0, 1, (NodeAdd(ONE, "a"),)
    )
    operation = f'{{"node":1,"stamp":{STAMP_TEXT},"state":{{"Inline":[1]}}{key}}}'
    assert decode(f'{{"CrdtSync":{{"ops":[{operation}]}}}}'.encode()) == CrdtSync(
        (CrdtOperation(ONE, None, STAMP, b"\x01"),)
    )


def test_a_stamp_names_its_peer_by_peer() -> None:
    """RX-127."""
    stamp = '{"wall_time":5,"logical":0,"peer_id":1}'
    operation = f'{{"node":1,"key":null,"stamp":{stamp},"state":{{"Inline":[1]}}}}'
    assert refused(f'{{"CrdtSync":{{"ops":[{operation}]}}}}'.encode()) is Fault.MALFORMED


@pytest.mark.parametrize("frontier", ["null", "{}", "[[1]]", f"[[1,{STAMP_TEXT},1]]", f"[{STAMP_TEXT}]"])
def test_a_frontier_is_a_list_of_pairs(frontier: str) -> None:
    """RX-126."""
    assert refused(f'{{"CrdtSync":{{"frontier":{frontier},"ops":[]}}}}'.encode()) is Fault.MALFORMED


@pytest.mark.parametrize(
    ("backend", "found"),
    [
        ("", Backend.SHM),
        (',"backend":null', Backend.SHM),
        (',"backend":"shm"', Backend.SHM),
        (',"backend":"arrow"', Backend.ARROW),
    ],
)
def test_a_blob_lies_in_shared_memory_unless_it_says_so(backend: str, found: Backend) -> None:
    """RX-146."""
    message = decode(cell_set(f'{{"SharedBlob":{BLOB_TEXT[:-1]}{backend}}}}}'))
    assert message == Delta(0, 1, (CellSet(ONE, BlobRef(0, 16, 1, 9, 123456789, found)),))
    assert (b"backend" in encode(message)) is (found is not Backend.SHM)


@pytest.mark.parametrize("backend", ['"rdma"', '"SHM"', '""', "7", "[]"])
def test_another_place_for_a_blob_is_refused_by_name(backend: str) -> None:
    """RX-146."""
    with pytest.raises(FrameFault) as caught:
        decode(cell_set(f'{{"SharedBlob":{BLOB_TEXT[:-1]},"backend":{backend}}}}}'))
    assert caught.value.fault is Fault.MALFORMED
    if backend == '"rdma"':
        assert "rdma" in str(caught.value)


def test_a_frame_that_is_too_long_is_neither_read_nor_written() -> None:
    """RX-074."""
    message = ResyncRequest(3)
    raw = encode(message)
    assert encode(message, frame_bytes_max=len(raw)) == raw
    assert decode(raw, frame_bytes_max=len(raw)) == message
    with pytest.raises(OversizedFrame):
        encode(message, frame_bytes_max=len(raw) - 1)
    with pytest.raises(FrameFault) as theirs:
        decode(raw, frame_bytes_max=len(raw) - 1)
    assert theirs.value.fault is Fault.OVERSIZED


# ---- base64 ---------------------------------------------------------------------------------------------------------


@given(CANONICAL)
def test_with_base64_messages_come_back_as_they_went(message: Message) -> None:
    """RX-139."""
    assert decode(encode(message, base64=True), base64=True) == message


@given(CANONICAL)
def test_arrays_are_read_where_base64_was_agreed_on(message: Message) -> None:
    """RX-139."""
    assert decode(encode(message), base64=True) == message


@given(st.binary(max_size=40))
def test_base64_is_refused_where_it_was_not_agreed_on(value: bytes) -> None:
    """RX-115."""
    for message in (
        Delta(0, 1, (CellSet(ONE, value), NodeAdd(ONE, "a", value))),
        Snapshot(0, (Node(ONE, "a", NodeState.RESOLVED, value),), (), ()),
        Snapshot(0, (Node(ONE, "a", NodeState.RESOLVED, value, "key"),), (), ()),
        CrdtSync((CrdtOperation(ONE, None, STAMP, value),)),
    ):
        assert refused(encode(message, base64=True)) is Fault.MALFORMED


def test_base64_is_what_is_written_where_it_was_agreed_on() -> None:
    """RX-139."""
    assert encode(Delta(0, 1, (CellSet(ONE, b"\x00"),)), base64=True) == cell_set('{"Inline":"AA=="}')


# ---- what is not sent -----------------------------------------------------------------------------------------------


def test_a_dirty_node_is_never_written_as_if_it_were_fresh() -> None:
    """RX-119."""
    with pytest.raises(UsageError, match="dirty"):
        encode(Snapshot(0, (Node(ONE, "a", NodeState.DIRTY, b"old"),), (), ()))


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
