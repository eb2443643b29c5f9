"""The handshake on the wire: nine fields, and nothing else."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bobbin.errors import UsageError
from bobbin.reactive.handshake import Capabilities, Feature
from bobbin.reactive.messages import U64_MAX, PeerId, ResyncRequest, Snapshot
from bobbin.wire.lazily import canonical_json, seed_json
from bobbin.wire.lazily.faults import Fault, FrameFault, OversizedFrame
from bobbin.wire.lazily.handshake import HANDSHAKE_BYTES_MAX, decode, encode
from tests.support.lazily_messages import broken_objects, other_texts

CAPABILITIES = Capabilities(
    peer=PeerId(1), session="abc-123", features=(Feature.SHARED_BLOB, Feature.SIGNALING_RELAY), frame_bytes_max=1048576
)
TEXT = (
    '{"protocol_id":"lazily-ipc","protocol_major_version":1,"codec":"json","max_frame_size":1048576,'
    '"fragmentation_supported":false,"ordered_reliable":true,"peer_id":1,"session_id":"abc-123",'
    '"features":["shared-blob","signaling-relay"]}'
)


def refused(raw: bytes) -> Fault:
    with pytest.raises(FrameFault) as caught:
        decode(raw)
    return caught.value.fault


def test_a_handshake_has_its_nine_fields() -> None:
    """RX-067."""
    assert encode(CAPABILITIES) == TEXT.encode()
    assert decode(TEXT.encode()) == CAPABILITIES


@given(
    st.builds(
        Capabilities,
        peer=st.integers(0, U64_MAX).map(PeerId),
        session=st.text(max_size=9),
        codec=st.text(max_size=9),
        frame_bytes_max=st.integers(0, U64_MAX),
        fragmentation=st.booleans(),
        ordered_reliable=st.booleans(),
        features=st.lists(st.text(max_size=9), max_size=3).map(tuple),
        protocol_id=st.text(max_size=9),
        major_version=st.integers(0, U64_MAX),
    )
)
def test_whatever_a_side_says_arrives(capabilities: Capabilities) -> None:
    raw = encode(capabilities)
    for text in (raw, *other_texts(raw)):
        assert decode(text) == capabilities


def test_a_field_too_many_or_too_few_or_twice_is_refused() -> None:
    """RX-067."""
    broken = list(broken_objects(TEXT, optional=()))
    assert len(broken) == 1 + 9 + 9
    assert {refused(one.encode()) for one in broken} == {Fault.MALFORMED}


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("protocol_id", [1, None]),
        ("protocol_major_version", ["1", 1.0, None, True]),
        ("codec", [None, ["json"]]),
        ("max_frame_size", ["1", 1.5, None]),
        ("fragmentation_supported", [0, "false", None]),
        ("ordered_reliable", [1, "true", None]),
        ("peer_id", ["1", 1.0, None]),
        ("session_id", [1, None]),
        ("features", [None, "shared-blob", {"shared-blob": True}, [1]]),
    ],
)
def test_every_field_has_its_type(name: str, values: list[object]) -> None:
    """RX-067."""
    for value in values:
        assert refused(json.dumps({**json.loads(TEXT), name: value}).encode()) is Fault.MALFORMED


@pytest.mark.parametrize("name", ["protocol_major_version", "max_frame_size", "peer_id"])
@pytest.mark.parametrize("number", [-1, U64_MAX + 1])
def test_numbers_are_u64(name: str, number: int) -> None:
    assert refused(json.dumps({**json.loads(TEXT), name: number}).encode()) is Fault.OUT_OF_RANGE


@pytest.mark.parametrize(
    "raw",
    [
        seed_json.encode(Snapshot(0, (), (), ())),
        canonical_json.encode(Snapshot(0, (), (), ())),
        seed_json.encode(ResyncRequest(0)),
        b"",
        b"{}",
        b"\x80",
        TEXT.encode() + TEXT.encode(),
        b"[" * 10_000,
    ],
)
def test_a_message_or_anything_else_is_no_handshake(raw: bytes) -> None:
    """RX-066."""
    assert refused(raw) is Fault.MALFORMED


def test_a_handshake_is_short() -> None:
    long = Capabilities(peer=PeerId(1), session="a" * HANDSHAKE_BYTES_MAX)
    with pytest.raises(OversizedFrame):
        encode(long)
    assert refused(TEXT.encode() + b" " * HANDSHAKE_BYTES_MAX) is Fault.OVERSIZED


def test_a_session_that_is_no_text_is_not_said() -> None:
    with pytest.raises(UsageError):
        encode(Capabilities(peer=PeerId(1), session="\ud800"))
