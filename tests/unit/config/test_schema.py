"""Tables become values, and every mistake has its key."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Meta, Struct

from bobbin.config.findings import Findings, InvalidConfiguration
from bobbin.config.schema import Row, Table, convert, read_table, rows
from bobbin.config.sources import Sources

_FILE = Path("x.toml")


class _Colour(StrEnum):
    RED = "red"
    BLUE = "blue"


class _Inner(Struct, frozen=True, kw_only=True):
    count_max: Annotated[int, Meta(ge=1, le=9, description="How many.")] = 3


class _Entry(Struct, frozen=True, kw_only=True):
    name: Annotated[str, Meta(description="Its name.")]
    inner: Annotated[str | _Inner | None, Meta(description="Either.")] = None


class _Whole(Struct, frozen=True, kw_only=True):
    inner: _Inner = _Inner()
    entry: tuple[_Entry, ...] = ()
    words: Annotated[tuple[str, ...], Meta(description="Many.")] = ()
    colour: Annotated[_Colour, Meta(description="Which.")] = _Colour.RED
    flag: Annotated[bool, Meta(description="Whether.")] = False
    limit: Annotated[int, Meta(ge=1)] | None = None
    some: Annotated[str | tuple[str, ...] | None, Meta(description="One or many.")] = None
    seconds: Annotated[float, Meta(gt=0, le=5, description="How long.")] = 1.5


def _problems(table: Table) -> list[str]:
    findings = Findings()
    assert convert(table, _Whole, _FILE, findings) is None
    with pytest.raises(InvalidConfiguration) as failure:
        findings.raise_if_any()
    return [f"{problem.key}: {problem.message}" for problem in failure.value.problems]


def test_a_table_becomes_a_value() -> None:
    findings = Findings()
    table: Table = {
        "inner": {"count_max": 4},
        "entry": [{"name": "a"}, {"name": "b", "inner": "text"}, {"name": "c", "inner": {"count_max": 9}}],
        "words": ["x", "y"],
        "colour": "blue",
        "flag": True,
        "seconds": 2,
    }
    assert convert(table, _Whole, _FILE, findings) == _Whole(
        inner=_Inner(count_max=4),
        entry=(_Entry(name="a"), _Entry(name="b", inner="text"), _Entry(name="c", inner=_Inner(count_max=9))),
        words=("x", "y"),
        colour=_Colour.BLUE,
        flag=True,
        seconds=2.0,
    )
    assert len(findings) == 0


def test_an_empty_table_has_the_defaults() -> None:
    assert convert({}, _Whole, _FILE, Findings()) == _Whole()


@pytest.mark.parametrize(
    ("table", "said"),
    [
        ({"flagg": True}, "flagg: there is no such setting; did you mean flag?"),
        ({"inner": {"count": 1}}, "inner.count: there is no such setting; did you mean count_max?"),
        ({"inner": {"zzz": 1}}, "inner.zzz: there is no such setting; the settings here are count_max"),
        ({"inner": {"count_max": 0}}, "inner.count_max: expected a number that is at least 1"),
        ({"inner": {"count_max": 10}}, "inner.count_max: expected a number that is at most 9"),
        ({"seconds": 0}, "seconds: expected a number that is more than 0.0"),
        ({"inner": {"count_max": "x"}}, "inner.count_max: expected a whole number, not text"),
        ({"inner": 3}, "inner: expected a table, not a whole number"),
        ({"flag": "yes"}, "flag: expected true or false, not text"),
        ({"limit": True}, "limit: expected a whole number, not true or false"),
        ({"words": "x"}, "words: expected a list, not text"),
        ({"words": [3]}, "words: expected text, not a whole number"),
        ({"colour": "green"}, "colour: expected one of red, blue"),
        ({"entry": [{"name": "a"}, {}]}, "entry 2, name: it is missing, and there is no default"),
        (
            {"entry": [{"name": "a", "inner": {"coun_max": 2}}]},
            "entry 1 (a), inner, coun_max: there is no such setting; did you mean count_max?",
        ),
        ({"entry": [{"name": "a", "inner": 2}]}, "entry 1 (a), inner: expected text or a table, not a whole number"),
        ({"entry": [4]}, "entry 1: expected a table, as in [[entry]]"),
        ({"entry": 4}, "entry: expected a list, not a whole number"),
    ],
)
def test_a_mistake_is_said_with_its_key_and_what_is_allowed(table: Table, said: str) -> None:
    assert _problems(table) == [said]


def test_all_mistakes_are_said_at_once() -> None:
    assert len(_problems({"flag": 1, "inner": {"a": 1, "count_max": 0}, "entry": [{}, {"name": 2}], "b": 1})) == 6


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
        lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    ),
    st.sampled_from(["inner", "entry", "words", "colour", "flag", "limit", "seconds", "other"]),
)
def test_whatever_stands_there_is_a_value_or_a_finding(value: object, key: str) -> None:
    findings = Findings()
    converted = convert({key: value}, _Whole, _FILE, findings)
    assert (converted is None) == (len(findings) > 0)


@pytest.mark.parametrize(
    ("content", "word"),
    [
        (b"a = ", "not TOML"),
        (b"\xff", "not UTF-8"),
        (b"a = " + b"[" * 100_000, "TOML"),
        (b"a = " + b"9" * 9_000, "TOML"),
    ],
)
def test_what_is_no_toml_is_said(tmp_path: Path, content: bytes, word: str) -> None:
    (tmp_path / "x").write_bytes(content)
    findings = Findings()
    assert read_table(tmp_path / "x", Sources(), findings) is None
    with pytest.raises(InvalidConfiguration, match=word):
        findings.raise_if_any()


def test_a_missing_file_is_said(tmp_path: Path) -> None:
    findings = Findings()
    assert read_table(tmp_path / "x", Sources(), findings) is None
    with pytest.raises(InvalidConfiguration, match="there is no file"):
        findings.raise_if_any()


def test_a_schema_tells_its_keys() -> None:
    assert list(rows(_Whole)) == [
        Row(key="inner.count_max", kind="a whole number, 1 to 9", default="`3`", description="How many."),
        Row(key="entry.name", kind="text", default="", description="Its name."),
        Row(key="entry.inner", kind="text or a table", default="none", description="Either."),
        Row(key="entry.inner.count_max", kind="a whole number, 1 to 9", default="`3`", description="How many."),
        Row(key="words", kind="a list of text", default="none", description="Many."),
        Row(key="colour", kind='`"red"` or `"blue"`', default='`"red"`', description="Which."),
        Row(key="flag", kind="true or false", default="`false`", description="Whether."),
        Row(key="limit", kind="a whole number, at least 1", default="none", description=""),
        Row(key="some", kind="text or a list of text", default="none", description="One or many."),
        Row(key="seconds", kind="a number, more than 0 and at most 5", default="`1.5`", description="How long."),
    ]
