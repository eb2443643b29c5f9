"""TAI: the text form, its order, its arithmetic, and the leap seconds of the last fifty years."""

from datetime import UTC, datetime
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bobbin.errors import UsageError
from bobbin.records import tai

SECOND = 1_000_000_000

# From the announcements of the International Earth Rotation Service: from this day on, TAI - UTC is so many seconds.
LEAPS = [
    ("1972-01-01", 10),
    ("1972-07-01", 11),
    ("1973-01-01", 12),
    ("1974-01-01", 13),
    ("1975-01-01", 14),
    ("1976-01-01", 15),
    ("1977-01-01", 16),
    ("1978-01-01", 17),
    ("1979-01-01", 18),
    ("1980-01-01", 19),
    ("1981-07-01", 20),
    ("1982-07-01", 21),
    ("1983-07-01", 22),
    ("1985-07-01", 23),
    ("1988-01-01", 24),
    ("1990-01-01", 25),
    ("1991-01-01", 26),
    ("1992-07-01", 27),
    ("1993-07-01", 28),
    ("1994-07-01", 29),
    ("1996-01-01", 30),
    ("1997-07-01", 31),
    ("1999-01-01", 32),
    ("2006-01-01", 33),
    ("2009-01-01", 34),
    ("2012-07-01", 35),
    ("2015-07-01", 36),
    ("2017-01-01", 37),
]


def unix(day: str) -> int:
    return int(datetime.fromisoformat(day).replace(tzinfo=UTC).timestamp())


@pytest.mark.parametrize(("day", "offset"), LEAPS)
def test_the_offset_changes_at_midnight_of_the_announced_day(day: str, offset: int) -> None:
    midnight = unix(day)
    assert tai.offset_seconds(midnight) == offset
    assert tai.offset_seconds(midnight - 1) == max(offset - 1, 10)


def test_nothing_changes_between_two_leaps() -> None:
    for (day, offset), (following, _) in pairwise(LEAPS):
        assert {tai.offset_seconds(at) for at in range(unix(day), unix(following), 86_400)} == {offset}


def test_before_the_first_leap_and_after_the_last() -> None:
    assert tai.offset_seconds(0) == 10
    assert tai.offset_seconds(-(10**9)) == 10
    assert tai.offset_seconds(unix("2026-01-01")) == 37
    assert tai.offset_seconds(9_999_999_999) == 37


def test_an_instant_of_2022_is_37_seconds_ahead() -> None:
    utc = unix("2022-01-01") * SECOND
    assert tai.render(tai.from_utc(utc)) == "1640995237:000000000"
    assert tai.to_utc(tai.parse("1640995237:000000000")) == utc


@given(st.integers(unix("1972-01-02"), unix("2100-01-01")), st.integers(0, SECOND - 1))
def test_utc_to_tai_and_back(seconds: int, fraction: int) -> None:
    utc = seconds * SECOND + fraction
    assert tai.to_utc(tai.from_utc(utc)) == utc


@given(st.lists(st.integers(0, 4_000_000_000 * SECOND), min_size=2, max_size=2, unique=True).map(sorted))
def test_tai_keeps_the_order_of_utc(pair: list[int]) -> None:
    assert tai.from_utc(pair[0]) < tai.from_utc(pair[1])


@pytest.mark.parametrize(("day", "offset"), LEAPS[1:])
def test_around_a_leap_second(day: str, offset: int) -> None:
    midnight = unix(day)
    before, after = tai.from_utc((midnight - 1) * SECOND), tai.from_utc(midnight * SECOND)
    assert after - before == 2 * SECOND, "one second was inserted"
    assert tai.to_utc(before) == (midnight - 1) * SECOND
    assert tai.to_utc(after) == midnight * SECOND
    assert tai.to_utc(after - SECOND) == midnight * SECOND, "inside the leap second: the second after it"
    assert after == (midnight + offset) * SECOND


def test_the_text_of_an_instant() -> None:
    assert tai.parse("1640995200:000000000") == 1_640_995_200 * SECOND
    assert tai.render(0) == "0000000000:000000000"
    assert tai.render(tai.TAI_MAX) == "9999999999:999999999"
    assert tai.parse("9999999999:999999999") == tai.TAI_MAX


@pytest.mark.parametrize(
    "text",
    [
        "",
        "1640995200",
        "1640995200:00000000",
        "1640995200:0000000000",
        "164099520:000000000",
        "01640995200:000000000",
        "1640995200.000000000",
        " 1640995200:000000000",
        "1640995200:000000000 ",
        "1640995200:000000000\n",
        "+640995200:000000000",
        "-640995200:000000000",
        "164099520_:000000000",
        "164099520٠:000000000",
        "1640995200:00000000\uff10",
        "\ud800640995200:000000000",
    ],
)
def test_what_is_no_tai(text: str) -> None:
    with pytest.raises(tai.TaiError):
        tai.parse(text)


def test_the_error_is_the_callers() -> None:
    assert issubclass(tai.TaiError, UsageError)


@given(st.integers(0, tai.TAI_MAX))
def test_render_and_parse_are_inverse(nanoseconds: int) -> None:
    text = tai.render(nanoseconds)
    assert len(text) == 20
    assert tai.parse(text) == nanoseconds


@given(st.integers(0, tai.TAI_MAX), st.integers(0, tai.TAI_MAX))
def test_text_order_is_number_order(a: int, b: int) -> None:
    assert (tai.render(a) < tai.render(b)) == (a < b)


@given(st.integers(0, tai.TAI_MAX), st.integers(-tai.TAI_MAX, tai.TAI_MAX))
def test_addition_stays_in_range_or_fails(start: int, step: int) -> None:
    if 0 <= start + step <= tai.TAI_MAX:
        assert tai.add(tai.render(start), step) == tai.render(start + step)
    else:
        with pytest.raises(tai.TaiError):
            tai.add(tai.render(start), step)


@pytest.mark.parametrize("nanoseconds", [-1, tai.TAI_MAX + 1])
def test_the_ends_of_the_range(nanoseconds: int) -> None:
    with pytest.raises(tai.TaiError):
        tai.render(nanoseconds)


def test_a_carry_over_the_second() -> None:
    assert tai.add("1640995200:999999999", 1) == "1640995201:000000000"
    assert tai.add("1640995201:000000000", -1) == "1640995200:999999999"
