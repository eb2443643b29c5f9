import pytest

from bobbin.pipeline.source import lace_statement
from bobbin.pipeline.source.conditions import Condition, OneOf, StartsWith, Within
from bobbin.pipeline.source.lace_statement import Way
from bobbin.records.ids import Kind, hash_text
from bobbin.store.sqlite import coding


def test_only_what_is_asked_for_is_joined() -> None:
    statement = lace_statement.select(["name"], [], Way.IDS, 0, 9)
    assert "JOIN" not in statement.text
    assert statement.bindings == (0, 9)
    assert "JOIN record" in lace_statement.select(["raw"], [], Way.IDS, 0, 9).text


def test_a_column_of_two_is_joined_once() -> None:
    assert lace_statement.select(["group", "app"], [], Way.IDS, 0, 9).text.count("JOIN place") == 1


@pytest.mark.parametrize(
    ("condition", "way"),
    [
        (OneOf("record", ()), Way.RECORDS),
        (StartsWith("group", "u"), Way.PLACES),
        (OneOf("app", ("a",)), Way.PLACES),
        (OneOf("name", ("a",)), Way.PLACES),
        (Within("tai", low="1"), Way.TIMES),
        (OneOf("signer", ("V.",)), Way.SIGNERS),
    ],
)
def test_each_column_opens_its_way(condition: Condition, way: Way) -> None:
    assert lace_statement.ways([condition]) == (way,)


def test_ids_alone_open_no_other_way_and_names_close_all_others() -> None:
    assert lace_statement.ways([Within("id", low=3)]) == ()
    assert lace_statement.ways([OneOf("group", ("u",)), OneOf("record", ("P.x",))]) == (Way.RECORDS,)


@pytest.mark.parametrize(
    ("condition", "exact", "narrowing"),
    [
        (OneOf("record", ("P.x",)), False, True),
        (StartsWith("record", "P.a"), False, True),
        (StartsWith("record", "P."), False, False),
        (StartsWith("record", "x"), False, False),
        (Within("record", low="P."), False, False),
        (Within("tai", low="1640"), True, True),
        (Within("tai", low="1640", high="later"), False, False),
        (OneOf("tai", ("later",)), True, True),
        (Within("name", low="a"), True, True),
        (Within("id", low=1), True, True),
    ],
)
def test_which_conditions_are_answered_fully(condition: Condition, exact: bool, narrowing: bool) -> None:  # noqa: FBT001
    assert lace_statement.is_exact(condition) is exact
    assert lace_statement.narrows(condition) is narrowing


@pytest.mark.parametrize("first", [0x00, 0x7F, 0x80, 0xFF])
@pytest.mark.parametrize("symbols", [1, 2, 10, 11, 43])
def test_the_keys_of_names_that_begin_alike(first: int, symbols: int) -> None:
    digest = bytes([first]) * 32
    name = hash_text(Kind.PLEX, digest)
    statement = lace_statement.select([], [StartsWith("record", name[: 2 + symbols])], Way.RECORDS, 0, 9)
    _, _, low, high, kind = statement.bindings
    assert isinstance(low, int)
    assert isinstance(high, int)
    assert low <= coding.key_of(digest) <= high
    assert (high - low).bit_length() == 64 - 6 * min(symbols, 10)
    assert kind == Kind.PLEX
