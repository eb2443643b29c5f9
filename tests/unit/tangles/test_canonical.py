"""JSON: the canonical text of every value, and the text that JavaScript writes."""

import json
import struct

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from bobbin.tangles import canonical
from bobbin.tangles.canonical import NESTING_MAX, Json
from bobbin.tangles.errors import MalformedText
from bobbin.tangles.message import data_hash_and_size
from tests.vectors.load import load

CASES = load("pzp/canon/canonical-json.json")

TEXTS = st.text(alphabet=st.characters(exclude_categories=["Cs"]), max_size=6)
VALUES: st.SearchStrategy[Json] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | TEXTS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXTS, inner, max_size=4),
    max_leaves=12,
)


@pytest.mark.parametrize("case", CASES["cases"], ids=lambda case: case["input_json"][:40])
def test_what_a_real_peer_hashes(case: dict[str, str]) -> None:
    value = canonical.parse(case["input_json"])
    assert canonical.canonical(value).decode() == case["canonical"]
    found_hash, found_size = data_hash_and_size(value)
    assert {"dataHash": found_hash, "dataSize": found_size}.items() <= case.items()


@pytest.mark.parametrize("case", CASES["rejects"], ids=lambda case: case["input_json"])
def test_what_a_real_peer_refuses(case: dict[str, str]) -> None:
    with pytest.raises(MalformedText):
        canonical.canonical(canonical.parse(case["input_json"]))


def test_keys_are_sorted_by_utf16_code_unit() -> None:
    assert canonical.canonical({"\ufb33": 1, "\U0001f600": 2}).decode() == '{"\U0001f600":2,"\ufb33":1}'


def test_a_whole_number_beyond_doubles_is_rounded() -> None:
    assert canonical.canonical([9007199254740993, -9007199254740993]) == b"[9007199254740992,-9007199254740992]"
    with pytest.raises(MalformedText, match="larger than any double"):
        canonical.canonical(10**400)


@pytest.mark.parametrize("value", ["\ud800", ["\udc00"], {"\ud800": 1}, {"a": ["\udfff", 1.5]}])
def test_half_a_surrogate_pair_is_refused(value: Json) -> None:
    for write in (canonical.canonical, canonical.plain):
        with pytest.raises(MalformedText, match="surrogate"):
            write(value)


@pytest.mark.parametrize("number", [float("nan"), float("inf"), float("-inf")])
def test_what_is_not_finite_is_refused(number: float) -> None:
    with pytest.raises(MalformedText, match="finite"):
        canonical.canonical([number])


@pytest.mark.parametrize("leaf", [1, 1.5])
def test_nesting_is_bounded(leaf: Json) -> None:
    value = leaf
    for _ in range(NESTING_MAX):
        value = [value]
    assert canonical.parse(canonical.canonical(value)) == value
    for write in (canonical.canonical, canonical.plain):
        with pytest.raises(MalformedText, match="nested"):
            write([value])
        with pytest.raises(MalformedText, match="nested"):
            write({"ä": [value]})


@pytest.mark.parametrize("raw", [b"", b"{", b"[1,]", b"NaN", b"\xff", b"[" * 5000 + b"]" * 5000, b"1e400", b"1 2"])
def test_what_is_no_json_is_refused(raw: bytes) -> None:
    with pytest.raises(MalformedText, match="not JSON"):
        canonical.parse(raw)


def test_plain_text_keeps_the_order_but_puts_indices_first() -> None:
    value = canonical.parse('{"b":1,"10":2,"a":3,"2":4,"01":5,"4294967295":6,"0":7,"-1":8}')
    assert canonical.plain(value) == b'{"0":7,"2":4,"10":2,"b":1,"a":3,"01":5,"4294967295":6,"-1":8}'


def test_plain_text_of_a_repeated_key_has_the_last_value_in_the_first_place() -> None:
    assert canonical.plain(canonical.parse('{"a":1,"b":2,"a":3}')) == b'{"a":3,"b":2}'


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (0.0, "0"),
        (-0.0, "0"),
        (1e21, "1e+21"),
        (123456789012345680000.0, "123456789012345680000"),
        (0.000001, "0.000001"),
        (1e-7, "1e-7"),
        (1.5e-7, "1.5e-7"),
        (-1.25, "-1.25"),
        (5e-324, "5e-324"),
        (1.7976931348623157e308, "1.7976931348623157e+308"),
        (100.0, "100"),
        (12.0345, "12.0345"),
    ],
)
def test_numbers_as_javascript_writes_them(number: float, text: str) -> None:
    assert canonical.number_text(number) == text


@given(st.floats(allow_nan=False, allow_infinity=False))
@example(struct.unpack(">d", bytes.fromhex("44b52d02c7e14af6"))[0])
def test_number_texts_stand_for_their_number(number: float) -> None:
    text = canonical.number_text(number)
    assert float(text) == number
    digits = text.lstrip("-").partition("e")[0].replace(".", "").strip("0")
    assert len(digits) <= 17


@given(VALUES)
def test_canonical_text_is_a_fixed_point(value: Json) -> None:
    try:
        text = canonical.canonical(value)
    except MalformedText:
        return  # a whole number that is larger than any double
    assert canonical.canonical(canonical.parse(text)) == text


@given(VALUES)
def test_the_fast_and_the_slow_way_agree(value: Json) -> None:
    try:
        fast = [canonical.canonical(value), canonical.plain(value)]
    except MalformedText:
        return
    # A value with a fraction beside it goes the slow way.
    slow = [canonical.canonical([0.5, value]), canonical.plain([0.5, value])]
    assert slow == [b"[0.5," + text + b"]" for text in fast]


@given(st.dictionaries(st.text(alphabet="ab\U0001f600\uffee", max_size=3), st.none(), max_size=6))
def test_keys_are_sorted_as_their_utf16_text(value: dict[str, Json]) -> None:
    keys = list(json.loads(canonical.canonical(value)))
    assert keys == sorted(value, key=lambda key: key.encode("utf-16-be"))
