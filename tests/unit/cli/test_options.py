"""How the texts on a command line become values, and what is said about those that do not."""

import pytest

from bobbin.cli import options
from bobbin.cli.options import FormChoice
from bobbin.errors import UsageError
from bobbin.records.coordinate import Address, Coordinate, Prefix
from bobbin.records.ids import HashText

PLEX = HashText("P.tyYEj0zIBrq7IDVBPzaErPIq5p03OhpTTm14ePsSz80.H3")


def test_a_hash_may_be_bare_or_an_address() -> None:
    assert options.parse_hash(PLEX) == PLEX
    assert options.parse_hash(f"////{PLEX}") == PLEX


@pytest.mark.parametrize("text", ["", "x", "P.ty.H3", PLEX[:-1], f"//{PLEX}", PLEX.replace("P.", "V."), PLEX + "\n"])
def test_what_is_no_hash_is_a_usage_error(text: str) -> None:
    with pytest.raises(UsageError):
        options.parse_hash(text)


def test_get_takes_a_hash_an_address_or_a_coordinate() -> None:
    assert options.parse_wanted(PLEX) == Address(hash=PLEX)
    assert options.parse_wanted(f"////{PLEX}") == Address(hash=PLEX)
    assert options.parse_wanted("//u//ding//links/1") == Coordinate(group="u", app="ding", name="links/1")


@pytest.mark.parametrize(("text", "word"), [("//u//ding//", "prefix"), ("links/1", "neither"), ("//u", "coordinate")])
def test_get_says_what_is_wrong_with_other_texts(text: str, word: str) -> None:
    with pytest.raises(UsageError, match=word):
        options.parse_wanted(text)


def test_list_takes_a_coordinate_or_a_prefix() -> None:
    assert options.parse_place("//u//ding//links/1") == Coordinate(group="u", app="ding", name="links/1")
    assert options.parse_place("//u//ding//links/") == Prefix(group="u", app="ding", name="links/")
    with pytest.raises(UsageError, match="show"):
        options.parse_place(f"////{PLEX}")


@pytest.mark.parametrize(
    ("text", "header"),
    [
        ("K: V", ("K", "V")),
        ("+Link: source X", ("+Link", "source X")),
        ("K: a: b", ("K", "a: b")),
        ("K:  V", ("K", " V")),
    ],
)
def test_a_header_is_split_at_the_first_colon_and_space(text: str, header: tuple[str, str]) -> None:
    assert options.parse_header(text) == header


@pytest.mark.parametrize("text", ["", "K", "K:V", ": V", "K: "])
def test_what_is_no_header_is_a_usage_error(text: str) -> None:
    with pytest.raises(UsageError, match="Name: value"):
        options.parse_header(text)


def test_a_form_that_is_not_named_is_left_to_the_file() -> None:
    assert [options.chosen_form(choice) for choice in FormChoice] == [None, "bundle", "jsonl"]
