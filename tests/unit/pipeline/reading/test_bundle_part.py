"""One part of a bundle. The laws are in tests/properties/test_bundle_parts.py."""

import pytest

from bobbin.pipeline.reading.bundle_part import BEHIND_BYTES, BundlePart, guess_begin
from bobbin.records.bundle import Damage, Extent, Run
from bobbin.records.record import recognise_run
from tests.unit.pipeline.reading.bundle_parts import read_part
from tests.unit.records.bundles import AFTER, BEFORE, LAST, OUTERS, PLANTED_SEAL


def test_a_part_ends_where_the_next_record_begins() -> None:
    raw = BEFORE + AFTER + LAST
    pieces, joint = read_part(raw, 0, len(BEFORE))
    assert pieces == [Extent(raw=BEFORE, offset=0)]
    assert joint.end == len(BEFORE)
    assert joint.spent == 0
    pieces, joint = read_part(raw, len(BEFORE), len(raw))
    assert pieces == [Extent(raw=AFTER, offset=len(BEFORE)), Extent(raw=LAST, offset=len(BEFORE + AFTER))]
    assert joint.end == len(raw)


def test_a_record_across_the_end_belongs_to_the_part_in_which_it_begins() -> None:
    raw = BEFORE + AFTER + LAST
    pieces, joint = read_part(raw, 0, len(BEFORE) + 1)
    assert [piece.raw for piece in pieces] == [BEFORE, AFTER]
    assert joint.end == len(BEFORE + AFTER)


def test_damage_across_the_end_is_one_piece_at_its_own_offset() -> None:
    damaged = AFTER[:100] + b"?" + AFTER[101:]
    raw = BEFORE + damaged + LAST
    for end in range(len(BEFORE) + 1, len(BEFORE + damaged)):
        pieces, joint = read_part(raw, 0, end)
        assert [piece.raw for piece in pieces] == [BEFORE, damaged]
        assert joint.end == len(BEFORE + damaged)


def test_what_a_failed_proof_costs_is_noted() -> None:
    raw = BEFORE + AFTER[:-3] + b"???" + LAST
    _, joint = read_part(raw, 0, len(raw))
    assert joint.spent > 0
    assert joint.slack < 1 << 62
    assert read_part(BEFORE + AFTER, 0, len(BEFORE + AFTER))[1].slack == 1 << 62


def test_runs_hold_records_and_nothing_is_recognised_beyond_the_end() -> None:
    raw = BEFORE + AFTER + LAST
    part = BundlePart(0, len(BEFORE + AFTER), behind=b"")
    assert part.feed(raw) == [
        Run(records=recognise_run(memoryview(BEFORE + AFTER))[0], offset=0, size=len(BEFORE + AFTER))
    ]
    assert part.is_complete
    assert part.joint.end == len(BEFORE + AFTER)


def test_a_part_is_given_what_stands_before_it() -> None:
    with pytest.raises(AssertionError):
        BundlePart(10, 20, behind=b"")


def test_a_planted_record_is_a_wrong_guess_and_the_part_before_says_so() -> None:
    outer = OUTERS["a Seal"]
    raw = BEFORE + outer + LAST
    planted = raw.index(PLANTED_SEAL)
    start = planted - 10 - BEHIND_BYTES
    assert guess_begin(raw[max(0, start) :], planted - 10 - max(0, start)) == planted - max(0, start)
    _, joint = read_part(raw, 0, planted)
    assert joint.end == len(BEFORE + outer)


def test_guesses_pass_over_inner_records_and_noise() -> None:
    raw = BEFORE + AFTER
    assert guess_begin(raw, 0) == 0
    assert guess_begin(raw, 1) == len(BEFORE)
    assert guess_begin(raw, len(BEFORE) + 1) is None
    assert guess_begin(b"noise" * 100, 0) is None
    assert guess_begin(b"", 0) is None


def test_damage_that_goes_on_is_never_an_end(monkeypatch: pytest.MonkeyPatch) -> None:
    from bobbin import profile  # noqa: PLC0415
    from bobbin.records import bundle, salvage  # noqa: PLC0415

    monkeypatch.setattr(profile, "RECORD_BYTES_MAX", 1500)
    monkeypatch.setattr(profile, "DATA_BYTES_MAX", 900)
    for module in (salvage, bundle):
        monkeypatch.setattr(module, "HEADER_BYTES_MAX", 700)
        monkeypatch.setattr(module, "WINDOW_BYTES", 2264)
    raw = b"?" * 4000 + BEFORE
    pieces, joint = read_part(raw, 0, 1500)
    assert all(isinstance(piece, Damage) for piece in pieces)
    assert [len(piece.raw) for piece in pieces] == [1500, 1500, 1000]
    assert joint.end == 4000
