"""MessagePack: the shapes of the JSON, whole or refused."""

from typing import Any

import msgspec
import pytest
from hypothesis import given

from bobbin.errors import UsageError
from bobbin.reactive.messages import (
    SAFE_INTEGER_MAX,
    U64_MAX,
    CellSet,
    Delta,
    Invalidate,
    Message,
    Node,
    NodeAdd,
    NodeId,
    NodeState,
    ResyncRequest,
    Snapshot,
)
from bobbin.wire.lazily import canonical_json
from bobbin.wire.lazily.faults import Fault, FrameFault, OversizedFrame
from bobbin.wire.lazily.message_pack import decode, encode
from tests.support.lazily_messages import CANONICAL

ONE = NodeId(1)


@given(CANONICAL)
def test_messages_come_back_as_they_went(message: Message) -> None:
    """RX-138: and the frame has the very values that the JSON has, bytes as arrays."""
    raw = encode(message)
    assert decode(raw) == message
    assert msgspec.msgpack.decode(raw) == msgspec.json.decode(canonical_json.encode(message))


def test_bytes_are_an_array_and_objects_are_maps() -> None:
    """RX-138: as to the byte."""
    raw = encode(Delta(0, 1, (CellSet(ONE, b"\x00\xff"),)))
    assert raw == (
        b"\x81\xa5Delta\x83\xaabase_epoch\x00\xa5epoch\x01\xa3ops\x91"
        b"\x81\xa7CellSet\x82\xa4node\x01\xa7payload\x81\xa6Inline\x92\x00\xcc\xff"
    )


def _packed(value: Any) -> bytes:  # noqa: ANN401
    return msgspec.msgpack.encode(value)


def refused(raw: bytes) -> Fault:
    with pytest.raises(FrameFault) as caught:
        decode(raw)
    return caught.value.fault


@pytest.mark.parametrize("value", [b"\x01", "AQ==", [256], [-1], [1.5], None])
def test_other_forms_of_bytes_are_refused(value: object) -> None:
    """RX-115, RX-138."""
    operation = {"CellSet": {"node": 1, "payload": {"Inline": value}}}
    assert refused(_packed({"Delta": {"base_epoch": 0, "epoch": 1, "ops": [operation]}})) is Fault.MALFORMED


@pytest.mark.parametrize(
    "value",
    [
        {"ResyncRequest": {"from_epoch": 1, "more": 1}},
        {"ResyncRequest": {}},
        {"ResyncRequest": [1]},
        {"ResyncRequest": {"from_epoch": 1}, "OutboxAck": {"through_epoch": 1}},
        {"type": "resync_request", "from_epoch": 1},
        {b"ResyncRequest": {"from_epoch": 1}},
        {"ResyncRequest": {"from_epoch": 1.0}},
        {},
        [],
        None,
    ],
)
def test_other_shapes_are_refused(value: object) -> None:
    """RX-110, RX-116."""
    assert refused(_packed(value)) is Fault.MALFORMED


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        encode(ResyncRequest(1))[:-1],
        encode(ResyncRequest(1)) + b"\x00",
        b"\xc1",
        b"\x81" * 100_000,
        b"\x81\xa8Snapshot\x84\xa5epoch\x01\xa5nodes\xdd\xff\xff\xff\xff",
        b"\xdf\xff\xff\xff\xff",
        b"\x81\xa1\xff\x01",
    ],
)
def test_what_is_no_message_is_refused(raw: bytes) -> None:
    assert refused(raw) is Fault.MALFORMED


def test_negative_numbers_are_refused_everywhere() -> None:
    """RX-116, RX-117."""
    assert refused(_packed({"ResyncRequest": {"from_epoch": -1}})) is Fault.OUT_OF_RANGE
    for ends in ((-1, 1), (1, -1)):
        edge = dict(zip(("dependent", "dependency"), ends, strict=True))
        assert refused(_packed({"Snapshot": {"epoch": 0, "nodes": [], "edges": [edge], "roots": []}})) is (
            Fault.OUT_OF_RANGE
        )
    assert refused(_packed({"Snapshot": {"epoch": 0, "nodes": [], "edges": [], "roots": [-1]}})) is Fault.OUT_OF_RANGE


def test_large_ids_are_exact() -> None:
    """RX-117."""
    for number in (2**53 - 1, 2**53 + 1, 2**63, U64_MAX):
        message = Delta(0, 1, (Invalidate(NodeId(number)),))
        assert decode(encode(message)) == message


def test_a_frame_that_is_too_long_is_neither_read_nor_written() -> None:
    """RX-074."""
    raw = encode(ResyncRequest(3))
    assert decode(raw, frame_bytes_max=len(raw)) == ResyncRequest(3)
    with pytest.raises(OversizedFrame):
        encode(ResyncRequest(3), frame_bytes_max=len(raw) - 1)
    with pytest.raises(FrameFault) as theirs:
        decode(raw, frame_bytes_max=len(raw) - 1)
    assert theirs.value.fault is Fault.OVERSIZED


def test_what_the_form_or_the_peer_cannot_take_is_not_written() -> None:
    """RX-003, RX-119."""
    with pytest.raises(UsageError, match="dirty"):
        encode(Snapshot(0, (Node(ONE, "a", NodeState.DIRTY, b"old"),), (), ()))
    with pytest.raises(UsageError):
        encode(Delta(0, 1, (NodeAdd(ONE, "\ud800"),)))
    with pytest.raises(UsageError, match="9007199254740992"):
        encode(Delta(0, 1, (Invalidate(NodeId(SAFE_INTEGER_MAX + 1)),)), id_max=SAFE_INTEGER_MAX)


def test_a_small_delta_is_short() -> None:
    """RX-168."""
    assert len(encode(Delta(0, 1, (CellSet(ONE, bytes(4)),)))) < 70
