"""Cursors: what was learnt under one plan, source and schema differs from what was learnt under another."""

import pytest
from msgspec import structs

from bobbin.interlace.advertise import advertisement
from bobbin.interlace.cursor import Cursor
from bobbin.interlace.schema import Schema
from bobbin.policy.operands import Origin
from tests.policy_worlds import BOB, plex

_CURSOR = Cursor(
    key="link",
    plan="E.one",
    source=BOB,
    schema=Schema(names=frozenset({"App"})),
    advertisements=(advertisement(plex(1), Origin(BOB), ()),),
)


@pytest.mark.parametrize(
    "other",
    [
        structs.replace(_CURSOR, key="another"),
        structs.replace(_CURSOR, plan="E.two"),
        structs.replace(_CURSOR, source="source:1"),
        structs.replace(_CURSOR, schema=Schema(all=True)),
        structs.replace(_CURSOR, advertisements=()),
        structs.replace(_CURSOR, root=bytes(32)),
    ],
)
def test_cursors_compare_by_all_that_they_say(other: Cursor) -> None:
    assert other != _CURSOR
    assert structs.replace(other, **structs.asdict(_CURSOR)) == _CURSOR


def test_a_cursor_never_changes() -> None:
    with pytest.raises(AttributeError):
        _CURSOR.plan = "E.two"  # type: ignore[misc]
