"""Frames on a stream: any cut of the bytes, and every bound."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bobbin.errors import UsageError
from bobbin.wire.lazily.faults import Fault, FrameFault, OversizedFrame
from bobbin.wire.lazily.framing import HEAD_SIZE, Deframer, frame
from tests.support.pzp_wire import cut


def frames(chunks: list[bytes], *, frame_bytes_max: int = 1000) -> list[bytes]:
    deframer = Deframer(frame_bytes_max=frame_bytes_max)
    found = []
    for chunk in chunks:
        deframer.feed(chunk)
        while (raw := deframer.next()) is not None:
            found.append(raw)
    deframer.finish()
    return found


def test_a_frame_is_its_length_little_endian_and_itself() -> None:
    """RX-147."""
    assert frame(b"abc") == b"\x03\x00\x00\x00abc"
    assert frame(bytes(258))[:HEAD_SIZE] == b"\x02\x01\x00\x00"
    assert frames([b"\x03\x00\x00\x00abc"]) == [b"abc"]


@given(st.lists(st.binary(min_size=1, max_size=40), max_size=5), st.lists(st.integers(0, 50), max_size=12))
def test_how_the_bytes_are_cut_makes_no_difference(sent: list[bytes], sizes: list[int]) -> None:
    """RX-055."""
    stream = b"".join(frame(raw) for raw in sent)
    assert frames(cut(stream, sizes)) == sent
    assert frames([stream[at : at + 1] for at in range(len(stream))]) == sent


def test_long_streams_are_not_kept() -> None:
    deframer = Deframer()
    raw = bytes(70_000)
    for _ in range(3):
        deframer.feed(frame(raw) + b"\x01")
        assert deframer.next() == raw
        deframer.feed(b"\x00\x00\x00x")
        assert deframer.next() == b"x"
        assert deframer.buffered == 0


def refused(data: bytes, *, frame_bytes_max: int = 10) -> Fault:
    with pytest.raises(FrameFault) as caught:
        frames([data], frame_bytes_max=frame_bytes_max)
    with pytest.raises(FrameFault) as bit_by_bit:
        frames([data[at : at + 1] for at in range(len(data))], frame_bytes_max=frame_bytes_max)
    assert bit_by_bit.value.fault is caught.value.fault
    return caught.value.fault


@pytest.mark.parametrize(
    ("data", "fault"),
    [
        (b"\x00\x00\x00\x00", Fault.MALFORMED),
        (b"\x0b\x00\x00\x00", Fault.OVERSIZED),
        (b"\x00\x00\x00\x01", Fault.OVERSIZED),
        (b"\xff\xff\xff\xff", Fault.OVERSIZED),
        (b"\x03\x00\x00", Fault.TRUNCATED),
        (b"\x03\x00\x00\x00ab", Fault.TRUNCATED),
        (b"\x01\x00\x00\x00a\x01", Fault.TRUNCATED),
    ],
)
def test_streams_that_are_refused(data: bytes, fault: Fault) -> None:
    assert refused(data) is fault


def test_a_frame_that_is_too_long_is_refused_before_any_of_it_is_there() -> None:
    """RX-074: at its length, so that nothing of it is ever kept; and again whatever comes after."""
    deframer = Deframer(frame_bytes_max=10)
    deframer.feed(b"\x0b\x00\x00\x00")
    for _ in range(2):
        with pytest.raises(FrameFault):
            deframer.next()
    with pytest.raises(FrameFault) as caught:
        deframer.finish()
    assert caught.value.fault is Fault.OVERSIZED


def test_the_bound_can_be_settled_by_the_handshake() -> None:
    deframer = Deframer(frame_bytes_max=2)
    deframer.feed(frame(b"hi") + frame(b"longer"))
    assert deframer.next() == b"hi"
    deframer.frame_bytes_max = 6
    assert deframer.next() == b"longer"


def test_what_cannot_be_framed_is_refused() -> None:
    """RX-074."""
    assert frame(b"ab", frame_bytes_max=2)
    with pytest.raises(OversizedFrame):
        frame(b"abc", frame_bytes_max=2)
    with pytest.raises(UsageError):
        frame(b"")
