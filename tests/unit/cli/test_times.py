"""Times on the command line: TAI as it is, UTC with the leap seconds counted, and good advice for the rest."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bobbin.cli.text import utc_text
from bobbin.cli.times import parse_time
from bobbin.errors import UsageError
from bobbin.records import tai


@pytest.mark.parametrize(
    ("text", "instant"),
    [
        ("1640995200:000000000", "1640995200:000000000"),
        ("2021-12-31T23:59:23Z", "1640995200:000000000"),
        ("2022-01-01T00:00:00Z", "1640995237:000000000"),
        ("2022-01-01t00:00:00z", "1640995237:000000000"),
        ("2022-01-01 00:00:00Z", "1640995237:000000000"),
        ("2022-01-01T02:00:00+02:00", "1640995237:000000000"),
        ("2021-12-31T18:30:00-05:30", "1640995237:000000000"),
        ("2022-01-01T00:00:00.5Z", "1640995237:500000000"),
        ("2022-01-01T00:00:00.000000001Z", "1640995237:000000001"),
        ("2016-12-31T23:59:59Z", "1483228835:000000000"),
        ("2016-12-31T23:59:60Z", "1483228836:000000000"),
        ("2016-12-31T23:59:60.25Z", "1483228836:250000000"),
        ("2017-01-01T00:00:00Z", "1483228837:000000000"),
        ("2017-01-01T00:59:60+01:00", "1483228836:000000000"),
    ],
)
def test_tai_stays_and_utc_is_converted(text: str, instant: str) -> None:
    assert parse_time(text) == instant


@given(st.datetimes(datetime(1972, 1, 1), datetime(2200, 1, 1), timezones=st.just(UTC)))  # noqa: DTZ001 (made aware)
def test_what_is_shown_can_be_typed(moment: datetime) -> None:
    whole = moment.replace(microsecond=0)
    text = whole.strftime("%Y-%m-%dT%H:%M:%SZ")
    instant = tai.parse(parse_time(text))
    assert utc_text(instant) == text
    assert tai.to_utc(instant) == (whole - datetime.fromtimestamp(0, UTC)) // timedelta(seconds=1) * tai.NANOSECONDS


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("yesterday", "Expected TAI as in"),
        ("1640995200", "Expected TAI as in"),
        ("1640995200:0", "Expected TAI as in"),
        ("2022-01-01", "2022-01-01T00:00:00Z"),
        ("2022-01-01T00:00:00", "Add Z"),
        ("2022-02-30T00:00:00Z", "no calendar"),
        ("2022-01-01T24:00:00Z", "no calendar"),
        ("2022-01-01T00:00:61Z", "no calendar"),
        ("2022-01-01T00:00:00+24:00", "no calendar"),
        ("2022-01-01T00:00:00+00:60", "no calendar"),
        ("2022-01-01T00:00:60Z", "no leap second"),
        ("2015-12-31T23:59:60Z", "no leap second"),
        ("1969-12-31T00:00:00Z", "outside the range"),
        ("9999-01-01T00:00:00Z", "outside the range"),
        ("0001-01-01T00:00:00+23:59", "outside the range"),
        ("2022-01-01T00:00:00.0000000001Z", "Expected TAI as in"),
        ("٢٠٢٢-01-01T00:00:00Z", "Expected TAI as in"),
    ],
)
def test_what_is_no_time_is_a_usage_error_with_advice(text: str, word: str) -> None:
    with pytest.raises(UsageError, match=word):
        parse_time(text)
