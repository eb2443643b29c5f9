"""Numbers with their units, and text that cannot do anything to a page."""

import html

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bobbin.pipeline.report import words


@given(st.text())
def test_escaped_text_is_visible_and_is_no_markup(text: str) -> None:
    shown = words.escaped(text)
    assert shown.isprintable()
    assert not set(shown) & set("<>\"'")
    if text.isprintable():
        assert html.unescape(shown) == text


def test_what_hides_or_reorders_is_shown_as_an_escape() -> None:
    assert words.escaped("a\u202eb\x00\n\t\r") == "a\\u{202e}b\\u{0000}\\n\\t\\r"


@pytest.mark.parametrize(
    ("number", "text"), [(0, "0"), (0.25, "0.25"), (950, "950"), (1500, "1.5k"), (20_000_000, "20M"), (3e9, "3G")]
)
def test_short(number: float, text: str) -> None:
    assert words.short(number) == text


@pytest.mark.parametrize(
    ("number", "text"),
    [(0, "0 B"), (999, "999 B"), (1500, "1.5 kB"), (32_000_000, "32.0 MB"), (10**18, "1000.0 PB"), (999_960, "1.0 MB")],
)
def test_size(number: int, text: str) -> None:
    assert words.size(number) == text


@pytest.mark.parametrize(
    ("number", "text"), [(1, "1 B"), (512, "512 B"), (4096, "4 KiB"), (1 << 30, "1 GiB"), (1 << 42, "4 TiB")]
)
def test_power(number: int, text: str) -> None:
    assert words.power(number) == text


@pytest.mark.parametrize(
    ("part", "whole", "text"),
    [
        (0, 10, "0 %"),
        (1, 0, "0 %"),
        (10, 10, "100 %"),
        (1, 10**6, "< 0.1 %"),
        (999_999, 10**6, "> 99.9 %"),
        (1, 3, "33.3 %"),
    ],
)
def test_share(part: int, whole: int, text: str) -> None:
    assert words.share(part, whole) == text


@pytest.mark.parametrize(
    ("number", "text"), [(0.44, "0.4 s"), (59.9, "59.9 s"), (200, "3 min 20 s"), (7500, "2 h 5 min")]
)
def test_seconds(number: float, text: str) -> None:
    assert words.seconds(number) == text


@pytest.mark.parametrize(
    ("number", "text"),
    [(86400, "day"), (7 * 86400, "7-day"), (21600, "6-hour"), (3600, "hour"), (600, "10-minute"), (7, "7-second")],
)
def test_width(number: int, text: str) -> None:
    assert words.width(number) == text


def test_moments_are_as_exact_as_their_bucket() -> None:
    assert words.moment(1767225600) == "2026-01-01 00:00:00"
    assert words.moment(1767225600, 3600) == "2026-01-01 00:00"
    assert words.moment(1767225600, 86400) == "2026-01-01"
    assert words.moment(10**15) == f"{10**15} s"


def test_instants_are_in_utc_and_anything_else_as_it_is() -> None:
    assert words.instant("1767225637:000000000") == "2026-01-01 00:00:00 UTC"
    assert words.instant("yesterday") == "yesterday"


def test_means() -> None:
    assert [words.mean(number) for number in (0.0, 0.01234, 1.0242, 12.34, 24414.06)] == [
        "0", "0.0123", "1.02", "12.3", "24,414.1",
    ]  # fmt: skip


def test_counts() -> None:
    assert words.count(12345) == "12,345"
    assert [words.counted(number, "record") for number in (0, 1, 2000)] == ["0 records", "1 record", "2,000 records"]
    assert words.counted(2, "prefix", "prefixes") == "2 prefixes"
