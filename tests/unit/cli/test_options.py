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


@pytest.mark.parametrize(
    ("text", "word"),
    [
        (f"{PLEX[:10]}….H3", "shortened"),
        (f"{PLEX[:10]}...", "shortened"),
        (f"{PLEX}\n", "white space"),
        (PLEX[2:-3], "no full stop"),
        (PLEX.replace("P.", "V."), "a verifier"),
        (PLEX.replace("P.", "&."), "a signing secret"),
        (PLEX.replace("P.", "R."), "the identifier of a policy"),
        (PLEX.replace("P.", "p."), r"begins with 'p'.*capitals: P"),
        (PLEX.replace("P.", "X."), "begins with 'X', not with B"),
        (PLEX.replace("y", "-"), "character 4 is '-'"),
        (PLEX.replace("y", "é"), "character 4 is 'é'"),
        (PLEX.replace("ty", "t"), "42 symbols after P. and so fewer than 43"),
        (PLEX.replace("ty", "tyy"), "44 symbols after P. and so more than 43"),
        (PLEX[:-1], "ends in '.H'"),
        (PLEX[:-3], "ends in ''"),
        (PLEX.replace("0.H3", "1.H3"), "last symbol, '1'"),
    ],
)
def test_a_mistyped_hash_is_told_what_is_wrong_and_what_is_expected(text: str, word: str) -> None:
    for parse in (options.parse_hash, options.parse_wanted):
        with pytest.raises(UsageError, match=word) as caught:
            parse(text)
        assert str(caught.value).endswith("Expected P.<43 symbols>.H3")
    with pytest.raises(UsageError, match=word):
        options.parse_wanted(f"////{text}")


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


def test_messages_about_prefixes_and_records_lead_somewhere() -> None:
    with pytest.raises(UsageError, match="without the / at its end it is the record //u//ding//links"):
        options.parse_wanted("//u//ding//links/")
    with pytest.raises(UsageError) as raised:
        options.parse_wanted("//u//ding//")
    assert "without" not in str(raised.value), "no record has an empty name"
    with pytest.raises(UsageError, match="`bobbin show` shows it"):
        options.parse_place(PLEX)
    with pytest.raises(UsageError, match="prefixes are //group//, //group//app// and //group//app//name/"):
        options.parse_place("//u//ding/")
