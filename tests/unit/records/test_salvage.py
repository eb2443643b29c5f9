"""How far damage reaches: the four ways to know, each on its own."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bobbin import profile
from bobbin.records import salvage
from bobbin.records.reasons import Reason
from bobbin.records.salvage import BundleReason, Verdict, find_outer_mark, is_inner, settle
from tests.unit.records import forge
from tests.unit.records.bundles import AFTER, BEFORE, PLANTED_PLEX, PLANTED_SEAL, make_plex, make_seal
from tests.unit.records.forge import MARK

OUTER = make_seal("outer", b"some data", ("A", "x"))
LENGTH_AT = OUTER.index(b"Data-Length: 9") + len(b"Data-Length: ")


def verdict_of(raw: bytes) -> Verdict:
    return settle(bytearray(raw), 0, at_end=True)


# ---- marks --------------------------------------------------------------------------------------------------------


def test_the_marks_inside_a_seal_are_inner() -> None:
    buffer = bytearray(BEFORE + AFTER)
    marks = [at for at in range(len(buffer)) if buffer.startswith(MARK, at)]
    assert [is_inner(buffer, at) for at in marks] == [False, True, True] * 2
    assert find_outer_mark(buffer, 0, len(buffer)) == 0
    assert find_outer_mark(buffer, 1, len(buffer)) == len(BEFORE)
    assert find_outer_mark(buffer, len(BEFORE) + 1, len(buffer)) == -1
    assert find_outer_mark(buffer, 1, len(BEFORE) + 5) == -1, "a mark that is not wholly there"


@pytest.mark.parametrize(
    ("before", "letter", "expected"),
    [
        (b"Signature: x\n", b"P", True),
        (b"\nSignature: x\n", b"P", True),
        (b"Signature: x\n", b"S", False),
        (b"Signature: x", b"P", False),
        (b"xSignature: x\n", b"P", False),
        (b"TAI: x\n", b"P", False),
        (b"TAI: x\n", b"B", True),
        (b"any: header line\n", b"B", True),
        (b"no header line\n", b"B", False),
        (b"\n", b"B", False),
        (b"", b"B", False),
        (b"", b"P", False),
        (b"A: " + b"x" * 1021 + b"\n", b"B", True),
        (b"\nA: " + b"x" * 1021 + b"\n", b"B", True),
        (b"A:x\n", b"B", False),
    ],
)
def test_what_makes_a_mark_inner(before: bytes, letter: bytes, *, expected: bool) -> None:
    assert is_inner(bytearray(before + MARK + b": " + letter + b"."), len(before)) is expected


def test_a_mark_without_its_letter_is_outer() -> None:
    assert not is_inner(bytearray(b"TAI: x\n" + MARK + b": "), 7)


# ---- proven -------------------------------------------------------------------------------------------------------


def test_a_proven_end_needs_nothing_behind_it() -> None:
    damaged = OUTER.replace(b"Signed-By", b"Signed-Bx")
    for behind in (b"", AFTER, b"junk", b"junk" + AFTER):
        assert verdict_of(damaged + behind) == Verdict(end=len(damaged), reason=None)


def test_a_damaged_mark_is_damage_with_a_proven_end() -> None:
    verdict = verdict_of(b"\xf1" + OUTER[1:] + b"junk")
    assert (verdict.end, verdict.reason, verdict.certain) == (len(OUTER), BundleReason.NO_RECORD, True)


@pytest.mark.parametrize(
    "line",
    [b"Data-Length: 8", b"Data-Length: 19", b"Data-Length: ", b"Data-Length: x", b"Data-Length 9", b"Data-Length: 9\n"],
)
def test_a_length_that_is_one_edit_away_is_proven(line: bytes) -> None:
    damaged = OUTER.replace(b"Data-Length: 9", line)
    verdict = verdict_of(damaged + AFTER)
    assert (verdict.end, verdict.reason, verdict.certain) == (len(damaged), Reason.DATA_LENGTH, True)
    assert "9 bytes" in verdict.detail
    assert verdict_of(damaged).end == len(damaged), "the end of the input is as good as a mark"


@pytest.mark.parametrize(
    "line", [b"Data-Length: abc", b"nothing at all", b"Data-Length: 12345", b"Data-Length: 77777777"]
)
def test_a_number_that_is_gone_is_proven_by_the_next_marks(line: bytes) -> None:
    damaged = OUTER.replace(b"Data-Length: 9", line)
    verdict = verdict_of(damaged + AFTER + BEFORE)
    assert (verdict.end, verdict.reason, verdict.certain) == (len(damaged), Reason.DATA_LENGTH, True)


EDITS = st.tuples(st.sampled_from(["change", "add", "lose"]), st.integers(0, 22), st.integers(0, 255))


@given(st.integers(0, profile.DATA_BYTES_MAX), EDITS, st.binary(max_size=4))
def test_every_line_is_nearby_after_one_edit(length: int, edit: tuple[str, int, int], data: bytes) -> None:
    line = b"Data-Length: %d\n\n" % length
    kind, at, byte = edit
    at %= len(line)
    seen = line[:at] + (b"" if kind == "lose" else bytes([byte])) + line[at + (kind != "add") :]
    shift = {"change": 0, "add": 1, "lose": -1}[kind]
    assert (5 + len(line) + shift, length) in set(salvage._nearby(bytearray(b".....") + seen + data + b"....", 5))


# ---- declared -----------------------------------------------------------------------------------------------------

SPOILT = OUTER[:-1] + b"?"


def test_a_declared_end_needs_a_mark_or_the_end_of_the_input() -> None:
    assert verdict_of(SPOILT + AFTER) == Verdict(end=len(SPOILT), reason=None)
    assert verdict_of(SPOILT) == Verdict(end=len(SPOILT), reason=None)
    assert verdict_of(SPOILT + b"junk" + AFTER).reason == BundleReason.CONTRADICTED


def test_a_mark_inside_a_proven_record_confirms_nothing() -> None:
    # The data lost as many bytes as there are before the inner Plex of the next record.
    inner = AFTER.index(PLEX_START)
    raw = make_seal("outer", b"x" * (inner + 10))[:-inner] + AFTER
    verdict = verdict_of(raw + BEFORE)
    assert (verdict.end, verdict.reason, verdict.certain) == (len(raw), BundleReason.CONTRADICTED, False)


PLEX_START = MARK + b": P."


def test_the_same_for_a_record_whose_signature_is_damaged_too() -> None:
    inner = AFTER.index(PLEX_START)
    damaged = AFTER.replace(b"second", b"secund")
    raw = make_seal("outer", b"x" * (inner + 10))[:-inner] + damaged
    assert verdict_of(raw + BEFORE).reason == BundleReason.CONTRADICTED


def test_the_same_for_a_mark_in_the_data_of_the_next_record() -> None:
    following = make_seal("following", b"." * 50 + PLANTED_SEAL + b"." * 50)
    planted = following.index(PLANTED_SEAL)
    raw = make_seal("outer", b"x" * (planted + 10))[:-planted] + following
    verdict = verdict_of(raw + BEFORE)
    assert (verdict.end, verdict.certain) == (len(raw), False)


def test_a_record_that_only_claims_to_lie_across_is_not_believed() -> None:
    claim = PLANTED_PLEX.replace(b"Data-Length: 5", b"Data-Length: 500")
    spoilt = make_seal("outer", b"?" + claim).replace(b"?", b"!")
    assert verdict_of(spoilt + AFTER + BEFORE) == Verdict(end=len(spoilt), reason=None)


# ---- cut off ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "end", [1, 4, 10, 55, 100, 200, 300, OUTER.index(b"Data-Length") + 3, LENGTH_AT, LENGTH_AT + 1]
)
def test_a_record_cut_inside_its_headers_ends_where_the_next_seal_begins(end: int) -> None:
    verdict = verdict_of(OUTER[:end] + AFTER)
    assert (verdict.end, verdict.certain) == (end, True)
    assert verdict.reason == (Reason.UNFINISHED_HEADERS if end >= 6 else BundleReason.NO_RECORD)


def test_a_plex_inside_the_headers_counts_as_inner() -> None:
    plex = make_plex("next", b"data")
    assert verdict_of(OUTER[:100] + plex) == Verdict(end=100 + len(plex), reason=None)
    assert verdict_of(b"\n" + plex).reason == BundleReason.NO_RECORD
    assert verdict_of(b"\n" + plex).end == 1 + len(plex)


def test_a_markline_alone_is_no_seal() -> None:
    cut = OUTER[:100] + BEFORE[:55] + b"Signed-Bx: " + AFTER
    assert verdict_of(cut).end == len(cut), "the first lines do not read as a record, so the Seal may be data"


# ---- assumed ------------------------------------------------------------------------------------------------------


def test_a_record_that_lost_data_takes_what_lies_across_its_end_with_it() -> None:
    cut = make_seal("outer", b"x" * 100)[:-60]
    verdict = verdict_of(cut + AFTER + BEFORE)
    assert (verdict.end, verdict.reason, verdict.certain) == (
        len(cut) + len(AFTER),
        BundleReason.CONTRADICTED,
        False,
    )


def test_a_record_that_gained_data_ends_no_earlier_than_it_says() -> None:
    grown = OUTER + b"more"
    verdict = verdict_of(grown[:-5] + b"?more" + AFTER)
    assert (verdict.end, verdict.reason, verdict.certain) == (len(OUTER), BundleReason.CONTRADICTED, False)


@pytest.mark.parametrize(
    ("raw", "reason"),
    [
        (OUTER[:-1], BundleReason.TRUNCATED),
        (OUTER[: OUTER.index(b"\n\n") + 2], BundleReason.TRUNCATED),
        (OUTER[:60], BundleReason.TRUNCATED),
        (MARK + b": ", BundleReason.TRUNCATED),
        (MARK, BundleReason.NO_RECORD),
        (b"x", BundleReason.NO_RECORD),
        (b"\n\n", BundleReason.NO_RECORD),
        (MARK + b": " + b"x" * salvage.HEADER_BYTES_MAX, BundleReason.UNREADABLE),
    ],
)
def test_at_the_end_of_the_input(raw: bytes, reason: BundleReason) -> None:
    verdict = verdict_of(raw)
    assert (verdict.end, verdict.reason) == (len(raw), reason)


def test_a_length_beyond_the_limit_reaches_as_far_as_a_record_may() -> None:
    too_long = forge.BLOB.but(length_line=b"Data-Length: 99999999", blob_mark=forge.markline(b"B", b"x")).raw
    filler = bytes(salvage.WINDOW_BYTES)
    verdict = settle(bytearray(too_long + AFTER + filler), 0, at_end=False)
    assert (verdict.end, verdict.reason) == (profile.RECORD_BYTES_MAX, BundleReason.CONTRADICTED)


def test_without_any_structure_the_longest_record_is_assumed() -> None:
    for start, reason in ((b"", BundleReason.NO_RECORD), (MARK + b": ", BundleReason.UNREADABLE)):
        verdict = settle(bytearray(start + bytes(salvage.WINDOW_BYTES)), 0, at_end=False)
        assert (verdict.end, verdict.reason, verdict.certain) == (profile.RECORD_BYTES_MAX, reason, False)


def test_the_decision_starts_where_it_is_told() -> None:
    buffer = bytearray(b"??" + BEFORE + SPOILT + AFTER)
    at = 2 + len(BEFORE)
    assert settle(buffer, at, at_end=True) == Verdict(end=at + len(SPOILT), reason=None)
