"""Bundles: what is intact comes out, what is damaged is one piece, and nothing inside a damaged record ever counts."""

import random
from collections.abc import Callable, Iterator

import pytest

from bobbin import profile
from bobbin.errors import UsageError
from bobbin.records import bundle as bundle_module
from bobbin.records import salvage
from bobbin.records.bundle import BundleReader, Damage, Extent, Run, skim
from bobbin.records.reasons import Reason
from bobbin.records.record import build_blob
from bobbin.records.salvage import BundleReason
from tests.unit.records import forge
from tests.unit.records.bundles import (
    AFTER,
    BEFORE,
    LAST,
    OUTERS,
    PLANTED_SEAL,
    check_tiling,
    imported,
    is_good,
    make_plex,
    make_seal,
    names,
    read,
    rejected,
)

OUTER_NAMES = list(OUTERS)


def header_size(record: bytes) -> int:
    return record.index(b"\n\n") + 2


def assert_neighbours_survive(damaged: bytes, *, note: object) -> None:
    """A damaged record between good ones: the good ones are imported, and one piece is rejected."""
    raw = BEFORE + damaged + AFTER + LAST
    pieces = read(raw)
    check_tiling(raw, pieces)
    assert names(imported(pieces)) == ["before", "after", "last"], note
    assert rejected(pieces) == [damaged], note


# ---- intact -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("chunk", [None, 1, 7, 100])
def test_records_of_all_kinds_come_out_whole(chunk: int | None) -> None:
    records = [forge.BLOB.raw, forge.PLEX.raw, forge.SEAL.raw, *OUTERS.values(), forge.BLOB.but(data=b"").raw]
    pieces = read(b"".join(records), chunk=chunk)
    assert [piece.raw for piece in pieces] == records
    assert all(isinstance(piece, Extent) for piece in pieces)
    check_tiling(b"".join(records), pieces)


def test_a_record_comes_out_as_soon_as_it_is_there() -> None:
    reader = BundleReader()
    assert reader.feed(BEFORE[:-1]) == []
    assert reader.feed(BEFORE[-1:] + AFTER[:10]) == [Extent(raw=BEFORE, offset=0)]
    assert reader.feed(AFTER[10:]) == [Extent(raw=AFTER, offset=len(BEFORE))]
    assert reader.finish() == []


def test_an_empty_bundle_has_no_pieces() -> None:
    assert read(b"") == []
    reader = BundleReader()
    assert reader.feed(b"") == []
    assert reader.finish() == []


def test_a_finished_bundle_takes_no_more() -> None:
    reader = BundleReader()
    reader.finish()
    with pytest.raises(UsageError):
        reader.feed(b"x")
    assert reader.finish() == []


def test_the_largest_record_comes_out_whole() -> None:
    parts = forge.PLEX.but(
        data=bytes(profile.DATA_BYTES_MAX), extras=(b"A: " + b"x" * 1021,) * profile.EXTRA_HEADERS_MAX
    )
    largest = parts.raw
    pieces = read(BEFORE + largest + AFTER, chunk=1 << 20)
    assert [piece.raw for piece in pieces] == [BEFORE, largest, AFTER]


def test_a_record_that_is_invalid_but_well_formed_is_an_extent() -> None:
    for invalid in (
        forge.PLEX.but(extras=(b"Z: 1", b"A: 1")).raw,
        forge.SEAL.but(signature_line=b"Signature: " + b"0" * 86).raw,
        forge.PLEX.but(required=(forge.GROUP, forge.APP, b"Name: ..", forge.TAI)).raw,
    ):
        pieces = read(BEFORE + invalid + AFTER)
        assert [(type(piece), piece.raw) for piece in pieces] == [(Extent, BEFORE), (Extent, invalid), (Extent, AFTER)]
        assert imported(pieces) == [BEFORE, AFTER]


# ---- one damaged byte ---------------------------------------------------------------------------------------------

VALUES = b"\n\x00\xff 09ABPS"


