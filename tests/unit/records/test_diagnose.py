"""The order of the checks: of two faults, the one whose check comes first is named."""

from itertools import combinations

import pytest

from bobbin.records.diagnose import diagnose
from bobbin.records.reasons import Reason
from tests.unit.records import forge
from tests.unit.records.faults import FAULTS, UNFINISHED, Fault, broken
from tests.unit.records.forge import APP, BLOB, GROUP, MARK, PLEX, SEAL, TAI
from tests.unit.records.refusals import CASES
from tests.vectors.load import load, load_record


def reason_of(raw: bytes) -> Reason | None:
    failure = diagnose(raw)
    return None if failure is None else failure.reason


@pytest.mark.parametrize("name", [case["file"] for case in load("records.json")["records"]])
def test_nothing_is_wrong_with_the_vectors(name: str) -> None:
    assert diagnose(load_record(name)) is None


def test_the_faults_are_listed_in_the_order_of_the_checks() -> None:
    order = [*Reason]
    positions = [order.index(fault.reason) for fault in FAULTS]
    assert positions == sorted(positions)
    assert {fault.reason for fault in [*FAULTS, UNFINISHED]} == {*Reason} - {Reason.NOT_REQUESTED}


@pytest.mark.parametrize("fault", [*FAULTS, UNFINISHED], ids=str)
def test_one_fault(fault: Fault) -> None:
    assert reason_of(broken(fault)) == fault.reason


@pytest.mark.parametrize(
    ("earlier", "later"),
    [pair for pair in combinations(FAULTS[1:], 2) if pair[0].aspect != pair[1].aspect],
    ids=str,
)
def test_the_earlier_check_wins(earlier: Fault, later: Fault) -> None:
    assert reason_of(broken(earlier, later)) == earlier.reason
    assert reason_of(broken(later, earlier)) == earlier.reason


@pytest.mark.parametrize("later", [FAULTS[1], FAULTS[-1]], ids=str)
def test_size_comes_before_everything(later: Fault) -> None:
    assert reason_of(broken(later, FAULTS[0])) == Reason.TOO_LARGE


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (b"A\x00\xff: " + b"x" * 1020, Reason.HEADER_LENGTH),
        (b"\tA\xff", Reason.HEADER_CONTROL),
        ("e\u0301".encode() + b"\xff", Reason.HEADER_ENCODING),
        ("cafe\u0301".encode(), Reason.HEADER_NORMALIZATION),
        (b"cafe", Reason.HEADER_SYNTAX),
    ],
)
def test_the_order_within_one_line(line: bytes, reason: Reason) -> None:
    assert reason_of(PLEX.but(extras=(line,)).raw) == reason


def test_header_syntax_is_one_check_and_names_the_first_line_that_fails() -> None:
    raw = PLEX.but(extras=(b"A:x", b"B\x00: x")).raw
    failure = diagnose(raw)
    assert failure is not None
    assert (failure.reason, failure.offset) == (Reason.HEADER_SYNTAX, raw.index(b"A:x"))
    assert reason_of(PLEX.but(extras=(b"B\x00: x", b"A:x")).raw) == Reason.HEADER_CONTROL


def test_header_syntax_comes_before_the_presence_of_headers_wherever_it_fails() -> None:
    assert reason_of(PLEX.but(required=(APP,), extras=(b"z\x01: 1",)).raw) == Reason.HEADER_CONTROL


# ---- each check from several sides --------------------------------------------------------------------------------


@pytest.mark.parametrize(("raw", "reason"), [case[1:] for case in CASES], ids=[case[0] for case in CASES])
def test_refusals(raw: bytes, reason: Reason) -> None:
    assert reason_of(raw) == reason


@pytest.mark.parametrize("raw", [BLOB.raw, PLEX.raw, SEAL.raw], ids=["blob", "plex", "seal"])
def test_every_cut_has_a_reason_and_an_offset_inside(raw: bytes) -> None:
    for end in range(len(raw)):
        failure = diagnose(raw[:end])
        assert failure is not None
        assert 0 <= failure.offset <= end


def test_offsets_point_at_the_fault() -> None:
    raw = PLEX.but(extras=(b"A: x", b"B: \x07")).raw
    failure = diagnose(raw)
    assert failure is not None
    assert failure.offset == raw.index(b"\x07")
    raw = PLEX.but(required=(GROUP, APP, b"Name: a//b", TAI)).raw
    failure = diagnose(raw)
    assert failure is not None
    assert failure.offset == raw.index(b"Name: ")
    raw = SEAL.but(blob_mark=forge.markline(b"B", b"x")).raw
    failure = diagnose(raw)
    assert failure is not None
    assert failure.offset == raw.rindex(MARK)
