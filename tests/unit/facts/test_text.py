import re
import unicodedata
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bobbin.errors import UsageError
from bobbin.facts.text import CONSTANT, NAME, UnknownEscape, is_plain, quote, unescape

_SPEAKABLE = st.text(
    st.characters(exclude_categories=["Cs"], exclude_characters=[*map(chr, range(32)), "\x7f"])
    | st.sampled_from("\n\r\t'\\")
)


@pytest.mark.parametrize(
    ("value", "spelled"),
    [
        ("", "''"),
        ("plain", "'plain'"),
        ("it's", r"'it\'s'"),
        ("back\\slash", r"'back\\slash'"),
        ("a\nb\rc\td", r"'a\nb\rc\td'"),
        ("\\n", r"'\\n'"),
        ('"', "'\"'"),
        ("# % _ :- .", "'# % _ :- .'"),
        ("é𝄞", "'é𝄞'"),
        ("\u0080", "'\u0080'"),
    ],
)
def test_each_value_has_its_one_spelling(value: str, spelled: str) -> None:
    assert quote(value) == spelled
    assert unescape(spelled[1:-1]) == value


@given(_SPEAKABLE)
def test_spelling_and_reading_are_inverse(value: str) -> None:
    spelled = quote(value)
    assert re.fullmatch(CONSTANT, spelled)
    assert unescape(spelled[1:-1]) == value
    assert is_plain(value) == (spelled == f"'{value}'")


@given(st.text(st.sampled_from("ab'\\nrtx\n\r\t\x00 ")))
def test_whatever_reads_as_a_constant_is_spelled_as_it_is_read(spelled: str) -> None:
    """No value has a second spelling: what can be read at all is what would be written."""
    if not re.fullmatch(CONSTANT, f"'{spelled}'"):
        return
    try:
        value = unescape(spelled)
    except UnknownEscape:
        return
    assert quote(value) == f"'{spelled}'"


def test_no_value_has_two_spellings() -> None:
    """ILC-012: every short text over the characters that matter, and every escape of one ASCII character."""
    spellings: dict[str, str] = {}
    for length in range(5):
        for pieces in product("an'\\\n\t", repeat=length):
            spelled = "".join(pieces)
            if not re.fullmatch(CONSTANT, f"'{spelled}'"):
                continue
            try:
                value = unescape(spelled)
            except UnknownEscape:
                continue
            assert spellings.setdefault(value, spelled) == spelled
            assert quote(value) == f"'{spelled}'"
    # Two plain characters and three escapes of two: 1 + 2 + 7 + 20 + 61 texts that can be read.
    assert len(spellings) == 91
    known = [character for character in map(chr, range(128)) if _is_escape(character)]
    assert known == sorted("\\'nrt")


def _is_escape(character: str) -> bool:
    try:
        unescape(f"\\{character}")
    except UnknownEscape:
        return False
    return True


@pytest.mark.parametrize("character", [*map(chr, (*(set(range(32)) - {9, 10, 13}), 0x7F, 0xD800, 0xDFFF))])
def test_a_value_that_has_no_spelling_is_refused(character: str) -> None:
    with pytest.raises(UsageError, match=rf"U\+{ord(character):04X}"):
        quote(f"a{character}b")


@pytest.mark.parametrize("escape", [r"\x", r"\u", r"\0", r"\N", "\\", '\\"', r"\é"])
def test_an_unknown_escape_is_named(escape: str) -> None:
    with pytest.raises(UnknownEscape) as caught:
        unescape(rf"ok\n{escape}")
    assert caught.value.escape == escape


@pytest.mark.parametrize("text", ["'a", "a'", "'a'b'", "'\\'", "'a\nb'", "'a\tb'", "'\x7f'", "'\\\n'", ""])
def test_what_is_no_constant_does_not_match(text: str) -> None:
    assert not re.fullmatch(CONSTANT, text)


@pytest.mark.parametrize(
    ("name", "fits"),
    [
        ("A", True),
        ("Aa9_", True),
        ("a", False),
        ("_A", False),
        ("9", False),
        ("É", False),
        ("Aé", False),
        ("A-b", False),
        ("", False),
    ],
)
def test_names_are_ascii_and_begin_with_a_capital(name: str, fits: bool) -> None:  # noqa: FBT001 -- a column of the table
    assert bool(re.fullmatch(NAME, name)) == fits


def test_an_open_constant_costs_no_more_than_its_length() -> None:
    """Nested repetition would try every way to divide this text. The test ends only if it does not."""
    assert not re.match(CONSTANT, "'" + "a" * 200_000)
    assert not re.match(CONSTANT, "'" + "\\'" * 100_000)


def test_an_escape_before_a_combining_mark_is_not_in_form_nfc() -> None:
    """The one corner where a value is in form NFC and its spelling is not: printers must look at the spelling."""
    value = "\n\u0301"
    assert unicodedata.is_normalized("NFC", value)
    assert not unicodedata.is_normalized("NFC", quote(value))