def substitutions(record: bytes, positions: range, *, values: int) -> Iterator[tuple[int, bytes]]:
    """The record with one byte replaced, at each position by a few values that take turns."""
    for at in positions:
        candidates = [record[at] ^ 1, *VALUES, record[at] ^ 0x80]
        chosen = {candidates[(at + step * 5) % len(candidates)] for step in range(values)} - {record[at]}
        for value in chosen or {record[at] ^ 1}:
            yield at, record[:at] + bytes([value]) + record[at + 1 :]


@pytest.mark.parametrize("name", OUTER_NAMES)
def test_any_damaged_header_byte_leaves_both_neighbours(name: str) -> None:
    outer = OUTERS[name]
    for at, damaged in substitutions(outer, range(header_size(outer)), values=2):
        assert_neighbours_survive(damaged, note=(at, damaged[at]))


@pytest.mark.slow
@pytest.mark.parametrize("name", OUTER_NAMES)
def test_any_damaged_byte_leaves_both_neighbours(name: str) -> None:
    outer = OUTERS[name]
    for at, damaged in substitutions(outer, range(len(outer)), values=4):
        assert_neighbours_survive(damaged, note=(at, damaged[at]))


@pytest.mark.parametrize("name", OUTER_NAMES)
def test_any_flipped_bit_around_the_length_leaves_both_neighbours(name: str) -> None:
    outer = OUTERS[name]
    start = outer.rindex(forge.MARK, 0, header_size(outer))
    for at in range(start, header_size(outer)):
        for bit in range(8):
            damaged = outer[:at] + bytes([outer[at] ^ 1 << bit]) + outer[at + 1 :]
            assert_neighbours_survive(damaged, note=(at, bit))


@pytest.mark.parametrize("name", OUTER_NAMES)
def test_any_byte_added_to_or_lost_from_the_headers_leaves_both_neighbours(name: str) -> None:
    outer = OUTERS[name]
    for at in range(1, header_size(outer)):
        assert_neighbours_survive(outer[:at] + outer[at + 1 :], note=("lost", at))
        assert_neighbours_survive(outer[:at] + bytes([VALUES[at % len(VALUES)]]) + outer[at:], note=("added", at))


@pytest.mark.parametrize("name", OUTER_NAMES)
@pytest.mark.parametrize("place", ["first", "last", "alone"])
def test_a_damaged_byte_in_the_first_or_last_record(name: str, place: str) -> None:
    outer = OUTERS[name]
    for at, damaged in substitutions(outer, range(0, len(outer), 7), values=1):
        raw = {"first": damaged + AFTER, "last": AFTER + damaged, "alone": damaged}[place]
        pieces = read(raw)
        assert imported(pieces) == ([] if place == "alone" else [AFTER]), at
        assert rejected(pieces) == [damaged], at


# ---- bytes lost or added in the data ------------------------------------------------------------------------------

HOSTILE = "a record that claims to go on"
"""Its data holds a record that claims to be longer than the bundle; what comes after it may be lost with it."""


@pytest.mark.parametrize("name", [name for name in OUTER_NAMES if name != HOSTILE])
def test_a_byte_added_to_the_data_leaves_both_neighbours(name: str) -> None:
    outer = OUTERS[name]
    for at in range(header_size(outer), len(outer), 5):
        damaged = outer[:at] + b"x" + outer[at:]
        assert_neighbours_survive(damaged, note=at)


@pytest.mark.parametrize("name", OUTER_NAMES)
def test_a_byte_lost_from_the_data_takes_the_next_record_along(name: str) -> None:
    # Whether the record that lies across the declared end is the next one or a planted one, nobody can tell.
    outer = OUTERS[name]
    line_feeds = len(outer) - header_size(outer) - len(outer[header_size(outer) :].lstrip(b"\n"))
    # Line feeds at the beginning of the data are spared: to lose one of them is to lose one of the header's.
    for at in range(header_size(outer) + line_feeds, len(outer), 5):
        damaged = outer[:at] + outer[at + 1 :]
        pieces = read(BEFORE + damaged + AFTER + LAST)
        assert names(imported(pieces)) == ["before", "last"], at
        assert rejected(pieces) == [damaged + AFTER], at


