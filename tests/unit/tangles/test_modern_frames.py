"""Frames of the modern mode: the way over the wire and back, and bounds."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bobbin.tangles import modern_frames
from bobbin.tangles.message import moot_id
from bobbin.tangles.modern_frames import (
    Answer,
    Ask,
    Form,
    MalformedModernFrame,
    Mark,
    ModernFrame,
    ModernLimits,
    Parcel,
    Part,
    Stop,
    Turn,
    WireWish,
    id_bytes,
    id_text,
    wire_wish,
    wish_of,
)
from bobbin.tangles.ranges import WantAll, WantFrom, WantNewest, Wish

_LIMITS = ModernLimits()
_ID = bytes(range(32))
_FRAMES: list[ModernFrame] = [
    Ask(
        tangle=_ID,
        run=3,
        nonce=bytes(8),
        wish=WireWish(2, 5),
        low=0,
        high=7,
        top=9,
        marks=(Mark(10, 0, bytes(16)), Mark(9, 1, bytes(16))),
        accounts=True,
    ),
    Answer(
        tangle=_ID,
        run=3,
        nonce=bytes(8),
        low=1,
        high=0,
        wish=WireWish(0),
        floor=4,
        root=bytes(16),
        parts=(Part(0, Form.SYMBOLS, 0, bytes(20)), Part(1, Form.LIST)),
        ghosts=bytes(16),
        parcels=2,
    ),
    Turn(tangle=_ID, run=3, parts=(Part(0, Form.MORE, 9, b"x"),), wants=bytes(8), root=bytes(16), done=True),
    Parcel(tangle=_ID, run=0, messages=(b"{}", b"[]")),
    Stop(tangle=_ID, run=3, reason="too-large"),
]


@pytest.mark.parametrize("frame", _FRAMES, ids=lambda frame: type(frame).__name__)
def test_there_and_back(frame: ModernFrame) -> None:
    assert modern_frames.decode(modern_frames.encode(frame), _LIMITS) == frame


def test_frames_are_small() -> None:
    """Besides the id, nonces, hashes and what they carry, a few bytes."""
    contents = [32 + 8 + 2 * 16, 32 + 8 + 16 + 20 + 16, 32 + 1 + 8 + 16, 32 + 2 + 2, 32 + 9]
    for frame, content in zip(_FRAMES, contents, strict=True):
        assert content < len(modern_frames.encode(frame)) < content + 36


@pytest.mark.parametrize("frame", _FRAMES, ids=lambda frame: type(frame).__name__)
def test_truncated_frames_are_refused(frame: ModernFrame) -> None:
    raw = modern_frames.encode(frame)
    for end in range(len(raw)):
        with pytest.raises(MalformedModernFrame):
            modern_frames.decode(raw[:end], _LIMITS)
    with pytest.raises(MalformedModernFrame):
        modern_frames.decode(raw + b"\0", _LIMITS)


@pytest.mark.parametrize(
    "frame",
    [
        Ask(tangle=b"short", run=1, nonce=bytes(8), wish=WireWish(1), low=0, high=0, top=0, marks=()),
        Ask(tangle=_ID, run=-1, nonce=bytes(8), wish=WireWish(1), low=0, high=0, top=0, marks=()),
        Ask(tangle=_ID, run=1, nonce=bytes(7), wish=WireWish(1), low=0, high=0, top=0, marks=()),
        Ask(tangle=_ID, run=1, nonce=bytes(8), wish=WireWish(4), low=0, high=0, top=0, marks=()),
        Ask(tangle=_ID, run=1, nonce=bytes(8), wish=WireWish(1), low=0, high=2**60, top=0, marks=()),
        Ask(tangle=_ID, run=1, nonce=bytes(8), wish=WireWish(1), low=0, high=0, top=0, marks=(Mark(1, 0, b""),)),
        Ask(
            tangle=_ID,
            run=1,
            nonce=bytes(8),
            wish=WireWish(1),
            low=0,
            high=0,
            top=0,
            marks=tuple(Mark(n, 0, bytes(16)) for n in range(33)),
        ),
        Turn(tangle=_ID, run=1, wants=bytes(7)),
        Turn(tangle=_ID, run=1, ghosts=bytes(9)),
        Turn(tangle=_ID, run=1, parts=(Part(0, Form.LISTED, 0, bytes(12)),)),
        Turn(tangle=_ID, run=1, parts=(Part(16, Form.LIST),)),
        Turn(tangle=_ID, run=1, parts=tuple(Part(0, Form.LIST) for _ in range(17))),
        Turn(tangle=_ID, run=1, root=bytes(15)),
        Stop(tangle=_ID, run=1, reason="x" * 61),
    ],
    ids=repr,
)
def test_wrong_values_are_refused(frame: ModernFrame) -> None:
    with pytest.raises(MalformedModernFrame) as refused:
        modern_frames.decode(modern_frames.encode(frame), _LIMITS)
    assert refused.value.code == "malformed-frame"


@pytest.mark.parametrize("raw", [b"", b"\x90", b"\xc0", b"\x91\x09", b"\x91" * 100_000, b"{}"], ids=len)
def test_what_is_no_frame_is_refused(raw: bytes) -> None:
    with pytest.raises(MalformedModernFrame):
        modern_frames.decode(raw, _LIMITS)


def test_bounds_are_the_callers() -> None:
    tight = ModernLimits(frame_bytes_max=200, ids_max=1, messages_max=1)
    for frame in (
        Turn(tangle=_ID, run=1, wants=bytes(16)),
        Parcel(tangle=_ID, run=1, messages=(b"1", b"2")),
        Parcel(tangle=_ID, run=1, messages=(bytes(300),)),
    ):
        with pytest.raises(MalformedModernFrame):
            modern_frames.decode(modern_frames.encode(frame), tight)
        modern_frames.decode(modern_frames.encode(frame), _LIMITS)


@given(st.binary(max_size=200))
def test_any_bytes_are_a_frame_or_refused(raw: bytes) -> None:
    try:
        frame = modern_frames.decode(raw, _LIMITS)
    except MalformedModernFrame:
        return
    assert modern_frames.decode(modern_frames.encode(frame), _LIMITS) == frame


@pytest.mark.parametrize("wish", [None, WantAll(), WantNewest(0), WantNewest(12), WantFrom(3)], ids=repr)
def test_wishes_go_over_the_wire(wish: Wish) -> None:
    assert wish_of(msgspec.msgpack.decode(msgspec.msgpack.encode(wire_wish(wish)), type=WireWish)) == wish


def test_a_wish_from_nowhere_is_one_from_the_root() -> None:
    assert wish_of(wire_wish(WantFrom(None))) == WantFrom(0)


def test_ids_as_bytes_and_text() -> None:
    id = moot_id("alice", "post")
    assert len(id_bytes(id)) == 32
    assert id_text(id_bytes(id)) == id
