"""Net changes of a database: what came and went at once is no change."""

from bobbin.datalog.local.changes import Changes
from bobbin.datalog.local.conjunction import Source
from tests.unit.datalog.local.worlds import database


def test_a_row_taken_out_and_in_is_no_change() -> None:
    facts = database({"A": [("1",)]})
    facts.table(Source("A"))
    assert facts.change(added={"A": [("1",)]}, removed={"A": [("1",)]}) == Changes({}, {}, fresh=1)
    assert len(facts.table(Source("A"))) == 1


def test_only_relations_that_somebody_reads_are_told() -> None:
    facts = database({"Field": [("p", "n", "0", "v")]})
    named = Source("Field", "n")
    facts.table(named)
    changes = facts.change(added={"Field": [("q", "n", "0", "w"), ("q", "m", "0", "w")], "A": [("1",)]})
    decode = facts.values.decode_row
    assert {source: [decode(row) for row in rows] for source, rows in changes.added.items()} == {
        named: [("q", "0", "w")]
    }
    assert changes.removed == {}