@pytest.mark.parametrize("name", OUTER_NAMES)
def test_a_cut_record_never_gives_up_what_was_planted_in_it(name: str) -> None:
    outer = OUTERS[name]
    declared_end = len(outer)
    for end in range(1, len(outer)):
        raw = BEFORE + outer[:end] + AFTER + LAST
        pieces = read(raw)
        check_tiling(raw, pieces)
        if end < header_size(outer) - (len(outer) > header_size(outer)):
            expected = ["before", "after", "last"]
        elif end == header_size(outer) - 1 or declared_end - end <= len(AFTER):
            expected = ["before", "last"]
        else:
            expected = ["before"]
        assert names(imported(pieces)) == expected, end
        assert len(rejected(pieces)) == 1, end


@pytest.mark.parametrize("name", OUTER_NAMES)
def test_a_bundle_that_ends_early_keeps_what_came_before(name: str) -> None:
    outer = OUTERS[name]
    for end in range(1, len(outer)):
        pieces = read(BEFORE + outer[:end])
        assert names(imported(pieces)) == ["before"], end
        [damage] = pieces[1:]
        assert isinstance(damage, Damage)
        only_a_line_feed = end == len(outer) - 1 and end < header_size(outer)
        expected = Reason.DATA_LENGTH if only_a_line_feed else BundleReason.TRUNCATED
        assert damage.reason == (expected if end >= 6 else BundleReason.NO_RECORD), end


# ---- whole scenes -------------------------------------------------------------------------------------------------


def damage_somehow(raw: bytes, how: int, chance: random.Random) -> bytes:
    """Damage of the ``how``-th kind, somewhere."""
    headers = header_size(raw)
    length_at = raw.index(b"Data-Length: ") + len(b"Data-Length: ")
    anywhere, in_headers, in_data = (
        chance.randrange(6, len(raw)),
        chance.randrange(6, headers),
        chance.randrange(headers, len(raw)),
    )
    lines = raw[:headers].split(b"\n")
    kinds: list[Callable[[], bytes]] = [
        lambda: raw[:anywhere] + bytes([raw[anywhere] ^ 1 << chance.randrange(8)]) + raw[anywhere + 1 :],
        lambda: raw[:in_data] + bytes([raw[in_data] ^ 0xFF]) + raw[in_data + 1 :],
        lambda: b"\x00" + raw[1:],
        lambda: raw.replace(b"Signed-By", b"Signed-Bx", 1),
        lambda: raw.replace(b"\nSignature: ", b"\nSignature:  ", 1),
        lambda: raw[:length_at] + b"9" + raw[length_at:],
        lambda: raw[:length_at] + b"ten" + raw[headers - 2 :],
        lambda: raw[:in_headers],
        lambda: raw[:in_headers] + raw[in_headers + 1 :],
        lambda: raw[:anywhere] + b"!" + raw[anywhere:],
        lambda: raw[: headers - 1] + raw[headers:],
        lambda: raw.replace(b"\n", b"\r\n", 3),
        lambda: b"\n".join([lines[0], lines[2], lines[1], *lines[3:]]) + raw[headers:],
        lambda: raw.replace(b".H3\n", b".H4\n"),
        lambda: raw[:in_data] + b"\n\nlines of\nsomething: else\n\n" * 9 + raw[in_data:],
        lambda: raw[:headers] + raw[headers:].replace(b"e", b"a"),
        lambda: b"junk between records\n",
        lambda: forge.refit(raw.replace(b"\nApp: a\n", b"\nApp: .\n"), secret=None),
    ]
    return kinds[how % len(kinds)]()


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("chunk", [None, 4096])
def test_a_thousand_good_and_fifty_damaged_seals(seed: int, chunk: int | None) -> None:
    chance = random.Random(seed)
    good = [make_seal(f"good/{i}", b"see the end %d" % i + PLANTED_SEAL * (i % 3 == 0)) for i in range(1000)]
    bad = [
        damage_somehow(make_seal(f"bad/{i}", b"never seen %d" % i + PLANTED_SEAL * (i % 2)), i, chance)
        for i in range(50)
    ]
    order = [*((raw, True) for raw in good), *((raw, False) for raw in bad)]
    chance.shuffle(order)
    raw = b"".join(record for record, _ in order)
    pieces = read(raw, chunk=chunk)
    check_tiling(raw, pieces)
    assert names(imported(pieces)) == names([record for record, intact in order if intact])
    assert names(rejected(pieces)) == names([record for record, intact in order if not intact])
    assert imported(pieces) == [record for record, intact in order if intact]
    assert rejected(pieces) == [record for record, intact in order if not intact]


