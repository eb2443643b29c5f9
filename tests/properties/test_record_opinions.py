"""Three opinions on any bytes: the fast reader, the slow diagnosis, and a validator written for the tests."""

from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bobbin.records.diagnose import diagnose
from bobbin.records.reasons import InvalidRecord, Reason
from bobbin.records.record import Record, read_trusted, validate
from tests.properties.effort import scaled
from tests.properties.reference_validator import is_record
from tests.properties.strategies import damaged_records, records
from tests.unit.records import forge
from tests.unit.records.faults import FAULTS, UNFINISHED, Fault, broken


def opinion(raw: bytes) -> Reason | None:
    """The one reason, or None for a valid record, after all three have spoken."""
    failure = diagnose(raw)
    assert is_record(raw) is (failure is None), "the diagnosis and the reference disagree"
    refusal, found = _read(raw)
    if failure is None:
        assert found is not None, "the reader refuses what the diagnosis accepts"
        assert found.raw == raw
        return None
    assert refusal is not None, "the reader accepts what the diagnosis refuses"
    assert (refusal.reason, refusal.detail, refusal.offset) == (failure.reason, failure.detail, failure.offset)
    assert 0 <= failure.offset <= len(raw)
    return failure.reason


def _read(raw: bytes) -> tuple[InvalidRecord | None, Record | None]:
    try:
        return None, validate(raw)
    except InvalidRecord as refusal:
        return refusal, None


@given(records())
def test_all_accept_what_was_built(record: Record) -> None:
    assert opinion(record.raw) is None
    assert validate(record.raw, requested=record.hash) == record
    assert read_trusted(record.raw) == record


@scaled(4)
@given(damaged_records())
def test_all_agree_on_damaged_records(raw: bytes) -> None:
    opinion(raw)


@given(damaged_records())
def test_trust_only_ever_accepts_more(raw: bytes) -> None:
    try:
        trusted = read_trusted(raw)
    except InvalidRecord:
        assert opinion(raw) is not None
    else:
        assert trusted.raw == raw


@given(st.binary(max_size=200) | st.text(max_size=60).map(str.encode))
def test_all_agree_on_noise(raw: bytes) -> None:
    assert opinion(raw) is not None
    assert opinion(forge.MARK + b": " + raw) is not None


@given(
    st.lists(st.sampled_from([*FAULTS[1:], UNFINISHED]), min_size=1, max_size=3, unique_by=lambda fault: fault.aspect)
)
def test_all_agree_on_forged_faults(faults: list[Fault]) -> None:
    assert opinion(broken(*faults)) is not None


@pytest.mark.slow
def test_the_damage_reaches_every_check() -> None:
    """The generator is worth its name only if it makes every reason, and valid records too."""
    seen: Counter[Reason | None] = Counter()

    @settings(max_examples=8000, database=None, derandomize=True)
    @given(damaged_records())
    def collect(raw: bytes) -> None:
        failure = diagnose(raw)
        seen[None if failure is None else failure.reason] += 1

    collect()
    missing = {None, *Reason} - {Reason.TOO_LARGE, Reason.EXTRA_COUNT, Reason.NOT_REQUESTED} - set(seen)
    assert missing == set(), f"never made: {missing}; made: {seen}"
