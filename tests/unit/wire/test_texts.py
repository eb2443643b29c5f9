"""Decimals, hash texts, prefixes and digests: each has one spelling."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bobbin.interlace.limits import VALUE_MAX
from bobbin.policy.claims import ClaimedField, ClaimError, Claims
from bobbin.records import b64a
from bobbin.wire import texts
from tests.unit.wire.streams import FOREIGN, HASHES, SOURCE


@given(st.integers(0, VALUE_MAX))
def test_a_number_is_read_back(number: int) -> None:
    """ILC-109."""
    assert texts.decimal(str(number)) == number


@pytest.mark.parametrize(
    "text", ["", "00", "01", "+1", "-1", " 1", "1 ", "1\n", "1_0", "0x1", "٣", str(2**64), "1" * 21, "9" * 20]
)
def test_what_is_no_decimal(text: str) -> None:
    """ILC-109."""
    assert texts.decimal(text) is None


def test_the_largest_decimal() -> None:
    """ILC-109."""
    assert texts.decimal(str(2**64 - 1)) == 2**64 - 1


@given(st.binary(min_size=32, max_size=32))
def test_a_digest_is_read_back(data: bytes) -> None:
    """ILC-107."""
    assert texts.digest(b64a.encode(data)) == data


@pytest.mark.parametrize("text", ["", "0" * 42, "0" * 44, "0" * 42 + "1", "0" * 42 + "-", "00" * 32, "é" * 43])
def test_what_is_no_digest(text: str) -> None:
    """ILC-107: hexadecimal, 31 bytes, and bits in the last symbol that spell nothing."""
    assert texts.digest(text) is None


@given(HASHES | FOREIGN)
def test_a_hash_text_is_one(text: str) -> None:
    assert texts.RECORD.fullmatch(text)


@given(st.from_regex(r"[BPSVR]\.[0-9A-Z_a-z~é]{0,44}\.[A-Z0-9]{0,3}", fullmatch=True) | HASHES.map(lambda t: t[:-1]))
def test_a_hash_text_is_what_claims_take_for_one(text: str) -> None:
    try:
        Claims(SOURCE, {text: ()})
        claimed = True
    except ClaimError:
        claimed = False
    assert bool(texts.RECORD.fullmatch(text)) is claimed


@pytest.mark.parametrize("last", b64a.ALPHABET)
def test_the_last_symbol_of_a_hash_text(last: str) -> None:
    canonical = last in b64a.ALPHABET[::4]
    assert bool(texts.RECORD.fullmatch(f"P.{'0' * 42}{last}.H3")) is canonical
    assert bool(texts.PLAN.fullmatch(f"E.{'0' * 42}{last}")) is canonical


def test_prefixes() -> None:
    assert all(texts.PREFIX.fullmatch(text) for text in ("a", "~" * 43))
    assert not any(texts.PREFIX.fullmatch(text) for text in ("", "0" * 44, "-", "a\n", "é"))


@pytest.mark.parametrize("text", ["", "a\tb", "\x7f", "x\n"])
def test_what_no_record_says(text: str) -> None:
    assert not texts.is_said_by_records(text)
    with pytest.raises(ClaimError):
        Claims(SOURCE, {"P.a.H4": [ClaimedField("Name", "0", text)]})