SPOILT = make_seal("spoilt", b"some data")


@pytest.mark.parametrize(
    "first",
    [
        SPOILT[:-1] + b"?",
        SPOILT[:-2] + b"?a!",
        SPOILT.replace(b"Data-Length: 9", b"Data-Length: 8"),
        SPOILT.replace(b"Signature: ", b"Signature; "),
        SPOILT.replace(b": B.", b"? B."),
        b"?" + SPOILT[1:],
    ],
    ids=["data", "a byte added", "length", "header", "inner mark", "mark"],
)
@pytest.mark.parametrize("damage", [b"?", b"????", b"????????", b"\xf0\x9f\x96\xa7: X."])
def test_two_damaged_records_side_by_side_are_two_pieces(first: bytes, damage: bytes) -> None:
    second = damage + AFTER[len(damage) :]
    pieces = read(BEFORE + first + second + LAST)
    assert names(imported(pieces)) == ["before", "last"]
    assert rejected(pieces) == [first, second]


def test_a_damaged_mark_still_confirms_the_length_before_it() -> None:
    plexes = [make_plex(f"n{i}", b"data %d" % i) for i in range(4)]
    first, second = plexes[1].replace(b"data", b"dado"), b"????" + plexes[2][4:]
    pieces = read(plexes[0] + first + second + plexes[3])
    assert [piece.raw for piece in pieces] == [plexes[0], first, second, plexes[3]]
    assert [type(piece) for piece in pieces] == [Extent, Extent, Damage, Extent]


def test_what_stands_between_records_is_one_piece() -> None:
    for junk in (b"\n", b"\r\n", b"\x00" * 70, b"-- a comment --\n\n", forge.MARK, forge.MARK + b": what\n"):
        raw = BEFORE + junk + AFTER + junk
        pieces = read(raw)
        assert [piece.raw for piece in pieces] == [BEFORE, junk, AFTER, junk]
        assert imported(pieces) == [BEFORE, AFTER]


def test_reasons_and_details() -> None:
    damaged = make_seal("outer", b"x" + PLANTED_SEAL)[:-1]
    raw = BEFORE + damaged + b"?junk" + AFTER + LAST[:-1]
    pieces = read(raw)
    assert [(piece.offset, piece.reason, piece.detail) for piece in pieces if isinstance(piece, Damage)] == [
        (
            len(BEFORE),
            BundleReason.CONTRADICTED,
            "no record begins where the declared length ends; record marks inside: 5",
        ),
        (
            len(raw) - len(LAST) + 1,
            BundleReason.TRUNCATED,
            "bytes missing at the end of the input: 1; record marks inside: 2",
        ),
    ]


def test_a_file_that_is_no_bundle() -> None:
    noise = random.Random(0).randbytes(100_000)
    assert read(noise) == [
        Damage(raw=noise, offset=0, reason=BundleReason.NO_RECORD, detail="no mark where a record should begin")
    ]


def test_a_plex_after_a_damaged_one_is_a_member_too() -> None:
    plexes = [make_plex(f"n{i}", b"data %d" % i) for i in range(4)]
    damaged = plexes[1].replace(b"data", b"dado")
    pieces = read(plexes[0] + damaged + plexes[2] + plexes[3])
    assert imported(pieces) == [plexes[0], plexes[2], plexes[3]]
    assert rejected(pieces) == [damaged]


