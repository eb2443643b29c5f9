"""Type tags: what each built-in one writes, and what the registry refuses."""

import math
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bobbin.errors import UsageError
from bobbin.reactive.type_tags import JSON_DEPTH_MAX, TagTaken, TypeTags, ValueFault

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)


@pytest.fixture
def tags() -> TypeTags:
    return TypeTags.standard()


@pytest.mark.parametrize(
    ("tag", "value", "raw"),
    [
        ("i64", 1, "0100000000000000"),
        ("i64", -2, "feffffffffffffff"),
        ("i64", 2**63 - 1, "ffffffffffffff7f"),
        ("f64", 1.0, "000000000000f03f"),
        ("f64", 1, "000000000000f03f"),
        ("bool", False, "00"),
        ("bool", True, "01"),
        ("string", "é\n", "c3a90a"),
        ("bytes", b"\x00\xff", "00ff"),
        ("json", {"b": [1, None, True], "a": "é"}, '{"a":"é","b":[1,null,true]}'.encode().hex()),
    ],
)
def test_built_in_tags_have_fixed_bytes(tags: TypeTags, tag: str, value: object, raw: str) -> None:
    """RX-006: the bytes and the tag follow from nothing but the text of the tag and the value."""
    assert tags.knows(tag)
    assert tags.encode(tag, value).hex() == raw
    assert tags.decode(tag, bytes.fromhex(raw)) == value


def test_tags_are_the_same_in_another_process() -> None:
    """RX-006: nothing of a tag or its bytes is of one process, such as a class's address or the order of a hash."""
    program = (
        "from bobbin.reactive.type_tags import TypeTags\n"
        "tags = TypeTags.standard()\n"
        "print(tags.encode('json', {'x': 1, 'a': 2, 'm': 3}).hex(), tags.encode('f64', 0.5).hex())\n"
    )
    said = {
        subprocess.run(
            [sys.executable, "-c", program], env={"PYTHONHASHSEED": seed}, capture_output=True, text=True, check=True
        ).stdout.strip()
        for seed in ("1", "2")
    }
    tags = TypeTags.standard()
    assert said == {f"{tags.encode('json', {'m': 3, 'x': 1, 'a': 2}).hex()} {tags.encode('f64', 0.5).hex()}"}


@given(st.floats(allow_nan=False))
def test_floats_come_back_exactly(value: float) -> None:
    tags = TypeTags.standard()
    assert tags.decode("f64", tags.encode("f64", value)) == value


def test_not_a_number_comes_back_as_one(tags: TypeTags) -> None:
    found = tags.decode("f64", tags.encode("f64", math.nan))
    assert isinstance(found, float)
    assert math.isnan(found)


@given(JSON)
def test_json_comes_back_as_it_went(value: object) -> None:
    tags = TypeTags.standard()
    assert tags.decode("json", tags.encode("json", value)) == value


@pytest.mark.parametrize(
    ("tag", "value"),
    [
        ("i64", 2**63),
        ("i64", True),
        ("i64", 1.0),
        ("f64", False),
        ("f64", "1"),
        ("f64", 10**400),
        ("bool", 1),
        ("string", b"a"),
        ("string", "\ud800"),
        ("bytes", "a"),
        ("json", math.nan),
        ("json", [math.inf]),
        ("json", {1: 2}),
        ("json", {"a": {None: 1}}),
        ("json", {1: 2, "a": 3}),
        ("json", object()),
        ("json", {"a": b"bytes"}),
    ],
)
def test_values_that_a_tag_cannot_write_are_refused(tags: TypeTags, tag: str, value: object) -> None:
    with pytest.raises(UsageError, match=tag):
        tags.encode(tag, value)


def test_json_that_contains_itself_or_is_too_deep_is_refused(tags: TypeTags) -> None:
    circle: list[object] = []
    circle.append(circle)
    deep: list[object] = []
    for _ in range(JSON_DEPTH_MAX):
        deep = [deep]
    for value in (circle, deep, [deep]):
        with pytest.raises(UsageError, match="json"):
            tags.encode("json", value)
    assert tags.encode("json", deep[0])


@pytest.mark.parametrize(
    ("tag", "raw"),
    [
        ("i64", b"1234567"),
        ("i64", b"123456789"),
        ("f64", b""),
        ("bool", b"\x02"),
        ("bool", b""),
        ("bool", b"\x00\x00"),
        ("string", b"\xff"),
        ("json", b""),
        ("json", b"NaN"),
        ("json", b"[" * 200 + b"]" * 200),
        ("json", b"1e999"),
        ("json", b"1 2"),
        ("json", b"[" * 100_000),
        ("json", b'"\xed\xa0\x80"'),
    ],
)
def test_bytes_that_are_no_value_are_the_peers_fault(tags: TypeTags, tag: str, raw: bytes) -> None:
    with pytest.raises(ValueFault, match=tag) as caught:
        tags.decode(tag, raw)
    assert (caught.value.tag, caught.value.code) == (tag, "malformed-value")


@pytest.mark.parametrize("tag", ["of.another.language", "os.system", "builtins.eval", "bobbin.lace.Lace", ""])
def test_bytes_under_a_tag_that_is_not_known_pass_as_they_are(tags: TypeTags, tag: str) -> None:
    """RX-005, RX-007: a tag is looked up here and nowhere else."""
    raw = b"\x00\xff{"
    assert not tags.knows(tag)
    assert tags.decode(tag, raw) is raw
    assert tags.encode(tag, raw) is raw
    with pytest.raises(UsageError):
        tags.encode(tag, 1)


def test_a_tag_gives_the_constructor_that_was_registered_here(tags: TypeTags) -> None:
    """RX-007: another registry has another constructor, or none, for the same tag."""
    other = TypeTags()
    tags.register("celsius", int, lambda value: str(value).encode(), int)
    other.register("celsius", str, str.encode, bytes.decode)
    assert tags.decode("celsius", b"20") == 20
    assert other.decode("celsius", b"20") == "20"
    assert not other.knows("i64")


def test_a_taken_tag_is_refused_and_keeps_its_meaning(tags: TypeTags) -> None:
    """RX-008."""
    with pytest.raises(TagTaken):
        tags.register("i64", str, str.encode, bytes.decode)
    with pytest.raises(TagTaken):
        tags.register("i64", int, lambda value: str(value).encode(), int)
    assert tags.encode("i64", 1) == b"\x01" + bytes(7)


def test_the_same_registration_again_changes_nothing(tags: TypeTags) -> None:
    for _ in range(2):
        tags.register("text", str, str.encode, bytes.decode)
    assert tags.decode("text", b"a") == "a"


def test_a_decoder_that_is_wrong_about_its_bytes_says_so(tags: TypeTags) -> None:
    tags.register("celsius", int, lambda value: str(value).encode(), int)
    with pytest.raises(ValueFault, match="celsius"):
        tags.decode("celsius", b"warm")


def test_a_tag_is_not_empty(tags: TypeTags) -> None:
    with pytest.raises(UsageError):
        tags.register("", str, str.encode, bytes.decode)
