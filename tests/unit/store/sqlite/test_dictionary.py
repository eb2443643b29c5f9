"""Numbers for texts and places."""

from collections.abc import Iterator

import apsw
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bobbin.store.sqlite.dictionary import Places, Texts
from bobbin.store.sqlite.migrations import migrate


@pytest.fixture
def connection() -> Iterator[apsw.Connection]:
    opened = apsw.Connection(":memory:")
    migrate(opened)
    yield opened
    opened.close()


class _Queries:
    """Counts the statements that a connection runs."""

    def __init__(self, connection: apsw.Connection) -> None:
        self.count = 0
        connection.exec_trace = self

    def __call__(self, *_: object) -> bool:
        self.count += 1
        return True


def test_a_value_keeps_its_number(connection: apsw.Connection) -> None:
    texts = Texts(100)
    first = texts.numbers(connection, {"a", "b"})
    assert sorted(first.values()) == [1, 2]
    second = texts.numbers(connection, {"b", "c", "a"})
    assert {value: second[value] for value in "ab"} == first
    assert second["c"] == 3
    assert dict(connection.execute("SELECT value, id FROM text")) == second


def test_places_are_pairs(connection: apsw.Connection) -> None:
    places = Places(100)
    numbers = places.numbers(connection, {("a", "b/c"), ("a/b", "c"), ("a", "b")})
    assert sorted(numbers.values()) == [1, 2, 3]
    assert places.numbers(connection, {("a/b", "c")}) == {("a/b", "c"): numbers["a/b", "c"]}


def test_what_is_remembered_needs_no_query(connection: apsw.Connection) -> None:
    texts = Texts(100)
    texts.remember(texts.numbers(connection, {"a", "b"}))
    queries = _Queries(connection)
    assert len(texts.numbers(connection, {"a", "b"})) == 2
    assert queries.count == 0


def test_numbers_of_a_rolled_back_transaction_are_not_used(connection: apsw.Connection) -> None:
    texts = Texts(100)
    connection.execute("BEGIN")
    texts.numbers(connection, {"lost"})
    connection.execute("ROLLBACK")
    other = texts.numbers(connection, {"kept"})
    assert texts.numbers(connection, {"lost", "kept"}) == {"kept": other["kept"], "lost": other["kept"] + 1}


def test_what_is_forgotten_is_looked_up_again(connection: apsw.Connection) -> None:
    texts = Texts(100)
    texts.remember(texts.numbers(connection, {"a"}))
    connection.execute("DELETE FROM text")
    texts.forget()
    texts.numbers(connection, {"z"})
    assert texts.numbers(connection, {"a"}) == {"a": 2}


@settings(max_examples=40)
@given(batches=st.lists(st.sets(st.integers(0, 40).map(str), max_size=12), max_size=20))
def test_the_cache_is_bounded_and_never_wrong(batches: list[set[str]]) -> None:
    connection = apsw.Connection(":memory:")
    migrate(connection)
    texts = Texts(8)
    for batch in batches:
        numbers = texts.numbers(connection, batch)
        texts.remember(numbers)
        assert set(numbers) == batch
        assert len(texts._recent) + len(texts._old) <= 16
    stored = dict(connection.execute("SELECT value, id FROM text"))
    assert texts.numbers(connection, stored) == stored
    connection.close()


def test_values_in_use_stay_when_others_pass_by(connection: apsw.Connection) -> None:
    texts = Texts(8)
    for number in range(40):
        texts.remember(texts.numbers(connection, {"often", str(number)}))
    queries = _Queries(connection)
    texts.numbers(connection, {"often"})
    assert queries.count == 0


def test_long_values_are_not_remembered(connection: apsw.Connection) -> None:
    texts, places = Texts(100), Places(100)
    texts.remember(texts.numbers(connection, {"x" * 1000}))
    places.remember(places.numbers(connection, {("x" * 200, "y")}))
    assert (texts._recent, places._recent) == ({}, {})
    assert texts.numbers(connection, {"x" * 1000}) == {"x" * 1000: 1}
    assert places.numbers(connection, {("x" * 200, "y")}) == {("x" * 200, "y"): 1}
