"""B64A: the vectors of Lace-006, what must be refused, and the order that the alphabet promises."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bobbin.errors import IntegrityError
from bobbin.records import b64a
from tests.unit.records import forge
from tests.vectors.load import load

VECTORS = load("b64a.json")


def test_the_alphabet_is_the_published_one_and_ascends() -> None:
    assert VECTORS["alphabet"] == b64a.ALPHABET
    assert sorted(b64a.ALPHABET) == list(b64a.ALPHABET)
    assert len(set(b64a.ALPHABET)) == 64


@pytest.mark.parametrize("case", VECTORS["canonical"], ids=lambda case: case["hex"] or "empty")
def test_vectors(case: dict[str, str]) -> None:
    data = bytes.fromhex(case["hex"])
    assert b64a.encode(data) == case["text"]
    assert b64a.encode_bytes(data) == case["text"].encode()
    assert b64a.decode(case["text"]) == data
    assert b64a.decode(case["text"].encode()) == data


@pytest.mark.parametrize("text", VECTORS["refused"])
def test_what_must_be_refused(text: str) -> None:
    with pytest.raises(b64a.B64aError):
        b64a.decode(text)
    with pytest.raises(b64a.B64aError):
        b64a.decode(text.encode())


@pytest.mark.parametrize(
    "text", ["0", "00000", "00==", "00=", " 00", "00\n", "00\x00", "é0", "0²", "\ud800\ud800", "-_"]
)
def test_other_texts_that_are_no_spelling(text: str) -> None:
    with pytest.raises(b64a.B64aError):
        b64a.decode(text)


def test_bytes_outside_ascii_are_refused() -> None:
    with pytest.raises(b64a.B64aError):
        b64a.decode(b"\xff\xff")


def test_the_error_is_about_the_bytes() -> None:
    assert issubclass(b64a.B64aError, IntegrityError)


@pytest.mark.parametrize("case", VECTORS["lengths"], ids=lambda case: str(case["bytes"]))
def test_lengths_and_last_symbols(case: dict[str, int | str]) -> None:
    size = int(case["bytes"])
    assert b64a.length(size) == case["symbols"]
    lasts = {b64a.encode(bytes(size - 1) + bytes([last]))[-1] for last in range(256)}
    assert lasts == set(str(case["last_symbols"]))


@pytest.mark.parametrize("size", [0, 1, 2, 3, 4, 5, 31, 32, 33, 64])
def test_length_is_that_of_the_encoding(size: int) -> None:
    assert b64a.length(size) == len(b64a.encode(bytes(size)))


@given(st.binary(max_size=200))
def test_encoding_equals_the_bit_by_bit_one_and_comes_back(data: bytes) -> None:
    text = b64a.encode(data)
    assert text.encode() == forge.spell(data)
    assert b64a.decode(text) == data


@given(st.text(alphabet=b64a.ALPHABET, max_size=90))
def test_a_text_over_the_alphabet_has_at_most_one_reading(text: str) -> None:
    try:
        data = b64a.decode(text)
    except b64a.B64aError:
        unused = {1: 6, 2: 4, 3: 2, 0: 0}[len(text) % 4]
        assert unused == 6 or b64a.ALPHABET.index(text[-1]) & ((1 << unused) - 1)
    else:
        assert b64a.encode(data) == text


@given(st.integers(0, 70).flatmap(lambda size: st.lists(st.binary(min_size=size, max_size=size), max_size=8)))
def test_texts_of_one_length_sort_like_their_bytes(values: list[bytes]) -> None:
    assert sorted(values) == [b64a.decode(text) for text in sorted(b64a.encode(value) for value in values)]


@given(st.binary(max_size=30).filter(lambda data: len(data) % 3 == 0), st.binary(min_size=1, max_size=30))
def test_a_strict_prefix_sorts_first(head: bytes, tail: bytes) -> None:
    assert b64a.encode(head) < b64a.encode(head + tail)


@given(st.binary(min_size=1, max_size=70), st.data())
def test_the_quick_decoding_agrees_with_the_careful_one(raw: bytes, data: st.DataObject) -> None:
    symbols = bytearray(b64a.encode_bytes(raw))
    assert b64a.decode_counted(bytes(symbols)) == raw
    symbols[data.draw(st.integers(0, len(symbols) - 1))] = data.draw(st.integers(0, 255))
    try:
        expected = b64a.decode(bytes(symbols))
    except b64a.B64aError:
        with pytest.raises(b64a.B64aError):
            b64a.decode_counted(bytes(symbols))
    else:
        assert b64a.decode_counted(bytes(symbols)) == expected
