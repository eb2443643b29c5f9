"""Base58: one text per value, nothing else is read, and long texts cost nothing."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bobbin.tangles import base58
from bobbin.tangles.errors import MalformedText
from tests.vectors.load import load


@given(st.binary(max_size=80))
def test_every_value_has_one_text(data: bytes) -> None:
    text = base58.encode(data)
    assert set(text) <= set(base58.ALPHABET)
    assert base58.decode(text, len(data)) == data


@given(st.text(alphabet=base58.ALPHABET, max_size=60), st.integers(0, 44))
def test_every_text_is_the_text_of_what_it_stands_for(text: str, size: int) -> None:
    if base58.is_text_of(text, size):
        assert base58.encode(base58.decode(text, size)) == text
    else:
        with pytest.raises(MalformedText):
            base58.decode(text, size)


def test_leading_zeros_are_ones() -> None:
    assert base58.encode(b"\0\0\1") == "112"
    assert base58.decode("112", 3) == b"\0\0\1"
    assert base58.encode(bytes(32)) == "1" * 32
    assert base58.decode("1" * 32, 32) == bytes(32)
    assert base58.encode(b"") == ""


def test_the_longest_texts_are_read() -> None:
    for size in range(70):
        assert base58.decode(base58.encode(b"\xff" * size), size) == b"\xff" * size


@pytest.mark.parametrize("text", ["0", "O", "I", "l", "a b", "ä", "+", "1\n", "²"])
def test_other_symbols_are_refused(text: str) -> None:
    with pytest.raises(MalformedText, match="alphabet"):
        base58.decode(text.ljust(20, "z"), 32)


def test_the_number_of_bytes_must_be_right() -> None:
    text = base58.encode(b"x" * 31)
    with pytest.raises(MalformedText, match="31 bytes, not 32"):
        base58.decode(text, 32)
    assert not base58.is_text_of(base58.encode(b"x" * 33), 32)


def test_a_text_that_is_too_long_is_not_even_looked_at() -> None:
    with pytest.raises(MalformedText, match="no base58 text of 32 bytes has 10000000 symbols"):
        base58.decode("0" * 10_000_000, 32)


@pytest.mark.parametrize("entry", load("pzp/keys/keypairs.json")["keypairs"], ids=lambda entry: entry["seed"])
def test_keys_as_a_real_peer_writes_them(entry: dict[str, str]) -> None:
    assert base58.decode(entry["public"], 32).hex() == entry["public_hex"]
    assert base58.decode(entry["private"], 64).hex() == entry["private_hex"]
    assert base58.encode(bytes.fromhex(entry["private_hex"])) == entry["private"]
