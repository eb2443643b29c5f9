"""What records are told of, from columns."""

import numpy as np

from bobbin.datalog.local.columns import Block
from bobbin.datalog.local.values import Values
from bobbin.policy.claims import ClaimedField
from bobbin.policy.told_fields import told_fields


def _block(values: Values, rows: list[tuple[str, str, str]]) -> Block:
    return Block([values.encode_many([row[place] for row in rows]) for place in range(3)])


def test_fields_stand_by_name_and_index() -> None:
    values = Values()
    relations = {
        "Name": _block(values, [("a", "0", "x"), ("b", "0", "x"), ("other", "0", "y")]),
        "+Link": _block(values, [("a", "10", "t"), ("a", "9", "u"), ("b", "0", "t")]),
        "Unused": _block(values, []),
    }
    told = told_fields(values.encode_many(["b", "a", "none", "a"]), relations, values.texts)
    first = (ClaimedField("+Link", "9", "u"), ClaimedField("+Link", "10", "t"), ClaimedField("Name", "0", "x"))
    assert told == [(ClaimedField("+Link", "0", "t"), ClaimedField("Name", "0", "x")), first, (), first]
    assert told[0][1] is told[1][2], "equal fields are one object"


def test_equal_records_are_one_object() -> None:
    values = Values()
    relations = {"Group": _block(values, [(str(number), "0", "g") for number in range(20)])}
    told = told_fields(values.encode_many([str(number) for number in range(20)]), relations, values.texts)
    assert set(map(id, told)) == {id(told[0])}
    assert told[0] == (ClaimedField("Group", "0", "g"),)


def test_nothing_to_tell() -> None:
    values = Values()
    assert told_fields(values.encode_many(["a"]), {}, values.texts) == [()]
    assert told_fields(np.empty(0, dtype=np.int32), {"Name": _block(values, [])}, values.texts) == []


def test_what_is_said_of_others_is_told_of_nobody() -> None:
    values = Values()
    relations = {"Name": _block(values, [("a", "0", "x"), ("b", "0", "x"), ("other", "0", "y")])}
    told = told_fields(values.encode_many(["b", "a", "c"]), relations, values.texts)
    assert told == [(ClaimedField("Name", "0", "x"),), (ClaimedField("Name", "0", "x"),), ()]
