import gc
import weakref
from collections.abc import Iterator

import pytest

from bobbin.datalog.local import columns, relation
from bobbin.datalog.local.columns import ColumnTable
from bobbin.datalog.local.conjunction import Source
from bobbin.datalog.local.database import Database
from bobbin.datalog.local.evaluate import Executable
from bobbin.datalog.local.table import Table
from bobbin.datalog.local.values import Values
from bobbin.facts.relations import Pattern, Tuple
from tests.unit.datalog.local.worlds import Facts, database, program

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


def test_relations_about_the_same_records_share_columns_also_after_changes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(relation, "COLUMNS_MIN", 1)
    monkeypatch.setattr(columns, "_MERGE_MIN", 60)
    held = Database({}, {"Have": 1, "Field": 4})
    held.load(("Group", "App"), [(f"p{number}", "u", str(number % 3)) for number in range(50)])
    sources = [Source("Have"), Source("Field", "Group"), Source("Field", "App")]
    for first, count in ((50, 20), (70, 100), (170, 1)):  # merged when columns are asked for, or at once
        blocks = [held.block(source) for source in sources]
        assert [block.size for block in blocks] == [first] * 3
        assert len({id(block.columns[0]) for block in blocks}) == 1
        assert len({id(block.postings(0)) for block in blocks}) == 1
        assert blocks[1].columns[1].strides == (0,), "the index of a field that stands once takes no room"
        new = [f"q{number}" for number in range(first, first + count)]
        held.change(
            added={
                "Have": [(record,) for record in new],
                "Field": [(record, name, "0", record) for record in new for name in ("Group", "App")],
            }
        )


def test_what_a_database_holds_goes_with_it() -> None:
    facts = database({"A": [("x",)]})
    executable = Executable(program("P(R) :- A(_), TaiAdd('0000000000:000000000','1',R).").plan)
    state = executable.evaluate(facts)
    assert state.count("P") == 1
    values, table = weakref.ref(facts), weakref.ref(state)
    del facts, state
    gc.collect()
    assert (values(), table()) == (None, None), "a compiled program holds nothing of what it ran on"


def test_a_relation_in_numbers_is_taken_in_as_it_is() -> None:
    held = Database({}, {"A": 1})
    numbers = held.values.encode_many(["x", "y"])
    held.put(Source("A"), relation.relation_of([numbers]))
    changes = held.change(added={"A": [("z",)]}, removed={"A": [("x",)]})
    assert [*map(held.values.decode_row, changes.removed[Source("A")])] == [("x",)]
    assert set(map(held.values.decode_row, held.table(Source("A")).rows)) == {("y",), ("z",)}


def test_databases_may_have_their_numbers_in_common() -> None:
    values = Values()
    first, second = (Database({}, {"A": 1}, values) for _ in range(2))
    for held in (first, second):
        held.table(Source("A"))
    fresh = len(values)
    assert first.change(added={"A": [("x",)]}, fresh=fresh).fresh == fresh
    changes = second.change(added={"A": [("x",)]}, fresh=fresh)
    assert changes.fresh == fresh, "another database has given the number, and here it is new all the same"
    assert changes.added == {Source("A"): [(fresh,)]}
    assert second.change(added={"A": [("y",)]}).fresh == fresh + 1


def test_what_is_put_stands_instead_of_what_was() -> None:
    held = Database({}, {"A": 1})
    first, second = held.values.encode_many(["x", "y"]).tolist()
    held.put(Source("A"), Table(1, [(first,)]))
    assert list(held.block(Source("A")).rows()) == [(first,)]
    assert held.ordered(Source("A"), 0).between("a", "z") == [first]
    held.put(Source("A"), Table(1, [(second,)]))
    assert list(held.block(Source("A")).rows()) == [(second,)]
    assert held.ordered(Source("A"), 0).between("a", "z") == [second]


def test_a_database_that_settles_answers_as_before() -> None:
    held = Database({}, {"A": 2})
    held.table(Source("A"))
    held.change(added={"A": [(str(number), "x") for number in range(500)]})
    before = set(held.table(Source("A")).rows)
    ordered = held.ordered(Source("A"), 0).between("100", "101")
    held.block(Source("A"))
    held.settle()
    table = held.table(Source("A"))
    assert isinstance(table, ColumnTable)
    assert set(table.rows) == set(held.block(Source("A")).rows()) == before
    assert held.ordered(Source("A"), 0).between("100", "101") == ordered
    changes = held.change(added={"A": [("new", "x"), ("7", "x")]}, removed={"A": [("8", "x")]})
    assert [*map(held.values.decode_row, changes.added[Source("A")])] == [("new", "x")]
    assert [*map(held.values.decode_row, changes.removed[Source("A")])] == [("8", "x")]
    held.settle()
    assert len(held.table(Source("A"))) == 500
