"""How an offer is said on the command line."""

import pytest

from bobbin.cli.pipeline_offer import parse_form, parse_lengths, parse_offer
from bobbin.errors import UsageError
from bobbin.interlace.schema import Schema


def test_fields_are_all_some_or_none() -> None:
    assert parse_form(None, None, no_fields=False).schema == Schema(all=True)
    assert parse_form(None, ["TAI", "Name"], no_fields=False).schema == Schema(names=frozenset({"Name", "TAI"}))
    assert parse_form(None, None, no_fields=True).schema == Schema()
    with pytest.raises(UsageError, match="give one of them"):
        parse_form(None, ["TAI"], no_fields=True)


def test_an_origin_is_checked() -> None:
    assert parse_form("source:archive", None, no_fields=False).source == "source:archive"
    assert parse_form(None, None, no_fields=False).source == "source:lake"
    with pytest.raises(UsageError, match="no origin"):
        parse_form("archive", None, no_fields=False)


def test_an_offer_of_a_selection() -> None:
    form = parse_form(None, None, no_fields=False)
    offer = parse_offer(form, "0123456789abcdef", "SelectHave")
    assert (offer.selection, offer.predicate) == ("0123456789abcdef", "SelectHave")
    assert parse_offer(form, None, "MaySend").selection is None


def test_lengths() -> None:
    assert parse_lengths("2") == (2,)
    assert parse_lengths("3, 2,3") == (2, 3)
    for text in ("", "two", "2,,3", "0", "44", "-1", "1234567"):
        with pytest.raises(UsageError):
            parse_lengths(text)
