"""Laws of bundles: the pieces tile the input, chunks do not matter, and one damaged byte costs one record."""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bobbin import profile
from bobbin.records import bundle as bundle_module
from bobbin.records import salvage
from bobbin.records.bundle import BundleReader, Extent, Piece, Run, skim
from bobbin.records.record import Record, recognise_run, validate
from tests.properties.effort import scaled
from tests.properties.strategies import TOKENS, records
from tests.unit.records import forge
from tests.unit.records.bundles import AFTER, BEFORE, OUTERS, check_tiling, imported, read, rejected

SMALL = {"HEADER_BYTES_MAX": 700, "WINDOW_BYTES": 2264}


@contextmanager
def small_limits() -> Iterator[None]:
    """Limits that a drawn bundle crosses, so that decisions are taken in the middle of the stream."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(profile, "RECORD_BYTES_MAX", 1500)
        patch.setattr(profile, "DATA_BYTES_MAX", 900)
        for module in (salvage, bundle_module):
            for name, value in SMALL.items():
                patch.setattr(module, name, value)
        patch.setattr(salvage, "PROOF_BYTES_RESERVE", 4000)
        yield


FRAGMENTS = (
    st.sampled_from([BEFORE, AFTER, forge.PLEX.raw, forge.BLOB.raw, *OUTERS.values()])
    | st.sampled_from(TOKENS)
    | st.sampled_from([BEFORE[:213], BEFORE[213:], AFTER[:-3], AFTER[:300], b"\xf1" + AFTER[1:], b"?" * 1500])
    | st.binary(max_size=20)
)


@st.composite
def bundles(draw: st.DrawFn) -> bytes:
    """Records, parts of records and noise, with a few more edits."""
    raw = b"".join(draw(st.lists(FRAGMENTS, max_size=8)))
    for _ in range(draw(st.integers(0, 3))):
        at = draw(st.integers(0, len(raw)))
        raw = raw[:at] + draw(st.sampled_from(TOKENS)) + raw[at + draw(st.sampled_from([0, 1, 1, 60])) :]
    return raw


def read_in(raw: bytes, sizes: list[int], *, recognises: bool = False) -> list[Piece]:
    """The pieces of a bundle that arrives in chunks of these sizes, over and over."""
    reader = BundleReader(recognises=recognises)
    pieces: list[Piece] = []
    start = turn = 0
    while start < len(raw):
        size = sizes[turn % len(sizes)]
        pieces += reader.feed(raw[start : start + size])
        start, turn = start + size, turn + 1
    return pieces + reader.finish()


@scaled(2)
@given(bundles(), st.lists(st.integers(1, 700), min_size=1, max_size=5))
def test_pieces_tile_the_input_and_chunks_do_not_matter(raw: bytes, sizes: list[int]) -> None:
    whole = read(raw)
    check_tiling(raw, whole)
    assert read_in(raw, sizes) == whole
    with small_limits():
        whole = read(raw)
        check_tiling(raw, whole)
        assert read_in(raw, sizes) == whole
        assert all(len(piece.raw) <= profile.RECORD_BYTES_MAX for piece in whole)


@scaled(0.25)
@given(bundles())
def test_not_even_single_bytes_matter(raw: bytes) -> None:
    assert read(raw, chunk=1) == read(raw)
    with small_limits():
        assert read(raw, chunk=1) == read(raw)


@scaled(2)
@given(st.data(), st.lists(records(letters="S"), min_size=1, max_size=4))
def test_one_damaged_byte_costs_one_seal(data: st.DataObject, members: list[Record]) -> None:
    raws = [member.raw for member in members]
    victim = data.draw(st.integers(0, len(raws) - 1))
    at = data.draw(st.integers(0, len(raws[victim]) - 1))
    value = data.draw(st.integers(0, 255).filter(lambda value: value != raws[victim][at]))
    damaged = raws[victim][:at] + bytes([value]) + raws[victim][at + 1 :]
    pieces = read(b"".join([*raws[:victim], damaged, *raws[victim + 1 :]]))
    assert imported(pieces) == raws[:victim] + raws[victim + 1 :]
    assert rejected(pieces) == [damaged]


@scaled(2)
@given(st.data(), st.lists(records(), min_size=1, max_size=4))
def test_one_damaged_byte_never_brings_a_record_that_was_no_member(data: st.DataObject, members: list[Record]) -> None:
    raw = b"".join(member.raw for member in members)
    at = data.draw(st.integers(0, len(raw) - 1))
    new = data.draw(st.sampled_from([b"", b"\n", b"x", b"5"]) | st.binary(min_size=1, max_size=1))
    removed = data.draw(st.integers(0 if new else 1, 1))
    pieces = read(raw[:at] + new + raw[at + removed :])
    assert set(imported(pieces)) <= {member.raw for member in members}


@scaled(2)
@given(st.data(), st.lists(records(letters="S"), min_size=1, max_size=4))
def test_what_is_left_of_a_cut_bundle_are_members(data: st.DataObject, members: list[Record]) -> None:
    raws = [member.raw for member in members]
    raw = b"".join(raws)
    end = data.draw(st.integers(0, len(raw)))
    found = imported(read(raw[:end]))
    assert found == raws[: len(found)]
    assert sum(map(len, found)) <= end < sum(map(len, raws[: len(found) + 1])) or end == len(raw)


def one_by_one(pieces: list[Piece]) -> list[Piece]:
    """The same pieces with an extent for each record of a run, all of which must be valid."""
    extents: list[Piece] = []
    for piece in pieces:
        if isinstance(piece, Run):
            offset = piece.offset
            for record in piece.records:
                assert record == validate(record.raw)
                extents.append(Extent(raw=record.raw, offset=offset))
                offset += len(record.raw)
            assert offset == piece.offset + piece.size
        else:
            extents.append(piece)
    return extents


@given(bundles(), st.lists(st.integers(1, 2500), min_size=1, max_size=4))
def test_recognising_changes_no_piece(raw: bytes, sizes: list[int]) -> None:
    assert one_by_one(read_in(raw, sizes, recognises=True)) == read_in(raw, sizes)


@given(bundles(), st.lists(st.integers(1, 2500), min_size=1, max_size=4))
def test_passing_over_what_was_recognised_changes_no_piece(raw: bytes, sizes: list[int]) -> None:
    plain = read_in(raw, sizes)
    records, size = recognise_run(memoryview(raw))
    reader = BundleReader()
    reader.pass_over(raw[:size])
    assert reader.feed(raw[size:]) + reader.finish() == plain[len(records) :]


@given(bundles(), st.integers(0, 3000))
def test_what_is_recognised_up_to_the_cut_was_cut_well(raw: bytes, size: int) -> None:
    end = skim(raw[:size])
    assert end <= min(size, len(raw))
    records, reached = recognise_run(memoryview(raw)[:end])
    if reached == end:
        assert [piece.raw for piece in read(raw)[: len(records)]] == [record.raw for record in records]