# ---- small limits: the window, and damage larger than a record ----------------------------------------------------


@pytest.fixture
def small_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    """Limits so small that a test can cross them."""
    monkeypatch.setattr(profile, "RECORD_BYTES_MAX", 2000)
    monkeypatch.setattr(profile, "DATA_BYTES_MAX", 1400)
    for module in (salvage, bundle_module):
        monkeypatch.setattr(module, "HEADER_BYTES_MAX", 600)
        monkeypatch.setattr(module, "WINDOW_BYTES", 2664)


@pytest.mark.usefixtures("small_limits")
def test_damage_longer_than_a_record_comes_in_pieces() -> None:
    junk = b"?" * 5500
    pieces = read(BEFORE + junk + AFTER)
    assert [(len(piece.raw), getattr(piece, "reason", None)) for piece in pieces] == [
        (len(BEFORE), None),
        (2000, BundleReason.NO_RECORD),
        (2000, BundleReason.INSIDE),
        (1500, BundleReason.INSIDE),
        (len(AFTER), None),
    ]


@pytest.mark.usefixtures("small_limits")
@pytest.mark.parametrize("size", [2000, 2001, 3999, 4000, 4001])
@pytest.mark.parametrize("chunk", [None, 1, 13, 2000])
def test_pieces_around_the_limit(size: int, chunk: int | None) -> None:
    for end in (b"", AFTER):
        raw = BEFORE + b"?" * size + end
        sizes = [len(piece.raw) for piece in read(raw, chunk=chunk)[1:]]
        expected = [2000] * (size // 2000) + [size % 2000] * (size % 2000 > 0) + [len(end)] * bool(end)
        assert sizes == expected


@pytest.mark.usefixtures("small_limits")
def test_a_record_across_the_assumed_end_is_part_of_the_damage() -> None:
    start = forge.MARK + b": " + b"?" * (1990 - 6)
    pieces = read(start + AFTER + LAST)
    assert names(imported(pieces)) == ["last"]
    assert [len(piece.raw) for piece in pieces] == [2000, len(AFTER) - 10, len(LAST)]


@pytest.mark.usefixtures("small_limits")
def test_memory_is_bounded() -> None:
    reader = BundleReader()
    chunk = (BEFORE + b"?" * 3000 + make_seal("x", b"y" * 1000)[:-500] + bytes(700)) * 20
    kept = 0
    for start in range(0, len(chunk), 500):
        reader.feed(chunk[start : start + 500])
        kept = max(kept, len(reader._buffer))
    assert kept <= 2664 + 500 + salvage.LOOK_BEHIND_BYTES + bundle_module._COMPACT_BYTES


# ---- work ---------------------------------------------------------------------------------------------------------


class Counting:
    """A pattern that counts how often, and over how many bytes, it is asked to match."""

    def __init__(self) -> None:
        self.calls = 0
        self.reach = 0

    def match(self, buffer: bytearray, start: int, end: int) -> object:
        self.calls += 1
        self.reach += end - start
        return salvage.HEADERS.match(buffer, start, end)


def test_byte_by_byte_costs_no_more_looks(monkeypatch: pytest.MonkeyPatch) -> None:
    raw = b"".join(make_seal(f"n{i}", b"x" * 2000) for i in range(20))
    counting = Counting()
    monkeypatch.setattr(bundle_module, "HEADERS", counting)
    assert len(read(raw, chunk=1)) == 20
    assert counting.calls <= 2 * 20, "once when the headers are there, once when the data is"
    assert counting.reach < len(raw)


def test_damage_is_settled_once(monkeypatch: pytest.MonkeyPatch) -> None:
    settled: list[int] = []

    def settle(
        buffer: bytearray, start: int, *, at_end: bool, budget: salvage.ProofBudget | None = None
    ) -> salvage.Verdict:
        settled.append(start)
        return salvage.settle(buffer, start, at_end=at_end, budget=budget)

    monkeypatch.setattr(bundle_module, "settle", settle)
    damaged = [record[:-1] + b"?" for record in (BEFORE, AFTER, LAST)]
    pieces = read(b"".join(damaged), chunk=1)
    assert rejected(pieces) == damaged
    assert len(settled) == 3


def test_a_piece_knows_whether_it_is_good() -> None:
    assert is_good(Extent(raw=BEFORE, offset=0))
    assert not is_good(Extent(raw=BEFORE[:-1], offset=0))
    assert not is_good(Damage(raw=BEFORE, offset=0, reason=Reason.NO_MARK, detail=""))


# ---- a header section that is gone --------------------------------------------------------------------------------


@pytest.mark.parametrize("filler", [b"\x00", b"x", b" ", b"\n", b"\xff"])
@pytest.mark.parametrize("first", ["the Blob's markline", "the Plex's markline", "everything"])
@pytest.mark.parametrize("data", [PLANTED_SEAL, b"some text\n" + PLANTED_SEAL, PLANTED_SEAL + b"more"])
@pytest.mark.parametrize("chunk", [None, 100])
def test_a_planted_seal_stays_inside_when_the_header_section_is_gone(
    filler: bytes, first: str, data: bytes, chunk: int | None
) -> None:
    outer = make_seal("outer", data, ("A", "x"))
    letter = {"the Blob's markline": b": B.", "the Plex's markline": b": P."}.get(first)
    start = outer.index(forge.MARK + letter) if letter else 0
    damaged = outer[:start] + filler * (header_size(outer) - start) + outer[header_size(outer) :]
    raw = BEFORE + damaged + AFTER + LAST
    pieces = read(raw, chunk=chunk)
    check_tiling(raw, pieces)
    found = names(imported(pieces))
    assert "planted Seal" not in found
    assert found[0] == "before"
    if not data.endswith(b"more"):
        assert found == ["before", "after", "last"]


def test_long_junk_takes_the_next_seal_along() -> None:
    pieces = read(BEFORE + bytes(1000) + AFTER + LAST)
    assert names(imported(pieces)) == ["before", "last"]


def test_a_run_holds_the_valid_records_that_stand_together() -> None:
    forged = BEFORE.replace(b"Signature: ", b"Signature: 0", 1)
    reader = BundleReader(recognises=True)
    pieces = reader.feed(BEFORE + AFTER + forged + LAST) + reader.finish()
    check_tiling(BEFORE + AFTER + forged + LAST, pieces)
    first, *_, last = pieces
    assert isinstance(first, Run)
    assert [record.raw for record in first.records] == [BEFORE, AFTER]
    assert (first.offset, first.size) == (0, len(BEFORE + AFTER))
    assert isinstance(last, Run)
    assert [record.raw for record in last.records] == [LAST]
    assert last.offset == len(BEFORE + AFTER + forged)


def test_what_is_passed_over_counts_as_read() -> None:
    reader = BundleReader()
    reader.pass_over(BEFORE * 200)
    reader.pass_over(AFTER)
    assert reader.feed(LAST) == [Extent(raw=LAST, offset=len(BEFORE * 200 + AFTER))]


def test_skimming_finds_the_last_record_that_is_all_there() -> None:
    whole = BEFORE + AFTER + LAST
    assert skim(whole) == len(whole)
    assert skim(bytearray(whole[:-1])) == len(BEFORE + AFTER)
    assert skim(whole[: len(BEFORE) - 1]) == skim(b"") == 0


@pytest.mark.parametrize("length", [b"", b"x", b"1x", b"-1", b"1" * 20, "²".encode()])
def test_skimming_stops_at_a_length_that_is_none(length: bytes) -> None:
    assert skim(BEFORE + b"Data-Length: " + length + b"\n\n" + AFTER) == len(BEFORE)


def test_the_position_is_where_the_next_piece_begins() -> None:
    first, second = build_blob(b"one").raw, build_blob(b"two").raw
    reader = BundleReader()
    assert reader.position == 0
    reader.feed(first + second[:10])
    assert reader.position == len(first)
    reader.feed(second[10:])
    assert reader.position == len(first) + len(second)
