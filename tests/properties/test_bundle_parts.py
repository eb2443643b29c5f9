"""Laws of parts: however a bundle is cut, and whatever is damaged where, the pieces are those of the whole."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bobbin.pipeline.reading.parts import UNREAD, Part, Tally, judge
from bobbin.records import salvage
from bobbin.records.bundle import BundleReader, Piece
from tests.properties.effort import scaled
from tests.properties.test_bundle_laws import bundles, small_limits
from tests.unit.pipeline.reading.bundle_parts import guesses, one_by_one, read_part


def whole(raw: bytes) -> list[Piece]:
    reader = BundleReader(recognises=True)
    return one_by_one(reader.feed(raw) + reader.finish())


def in_parts(raw: bytes, begins: list[int], *, chunk: int) -> tuple[list[Piece], int]:
    """The pieces of all parts that count in the end, and how often parts were read."""
    begins = sorted({0, *begins})
    parts = [
        Part(number=UNREAD, source=0, begin=begin, end=end)
        for begin, end in zip(begins, [*begins[1:], len(raw)], strict=True)
        if begin < len(raw)
    ]
    tallies: dict[int, Tally] = {}
    pieces: dict[int, list[Piece]] = {}
    rounds = 0
    while any(part.number == UNREAD for part in parts):
        rounds += 1
        assert rounds <= len(begins) + 1, "every round settles one part at least"
        for position, part in enumerate(parts):
            if part.number == UNREAD:
                number = len(tallies)
                found, joint = read_part(raw, part.begin, part.end, spent=part.spent, chunk=chunk)
                pieces[number] = found
                tallies[number] = Tally(
                    part=number, records=0, rejected=0, end=joint.end, spent=joint.spent, slack=joint.slack
                )
                parts[position] = Part(number=number, source=0, begin=part.begin, end=part.end, spent=part.spent)
        parts = judge(parts, tallies)
    return [piece for part in parts for piece in pieces[part.number]], len(tallies)


@scaled(3)
@given(bundles(), st.data(), st.sampled_from([1, 7, 300, 1 << 16]))
def test_parts_that_begin_at_guesses_give_the_pieces_of_the_whole(raw: bytes, data: st.DataObject, chunk: int) -> None:
    places = data.draw(st.lists(st.integers(0, max(0, len(raw) - 1)), max_size=6))
    assert in_parts(raw, guesses(raw, places), chunk=chunk)[0] == whole(raw)
    with small_limits():
        assert in_parts(raw, guesses(raw, places), chunk=chunk)[0] == whole(raw)


@scaled(2)
@given(bundles(), st.data(), st.sampled_from([1, 300, 1 << 16]))
def test_parts_that_begin_anywhere_at_all_do_so_too(raw: bytes, data: st.DataObject, chunk: int) -> None:
    """A wrong guess costs a second reading, never a piece."""
    places = data.draw(st.lists(st.integers(0, max(0, len(raw) - 1)), max_size=6))
    assert in_parts(raw, places, chunk=chunk)[0] == whole(raw)
    with small_limits():
        assert in_parts(raw, places, chunk=chunk)[0] == whole(raw)


@scaled(2)
@given(st.lists(bundles(), min_size=2, max_size=4), st.data(), st.integers(0, 8000), st.integers(0, 1))
def test_proofs_that_failed_before_count_in_the_parts_behind(
    raws: list[bytes], data: st.DataObject, reserve: int, per_byte: int
) -> None:
    """With hardly any budget, what one part has spent decides what the next can prove."""
    raw = b"".join(raws)
    places = data.draw(st.lists(st.integers(0, max(0, len(raw) - 1)), max_size=4))
    with small_limits(), pytest.MonkeyPatch.context() as patch:
        patch.setattr(salvage, "PROOF_BYTES_RESERVE", reserve)
        patch.setattr(salvage, "PROOF_BYTES_PER_BYTE", per_byte)
        assert in_parts(raw, guesses(raw, places), chunk=1 << 16)[0] == whole(raw)
