"""Messages in pieces: put together again, or refused and forgotten."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bobbin.errors import UsageError
from bobbin.wire.lazily.faults import Fault, FrameFault, OversizedFrame
from bobbin.wire.lazily.fragments import HEAD_SIZE, MARK, Assembler, is_fragment, split

WORD = b"abcdefghijklmnopqrst"
PIECES = split(WORD, frame_bytes_max=HEAD_SIZE + 6, number=7)


def test_a_piece_is_a_mark_a_number_a_length_a_place_and_bytes() -> None:
    head = b"\xc1\x07\x00\x00\x00\x14\x00\x00\x00"
    assert (
        head + b"\x00\x00\x00\x00abcdef",
        head + b"\x06\x00\x00\x00ghijkl",
        head + b"\x0c\x00\x00\x00mnopqr",
        head + b"\x12\x00\x00\x00st",
    ) == PIECES
    assert PIECES[0][0] == MARK


@given(st.lists(st.binary(min_size=1, max_size=60), max_size=4), st.integers(HEAD_SIZE + 1, 40))
def test_pieces_make_the_message_again(messages: list[bytes], frame_bytes_max: int) -> None:
    """RX-075: and no piece is longer than a frame may be."""
    assembler = Assembler()
    for number, message in enumerate(messages):
        pieces = split(message, frame_bytes_max=frame_bytes_max, number=number)
        assert max(map(len, pieces)) <= frame_bytes_max
        if len(pieces) > 1:
            assert all(map(is_fragment, pieces))
            assert [assembler.take(piece) for piece in pieces] == [*[None] * (len(pieces) - 1), message]
        else:
            assert pieces == (message,)
        assert not assembler.waits


def test_a_message_that_fits_goes_whole() -> None:
    assert split(WORD, frame_bytes_max=len(WORD), number=0) == (WORD,)
    assert Assembler().take(WORD) == WORD
    assert not is_fragment(b"")


def test_frames_too_short_for_any_piece_are_refused() -> None:
    with pytest.raises(UsageError):
        split(WORD, frame_bytes_max=HEAD_SIZE, number=0)
    with pytest.raises(OversizedFrame):
        split(WORD, frame_bytes_max=15, number=0, message_bytes_max=19)


def _number(piece: bytes, number: int) -> bytes:
    return piece[:1] + number.to_bytes(4, "little") + piece[5:]


def _length(piece: bytes, length: int) -> bytes:
    return piece[:5] + length.to_bytes(4, "little") + piece[9:]


@pytest.mark.parametrize(
    "taken",
    [
        [PIECES[1]],
        [PIECES[0], PIECES[0]],
        [PIECES[0], PIECES[2]],
        [PIECES[0], WORD],
        [PIECES[0], _number(PIECES[1], 8)],
        [PIECES[0], _length(PIECES[1], 21)],
        [*PIECES[:3], PIECES[3] + b"u"],
        [_length(PIECES[0], 5)],
        [_length(PIECES[0], 0)],
        [PIECES[0][:HEAD_SIZE]],
        [PIECES[0][:5]],
        [b"\xc1"],
    ],
)
def test_a_piece_that_does_not_fit_is_refused_and_what_was_begun_forgotten(taken: list[bytes]) -> None:
    assembler = Assembler()
    for piece in taken[:-1]:
        assert assembler.take(piece) is None
    with pytest.raises(FrameFault) as caught:
        assembler.take(taken[-1])
    assert caught.value.fault is Fault.FRAGMENT
    assert not assembler.waits
    assert [assembler.take(piece) for piece in PIECES] == [None, None, None, WORD]


def test_a_message_that_would_be_too_long_is_refused_at_its_first_piece() -> None:
    """RX-074."""
    assembler = Assembler(message_bytes_max=19)
    with pytest.raises(FrameFault) as caught:
        assembler.take(PIECES[0])
    assert caught.value.fault is Fault.OVERSIZED
    assert not assembler.waits
