"""Frames of a cluster: any cut, and every bound."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bobbin.errors import UsageError
from bobbin.wire.cluster.faults import MessageRefused, Refusal
from bobbin.wire.cluster.frame import HEAD_SIZE, PAYLOAD_BYTES_MAX, Deframer, frame
from tests.support.cluster_wire import refusal_of
from tests.support.pzp_wire import cut


def split(parts: list[bytes], *, payload_bytes_max: int = 100) -> tuple[list[bytes], Refusal | None]:
    """Every payload, and how it ended."""
    deframer = Deframer(payload_bytes_max=payload_bytes_max)
    found: list[bytes] = []
    try:
        for part in parts:
            deframer.feed(part)
            found += deframer.drain()
        found += deframer.drain()
        deframer.finish()
    except MessageRefused as refused:
        return found, refused.refusal
    return found, None


def test_a_frame_is_length_flags_payload() -> None:
    assert frame(b"abc") == b"\0\0\0\x03\0abc"
    assert split([b"\0\0\0\x03\0abc"]) == ([b"abc"], None)


@given(st.lists(st.binary(min_size=1, max_size=40), max_size=5), st.lists(st.integers(0, 30), max_size=8))
def test_how_the_bytes_are_cut_makes_no_difference(payloads: list[bytes], sizes: list[int]) -> None:
    stream = b"".join(frame(payload) for payload in payloads)
    assert split(cut(stream, sizes)) == (payloads, None)


@given(
    st.lists(st.binary(min_size=1, max_size=9), max_size=3),
    st.sampled_from([b"\0\0\0\0\0", b"\0\0\0\x65\0", b"\xff\xff\xff\xff\0", b"\0\0\0\x01\x01x", b"\0\0\0\x01\x80x"]),
    st.binary(max_size=9),
    st.lists(st.integers(0, 30), max_size=8),
)
def test_a_bad_frame_is_refused_wherever_the_bytes_were_cut(
    payloads: list[bytes], bad: bytes, rest: bytes, sizes: list[int]
) -> None:
    stream = b"".join(frame(payload) for payload in payloads) + bad + rest
    found, refusal = split([stream])
    assert found == payloads
    assert refusal in {Refusal.MALFORMED, Refusal.OVERSIZED}
    assert split(cut(stream, sizes)) == (found, refusal)


def test_a_frame_that_is_not_whole_is_refused_at_the_end() -> None:
    whole = frame(b"abc")
    for size in range(1, len(whole)):
        assert split([whole[:size]]) == ([], Refusal.TRUNCATED)


def test_the_longest_frame_passes_and_a_longer_one_is_refused_by_its_head() -> None:
    longest = bytes(PAYLOAD_BYTES_MAX)
    assert PAYLOAD_BYTES_MAX == 16 * 1024 * 1024
    assert split([frame(longest)], payload_bytes_max=PAYLOAD_BYTES_MAX) == ([longest], None)
    with pytest.raises(UsageError):
        frame(longest + b"x")
    head = (PAYLOAD_BYTES_MAX + 1).to_bytes(4, "big") + b"\0"
    assert split([head], payload_bytes_max=PAYLOAD_BYTES_MAX) == ([], Refusal.OVERSIZED)


def test_an_empty_frame_cannot_be_made() -> None:
    with pytest.raises(UsageError):
        frame(b"")


def test_after_a_refusal_nothing_is_kept_or_read() -> None:
    deframer = Deframer(payload_bytes_max=4)
    deframer.feed(frame(b"good") + b"\0\0\0\x05\0")
    assert deframer.drain() == [b"good"]
    for _ in range(2):
        assert refusal_of(deframer.drain) is Refusal.OVERSIZED
        deframer.feed(frame(b"more") * 100)
        assert deframer.buffered <= HEAD_SIZE
    assert refusal_of(deframer.finish) is Refusal.OVERSIZED
    assert deframer.buffered == 0


def test_the_bound_may_be_raised_between_frames() -> None:
    deframer = Deframer(payload_bytes_max=4)
    deframer.feed(frame(b"four"))
    assert deframer.drain() == [b"four"]
    deframer.payload_bytes_max = 5
    deframer.feed(frame(b"fives"))
    assert deframer.drain() == [b"fives"]
