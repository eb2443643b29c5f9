"""Coordinates: the three texts that address records, and which paths can be part of one."""

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bobbin.errors import UsageError
from bobbin.records import coordinate
from bobbin.records.coordinate import Address, Coordinate, CoordinateError, Prefix
from bobbin.records.ids import HashText

HASH = "P.tyYEj0zIBrq7IDVBPzaErPIq5p03OhpTTm14ePsSz80.H3"


def test_the_examples_of_the_protocol() -> None:
    assert coordinate.parse("//u//ding//links/server-one") == Coordinate(group="u", app="ding", name="links/server-one")
    assert coordinate.parse("//u//ding//links/") == Prefix(group="u", app="ding", name="links/")
    assert coordinate.parse(f"////{HASH}") == Address(hash=HashText(HASH))


def test_prefixes_stop_after_the_group_the_app_or_a_segment() -> None:
    assert coordinate.parse("//u//") == Prefix(group="u")
    assert coordinate.parse("//u/v//") == Prefix(group="u/v")
    assert coordinate.parse("//u//ding//") == Prefix(group="u", app="ding")
    assert coordinate.parse("//u//ding//a/b/") == Prefix(group="u", app="ding", name="a/b/")


@pytest.mark.parametrize(
    "text",
    [
        "",
        "/",
        "//",
        "///",
        "////",
        "u//ding//n",
        "/u//ding//n",
        "//u",
        "//u//ding",
        "//u//ding//n//m",
        "//u//ding//n//",
        "//u//ding///",
        "//u//ding////",
        "///u//ding//n",
        "//u///ding//n",
        "//u/ding/n",
        "//////n",
        "//u//ding///n",
        "//u//.//n",
        "//u//ding//..",
        "//u//ding//a/./b",
        "//u//ding//a/../",
        "//u//ding//n/|/plex",
        "//u//ding//n|",
        "//u|//",
        "//u//ding//a{b",
        "//u//ding//a}b",
        "//u//ding//a#b",
        "//u//ding//a\nb",
        "//u//ding//a\x7f",
        "//u//ding//a\x00",
        "//u//ding//n\n",
        "//u// ding//n",
        "// u//ding//n",
        "//u//ding// n",
        "//u//ding//cafe\u0301",
        "//u//ding//\ud800",
        f"////{HASH}x",
        f"////{HASH[:-1]}",
        f"////V{HASH[1:]}",
        f"//// {HASH}",
        f"///{HASH}",
        "////\ud800",
    ],
)
def test_what_addresses_nothing(text: str) -> None:
    with pytest.raises(CoordinateError):
        coordinate.parse(text)


def test_the_error_is_the_callers() -> None:
    assert issubclass(CoordinateError, UsageError)


@pytest.mark.parametrize(
    ("role", "path"),
    [
        ("group", "u"),
        ("app", "a b"),
        ("name", "a/ b"),
        ("name", "..."),
        ("name", ".a/a.."),
        ("name", "été/\U0001f5a7"),
        ("name", "a:b: c"),
        ("group", "g" * 255),
        ("group", "/".join(["gg"] * 85)),
        ("name", "n" * 255),
        ("name", "/".join(["n" * 253] * 4)),  # 1015 bytes
        ("name", "n/" * 508 + "nn"),  # 1018 bytes: all that fits on a line
        ("name", "\u0085"),  # a control character to Unicode, but not to the protocol
    ],
)
def test_good_paths(role: str, path: str) -> None:
    assert coordinate.fault(role, path) is None


@pytest.mark.parametrize(
    ("role", "path"),
    [
        ("group", ""),
        ("group", "/"),
        ("group", "/u"),
        ("group", "u/"),
        ("group", "u//v"),
        ("group", "."),
        ("group", ".."),
        ("group", "a/."),
        ("group", "../a"),
        ("group", " u"),
        ("group", "u|v"),
        ("group", "g" * 256),
        ("group", "é" * 128),
        ("app", "/".join(["aaa"] * 64 + ["a"])),  # 257 bytes
        ("name", "n" * 256),
        ("name", "a/" + "n" * 256),
        ("name", "n/" * 508 + "nnn"),  # 1019 bytes
        ("name", "n/" * 2000 + "n"),
        ("name", "\u2126"),  # the Ohm sign is not NFC
    ],
)
def test_bad_paths(role: str, path: str) -> None:
    assert coordinate.fault(role, path)


SEGMENTS = st.text(
    st.characters(exclude_categories=["Cs"], exclude_characters="/{}|#\x7f" + "".join(map(chr, range(32)))),
    min_size=1,
    max_size=12,
).filter(lambda s: s not in (".", "..") and unicodedata.is_normalized("NFC", s) and not s.startswith(" "))
PATHS = (
    st.lists(SEGMENTS, min_size=1, max_size=3).map("/".join).filter(lambda path: unicodedata.is_normalized("NFC", path))
)


@given(PATHS, PATHS, PATHS)
def test_coordinates_come_back_from_their_text(group: str, app: str, name: str) -> None:
    whole = Coordinate(group=group, app=app, name=name)
    assert coordinate.parse(str(whole)) == whole
    for prefix in (Prefix(group=group), Prefix(group=group, app=app), Prefix(group=group, app=app, name=f"{name}/")):
        assert coordinate.parse(str(prefix)) == prefix


@given(st.text(alphabet="/ua.|{\x00 \u0301", max_size=16).map(lambda text: f"//{text}"))
def test_every_text_is_read_back_or_refused(text: str) -> None:
    try:
        found = coordinate.parse(text)
    except CoordinateError:
        return
    assert not isinstance(found, Address)
    assert str(found) == text
