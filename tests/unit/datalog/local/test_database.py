"""Base facts in memory: loaded when a rule first asks, kept up to date, and never asked for twice."""

from collections.abc import Iterator

from bobbin.datalog.local.conjunction import Source
from bobbin.datalog.local.database import Database
from bobbin.facts.relations import Pattern, Tuple
from tests.unit.datalog.local.worlds import BASE, Facts, database


class Counting(Facts):
    """Counts how often it is asked."""

    asked = 0

    def enumerate(self, predicate: str) -> Iterator[Tuple]:
        self.asked += 1
        return super().enumerate(predicate)

    def match(self, predicate: str, pattern: Pattern) -> Iterator[Tuple]:
        return super().match(predicate, pattern)


def texts(facts: Database, source: Source) -> set[Tuple]:
    return {facts.values.decode_row(row) for row in facts.table(source).rows}


def test_a_relation_is_read_once_and_only_when_asked_for() -> None:
    supply = Counting({"A": [("1",)], "B": [("1", "2")]})
    facts = Database(dict.fromkeys(BASE, supply), BASE)
    assert supply.asked == 0
    assert texts(facts, Source("A")) == texts(facts, Source("A")) == {("1",)}
    assert supply.asked == 1


def test_a_predicate_without_a_source_is_empty() -> None:
    assert texts(Database({}, BASE), Source("B")) == set()
    assert texts(Database({}, BASE), Source("Field", "n")) == set()


def test_a_named_field_is_a_relation_without_the_name() -> None:
    facts = database({"Field": [("p", "n", "0", "v"), ("p", "m", "0", "w")]})
    assert texts(facts, Source("Field", "n")) == {("p", "0", "v")}
    assert texts(facts, Source("Field")) == {("p", "n", "0", "v"), ("p", "m", "0", "w")}


def test_a_block_follows_the_changes() -> None:
    facts = database({"B": [("1", "2")]})
    assert facts.block(Source("B")) is facts.block(Source("B"))
    facts.change(added={"B": [("3", "4")]}, removed={"B": [("1", "2")]})
    assert {facts.values.decode_row(row) for row in facts.block(Source("B")).rows()} == {("3", "4")}


def test_ordered_values_follow_the_changes() -> None:
    facts = database({"A": [("b",), ("d",)]})
    order = facts.ordered(Source("A"), 0)
    facts.change(added={"A": [("c",)]})
    assert [facts.values.texts[number] for number in sorted(order.between("b", "c"))] == ["b", "c"]
