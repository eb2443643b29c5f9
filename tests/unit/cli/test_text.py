"""Nothing that is shown can act on a terminal, and it still says what the bytes are."""

import json
import unicodedata

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bobbin.cli import text
from bobbin.records import tai

_HARMLESS = {"\n", "\t"}


def _can_act(shown: str) -> bool:
    return any(unicodedata.category(char) in {"Cc", "Cf", "Cs", "Co", "Zl", "Zp"} for char in shown)


@given(st.text(st.characters(exclude_categories=[])))
def test_printable_text_holds_nothing_that_a_terminal_obeys(raw: str) -> None:
    assert not _can_act(text.printable(raw))


@given(st.text(st.characters(categories=["L", "N", "P", "S"])))
def test_visible_text_stays_as_it_is(raw: str) -> None:
    assert text.printable(raw) == raw


@pytest.mark.parametrize(
    ("raw", "shown"),
    [
        ("plain äöü 漢字 🖧", "plain äöü 漢字 🖧"),
        ("\x1b[31mred", "\\x1b[31mred"),
        ("a\nb\tc", "a\\nb\\x09c"),
        ("\x9b31m", "\\x9b31m"),
        ("\u202eevil", "\\u{202e}evil"),
        ("zero\u200bwidth", "zero\\u{200b}width"),
        ("\udcff", "\\u{dcff}"),
    ],
)
def test_escapes_name_the_character(raw: str, shown: str) -> None:
    assert text.printable(raw) == shown


def test_characters_to_keep_are_kept() -> None:
    assert text.printable("a\n\tb\r", keep="\n\t") == "a\n\tb\\x0d"


@given(st.recursive(st.text(), lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner)))
def test_escaped_json_is_safe_and_means_the_same(value: object) -> None:
    escaped = text.escape_json(orjson.dumps(value).decode())
    assert not _can_act(escaped)
    assert json.loads(escaped) == value


def test_json_beyond_the_first_plane_is_escaped_in_pairs() -> None:
    assert text.escape_json('"\U000e0001"') == '"\\udb40\\udc01"'
    assert text.escape_json('"🖧"') == '"🖧"'


@given(st.binary(max_size=4000))
def test_a_preview_is_safe_and_short_whatever_the_bytes(data: bytes) -> None:
    lines = text.preview(data)
    assert not any(_can_act(line) for line in lines)
    assert len(lines) <= 21
    assert all(len(line) < 1024 * 10 for line in lines)


@pytest.mark.parametrize(
    ("data", "lines"),
    [
        (b"", []),
        (b"hello", ["hello"]),
        (b"hello\n", ["hello"]),
        (b"one\ntwo\n\n", ["one", "two", ""]),
        ("größe\tx".encode(), ["größe\\x09x"]),
        (b"an ordinary line with one \x1b[2J in it", ["an ordinary line with one \\x1b[2J in it"]),
        (b"\x00\x01\x02ABC", ["000000  00 01 02 41 42 43                                 ...ABC"]),
        (b"\xff" * 17, [
            "000000  ff ff ff ff ff ff ff ff  ff ff ff ff ff ff ff ff  " + "." * 16,
            "000010  ff                                                .",
        ]),
    ],
)  # fmt: skip
def test_previews(data: bytes, lines: list[str]) -> None:
    assert text.preview(data) == lines


def test_a_long_preview_says_how_much_there_is() -> None:
    assert text.preview(b"x\n" * 300) == ["x"] * 20 + ["… 600 B in all"]
    assert text.preview(b"a" * 2000)[-1] == "… 2.0 kB in all"
    assert text.preview(b"\x00" * 2000)[20:] == ["… 2.0 kB in all"]


def test_text_cut_inside_a_character_is_still_text() -> None:
    data = b"x" * 1023 + "ä".encode() + b"tail"
    assert text.preview(data) == ["x" * 1023, "… 1.0 kB in all"]


@pytest.mark.parametrize(
    ("data", "plain"),
    [
        (b"", True),
        (b"hello\n\tx", True),
        ("ä🖧".encode(), True),
        (b"\x1b[1m", False),
        (b"\xff", False),
        (b"a\rb", False),
    ],
)
def test_plain_text_is_what_a_terminal_shows_as_it_stands(data: bytes, *, plain: bool) -> None:
    assert text.is_plain_text(data) is plain


@pytest.mark.parametrize(
    ("size", "shown"),
    [(0, "0 B"), (999, "999 B"), (1000, "1.0 kB"), (999_949, "999.9 kB"), (999_950, "1.0 MB"), (33_554_432, "33.6 MB"),
     (10**12, "1.0 TB"), (10**18, "1000.0 PB")],
)  # fmt: skip
def test_sizes(size: int, shown: str) -> None:
    assert text.size_text(size) == shown


def test_counts_agree_with_their_noun() -> None:
    assert text.count_text(1, "record") == "1 record"
    assert text.count_text(12000, "record") == "12,000 records"
    assert text.count_text(2, "Plex", "Plexes") == "2 Plexes"


def test_times_are_utc_and_what_no_calendar_says_stays_tai() -> None:
    assert text.utc_text(tai.parse("1640995200:000000000")) == "2021-12-31T23:59:23Z"
    assert text.utc_text(tai.parse("1640995237:999999999")) == "2022-01-01T00:00:00Z"
    assert text.utc_text(tai.TAI_MAX) in ("2286-11-20T17:46:02Z", "9999999999:999999999")
