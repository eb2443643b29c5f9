"""JSON lines as pieces: offsets, damage, bounds, and the same answer however the bytes arrive."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bobbin import profile
from bobbin.records import jsonl
from bobbin.records.bundle import Damage, Extent, Piece
from bobbin.records.jsonl import LineReason
from bobbin.records.record import build_blob, build_plex
from bobbin.runtime.lines import LineReader

BLOB = build_blob(b"hello")
PLEX = build_plex(group="u", app="ding", name="links/1", tai_ns=0, data=b"\x00\xff")
LINES = [
    jsonl.encode(BLOB),
    jsonl.encode(PLEX),
    b"",
    b"  \t\r",
    b"{}",
    b"\xff\xfe",
    jsonl.encode(PLEX) + b"\r",
    b"nonsense",
]


def read(data: bytes, cuts: list[int] | None = None) -> list[Piece]:
    reader = LineReader()
    edges = [0, *sorted(min(cut, len(data)) for cut in cuts or []), len(data)]
    pieces: list[Piece] = []
    for begin, end in pairwise(edges):
        pieces += reader.feed(data[begin:end])
    return pieces + reader.finish()


def test_each_line_is_a_record_or_damage_at_its_own_offset() -> None:
    first, second, third = jsonl.encode(BLOB), b'{"kind": "blob"}', jsonl.encode(PLEX)
    pieces = read(b"\n".join([first, second, b"", third]))
    assert pieces[0] == Extent(raw=BLOB.raw, offset=0)
    assert isinstance(pieces[1], Damage)
    assert (pieces[1].raw, pieces[1].offset) == (second, len(first) + 1)
    assert pieces[1].reason == LineReason.MALFORMED
    assert pieces[2] == Extent(raw=PLEX.raw, offset=len(first) + len(second) + 3)
    assert len(pieces) == 3


@pytest.mark.parametrize("end", [b"", b"\n", b"\r\n", b"\n\n\n"])
def test_the_last_line_needs_no_line_feed(end: bytes) -> None:
    assert read(jsonl.encode(BLOB) + end) == [Extent(raw=BLOB.raw, offset=0)]


def test_nothing_is_read_from_nothing() -> None:
    assert read(b"") == []


@given(st.lists(st.sampled_from(LINES), max_size=6), st.lists(st.integers(0, 1500), max_size=8))
def test_chunks_do_not_matter(lines: list[bytes], cuts: list[int]) -> None:
    data = b"\n".join(lines)
    assert read(data, cuts) == read(data)


@given(st.lists(st.one_of(st.binary(max_size=40), st.sampled_from(LINES)), max_size=6))
def test_every_line_that_is_not_white_space_is_one_piece(lines: list[bytes]) -> None:
    data = b"\n".join(lines)
    offsets = []
    at = 0
    for line in data.split(b"\n"):
        if line.strip():
            offsets.append(at)
        at += len(line) + 1
    assert [piece.offset for piece in read(data)] == offsets


@pytest.fixture
def small_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jsonl, "LINE_BYTES_MAX", 600)
    monkeypatch.setattr(profile, "RECORD_BYTES_MAX", 200)


@pytest.mark.usefixtures("small_limits")
@pytest.mark.parametrize("cuts", [[], [601], [599, 600, 601], list(range(0, 1100, 7))])
@pytest.mark.parametrize("size", [601, 800, 999, 1000])
def test_a_line_that_is_too_long_is_damage_in_bounded_pieces(size: int, cuts: list[int]) -> None:
    long = b"x" * size
    after = jsonl.encode(BLOB)
    pieces = read(long + b"\n" + after, cuts)
    damage, extent = pieces[:-1], pieces[-1]
    assert extent == Extent(raw=BLOB.raw, offset=size + 1)
    assert b"".join(piece.raw for piece in damage) == long
    assert [piece.offset for piece in damage] == list(range(0, size, 200))
    assert {piece.reason for piece in damage if isinstance(piece, Damage)} == {LineReason.TOO_LONG}


@pytest.mark.usefixtures("small_limits")
def test_an_endless_line_takes_bounded_memory() -> None:
    reader = LineReader()
    for _ in range(100):
        reader.feed(b"x" * 100)
        assert len(reader._buffer) <= 700


def test_the_position_is_where_the_first_unfinished_line_begins() -> None:
    reader = LineReader()
    assert reader.position == 0
    reader.feed(b"{}\n\n{")
    assert reader.position == 4
    reader.feed(b"}\n")
    assert reader.position == 7
