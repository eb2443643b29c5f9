from collections.abc import Iterator

from bobbin.datalog.local.conjunction import Source
from bobbin.datalog.local.database import Database
from bobbin.facts.relations import Pattern, Tuple
from tests.unit.datalog.local.worlds import Facts, database

FIELDS: list[Tuple] = [
    ("p", "Group", "0", "u"),
    ("p", "App", "0", "ding"),
    ("q", "Group", "0", "v"),
    ("q", "Group", "1", "u"),
]


class Asked(Facts):
    """Facts that remember what they were asked."""

    def __init__(self, facts: dict[str, list[Tuple]]) -> None:
        super().__init__(facts)
        self.asked: list[tuple[str, Pattern | None]] = []

    def enumerate(self, predicate: str) -> Iterator[Tuple]:
        self.asked.append((predicate, None))
        return super().enumerate(predicate)

    def match(self, predicate: str, pattern: Pattern) -> Iterator[Tuple]:
        self.asked.append((predicate, pattern))
        return (
            row
            for row in self.facts.get(predicate, ())
            if all(w in (None, v) for v, w in zip(row, pattern, strict=True))
        )


def rows(held: Database, source: Source) -> set[Tuple]:
    return {held.values.decode_row(row) for row in held.table(source).rows}


def test_relations_are_read_when_first_asked_for_and_then_kept() -> None:
    supply = Asked({"A": [("x",)], "Field": FIELDS})
    held = Database({"A": supply, "Field": supply}, {"A": 1, "Field": 4})
    assert supply.asked == []
    assert rows(held, Source("A")) == rows(held, Source("A")) == {("x",)}
    assert supply.asked == [("A", None)]


def test_fields_of_one_name_are_asked_for_by_pattern_and_lose_the_name() -> None:
    supply = Asked({"Field": FIELDS})
    held = Database({"Field": supply}, {"Field": 4})
    assert rows(held, Source("Field", "Group")) == {("p", "0", "u"), ("q", "0", "v"), ("q", "1", "u")}
    assert supply.asked == [("Field", (None, "Group", None, None))]
    assert rows(held, Source("Field", "Nothing")) == set()
    assert rows(held, Source("Field")) == set(FIELDS)


def test_claimed_fields_are_kept_apart_by_their_third_argument() -> None:
    supply = Asked({"AdvertisedField": [("p", "s", "App", "0", "ding"), ("p", "App", "s", "0", "ding")]})
    held = Database({"AdvertisedField": supply}, {"AdvertisedField": 5})
    assert rows(held, Source("AdvertisedField", "App")) == {("p", "s", "0", "ding")}


def test_a_predicate_without_a_source_is_empty() -> None:
    held = Database({}, {"A": 1, "Z": 0, "Field": 4})
    assert rows(held, Source("A")) == rows(held, Source("Z")) == rows(held, Source("Field", "x")) == set()


def test_facts_without_arguments() -> None:
    assert rows(database({"Z": [()]}), Source("Z")) == {()}
    assert len(database({"Z": [()]}).block(Source("Z")).columns) == 0
    assert database({"Z": [()]}).block(Source("Z")).size == 1


def test_a_change_reaches_every_form_of_a_relation_that_is_loaded() -> None:
    held = database({"Field": FIELDS})
    whole, group = Source("Field"), Source("Field", "Group")
    held.table(whole)
    held.table(group)
    changes = held.change(
        added={"Field": [("r", "Group", "0", "u"), ("r", "App", "0", "x"), FIELDS[0]]}, removed={"Field": [FIELDS[3]]}
    )
    decode = held.values.decode_row
    assert {source: {decode(row) for row in some} for source, some in changes.added.items()} == {
        whole: {("r", "Group", "0", "u"), ("r", "App", "0", "x")},
        group: {("r", "0", "u")},
    }
    assert {source: {decode(row) for row in some} for source, some in changes.removed.items()} == {
        whole: {FIELDS[3]},
        group: {("q", "1", "u")},
    }
    assert rows(held, group) == {("p", "0", "u"), ("q", "0", "v"), ("r", "0", "u")}


def test_a_change_of_what_nobody_reads_is_not_kept() -> None:
    held = database({"A": [("x",)]})
    changes = held.change(added={"A": [("y",)]}, removed={"B": [("1", "2")]})
    assert (changes.added, changes.removed) == ({}, {})
    assert rows(held, Source("A")) == {("x",)}, "its source answers for it"


def test_a_fact_that_goes_and_comes_has_not_changed() -> None:
    held = database({"A": [("x",), ("y",)]})
    held.table(Source("A"))
    changes = held.change(added={"A": [("x",), ("z",)]}, removed={"A": [("x",), ("never there",)]})
    assert [held.values.decode_row(row) for row in changes.added[Source("A")]] == [("z",)]
    assert changes.removed == {}


def test_a_block_follows_its_relation() -> None:
    held = database({"B": [("1", "2")]})
    assert held.block(Source("B")) is held.block(Source("B"))
    held.change(added={"B": [("3", "4")]})
    assert {held.values.decode_row(row) for row in held.block(Source("B")).rows()} == {("1", "2"), ("3", "4")}
