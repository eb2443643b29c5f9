"""Parts of a file of lines."""

from hypothesis import given
from hypothesis import strategies as st

from bobbin.pipeline.reading.line_part import read_lines
from bobbin.records import jsonl
from bobbin.records.bundle import Piece
from bobbin.runtime.lines import LineReader
from tests.support.lakes import some_records

LINES = [jsonl.encode(record) for record in some_records(6, 5)]


def in_part(raw: bytes, begin: int, end: int, chunk: int) -> list[Piece]:
    return list(read_lines(lambda at, size: raw[at : at + size], begin, end, chunk_bytes=chunk))


def whole(raw: bytes) -> list[Piece]:
    reader = LineReader()
    return reader.feed(raw) + reader.finish()


@given(
    st.lists(st.sampled_from([*LINES, b"", b" ", b"{}", b"noise", b"\r"]), max_size=8),
    st.sampled_from([b"", b"\n"]),
    st.lists(st.integers(0, 4000), max_size=5),
    st.sampled_from([1, 3, 100, 1 << 20]),
)
def test_parts_give_the_pieces_of_the_whole(lines: list[bytes], last: bytes, places: list[int], chunk: int) -> None:
    raw = b"\n".join(lines) + last
    begins = sorted({0, *(place for place in places if place < len(raw))})
    parts = zip(begins, [*begins[1:], len(raw)], strict=True)
    assert [piece for begin, end in parts for piece in in_part(raw, begin, end, chunk)] == whole(raw)


def test_a_part_inside_one_line_is_empty() -> None:
    raw = LINES[0] + b"\n" + LINES[1]
    assert in_part(raw, 5, 20, 1 << 20) == []
    assert [piece.offset for piece in in_part(raw, 5, len(raw), 1 << 20)] == [len(LINES[0]) + 1]


def test_only_one_part_reads_a_line_to_its_end_however_long_it_is() -> None:
    raw = LINES[0] + b"\n" + b"x" * 10_000
    size = 1000
    furthest: dict[int, int] = {}
    pieces: list[Piece] = []
    for begin in range(0, len(raw), size):

        def read(at: int, count: int, begin: int = begin) -> bytes:
            furthest[begin] = max(furthest.get(begin, 0), at + min(count, len(raw) - at))
            return raw[at : at + count]

        pieces += read_lines(read, begin, min(begin + size, len(raw)), chunk_bytes=100)
    assert pieces == whole(raw)
    owner = (len(LINES[0]) + 1) // size * size
    assert {begin for begin, end in furthest.items() if end == len(raw)} == {owner}
    assert all(end <= begin + size for begin, end in furthest.items() if begin > owner)


def test_a_line_that_is_too_long_is_damage_in_pieces_wherever_parts_begin() -> None:
    from bobbin import profile  # noqa: PLC0415

    raw = b"{" * (jsonl.LINE_BYTES_MAX + profile.RECORD_BYTES_MAX // 2) + b"\n" + LINES[0]
    half = len(raw) // 2
    pieces = in_part(raw, 0, half, 1 << 24) + in_part(raw, half, len(raw), 1 << 24)
    assert [(piece.offset, len(piece.raw)) for piece in pieces] == [
        (piece.offset, len(piece.raw)) for piece in whole(raw)
    ]
    assert len(pieces) > 2
