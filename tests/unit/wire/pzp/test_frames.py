"""The frames of muxrpc: recorded ones, any cut, and every bound."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bobbin.errors import UsageError
from bobbin.wire.pzp.faults import Fault, WireFault
from bobbin.wire.pzp.frames import BODY_BYTES_MAX, GOODBYE, REQUEST_MAX, Decoder, Frame, Goodbye, Kind, Packet, encode
from tests.support.pzp_wire import cut, packets, recorded
from tests.vectors.load import load

FRAMES = st.builds(
    Frame,
    request=st.integers(-REQUEST_MAX, REQUEST_MAX),
    kind=st.sampled_from([Kind.BYTES, Kind.JSON]),
    body=st.binary(min_size=1, max_size=60),
    stream=st.booleans(),
    end=st.booleans(),
)


def _packet(values: Any) -> Packet:  # noqa: ANN401
    if values["frame"] == "GOODBYE":
        return Goodbye()
    frame = values["frame"]
    return Frame(
        request=frame["req"],
        kind=Kind.TEXT if isinstance(frame["value"], str) else Kind.JSON,
        body=bytes.fromhex(values["body"]),
        stream=frame["stream"],
        end=frame["end"],
    )


@pytest.mark.parametrize("values", recorded("muxrpc-frames")["frames"], ids=lambda values: values["head"])
def test_recorded_frames_are_made_and_read_byte_for_byte(values: dict[str, Any]) -> None:
    """TG-113."""
    writes = [bytes.fromhex(part) for part in (values["head"], values["body"]) if part is not None]
    assert list(encode(_packet(values))) == writes
    assert packets(writes) == [_packet(values)]


def test_a_recorded_session_is_written_as_a_real_peer_writes_it() -> None:
    """TG-113, TG-114: each head and each body is a write of its own; the dialler asks on 1, the other answers on -1."""
    writes = load("pzp/wire/session-plaintext.json")["chunks"]
    for side, request in (("dialer", 1), ("listener", -1)):
        said = [bytes.fromhex(data) for name, data in writes if name == side]
        found = packets([b"".join(said)])
        assert [write for packet in found for write in encode(packet)] == said
        assert {packet.request for packet in found if isinstance(packet, Frame)} == {request}
        assert all(isinstance(packet, Frame) and packet.stream and not packet.end for packet in found)


@given(st.lists(FRAMES, max_size=4), st.lists(st.integers(0, 50), max_size=8))
def test_how_the_bytes_are_cut_makes_no_difference(frames: list[Frame], sizes: list[int]) -> None:
    sent: list[Packet] = [*frames, Goodbye()]
    stream = b"".join(write for packet in sent for write in encode(packet))
    assert packets(cut(stream, sizes)) == sent


def _refused(data: bytes, **bounds: int) -> Fault:
    with pytest.raises(WireFault) as caught:
        packets([data], **bounds)
    with pytest.raises(WireFault):
        packets([data[at : at + 1] for at in range(len(data))], **bounds)
    return caught.value.fault


@pytest.mark.parametrize(
    ("data", "fault"),
    [
        ("0b 00000001 00000001 31", Fault.MALFORMED),
        ("1a 00000001 00000001 31", Fault.MALFORMED),
        ("ff 00000001 00000001 31", Fault.MALFORMED),
        ("0a 00000000 00000001", Fault.MALFORMED),
        ("09 00000002 00000001 c328", Fault.MALFORMED),
        ("0a 00000001 80000000 31", Fault.MALFORMED),
        ("0a ffffffff 00000001", Fault.OVERSIZED),
        ("0a 04000001 00000001", Fault.OVERSIZED),
        ("00 00000000 00000000 00", Fault.AFTER_END),
    ],
    ids=["kind 3", "bit 4", "all bits", "empty JSON", "not UTF-8", "no negative", "4 GiB", "just over", "after end"],
)
def test_what_is_no_frame_is_refused(data: str, fault: Fault) -> None:
    """TG-113."""
    assert _refused(bytes.fromhex(data)) is fault


def test_a_body_that_is_too_long_is_refused_before_it_comes() -> None:
    decoder = Decoder(body_bytes_max=10)
    decoder.feed(bytes.fromhex("0a0000000b00000001"))
    with pytest.raises(WireFault) as caught:
        decoder.next()
    assert caught.value.fault is Fault.OVERSIZED
    assert packets([bytes.fromhex("0a0000000a00000001"), b"1234567890"], body_bytes_max=10)


def test_the_length_is_big_endian() -> None:
    """TG-113."""
    decoder = Decoder()
    decoder.feed(bytes.fromhex("0a0000000200000001") + b"11")
    assert decoder.next() == Frame(request=1, kind=Kind.JSON, body=b"11", stream=True)


def test_a_stream_that_was_cut_has_no_goodbye() -> None:
    for data in (b"", GOODBYE[:-1], bytes.fromhex("0a0000000a00000001") + b"123"):
        decoder = Decoder()
        decoder.feed(data)
        assert decoder.next() is None
        with pytest.raises(WireFault) as caught:
            decoder.finish()
        assert caught.value.fault is Fault.TRUNCATED


def test_a_goodbye_is_an_end() -> None:
    decoder = Decoder()
    decoder.feed(GOODBYE)
    assert decoder.next() == Goodbye()
    assert decoder.next() is None
    assert decoder.ended
    decoder.finish()


def test_what_was_read_is_let_go() -> None:
    decoder = Decoder()
    one = b"".join(encode(Frame(request=1, kind=Kind.BYTES, body=bytes(1000), stream=True)))
    for _ in range(200):
        decoder.feed(one)
        assert decoder.next() is not None
    assert decoder.buffered == 0
    assert len(decoder._buffer) < 70_000
    decoder.feed(one[:100])
    decoder.drop()
    assert decoder.buffered == 0


@pytest.mark.parametrize("size", [0, BODY_BYTES_MAX + 1])
def test_a_frame_that_nobody_would_read_is_not_made(size: int) -> None:
    with pytest.raises(UsageError):
        encode(Frame(request=1, kind=Kind.BYTES, body=bytes(size)))
